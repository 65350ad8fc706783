// Character classes and case mappings as Python's str methods see them (tables: tools/unicode/case_tables.py).
#pragma once
#include <string>

namespace brisk {

enum class CharClass : unsigned char {
  kPrintable,
  kAlpha,
  kDecimal,
  kDigit,
  kNumeric,
  kLower,
  kUpper,
  kTitleCase,
  kCased,
  kCaseIgnorable,
  kIdentStart,
  kIdentPart,
};
bool char_is(CharClass what, char32_t c);
bool char_is_space(char32_t c);       // str.isspace, what strip() and split() cut
bool char_is_line_break(char32_t c);  // what splitlines() cuts
inline bool char_is_alnum(char32_t c) {
  return char_is(CharClass::kAlpha, c) || char_is(CharClass::kNumeric, c);  // Numeric holds Decimal and Digit
}

enum class CaseMap : unsigned char { kLower, kUpper, kTitle, kFold };
// Appends what c becomes (one to three characters), UTF-8. The final form of sigma is the caller's business.
void append_mapped(std::string& out, CaseMap map, char32_t c);

}  // namespace brisk
