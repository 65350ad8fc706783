#include "text/tokenizer_charsmap.h"

#include <cstring>

#include "text/unicode.h"

namespace brisk {
namespace {

// Unit of the trie: bits 10 to 30 offset (shifted by 8 more if bit 9 is set), bit 8 "has a value", bits 0 to 7 label
// with bit 31 (a value unit has bit 31 set and the value below).
class Trie {
 public:
  explicit Trie(std::string_view map) {
    uint32_t size;
    std::memcpy(&size, map.data(), 4);
    units_ = map.substr(4, size);
    strings_ = map.substr(4 + size);
  }

  // Calls found(length of the key, replacement) for each key that text begins with, shortest first, until it returns
  // false.
  template <class Found>
  void each_prefix(std::string_view text, Found found) const {
    uint32_t unit, node = 0;
    if (!get(0, unit)) return;
    node ^= offset(unit);
    for (size_t i = 0; i < text.size(); ++i) {
      uint8_t c = uint8_t(text[i]);
      if (c == 0) return;
      node ^= c;
      if (!get(node, unit) || (unit & 0x800000FF) != c) return;
      node ^= offset(unit);
      if (unit >> 8 & 1) {
        uint32_t value;
        if (!get(node, value)) return;
        value &= 0x7FFFFFFF;
        if (value >= strings_.size()) return;
        std::string_view by = strings_.substr(value);
        by = by.substr(0, by.find('\0'));
        if (!found(i + 1, by)) return;
      }
    }
  }

 private:
  static uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
  bool get(uint32_t index, uint32_t& unit) const {
    if (size_t(index) * 4 + 4 > units_.size()) return false;
    std::memcpy(&unit, units_.data() + size_t(index) * 4, 4);
    return true;
  }
  std::string_view units_, strings_;
};

bool extends_grapheme(char32_t c) {
  auto k = unicode::category(c);
  return k == unicode::kMn || k == unicode::kMe || k == unicode::kMc || c == 0x200D || c == 0x200C ||
         (c >= 0x1F3FB && c <= 0x1F3FF) || (c >= 0xFF9E && c <= 0xFF9F);
}

// An approximation of an extended grapheme cluster that is exact for clusters short enough to matter (under six bytes):
// CR LF, a base with marks, Hangul jamo.
size_t grapheme_length(std::string_view text) {
  auto first = unicode::decode(text, 0);
  size_t n = first.size;
  if (first.value == '\r') return text.size() > 1 && text[1] == '\n' ? 2 : 1;
  auto kind = unicode::category(first.value);
  bool control = kind == unicode::kCc || kind == unicode::kZl || kind == unicode::kZp ||
                 (kind == unicode::kCf && first.value != 0x200C && first.value != 0x200D);
  if (control) return n;
  while (n < text.size()) {
    auto c = unicode::decode(text, n);
    bool jamo = c.value >= 0x1160 && c.value <= 0x11FF && first.value >= 0x1100 && first.value <= 0x11FF;
    if (!extends_grapheme(c.value) && !jamo) break;
    n += c.size;
  }
  return n;
}

bool shortest(const Trie& trie, std::string_view text, std::string& out) {
  bool hit = false;
  trie.each_prefix(text, [&](size_t, std::string_view by) {
    out += by;
    hit = true;
    return false;
  });
  return hit;
}

}  // namespace

Status check_charsmap(std::string_view map) {
  uint32_t size = 0;
  if (map.size() >= 4) std::memcpy(&size, map.data(), 4);
  if (map.size() < 4 || size > map.size() - 4 || size % 4) {
    return invalid("precompiled character map: a trie of " + std::to_string(size) + " bytes in " +
                   std::to_string(map.size()));
  }
  return {};
}

std::string apply_charsmap(std::string_view map, std::string_view text, bool by_grapheme) {
  Trie trie(map);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    std::string_view rest = text.substr(i);
    if (by_grapheme) {
      std::string_view cluster = rest.substr(0, grapheme_length(rest));
      i += cluster.size();
      if (cluster.size() < 6 && shortest(trie, cluster, out)) continue;
      for (size_t k = 0; k < cluster.size();) {
        auto c = unicode::decode(cluster, k);
        if (!shortest(trie, cluster.substr(k, c.size), out)) out += cluster.substr(k, c.size);
        k += c.size;
      }
      continue;
    }
    size_t length = 0;
    std::string_view by;
    trie.each_prefix(rest, [&](size_t n, std::string_view replacement) {
      length = n;
      by = replacement;
      return true;
    });
    if (length == 0) {
      auto c = unicode::decode(rest, 0);
      length = c.size;
      by = c.value == 0xFFFD ? std::string_view("\xEF\xBF\xBD") : rest.substr(0, length);
    }
    out += by;
    i += length;
  }
  return out;
}

}  // namespace brisk
