// The % operator of strings.
#include <cmath>

#include "text/jinja_interp.h"
#include "text/jinja_strings.h"
#include "text/utf8.h"

namespace brisk::jinja {
namespace {

constexpr int kMaxPrecision = 4096;

class PercentFormatter {
 public:
  PercentFormatter(Budget& b, const Val& form, const Val& values)
      : b_(b), form_(form.str()), s_(form.str().bytes), values_(values), out_(b) {
    // What Python calls a mapping here may be left over unused.
    mapping_ =
        values.is(Kind::kDict) || values.is(Kind::kList) || values.is(Kind::kRange) || values.is_undefined();
  }

  Val run() {
    size_t i = 0;
    while (i < s_.size()) {
      size_t next = std::min(s_.find('%', i), s_.size());
      out_.add(form_, i, next);
      if (next == s_.size()) break;
      i = directive(next + 1);
    }
    bool left = values_.is(Kind::kTuple) ? used_ < values_.list().items.size() : used_ == 0 && !mapping_;
    if (left) type_error("not all arguments converted during string formatting");
    return out_.take(form_.markup);
  }

 private:
  struct Directive {
    bool minus = false, plus = false, space = false, alternate = false, zero = false;
    Int width = 0;
    int precision = -1;
  };

  const Val& next_value() {
    if (by_key_) return key_value_;
    if (values_.is(Kind::kTuple)) {
      if (used_ >= values_.list().items.size()) type_error("not enough arguments for format string");
      return values_.list().items[used_++];
    }
    if (used_++ > 0) type_error("not enough arguments for format string");
    return values_;
  }

  Int number(size_t& i) {
    if (i < s_.size() && s_[i] == '*') {
      ++i;
      const Val& v = next_value();
      if (!v.is_integral()) type_error("* wants int");
      return v.as_int();
    }
    Int n = 0;
    while (i < s_.size() && s_[i] >= '0' && s_[i] <= '9') {
      n = n * 10 + (s_[i++] - '0');
      if (n > INT32_MAX) value_error("width too big");
    }
    return n;
  }

  void key(size_t& i) {
    if (!values_.is(Kind::kDict)) type_error("format requires a mapping");
    size_t start = ++i, open = 1;
    for (; i < s_.size(); ++i) {
      if (s_[i] == '(') ++open;
      if (s_[i] == ')' && --open == 0) break;
    }
    if (i >= s_.size()) value_error("incomplete format key");
    std::string_view name = s_.substr(start, i - start);
    const Val* v = values_.dict().find(name);
    if (!v) fail("KeyError", std::string(name));
    key_value_ = *v;
    by_key_ = true;
    ++i;
  }

  size_t directive(size_t i) {
    by_key_ = false;
    Directive d;
    if (i < s_.size() && s_[i] == '(') key(i);
    for (; i < s_.size(); ++i) {
      if (s_[i] == '-') d.minus = true;
      else if (s_[i] == '+') d.plus = true;
      else if (s_[i] == ' ') d.space = true;
      else if (s_[i] == '#') d.alternate = true;
      else if (s_[i] == '0') d.zero = true;
      else break;
    }
    d.width = number(i);
    if (d.width < 0) d.minus = true, d.width = -d.width;
    if (i < s_.size() && s_[i] == '.') {
      Int p = number(++i);
      if (p > kMaxPrecision) value_error("a precision of more than " + std::to_string(kMaxPrecision));
      d.precision = static_cast<int>(std::max<Int>(p, 0));
    }
    if (i < s_.size() && (s_[i] == 'h' || s_[i] == 'l' || s_[i] == 'L')) ++i;
    if (i >= s_.size()) value_error("incomplete format");
    if (s_[i] == '%') out_.text("%");
    else write(d, s_[i]);
    return i + 1;
  }

  void write(const Directive& d, char type) {
    switch (type) {
      case 's':
      case 'r':
      case 'a':
        return text(d, type);
      case 'c':
        return character(d);
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return integer(d, type);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return real(d, type);
      default:
        value_error(std::string("unsupported format character '") + type + "'");
    }
  }

  void pad(const Directive& d, const Val& v) {
    Int room = std::max<Int>(0, d.width - v.str().length);
    out_.add(str_pad(b_, v, d.minus ? 0 : room, d.minus ? room : 0, make_str(b_, " ")).str());
  }

  void text(const Directive& d, char type) {
    const Val& v = next_value();
    StrBuilder s(b_);
    if (type == 's') write_str(s, v);
    else write_repr(s, v);
    Val piece = s.take(type == 's' && v.is_string() && v.str().markup);
    if (form_.markup) piece = escape_html(b_, piece);
    if (d.precision >= 0) piece = slice(b_, piece, Val::none(), Val::integer(d.precision), Val::none());
    pad(d, piece);
  }

  void character(const Directive& d) {
    const Val& v = next_value();
    if (v.is_string() && v.str().length == 1) return pad(d, v);
    if (!v.is_integral()) type_error("%c requires int or char");
    if (v.as_int() < 0 || v.as_int() > 0x10FFFF) fail("OverflowError", "%c arg not in range(0x110000)");
    std::string c;
    utf8_append(c, static_cast<char32_t>(v.as_int()));
    pad(d, make_str(b_, c));
  }

  void number_text(const Directive& d, bool negative, const std::string& prefix, std::string digits,
                   bool may_zero) {
    std::string sign = negative ? "-" : d.plus ? "+" : d.space ? " " : "";
    sign += prefix;
    Int room = d.width - static_cast<Int>(sign.size() + digits.size());
    if (room > static_cast<Int>(b_.max_string)) b_.check_string(b_.max_string + 1);
    if (d.zero && !d.minus && may_zero && room > 0)
      digits.insert(0, std::string(static_cast<size_t>(room), '0'));
    pad(d, make_str(b_, sign + digits));
  }

  void integer(const Directive& d, char type) {
    const Val& v = next_value();
    need_defined(v);
    bool plain = type == 'd' || type == 'i' || type == 'u';
    if (!v.is_number() || (!plain && v.is(Kind::kFloat)))
      type_error(std::string("%") + type + " format: " + (plain ? "a real number" : "an integer") +
                 " is required, not " + type_name(v));
    Int n = v.is(Kind::kFloat) ? float_to_int(v.f) : v.as_int();
    StrBuilder digits(b_);
    std::string spec(1, plain ? 'd' : type);
    format_spec(digits, Val::integer(n < 0 ? -n : n), spec);
    std::string body = digits.bytes();
    if (static_cast<int>(body.size()) < d.precision)
      body.insert(0, std::string(static_cast<size_t>(d.precision) - body.size(), '0'));
    number_text(d, n < 0, d.alternate && !plain ? std::string("0") + type : "", body, true);
  }

  void real(const Directive& d, char type) {
    const Val& v = next_value();
    need_defined(v);
    if (!v.is_number()) type_error("must be real number, not " + type_name(v));
    int precision = d.precision < 0 ? 6 : d.precision;
    std::string s = fixed_text(v.as_double(), precision, type, d.alternate);
    bool negative = s[0] == '-';
    number_text(d, negative, "", negative ? s.substr(1) : s, std::isfinite(v.as_double()));
  }

  Budget& b_;
  const StrObj& form_;
  std::string_view s_;
  const Val& values_;
  StrBuilder out_;
  bool mapping_ = false, by_key_ = false;
  Val key_value_;
  size_t used_ = 0;
};

}  // namespace

Val format_percent(Budget& b, const Val& form, const Val& values) {
  return PercentFormatter(b, form, values).run();
}

}  // namespace brisk::jinja
