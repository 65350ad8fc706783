// Perplexity and divergence over a callback that gives logits; no model, no device here.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "brisk/result.h"

namespace brisk {

// Windows of 512 tokens without overlap, each with the model's bos in front if it has one; positions 256 to 511 scored.
inline constexpr int64_t kEvalWindow = 512, kEvalScoredFrom = 256;

// Logits of every position in [from, ids.size()): row-major [ids.size() - from, V].
using LogitsOf = std::function<Result<std::vector<float>>(std::span<const int32_t> ids, int64_t from)>;

struct EvalResult {
  double perplexity = 0;
  int64_t windows = 0, scored = 0;
  // Only with a second model:
  double other_perplexity = 0;
  double mean_kl = 0;       // of the second's distribution from the first's, nats
  double top_agreement = 0; // share of positions whose most likely token is the same
};

// `bos`: -1 for none. `progress` gets the number of windows done and of all. Fewer tokens than a window: kInvalid.
Result<EvalResult> evaluate_text(std::span<const int32_t> tokens, int32_t bos, int64_t vocab, const LogitsOf& model,
                                 const LogitsOf& other = nullptr,
                                 const std::function<void(int64_t, int64_t)>& progress = nullptr);

}  // namespace brisk
