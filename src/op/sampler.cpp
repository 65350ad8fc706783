#include "op/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace brisk {

float philox_uniform(uint64_t seed, uint64_t draw) {
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  uint32_t c[4] = {static_cast<uint32_t>(draw), static_cast<uint32_t>(draw >> 32), 0, 0};
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xD2511F53u} * c[0], b = uint64_t{0xCD9E8D57u} * c[2];
    uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
                        static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    std::copy(next, next + 4, c);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return static_cast<float>(c[0] >> 8) * 0x1p-24f;
}

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool has_penalty(const SampleParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
}

void apply_penalties(std::vector<float>& z, std::span<const uint16_t> counts, const SampleParams& p) {
  for (size_t i = 0; i < z.size(); ++i) {
    if (counts[i] == 0) continue;
    z[i] = z[i] > 0 ? z[i] / p.repetition_penalty : z[i] * p.repetition_penalty;
    int times = counts[i] & 0x7fff;
    if (times) z[i] -= p.presence_penalty + p.frequency_penalty * static_cast<float>(times);
  }
}

int32_t argmax(std::span<const float> z) {
  int32_t best = 0;
  float largest = kNever;
  for (size_t i = 0; i < z.size(); ++i)
    if (z[i] > largest) largest = z[i], best = static_cast<int32_t>(i);
  return best;
}

double log_sum_exp(std::span<const float> z) {
  float largest = z[static_cast<size_t>(argmax(z))];
  double sum = 0;
  for (float v : z)
    if (!std::isnan(v)) sum += std::exp(static_cast<double>(v - largest));
  return static_cast<double>(largest) + std::log(sum);
}

// Token ids from most to least likely, sorted only as far as somebody looks: a draw seldom goes beyond some dozens.
class Ranking {
 public:
  Ranking(const std::vector<float>& z, std::vector<int32_t>& ids, size_t keep) : z_(z), ids_(ids) {
    if (keep < ids_.size()) {
      select(keep);
      ids_.resize(keep);
    }
  }
  size_t size() const { return ids_.size(); }
  int32_t at(size_t rank) {
    while (rank >= sorted_) {
      size_t end = std::min(ids_.size(), std::max<size_t>(64, 2 * sorted_));
      if (end < ids_.size()) select(end);
      std::sort(begin(sorted_), begin(end), [this](int32_t a, int32_t b) { return more_likely(a, b); });
      sorted_ = end;
    }
    return ids_[rank];
  }

 private:
  std::vector<int32_t>::iterator begin(size_t i) { return ids_.begin() + static_cast<int64_t>(i); }
  void select(size_t end) {  // the `end` most likely to the front
    std::nth_element(begin(sorted_), begin(end), ids_.end(), [this](int32_t a, int32_t b) { return more_likely(a, b); });
  }
  bool more_likely(int32_t a, int32_t b) const {
    float x = z_[static_cast<size_t>(a)], y = z_[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  }

  const std::vector<float>& z_;
  std::vector<int32_t>& ids_;
  size_t sorted_ = 0;
};

// Draws from softmax(z / temperature) cut by top-k, top-p and min-p.
int32_t draw(const std::vector<float>& z, const SampleParams& p) {
  thread_local std::vector<int32_t> ids;
  ids.clear();
  for (size_t i = 0; i < z.size(); ++i)
    if (z[i] > kNever) ids.push_back(static_cast<int32_t>(i));
  if (ids.empty()) return -1;
  const int32_t best = argmax(z);
  float largest = z[static_cast<size_t>(best)];
  if (std::isinf(largest)) return best;  // no weights can be taken beside it
  auto weight = [&](int32_t id) {
    return static_cast<double>(std::exp((z[static_cast<size_t>(id)] - largest) / p.temperature));
  };
  Ranking ranking(z, ids, p.top_k > 0 ? static_cast<size_t>(p.top_k) : ids.size());
  double total = 0;
  for (int32_t id : ids) total += weight(id);
  size_t n = ranking.size();
  if (p.top_p < 1 || p.min_p > 0) {  // how many of the most likely stay, and their weight
    double target = p.top_p < 1 ? static_cast<double>(p.top_p) * total : INFINITY, sum = 0;
    for (n = 0; n < ranking.size() && (n == 0 || sum < target); ++n) {
      double w = weight(ranking.at(n));
      if (n > 0 && w < static_cast<double>(p.min_p)) break;  // the largest weight is 1
      sum += w;
    }
    total = sum;
  }
  double point = static_cast<double>(philox_uniform(p.seed, p.draw)) * total;
  for (size_t i = 0; i < n; ++i) {
    point -= weight(ranking.at(i));
    if (point < 0) return ranking.at(i);
  }
  return ranking.at(n - 1);
}

}  // namespace

SampledRow sample_row(std::span<const float> logits, std::span<const uint16_t> counts, const SampleParams& p,
                      std::vector<float>& scratch, int32_t* top_ids, float* top_logprobs) {
  SampledRow row;
  std::span<const float> z = logits;
  if ((has_penalty(p) && !counts.empty()) || p.temperature > 0) {
    scratch.assign(logits.begin(), logits.end());
    for (float& v : scratch)
      if (std::isnan(v)) v = kNever;
    if (has_penalty(p) && !counts.empty()) apply_penalties(scratch, counts, p);
    z = scratch;
  }
  row.id = p.temperature > 0 ? draw(scratch, p) : argmax(z);
  if (row.id >= 0 && !(z[static_cast<size_t>(row.id)] > kNever)) row.id = -1;
  std::fill(top_ids, top_ids + kMaxTopLogprobs, -1);
  std::fill(top_logprobs, top_logprobs + kMaxTopLogprobs, kNever);
  if (p.top_logprobs < 0 || row.id < 0) return row;

  double norm = log_sum_exp(logits);
  row.logprob = static_cast<float>(static_cast<double>(logits[static_cast<size_t>(row.id)]) - norm);
  auto n = std::min<int64_t>(std::min<int64_t>(p.top_logprobs, kMaxTopLogprobs), static_cast<int64_t>(logits.size()));
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + n, order.end(), [&](int32_t a, int32_t b) {
    float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) != std::isnan(y) ? std::isnan(y) : a < b;
    return x != y ? x > y : a < b;
  });
  for (int64_t i = 0; i < n; ++i) {
    top_ids[i] = order[static_cast<size_t>(i)];
    top_logprobs[i] = static_cast<float>(static_cast<double>(logits[static_cast<size_t>(top_ids[i])]) - norm);
  }
  return row;
}

}  // namespace brisk
