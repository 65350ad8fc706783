#include "text/jinja_lexer.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "text/utf8.h"
#include "text/utf8_props.h"

namespace brisk::jinja {
namespace {

// Line ends become \n; one line end at the very end of a template goes.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

size_t space_at(std::string_view s,
                size_t i) {  // bytes of the white-space character at i; 0 if there is none
  if (i >= s.size()) return 0;
  Utf8Char c = utf8_decode(s, i);
  return c.ok && char_is_space(c.cp) ? c.size : 0;
}

size_t skip_space(std::string_view s, size_t i) {
  while (size_t n = space_at(s, i)) i += n;
  return i;
}

size_t rstrip_end(std::string_view s,
                  size_t from) {  // end of s without trailing white space, not before from
  size_t end = s.size();
  while (end > from) {
    size_t i = end - 1;
    while (i > from && utf8_is_continuation(s[i])) --i;
    if (!space_at(s, i)) break;
    end = i;
  }
  return end;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalized(source)), s_(text_) {}

  std::vector<Token> run() {
    while (i_ < s_.size()) {
      size_t open = next_open(i_);
      if (open == std::string_view::npos) {
        emit_text(s_.substr(i_));
        break;
      }
      char kind = s_[open + 1];
      size_t after = open + 2;
      char sign = after < s_.size() && (s_[after] == '-' || s_[after] == '+') ? s_[after] : 0;
      emit_text(text_before(open, kind, sign));
      move_to(after + (sign != 0));
      if (kind == '#') comment();
      else if (kind == '%' && raw_begins()) raw();
      else inside(kind);
      line_starting_ = s_[i_ - 1] == '\n';
    }
    push(Tok::kEnd);
    return std::move(out_);
  }

 private:
  [[noreturn]] void bad(std::string what) const { throw SyntaxError{line_, std::move(what)}; }

  void push(Tok kind, std::string text = "") {
    Token t;
    t.kind = kind;
    t.line = line_;
    t.text = std::move(text);
    out_.push_back(std::move(t));
  }
  void emit_text(std::string_view s) {
    if (!s.empty()) push(Tok::kText, std::string(s));
  }
  void move_to(size_t i) {
    line_ += static_cast<int>(std::count(s_.data() + i_, s_.data() + i, '\n'));
    i_ = i;
  }

  size_t next_open(size_t from) const {
    for (size_t i = s_.find('{', from); i != s_.npos; i = s_.find('{', i + 1))
      if (i + 1 < s_.size() && (s_[i + 1] == '{' || s_[i + 1] == '%' || s_[i + 1] == '#')) return i;
    return s_.npos;
  }

  // The literal text before a tag: `-` cuts its white space, and a block or comment that stands first on its
  // line takes the indentation with it unless `+` forbids.
  std::string_view text_before(size_t open, char kind, char sign) const {
    std::string_view text = s_.substr(i_, open - i_);
    if (sign == '-') return text.substr(0, rstrip_end(text, 0));
    if (sign == '+' || kind == '{') return text;
    size_t line = text.rfind('\n') + 1;  // 0 if there is none
    if (line == 0 && !line_starting_) return text;
    return rstrip_end(text, line) == line ? text.substr(0, line) : text;
  }

  // After `-%}` white space goes, after `%}` one line end, after `+%}` nothing.
  void after_tag(size_t i, char sign, bool trim_line) {
    if (sign == '-') i = skip_space(s_, i);
    else if (sign != '+' && trim_line && i < s_.size() && s_[i] == '\n') ++i;
    move_to(i);
  }

  void comment() {
    size_t end = s_.find("#}", i_);
    if (end == s_.npos) bad("a comment does not end");
    char sign = end > i_ ? s_[end - 1] : 0;
    after_tag(end + 2, sign, true);
  }

  // `raw` and the end of its tag at i_; moves behind it.
  bool raw_begins() {
    size_t i = skip_space(s_, i_);
    if (s_.substr(i, 3) != "raw") return false;
    i = skip_space(s_, i + 3);
    if (s_.substr(i, 2) == "%}") return after_tag(i + 2, 0, false), true;
    if (s_.substr(i, 3) == "-%}") return after_tag(i + 3, '-', false), true;
    return false;
  }

  void raw() {
    for (size_t open = s_.find("{%", i_); open != s_.npos; open = s_.find("{%", open + 1)) {
      size_t i = open + 2;
      char sign = i < s_.size() && (s_[i] == '-' || s_[i] == '+') ? s_[i] : 0;
      i = skip_space(s_, i + (sign != 0));
      if (s_.substr(i, 6) != "endraw") continue;
      i = skip_space(s_, i + 6);
      char close = i < s_.size() && (s_[i] == '-' || s_[i] == '+') ? s_[i] : 0;
      i += close != 0;
      if (s_.substr(i, 2) != "%}") continue;
      line_starting_ = s_[i_ - 1] == '\n';
      emit_text(text_before(open, '%', sign));
      after_tag(i + 2, close, true);
      return;
    }
    bad("'raw' without 'endraw'");
  }

  // Tokens of {{ }} or {% %}, up to and with the end.
  void inside(char kind) {
    std::string_view close = kind == '{' ? "}}" : "%}";
    push(kind == '{' ? Tok::kPrintBegin : Tok::kTagBegin);
    std::string open_brackets;
    while (true) {
      move_to(skip_space(s_, i_));
      if (i_ >= s_.size()) bad("a tag does not end");
      char sign = s_[i_] == '-' || (s_[i_] == '+' && kind == '%') ? s_[i_] : 0;
      if (open_brackets.empty() && s_.substr(i_ + (sign != 0), 2) == close) {
        push(kind == '{' ? Tok::kPrintEnd : Tok::kTagEnd);
        after_tag(i_ + (sign != 0) + 2, sign, kind == '%');
        return;
      }
      token(open_brackets);
    }
  }

  void token(std::string& open_brackets) {
    char c = s_[i_];
    if (c == '"' || c == '\'') return string_token(c);
    if (c >= '0' && c <= '9') return number();
    Utf8Char u = utf8_decode(s_, i_);
    if (u.cp == '_' || (u.ok && char_is(CharClass::kIdentStart, u.cp))) return name();
    constexpr std::string_view doubles[] = {"//", "**", "==", "!=", ">=", "<="};
    std::string_view op = s_.substr(i_, 1);
    for (std::string_view d : doubles)
      if (s_.substr(i_, 2) == d) op = d;
    if (op.size() == 1 && std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos)
      bad("unexpected character '" + std::string(s_.substr(i_, u.size)) + "'");
    if (c == '(' || c == '[' || c == '{') {
      open_brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open_brackets.empty() || open_brackets.back() != c) bad("unexpected '" + std::string(1, c) + "'");
      open_brackets.pop_back();
    }
    push(Tok::kOperator, std::string(op));
    i_ += op.size();
  }

  void name() {
    size_t end = i_;
    while (end < s_.size()) {
      Utf8Char u = utf8_decode(s_, end);
      if (!u.ok || (u.cp != '_' && !char_is(CharClass::kIdentPart, u.cp))) break;
      end += u.size;
    }
    push(Tok::kName, std::string(s_.substr(i_, end - i_)));
    i_ = end;
  }

  // Digits with single underscores between them; the end of them, or `i` if there are none.
  template <class F>
  size_t digits(size_t i, F&& is_digit) const {
    if (i >= s_.size() || !is_digit(s_[i])) return i;
    while (i < s_.size()) {
      if (is_digit(s_[i])) ++i;
      else if (s_[i] == '_' && i + 1 < s_.size() && is_digit(s_[i + 1])) i += 2;
      else break;
    }
    return i;
  }
  static bool decimal(char c) { return c >= '0' && c <= '9'; }

  std::string without_underscores(size_t from, size_t to) const {
    std::string out;
    for (char c : s_.substr(from, to - from))
      if (c != '_') out += c;
    return out;
  }

  void push_int(const std::string& text, int base) {
    Int n = 0;
    for (char c : text) {
      int d = decimal(c) ? c - '0' : (c | 32) - 'a' + 10;
      if (__builtin_mul_overflow(n, base, &n) || __builtin_add_overflow(n, d, &n))
        bad("an integer of more than 127 bits");
    }
    push(Tok::kInt, text);
    out_.back().i = n;
  }

  void number() {
    auto hex = [](char c) { return decimal(c) || ((c | 32) >= 'a' && (c | 32) <= 'f'); };
    auto octal = [](char c) { return c >= '0' && c <= '7'; };
    auto binary = [](char c) { return c == '0' || c == '1'; };
    if (s_[i_] == '0' && i_ + 1 < s_.size()) {
      char x = s_[i_ + 1] | 32;
      size_t start = i_ + 2 + (i_ + 2 < s_.size() && s_[i_ + 2] == '_');
      size_t end = x == 'x'   ? digits(start, hex)
                   : x == 'o' ? digits(start, octal)
                   : x == 'b' ? digits(start, binary)
                              : start;
      if (end > start) {
        push_int(without_underscores(start, end), x == 'x' ? 16 : x == 'o' ? 8 : 2);
        i_ = end;
        return;
      }
    }
    size_t whole = digits(i_, decimal), end = whole;
    bool after_dot =
        !out_.empty() && out_.back().kind == Tok::kOperator && out_.back().text == "." && s_[i_ - 1] == '.';
    if (!after_dot) {
      if (size_t f = end < s_.size() && s_[end] == '.' ? digits(end + 1, decimal) : end; f > end + 1) end = f;
      if (end < s_.size() && (s_[end] | 32) == 'e') {
        size_t x = end + 1;
        if (x < s_.size() && (s_[x] == '+' || s_[x] == '-')) ++x;
        if (size_t d = digits(x, decimal); d > x) end = d;
      }
    }
    if (end == whole) {
      if (s_[i_] == '0') {  // a leading zero is a number of its own
        auto zero = [](char c) { return c == '0'; };
        whole = digits(i_, zero);
      }
      push_int(without_underscores(i_, whole), 10);
      i_ = whole;
      return;
    }
    std::string text = without_underscores(i_, end);
    double d = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), d).ec == std::errc::result_out_of_range)
      d = text.find("e-") == text.npos && text.find("E-") == text.npos
              ? std::numeric_limits<double>::infinity()
              : 0.0;
    push(Tok::kFloat, text);
    out_.back().f = d;
    i_ = end;
  }

  // Python's escapes.
  void escape(size_t& i, std::string& out) const {
    char c = s_[i++];
    constexpr std::string_view from = "\\'\"abfnrtv", to = "\\'\"\a\b\f\n\r\t\v";
    if (size_t k = from.find(c); k != from.npos) {
      out += to[k];
      return;
    }
    if (c == '\n') return;
    unsigned cp = 0;
    if (c >= '0' && c <= '7') {
      --i;
      for (int k = 0; k < 3 && i < s_.size() && s_[i] >= '0' && s_[i] <= '7'; ++k)
        cp = cp * 8 + (s_[i++] - '0');
      return utf8_append(out, cp);
    }
    int want = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (want == 0) {
      out += '\\';
      out += c;
      return;
    }
    auto [p, e] = std::from_chars(s_.data() + i, s_.data() + std::min(s_.size(), i + want), cp, 16);
    if (e != std::errc() || p != s_.data() + i + want) bad("a bad \\" + std::string(1, c) + " escape");
    i += want;
    utf8_append(out, cp);
  }

  void string_token(char quote) {
    std::string out;
    size_t i = i_ + 1;
    while (i < s_.size() && s_[i] != quote) {
      if (s_[i] == '\\' && i + 1 < s_.size()) escape(++i, out);
      else out += s_[i++];
    }
    if (i >= s_.size()) bad("a string does not end");
    push(Tok::kString, std::move(out));
    move_to(i + 1);
  }

  std::string text_;
  std::string_view s_;
  size_t i_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> out_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace brisk::jinja
