#include "op/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace brisk {
namespace {

std::vector<float> random_logits(size_t n, unsigned seed, float size = 3) {
  std::mt19937 rng(seed);
  std::vector<float> z(n);
  for (float& v : z) v = size * std::normal_distribution<float>()(rng);
  return z;
}
int32_t pick(const std::vector<float>& z, const SampleParams& p, const std::vector<uint16_t>& counts = {}) {
  std::vector<float> scratch;
  int32_t ids[kMaxTopLogprobs];
  float logprobs[kMaxTopLogprobs];
  return sample_row(z, counts, p, scratch, ids, logprobs).id;
}

// The definition, with a full sort: what SampleParams says in words.
int32_t naive_draw(const std::vector<float>& z, const SampleParams& p) {
  std::vector<int32_t> order(z.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return z[size_t(a)] != z[size_t(b)] ? z[size_t(a)] > z[size_t(b)] : a < b;
  });
  if (p.top_k > 0) order.resize(std::min(order.size(), size_t(p.top_k)));
  std::vector<double> w;
  for (int32_t id : order) w.push_back(std::exp(double(z[size_t(id)] - z[size_t(order[0])]) / double(p.temperature)));
  double total = std::accumulate(w.begin(), w.end(), 0.0), sum = 0;
  size_t n = w.size();
  if (p.top_p < 1)
    for (n = 0; n < w.size() && (n == 0 || sum < double(p.top_p) * total); n++) sum += w[n];
  while (n > 1 && w[n - 1] < double(p.min_p)) n--;
  double point = double(philox_uniform(p.seed, p.draw)) * std::accumulate(w.begin(), w.begin() + int64_t(n), 0.0);
  for (size_t i = 0; i < n; i++)
    if ((point -= w[i]) < 0) return order[i];
  return order[n - 1];
}

TEST(Sampler, DrawsAsDefined) {
  for (SampleParams p : {SampleParams{0.7f}, SampleParams{1.3f, 0.9f}, SampleParams{1, 1, 0.05f}, SampleParams{1, 0.95f, 0.02f, 40},
                         SampleParams{2.0f, 1, 0, 7}, SampleParams{1, 0.0001f}}) {
    int same = 0;
    for (uint64_t i = 0; i < 300; i++) {
      auto z = random_logits(997, static_cast<unsigned>(i % 10));
      p.seed = i;
      p.draw = i / 3;
      same += pick(z, p) == naive_draw(z, p);
    }
    EXPECT_GE(same, 299) << p.temperature << " " << p.top_p << " " << p.min_p << " " << p.top_k;  // rounding at a border
  }
}

TEST(Sampler, FrequenciesFollowTheProbabilities) {
  std::vector<float> z = {std::log(0.5f), std::log(0.3f), -INFINITY, std::log(0.2f), std::nanf("")};
  SampleParams p;
  p.temperature = 1;
  p.seed = 42;
  std::vector<int> hits(z.size());
  constexpr int kDraws = 20000;
  for (p.draw = 0; p.draw < kDraws; p.draw++) hits[size_t(pick(z, p))]++;
  EXPECT_NEAR(hits[0], 0.5 * kDraws, 300);  // 4 standard deviations
  EXPECT_NEAR(hits[1], 0.3 * kDraws, 300);
  EXPECT_NEAR(hits[3], 0.2 * kDraws, 300);
  EXPECT_EQ(hits[2] + hits[4], 0);
}

TEST(Sampler, GreedyTiesAndNothing) {
  EXPECT_EQ(pick({1, 3, 3, 2}, {}), 1);
  EXPECT_EQ(pick({std::nanf(""), -1, std::nanf("")}, {}), 1);
  EXPECT_EQ(pick({std::nanf(""), std::nanf("")}, {}), -1);
  SampleParams hot;
  hot.temperature = 1;
  EXPECT_EQ(pick({std::nanf(""), std::nanf("")}, hot), -1);
  EXPECT_EQ(pick({0, INFINITY, std::nanf(""), 5}, hot), 1);
}

TEST(Sampler, Penalties) {
  std::vector<float> z = {2.0f, 1.9f, -1.0f};
  SampleParams p;
  p.repetition_penalty = 2;
  EXPECT_EQ(pick(z, p, {1, 0, 0}), 1);
  EXPECT_EQ(pick(z, p, {kInPrompt, 0, 0}), 1);  // the prompt counts for repetition
  p = {};
  p.presence_penalty = 0.5f;
  EXPECT_EQ(pick(z, p, {kInPrompt, 0, 0}), 0);  // but not for presence
  EXPECT_EQ(pick(z, p, {1, 0, 0}), 1);
  p = {};
  p.frequency_penalty = 0.06f;
  EXPECT_EQ(pick(z, p, {1, 0, 0}), 0);
  EXPECT_EQ(pick(z, p, {2, 0, 0}), 1);
}

TEST(Sampler, Logprobs) {
  std::vector<float> z = {0, std::log(3.0f), 0}, scratch;
  SampleParams p;
  p.top_logprobs = 2;
  int32_t ids[kMaxTopLogprobs];
  float logprobs[kMaxTopLogprobs];
  auto row = sample_row(z, {}, p, scratch, ids, logprobs);
  EXPECT_EQ(row.id, 1);
  EXPECT_NEAR(row.logprob, std::log(0.6), 1e-6);
  EXPECT_EQ(ids[0], 1);
  EXPECT_EQ(ids[1], 0);  // ties: the smaller id
  EXPECT_NEAR(logprobs[1], std::log(0.2), 1e-6);
  EXPECT_EQ(ids[2], -1);
}

}  // namespace
}  // namespace brisk
