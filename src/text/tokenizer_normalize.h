// The normalizer: steps that rewrite a text before it is cut into pieces.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "brisk/result.h"
#include "text/pretokenize_regex.h"
#include "text/tokenizer_model.h"

namespace brisk {

// Immutable after build().
class Normalizer {
 public:
  static Result<Normalizer> build(std::span<const NormalizeStep> steps);
  bool empty() const { return steps_.empty(); }
  bool maps_bytes() const;  // is a step kByteLevel?
  Status run(std::string& text, uint64_t& budget) const;

 private:
  struct Step {
    NormalizeStep what;
    std::unique_ptr<const SplitRegex> regex;  // kReplace by a regular expression
  };
  static Status apply(const Step& step, std::string& text, size_t limit, uint64_t& budget);
  std::vector<Step> steps_;
};

}  // namespace brisk
