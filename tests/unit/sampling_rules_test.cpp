#include <gtest/gtest.h>

#include <cmath>

#include "op/sampler.h"

namespace brisk {
namespace {

struct Drawn {
  std::vector<int> times;
  std::vector<float> scratch;
  int32_t top_ids[kMaxTopLogprobs];
  float top_logprobs[kMaxTopLogprobs];

  int32_t once(const std::vector<float>& z, const SampleParams& p, const std::vector<uint16_t>& counts = {}) {
    return sample_row(z, counts, p, scratch, top_ids, top_logprobs).id;
  }
  void many(const std::vector<float>& z, SampleParams p, int n) {
    times.assign(z.size(), 0);
    for (int i = 0; i < n; ++i) {
      p.draw = static_cast<uint64_t>(i);
      ++times[static_cast<size_t>(once(z, p))];
    }
  }
};

TEST(SamplingRules, PhiloxGivesTheKnownAnswers) {
  // Random123's known answer of philox4x32-10 for key 0 and counter 0: first word 0x6627e8d5.
  EXPECT_EQ(philox_uniform(0, 0), static_cast<float>(0x6627e8d5u >> 8) * 0x1p-24f);
  EXPECT_NE(philox_uniform(1, 0), philox_uniform(0, 0));
}

TEST(SamplingRules, GreedyTakesTheLargestAndTheSmallerIdOfATie) {
  Drawn d;
  EXPECT_EQ(d.once({1, 3, 3, 2}, {}), 1);
  EXPECT_EQ(d.once({NAN, -INFINITY, -2, NAN}, {}), 2);
}

TEST(SamplingRules, DrawsFollowTheDistribution) {
  Drawn d;
  SampleParams p;
  p.temperature = 2;
  std::vector<float> z = {0, 2 * std::log(2.0f), 2 * std::log(5.0f)};  // 1 : 2 : 5 at temperature 2
  d.many(z, p, 20000);
  EXPECT_NEAR(d.times[0], 2500, 200);
  EXPECT_NEAR(d.times[1], 5000, 250);
  EXPECT_NEAR(d.times[2], 12500, 300);
}

TEST(SamplingRules, CutsKeepWhatTheySay) {
  Drawn d;
  std::vector<float> z = {std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  SampleParams p;
  p.temperature = 1;
  p.top_k = 2;
  d.many(z, p, 2000);
  EXPECT_EQ(d.times[2] + d.times[3], 0);
  p.top_k = 0, p.top_p = 0.75f;  // 0.5 is not enough, 0.8 is
  d.many(z, p, 2000);
  EXPECT_GT(d.times[1], 0);
  EXPECT_EQ(d.times[2] + d.times[3], 0);
  p.top_p = 1, p.min_p = 0.25f;
  d.many(z, p, 2000);
  EXPECT_GT(d.times[2], 0);
  EXPECT_EQ(d.times[3], 0);
  p.top_p = 0.0001f, p.min_p = 0;
  d.many(z, p, 200);
  EXPECT_EQ(d.times[0], 200);
}

TEST(SamplingRules, PenaltiesApplyToCountedTokens) {
  Drawn d;
  SampleParams p;
  p.repetition_penalty = 2;
  EXPECT_EQ(d.once({4, 3, 0}, p, {kInPrompt, 0, 0}), 1);          // 4 / 2 < 3
  EXPECT_EQ(d.once({-1, -1.5f, -9}, p, {kInPrompt, 0, 0}), 1);    // -1 * 2 < -1.5
  p.repetition_penalty = 1, p.presence_penalty = 1.5f;
  EXPECT_EQ(d.once({4, 3, 0}, p, {kInPrompt, 0, 0}), 0);          // presence looks at the answer only
  EXPECT_EQ(d.once({4, 3, 0}, p, {3, 0, 0}), 1);
  p.presence_penalty = 0, p.frequency_penalty = 0.4f;
  EXPECT_EQ(d.once({4, 3, 0}, p, {2, 0, 0}), 0);
  EXPECT_EQ(d.once({4, 3, 0}, p, {3, 0, 0}), 1);
}

TEST(SamplingRules, LogprobsAreOfTheUnmodifiedDistribution) {
  Drawn d;
  std::vector<float> z = {1, 2, 3};
  SampleParams p;
  p.top_logprobs = 2;
  p.repetition_penalty = 100;
  auto row = sample_row(z, std::vector<uint16_t>{0, 0, 1}, p, d.scratch, d.top_ids, d.top_logprobs);
  float norm = std::log(std::exp(1.0f) + std::exp(2.0f) + std::exp(3.0f));
  EXPECT_EQ(row.id, 1);
  EXPECT_NEAR(row.logprob, 2 - norm, 1e-6);
  EXPECT_EQ(d.top_ids[0], 2);
  EXPECT_NEAR(d.top_logprobs[0], 3 - norm, 1e-6);
  EXPECT_EQ(d.top_ids[1], 1);
  EXPECT_EQ(d.top_ids[2], -1);
}

TEST(SamplingRules, CountsSaturateAndKeepThePromptMark) {
  std::vector<uint16_t> counts = {kInPrompt | 0x7fff};
  count_token(counts, 0);
  EXPECT_EQ(counts[0], kInPrompt | 0x7fff);
}

}  // namespace
}  // namespace brisk
