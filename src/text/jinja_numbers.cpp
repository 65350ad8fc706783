// Numbers from text and to text.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/jinja_interp.h"
#include "text/jinja_strings.h"
#include "text/utf8.h"

namespace brisk::jinja {
namespace {

std::string_view stripped(std::string_view s) {
  while (!s.empty()) {
    Utf8Char c = utf8_decode(s, 0);
    if (!char_is_space(c.cp)) break;
    s.remove_prefix(c.size);
  }
  while (!s.empty()) {
    size_t i = s.size() - 1;
    while (i > 0 && utf8_is_continuation(s[i])) --i;
    if (!char_is_space(utf8_decode(s, i).cp)) break;
    s = s.substr(0, i);
  }
  return s;
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  char l = c | 32;
  return l >= 'a' && l <= 'z' ? l - 'a' + 10 : 99;
}

}  // namespace

std::optional<Int> parse_int(std::string_view s, int base) {
  s = stripped(s);
  bool negative = !s.empty() && s[0] == '-';
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) s.remove_prefix(1);
  if (s.size() > 1 && s[0] == '0') {
    char x = s[1] | 32;
    int named = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 0;
    if (named && (base == 0 || base == named)) {
      s.remove_prefix(2);
      if (!s.empty() && s[0] == '_') s.remove_prefix(1);
      base = named;
    }
  }
  bool zeros_only = base == 0 && s.size() > 1 && s[0] == '0';
  if (base == 0) base = 10;
  if (s.empty() || s[0] == '_' || s.back() == '_') return std::nullopt;
  Int n = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '_') {
      if (s[i - 1] == '_') return std::nullopt;
      continue;
    }
    int d = digit_of(s[i]);
    if (d >= base) return std::nullopt;
    if (__builtin_mul_overflow(n, base, &n) || __builtin_add_overflow(n, d, &n))
      fail("OverflowError", "an integer of more than 127 bits");
  }
  if (zeros_only && n != 0) return std::nullopt;
  return negative ? -n : n;
}

std::optional<double> parse_float(std::string_view s) {
  s = stripped(s);
  double sign = 1;
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) {
    if (s[0] == '-') sign = -1;
    s.remove_prefix(1);
  }
  std::string text;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '_') {
      text += static_cast<char>(s[i] >= 'A' && s[i] <= 'Z' ? s[i] | 32 : s[i]);
      continue;
    }
    auto digit = [&](size_t k) { return k < s.size() && s[k] >= '0' && s[k] <= '9'; };
    if (i == 0 || !digit(i - 1) || !digit(i + 1)) return std::nullopt;
  }
  if (text == "inf" || text == "infinity") return sign * INFINITY;
  if (text == "nan") return NAN;
  if (text.empty() || text.find_first_not_of("0123456789.e+-") != text.npos || text[0] == '-' ||
      text[0] == '+')
    return std::nullopt;
  double d = 0;
  auto [p, e] = std::from_chars(text.data(), text.data() + text.size(), d);
  if (p != text.data() + text.size() || e == std::errc::invalid_argument) return std::nullopt;
  if (e == std::errc::result_out_of_range) d = text.find("e-") == text.npos ? INFINITY : 0.0;
  return sign * d;
}

Int float_to_int(double d) {
  if (std::isnan(d)) value_error("cannot convert float NaN to integer");
  if (std::isinf(d)) fail("OverflowError", "cannot convert float infinity to integer");
  if (std::fabs(d) >= 0x1p126) fail("OverflowError", "an integer of more than 127 bits");
  return static_cast<Int>(d);
}

std::string fixed_text(double d, int precision, char type, bool alternate) {
  if (!std::isfinite(d)) {
    std::string s = std::isnan(d) ? "nan" : d < 0 ? "-inf" : "inf";
    if (type >= 'A' && type <= 'Z')
      for (char& c : s) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
    return s;
  }
  const char form[] = {
      '%', alternate ? '#' : '.', alternate ? '.' : '*', alternate ? '*' : type, alternate ? type : '\0',
      '\0'};
  int n = std::snprintf(nullptr, 0, form, precision, d);
  std::string s(static_cast<size_t>(n) + 1, '\0');
  std::snprintf(s.data(), s.size(), form, precision, d);
  s.pop_back();
  return s;
}

double round_float(double d, Int digits) {
  if (!std::isfinite(d) || digits > 323) return d;
  if (digits < -308) return std::copysign(0.0, d);
  auto number = [](const std::string& s) {
    double x = 0;
    std::from_chars(s.data(), s.data() + s.size(), x);
    return x;
  };
  if (digits >= 0) return number(fixed_text(d, static_cast<int>(digits), 'f', false));
  if (d == 0) return d;
  int exponent =
      std::atoi(fixed_text(d, 17, 'e', false).substr(fixed_text(d, 17, 'e', false).find('e') + 1).c_str());
  int keep = exponent + static_cast<int>(digits);  // digits after the first one that stay
  if (keep < -1) return std::copysign(0.0, d);
  if (keep >= 0) return number(fixed_text(d, keep, 'e', false));
  double unit = std::pow(10.0, static_cast<double>(-digits));
  return std::copysign(std::fabs(d) > unit / 2 ? unit : 0.0, d);
}

}  // namespace brisk::jinja
