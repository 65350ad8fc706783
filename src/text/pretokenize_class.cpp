#include "text/pretokenize_class.h"

namespace brisk {

bool CharSet::test(char32_t c) const {
  uint16_t p = unicode::properties(c);
  bool hit = (categories >> (p & 31) & 1) || (p & flags);
  for (size_t i = 0; !hit && i < ranges.size(); ++i) hit = c >= ranges[i].first && c <= ranges[i].second;
  for (size_t i = 0; !hit && i < any.size(); ++i) hit = any[i].test(c);
  if (hit) {
    for (const CharSet& s : all) {
      if (!s.test(c)) {
        hit = false;
        break;
      }
    }
  }
  return hit != negated;
}

void CharSet::seal() {
  ascii[0] = ascii[1] = 0;
  for (char32_t c = 0; c < 128; ++c) {
    if (test(c)) ascii[c >> 6] |= uint64_t{1} << (c & 63);
  }
}

}  // namespace brisk
