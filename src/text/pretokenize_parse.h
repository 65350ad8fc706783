// Parser of the hand-compiled kind of patterns: alternations of sequences of character classes with quantifiers,
// groups that are taken once or may be left out, lookahead, anchors, (?i) for ASCII letters.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "text/pretokenize_class.h"
#include "text/tokenizer_model.h"

namespace brisk {

enum class RegexMode : uint8_t { kGreedy, kLazy, kPossessive };
inline constexpr uint32_t kNoLimit = 0xFFFFFFFF;

struct RegexItem;
using RegexSequence = std::vector<RegexItem>;

struct RegexItem {
  enum Kind : uint8_t { kSet, kGroup, kLook, kLineBegin, kLineEnd, kTextBegin, kTextEnd, kWordEdge, kNoWordEdge };
  Kind kind = kSet;
  bool negative = false;  // kLook
  RegexMode mode = RegexMode::kGreedy;
  uint32_t min = 1, max = 1;
  CharSet set;
  std::vector<RegexSequence> alternatives;  // kGroup, kLook
};

// Nothing if the pattern is of another kind (or no pattern at all: PCRE2 says what is wrong with it).
std::optional<std::vector<RegexSequence>> parse_class_regex(const Pattern& pattern);

}  // namespace brisk
