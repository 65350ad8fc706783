// str.format and the format specification language.
#include <cmath>

#include "text/jinja_interp.h"
#include "text/jinja_strings.h"
#include "text/utf8.h"

namespace brisk::jinja {
namespace {

constexpr int kMaxPrecision = 4096;

struct Spec {
  std::string fill = " ";
  char align = 0, sign = 0, grouping = 0, type = 0;
  bool alternate = false, zero = false;
  Int width = 0;
  int precision = -1;
};

Spec parse_spec(std::string_view s) {
  Spec f;
  auto is_align = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
  size_t i = 0;
  bool filled = false;
  if (!s.empty()) {
    size_t n = utf8_decode(s, 0).size;
    if (n < s.size() && is_align(s[n])) {
      f.fill = s.substr(0, n);
      f.align = s[n];
      i = n + 1;
      filled = true;
    } else if (is_align(s[0])) {
      f.align = s[0];
      i = 1;
    }
  }
  auto at = [&] { return i < s.size() ? s[i] : '\0'; };
  auto number = [&]() -> Int {
    Int n = 0;
    while (at() >= '0' && at() <= '9') {
      n = n * 10 + (s[i++] - '0');
      if (n > INT32_MAX) value_error("Too many decimal digits in format string");
    }
    return n;
  };
  if (at() == '+' || at() == '-' || at() == ' ') f.sign = s[i++];
  if (at() == '#') f.alternate = true, ++i;
  if (at() == '0' && !filled) {
    f.zero = true;
    f.fill = "0";
    ++i;
  }
  f.width = number();
  if (at() == ',' || at() == '_') f.grouping = s[i++];
  if (at() == '.') {
    ++i;
    if (at() < '0' || at() > '9') value_error("Format specifier missing precision");
    Int p = number();
    if (p > kMaxPrecision) value_error("a precision of more than " + std::to_string(kMaxPrecision));
    f.precision = static_cast<int>(p);
  }
  if (i < s.size()) f.type = s[i++];
  if (i != s.size()) value_error("Invalid format specifier");
  return f;
}

[[noreturn]] void unknown_code(char type, const Val& v) {
  value_error(std::string("Unknown format code '") + type + "' for object of type '" + type_name(v) + "'");
}

void pad(StrBuilder& out, const Val& body, const Spec& f, char otherwise) {
  char align = f.align ? f.align : otherwise;
  Int room = std::max<Int>(0, f.width - body.str().length);
  Int left = align == '>' ? room : align == '^' ? room / 2 : 0;
  out.add(str_pad(out.budget(), body, left, room - left, make_str(out.budget(), f.fill)).str());
}

std::string grouped(std::string_view digits, char separator, size_t every) {
  if (!separator) return std::string(digits);
  std::string out;
  for (size_t k = 0; k < digits.size(); ++k) {
    if (k && (digits.size() - k) % every == 0) out += separator;
    out += digits[k];
  }
  return out;
}

// sign, prefix, digits, rest -> padded; zero padding takes part in the grouping.
void write_number(StrBuilder& out, Spec f, bool negative, const std::string& prefix, std::string digits,
                  const std::string& rest, size_t every) {
  if (f.zero && !f.align) f.align = '=';
  std::string sign = negative ? "-" : f.sign == '+' ? "+" : f.sign == ' ' ? " " : "";
  if (f.align == '=' && f.fill == "0" && f.width < (1 << 20)) {
    while (static_cast<Int>(sign.size() + prefix.size() + grouped(digits, f.grouping, every).size() +
                            rest.size()) < f.width)
      digits.insert(0, "0");
  }
  std::string body = grouped(digits, f.grouping, every) + rest;
  if (f.align != '=') return pad(out, make_str(out.budget(), sign + prefix + body), f, '>');
  out.text(sign + prefix);
  Spec inner = f;
  inner.align = '>';
  inner.width -= static_cast<Int>(sign.size() + prefix.size());
  pad(out, make_str(out.budget(), body), inner, '>');
}

std::string digits_in(Int n, int base, bool upper) {
  std::string s;
  do {
    int d = static_cast<int>(n % base);
    d = d < 0 ? -d : d;
    s.insert(s.begin(), static_cast<char>(d < 10 ? '0' + d : (upper ? 'A' : 'a') + d - 10));
    n /= base;
  } while (n != 0);
  return s;
}

void format_float(StrBuilder& out, const Val& v, const Spec& f) {
  double d = v.as_double();
  char type = f.type;
  std::string text;
  int precision = f.precision < 0 ? 6 : f.precision;
  if (type == 0 && f.precision < 0) {
    text = float_text(d);
  } else if (type == 0) {  // like g, but with a digit after the point
    text = fixed_text(d, std::max(precision, 1), 'g', false);
    if (std::isfinite(d) && text.find_first_of(".e") == text.npos) {
      bool whole_fits = static_cast<int>(text.size()) - (text[0] == '-') < std::max(precision, 1);
      text = whole_fits ? text + ".0" : fixed_text(d, std::max(precision, 1) - 1, 'e', false);
    }
  } else if (type == '%') {
    text = fixed_text(d * 100, precision, 'f', f.alternate);
  } else {
    bool g = type == 'g' || type == 'G' || type == 'n';
    text = fixed_text(d, g && precision == 0 ? 1 : precision, type == 'n' ? 'g' : type, f.alternate);
  }
  bool negative = text[0] == '-';
  if (negative) text.erase(0, 1);
  size_t whole = text.find_first_not_of("0123456789");
  if (whole == text.npos) whole = text.size();
  std::string rest = text.substr(whole);
  if (type == '%') rest += "%";
  write_number(out, f, negative, "", text.substr(0, whole), rest, 3);
}

void format_int(StrBuilder& out, const Val& v, const Spec& f) {
  Int n = v.as_int();
  switch (f.type) {
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case '%':
      return format_float(out, v, f);
    case 0:
    case 'd':
    case 'n':
    case 'b':
    case 'o':
    case 'x':
    case 'X':
    case 'c':
      break;
    default:
      unknown_code(f.type, v);
  }
  if (f.precision >= 0) value_error("Precision not allowed in integer format specifier");
  if (f.type == 'c') {
    if (n < 0 || n > 0x10FFFF) fail("OverflowError", "%c arg not in range(0x110000)");
    std::string c;
    utf8_append(c, static_cast<char32_t>(n));
    return pad(out, make_str(out.budget(), c), f, '<');
  }
  int base = f.type == 'b' ? 2 : f.type == 'o' ? 8 : f.type == 'x' || f.type == 'X' ? 16 : 10;
  std::string prefix = f.alternate && base != 10 ? std::string("0") + f.type : "";
  write_number(out, f, n < 0, prefix, digits_in(n, base, f.type == 'X'), "", base == 10 ? 3 : 4);
}

void format_str(StrBuilder& out, const Val& v, const Spec& f) {
  if (f.type && f.type != 's') unknown_code(f.type, v);
  if (f.sign) value_error("Sign not allowed in string format specifier");
  if (f.align == '=') value_error("'=' alignment not allowed in string format specifier");
  if (f.alternate) value_error("Alternate form (#) not allowed in string format specifier");
  if (f.grouping) value_error(std::string("Cannot specify '") + f.grouping + "' with 's'.");
  Val s = v;
  if (f.precision >= 0) s = slice(out.budget(), v, Val::none(), Val::integer(f.precision), Val::none());
  pad(out, s, f, '<');
}

}  // namespace

void format_spec(StrBuilder& out, const Val& v, std::string_view spec) {
  if (spec.empty()) return write_str(out, v);
  if (!v.is_string() && !v.is_number())
    type_error("unsupported format string passed to " + type_name(v) + ".__format__");
  Spec f = parse_spec(spec);
  if (v.is_string()) return format_str(out, v, f);
  if (v.is(Kind::kFloat)) {
    constexpr std::string_view types = "eEfFgGn%";
    if (f.type && types.find(f.type) == types.npos) unknown_code(f.type, v);
    return format_float(out, v, f);
  }
  format_int(out, v, f);
}

namespace {

class BraceFormatter {
 public:
  BraceFormatter(Interp& in, const Args& args, bool escape) : in_(in), args_(args), escape_(escape) {}

  // Formats bytes [from, to) of form into out.
  void run(StrBuilder& out, const StrObj& form, size_t from, size_t to, int depth) {
    if (depth > 2) value_error("Max string recursion exceeded");
    std::string_view s = form.bytes;
    while (from < to) {
      size_t next = s.find_first_of("{}", from);
      if (next == s.npos || next >= to) next = to;
      out.add(form, from, next);
      if (next == to) return;
      if (next + 1 < to && s[next + 1] == s[next]) {
        out.add(form, next, next + 1);
        from = next + 2;
        continue;
      }
      if (s[next] == '}') value_error("Single '}' encountered in format string");
      from = field(out, form, next + 1, to, depth);
    }
  }

 private:
  // A replacement field after its '{'; the offset behind its '}'.
  size_t field(StrBuilder& out, const StrObj& form, size_t from, size_t to, int depth) {
    std::string_view s = form.bytes;
    size_t end = from, open = 1;
    size_t colon = s.npos, bang = s.npos;
    bool in_brackets = false;
    for (; end < to; ++end) {
      char c = s[end];
      if (colon == s.npos && c == '[') in_brackets = true;
      if (colon == s.npos && c == ']') in_brackets = false;
      if (in_brackets) continue;
      if (c == '{') ++open;
      if (c == '}' && --open == 0) break;
      if (open == 1 && colon == s.npos && c == ':') colon = end;
      if (open == 1 && colon == s.npos && bang == s.npos && c == '!') bang = end;
    }
    if (end >= to)
      value_error(from >= to ? "Single '{' encountered in format string"
                             : "expected '}' before end of string");
    size_t name_end = std::min(end, std::min(colon, bang));
    Val v = lookup(s.substr(from, name_end - from));
    if (bang != s.npos) {
      size_t stop = std::min(end, colon);
      v = convert(v, s.substr(bang + 1, stop - bang - 1));
    }
    StrBuilder spec(in_.budget);
    if (colon != s.npos) run(spec, form, colon + 1, end, depth + 1);
    if (!escape_) {
      format_spec(out, v, spec.bytes());
    } else {
      StrBuilder piece(in_.budget);
      format_spec(piece, v, spec.bytes());
      out.add(escape_html(in_.budget, piece.take(v.is_string() && v.str().markup)).str());
    }
    return end + 1;
  }

  Val convert(const Val& v, std::string_view how) {
    if (how == "s") return to_str(in_.budget, v);
    if (how != "r" && how != "a") value_error("Unknown conversion specifier '" + std::string(how) + "'");
    StrBuilder out(in_.budget);
    write_repr(out, v);
    return out.take();
  }

  Val lookup(std::string_view path) {
    size_t n = std::min(path.find_first_of(".["), path.size());
    std::string_view first = path.substr(0, n);
    Val v = first.empty() ? automatic() : is_number(first) ? positional(first) : named(first);
    path.remove_prefix(n);
    while (!path.empty()) {
      if (path[0] == '.') {
        size_t end = std::min(path.find_first_of(".[", 1), path.size());
        if (end == 1) value_error("Empty attribute in format string");
        v = in_.getattr(v, path.substr(1, end - 1));
        path.remove_prefix(end);
      } else if (path[0] == '[') {
        size_t end = path.find(']');
        if (end == path.npos) value_error("Missing ']' in format string");
        std::string_view key = path.substr(1, end - 1);
        if (key.empty()) value_error("Empty attribute in format string");
        v = in_.getitem(v, is_number(key) ? Val::integer(std::stoll(std::string(key))) : in_.str(key));
        path.remove_prefix(end + 1);
      } else {
        value_error("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return v;
  }

  static bool is_number(std::string_view s) {
    return !s.empty() && s.size() < 19 && s.find_first_not_of("0123456789") == s.npos;
  }
  Val at(size_t k) {
    if (k >= args_.pos.size())
      fail("IndexError",
           "Replacement index " + std::to_string(k) + " out of range for positional args tuple");
    return args_.pos[k];
  }
  Val automatic() {
    if (numbering_ == 2)
      value_error("cannot switch from manual field specification to automatic field numbering");
    numbering_ = 1;
    return at(next_++);
  }
  Val positional(std::string_view s) {
    if (numbering_ == 1)
      value_error("cannot switch from automatic field numbering to manual field specification");
    numbering_ = 2;
    return at(std::stoull(std::string(s)));
  }
  Val named(std::string_view name) {
    for (auto& [k, v] : args_.kw)
      if (k == name) return v;
    fail("KeyError", std::string(name));
  }

  Interp& in_;
  const Args& args_;
  bool escape_;
  size_t next_ = 0;
  int numbering_ = 0;  // 1: automatic, 2: by number
};

}  // namespace

Val format_braces(Interp& in, const Val& form, const Args& args) {
  StrBuilder out(in.budget);
  BraceFormatter(in, args, form.str().markup).run(out, form.str(), 0, form.str().bytes.size(), 0);
  return out.take(form.str().markup);
}

}  // namespace brisk::jinja
