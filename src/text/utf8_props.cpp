#include "text/utf8_props.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "text/utf8.h"

namespace brisk {
namespace {

struct Range {
  char32_t first, last;
};
struct CaseRun {  // every step-th character from first to last moves by delta
  char32_t first, last;
  int step, delta;
};
struct CaseSpecial {
  char32_t from;
  char32_t to[3];
};

#include "text/utf8_tables.inc"

std::span<const Range> ranges_of(CharClass what) {
  switch (what) {
    case CharClass::kPrintable:
      return kPrintable;
    case CharClass::kAlpha:
      return kAlpha;
    case CharClass::kDecimal:
      return kDecimal;
    case CharClass::kDigit:
      return kDigit;
    case CharClass::kNumeric:
      return kNumeric;
    case CharClass::kLower:
      return kLower;
    case CharClass::kUpper:
      return kUpper;
    case CharClass::kTitleCase:
      return kTitleCase;
    case CharClass::kCased:
      return kCased;
    case CharClass::kCaseIgnorable:
      return kCaseIgnorable;
    case CharClass::kIdentStart:
      return kIdentStart;
    case CharClass::kIdentPart:
      return kIdentPart;
  }
  return {};
}

struct Mapping {
  std::span<const CaseRun> runs;
  std::span<const CaseSpecial> special;
};

Mapping mapping_of(CaseMap map) {
  switch (map) {
    case CaseMap::kLower:
      return {kToLower, kToLowerSpecial};
    case CaseMap::kUpper:
      return {kToUpper, kToUpperSpecial};
    case CaseMap::kTitle:
      return {kToTitle, kToTitleSpecial};
    case CaseMap::kFold:
      return {kFold, kFoldSpecial};
  }
  return {};
}

}  // namespace

bool char_is(CharClass what, char32_t c) {
  auto table = ranges_of(what);
  auto it =
      std::upper_bound(table.begin(), table.end(), c, [](char32_t x, const Range& r) { return x < r.first; });
  return it != table.begin() && c <= std::prev(it)->last;
}

bool char_is_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool char_is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

void append_mapped(std::string& out, CaseMap map, char32_t c) {
  Mapping m = mapping_of(map);
  auto special = std::lower_bound(m.special.begin(), m.special.end(), c,
                                  [](const CaseSpecial& s, char32_t x) { return s.from < x; });
  if (special != m.special.end() && special->from == c) {
    for (char32_t to : special->to)
      if (to) utf8_append(out, to);
    return;
  }
  auto it = std::upper_bound(m.runs.begin(), m.runs.end(), c,
                             [](char32_t x, const CaseRun& r) { return x < r.first; });
  if (it != m.runs.begin()) {
    --it;
    if (c <= it->last && (c - it->first) % it->step == 0)
      c = static_cast<char32_t>(static_cast<int32_t>(c) + it->delta);
  }
  utf8_append(out, c);
}

}  // namespace brisk
