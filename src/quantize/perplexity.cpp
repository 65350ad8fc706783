#include "quantize/perplexity.h"

#include <algorithm>
#include <cmath>

namespace brisk {
namespace {

double log_sum_exp(std::span<const float> z) {
  double largest = static_cast<double>(*std::max_element(z.begin(), z.end())), sum = 0;
  for (float v : z) sum += std::exp(static_cast<double>(v) - largest);
  return largest + std::log(sum);
}

}  // namespace

Result<EvalResult> evaluate_text(std::span<const int32_t> tokens, int32_t bos, int64_t vocab, const LogitsOf& model,
                                 const LogitsOf& other, const std::function<void(int64_t, int64_t)>& progress) {
  int64_t payload = kEvalWindow - (bos >= 0), windows = static_cast<int64_t>(tokens.size()) / payload;
  if (windows == 0) return invalid("the text has " + std::to_string(tokens.size()) + " tokens, at least " + std::to_string(payload) + " are needed");
  EvalResult r;
  double loss = 0, other_loss = 0;
  for (int64_t w = 0; w < windows; ++w) {
    std::vector<int32_t> ids;
    if (bos >= 0) ids.push_back(bos);
    auto part = tokens.subspan(static_cast<size_t>(w * payload), static_cast<size_t>(payload));
    ids.insert(ids.end(), part.begin(), part.end());
    // The logits at position i predict token i + 1: tokens 256 to 511 are predicted from positions 255 to 510.
    int64_t from = kEvalScoredFrom - 1;
    BRISK_ASSIGN(auto logits, model(ids, from));
    std::vector<float> second;
    if (other) {
      BRISK_ASSIGN(second, other(ids, from));
    }
    for (int64_t i = kEvalScoredFrom; i < kEvalWindow; ++i) {
      auto at = static_cast<size_t>((i - 1 - from) * vocab), id = static_cast<size_t>(ids[static_cast<size_t>(i)]);
      std::span<const float> z(logits.data() + at, static_cast<size_t>(vocab));
      double norm = log_sum_exp(z);
      loss += norm - static_cast<double>(z[id]);
      ++r.scored;
      if (!other) continue;
      std::span<const float> y(second.data() + at, static_cast<size_t>(vocab));
      double other_norm = log_sum_exp(y), kl = 0;
      other_loss += other_norm - static_cast<double>(y[id]);
      for (size_t k = 0; k < z.size(); ++k) {
        double p = static_cast<double>(z[k]) - norm, q = static_cast<double>(y[k]) - other_norm;
        kl += std::exp(p) * (p - q);
      }
      r.mean_kl += kl;
      r.top_agreement += std::max_element(z.begin(), z.end()) - z.begin() == std::max_element(y.begin(), y.end()) - y.begin();
    }
    ++r.windows;
    if (progress) progress(w + 1, windows);
  }
  auto n = static_cast<double>(r.scored);
  r.perplexity = std::exp(loss / n);
  if (other) r.other_perplexity = std::exp(other_loss / n);
  r.mean_kl /= n;
  r.top_agreement /= n;
  return r;
}

}  // namespace brisk
