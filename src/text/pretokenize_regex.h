// Patterns of tokenizers, in Oniguruma's (Ruby) syntax, searched in decoded text.
//
// Nearly all patterns in the wild are alternations of runs of character classes. Those are compiled by hand to a small
// backtracking matcher over the generated Unicode tables (exact, and linear for every known pattern); the rest goes to
// PCRE2 with a match limit. A compiled pattern is immutable and may be used by any number of threads.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "brisk/result.h"
#include "text/tokenizer_model.h"

namespace brisk {

struct TextSpan {
  uint32_t begin = 0, end = 0;  // in code points
};

class SplitRegex {
 public:
  virtual ~SplitRegex() = default;
  static Result<std::unique_ptr<const SplitRegex>> compile(const Pattern& pattern);

  // Appends the leftmost, non-overlapping matches in text[span]; nothing outside the span is seen. An empty match
  // counts (begin == end). `budget` limits the work over many calls: it is counted down, and running out is an error.
  virtual Status find_all(std::span<const char32_t> text, TextSpan span, uint64_t& budget,
                          std::vector<TextSpan>& matches) const = 0;

 protected:
  SplitRegex() = default;
};

// The two kinds; null if the pattern is not of the hand-compiled kind.
std::unique_ptr<const SplitRegex> compile_class_regex(const Pattern& pattern);
Result<std::unique_ptr<const SplitRegex>> compile_pcre_regex(std::string_view pattern);

Error too_much_work();

}  // namespace brisk
