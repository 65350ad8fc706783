// Character classes of the hand-compiled patterns.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "text/unicode.h"

namespace brisk {

// A union of categories, flags, ranges and other sets; possibly negated; possibly cut by further sets.
// seal() must follow the last change: it makes ASCII a bit test.
struct CharSet {
  uint64_t ascii[2] = {0, 0};
  uint32_t categories = 0;  // bit per unicode::Category
  uint16_t flags = 0;       // any of unicode::Flag
  bool negated = false;
  std::vector<std::pair<char32_t, char32_t>> ranges;  // both ends in
  std::vector<CharSet> any, all;                      // or any of these; and all of those

  void add(char32_t low, char32_t high) { ranges.emplace_back(low, high); }
  void seal();
  bool contains(char32_t c) const { return c < 128 ? ascii[c >> 6] >> (c & 63) & 1 : test(c); }

 private:
  bool test(char32_t c) const;
};

}  // namespace brisk
