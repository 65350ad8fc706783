// The mathematics of calibrated 4-bit weights: what it gains, what it must leave alone, what it must survive.
#include "quantize/gptq.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "quantize/quantize.h"

namespace brisk {
namespace {

constexpr int64_t kIn = 96, kOut = 45;  // three groups; a whole tile of rows and a part of one

// [tokens, kIn]: inputs that share a few directions, as a decoder's do. `dead`: a column that is always 0.
std::vector<float> correlated_inputs(int64_t tokens, int64_t dead = -1) {
  std::mt19937 rng(7);
  std::normal_distribution<float> normal;
  std::vector<float> mix(kIn * 8), x(static_cast<size_t>(tokens * kIn));
  for (float& v : mix) v = normal(rng);
  for (int64_t t = 0; t < tokens; ++t) {
    float z[8];
    for (float& v : z) v = normal(rng);
    for (int64_t i = 0; i < kIn; ++i) {
      float sum = 0.3f * normal(rng);
      for (int64_t d = 0; d < 8; ++d) sum += mix[static_cast<size_t>(i * 8 + d)] * z[d];
      x[static_cast<size_t>(t * kIn + i)] = i == dead ? 0 : sum;
    }
  }
  return x;
}

std::vector<float> moments(const std::vector<float>& x) {
  std::vector<float> h(kIn * kIn);
  for (size_t t = 0; t < x.size(); t += kIn)
    for (size_t i = 0; i < kIn; ++i)
      for (size_t j = 0; j < kIn; ++j) h[i * kIn + j] += x[t + i] * x[t + j];
  return h;
}

ConstantPtr random_weight() {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 0.1f);
  std::vector<float> w(kOut * kIn);
  for (float& v : w) v = normal(rng);
  return make_constant(DType::kF32, {kOut, kIn}, w);
}

// Squared error of x W^T over all inputs.
double output_error(const Constant& a, const Constant& b, const std::vector<float>& x) {
  auto w = to_floats(a), v = to_floats(b);
  double sum = 0;
  for (size_t t = 0; t < x.size(); t += kIn)
    for (size_t r = 0; r < kOut; ++r) {
      double d = 0;
      for (size_t i = 0; i < kIn; ++i) d += static_cast<double>(x[t + i]) * (static_cast<double>(w[r * kIn + i]) - static_cast<double>(v[r * kIn + i]));
      sum += d * d;
    }
  return sum;
}

ConstantPtr fitted(const ConstantPtr& w, std::vector<float> h, GptqOptions o = {}) {
  auto g = Gptq::create(std::move(h), kIn, o);
  EXPECT_TRUE(g.ok()) << g.error().message;
  return g->quantize(*w);
}

bool same_bytes(const Constant& a, const Constant& b) {
  auto equal = [](const Buffer& x, const Buffer& y) { return std::equal(x.bytes.begin(), x.bytes.end(), y.bytes.begin(), y.bytes.end()); };
  return equal(a.data, b.data) && equal(a.scales, b.scales) && equal(a.offsets, b.offsets);
}

TEST(Gptq, LosesMuchLessOfTheResultThanRounding) {
  auto x = correlated_inputs(400);
  auto w = random_weight(), rounded = quantize_int4(*w, 32);
  GptqOptions o;
  o.sweeps = 0;
  auto plain = fitted(w, moments(x), o), swept = fitted(w, moments(x));
  double by_rounding = output_error(*w, *rounded, x), by_feedback = output_error(*w, *plain, x), by_sweeps = output_error(*w, *swept, x);
  EXPECT_LT(by_feedback, 0.25 * by_rounding);
  EXPECT_LT(by_sweeps, by_feedback);
  EXPECT_EQ(to_string(swept->encoding), to_string(rounded->encoding));
  EXPECT_EQ(swept->data.bytes.size(), rounded->data.bytes.size());
  EXPECT_EQ(swept->scales.bytes.size(), rounded->scales.bytes.size());
  EXPECT_EQ(swept->offsets.bytes.size(), rounded->offsets.bytes.size());
}

TEST(Gptq, WeightsOnTheGridStayExact) {
  std::mt19937 rng(5);
  std::vector<float> w(kOut * kIn);
  for (size_t r = 0; r < kOut; ++r)
    for (size_t g = 0; g < kIn / 32; ++g) {
      float scale = static_cast<float>(1 + rng() % 7) / 64, minimum = -static_cast<float>(rng() % 64) / 32;
      for (size_t i = 0; i < 32; ++i) {
        auto code = static_cast<float>(i == 0 ? 0u : i == 1 ? 15u : rng() % 16);  // the whole range is used
        w[r * kIn + g * 32 + i] = code * scale + minimum;
      }
    }
  auto c = make_constant(DType::kF32, {kOut, kIn}, w);
  EXPECT_EQ(to_floats(*fitted(c, moments(correlated_inputs(200)))), w);
}

TEST(Gptq, FewerInputsThanColumnsAreFitted) {
  auto x = correlated_inputs(20);  // a singular matrix
  auto w = random_weight();
  auto q = fitted(w, moments(x));
  for (float v : to_floats(*q)) ASSERT_TRUE(std::isfinite(v));
  EXPECT_LT(output_error(*w, *q, x), 0.1 * output_error(*w, *quantize_int4(*w, 32), x));
}

TEST(Gptq, ColumnsThatWereNeverSeenAreRounded) {
  auto x = correlated_inputs(300, 40);
  auto w = random_weight();
  auto before = to_floats(*w), after = to_floats(*fitted(w, moments(x)));
  for (size_t r = 0; r < kOut; ++r) {
    // Not further from the weight than a step of its group's grid, whatever its neighbours made good.
    float low = INFINITY, high = -INFINITY;
    for (size_t i = 32; i < 64; ++i) low = std::min(low, after[r * kIn + i]), high = std::max(high, after[r * kIn + i]);
    float clamped = std::min(std::max(before[r * kIn + 40], low), high);
    EXPECT_NEAR(after[r * kIn + 40], clamped, (high - low) / 10) << r;
  }
  auto nothing = fitted(w, std::vector<float>(kIn * kIn, 0.0f));
  double largest = 0;
  auto values = to_floats(*nothing);
  for (size_t i = 0; i < values.size(); ++i) largest = std::max(largest, std::fabs(static_cast<double>(values[i]) - static_cast<double>(before[i])));
  EXPECT_LT(largest, 0.06);  // half a step of a group of normal numbers of deviation 0.1, clamping included
}

TEST(Gptq, ThreadsChangeNoBit) {
  auto h = moments(correlated_inputs(300));
  GptqOptions one, many;
  many.threads = 5;
  auto w = random_weight();
  auto a = fitted(w, h, one), b = fitted(w, h, many);
  EXPECT_TRUE(same_bytes(*a, *b));
}

TEST(Gptq, RowsDoNotKnowEachOther) {
  auto h = moments(correlated_inputs(300));
  auto w = random_weight();
  auto values = to_floats(*w);
  auto tail = make_constant(DType::kF32, {kOut - 40, kIn}, std::vector<float>(values.begin() + 40 * kIn, values.end()));
  auto all = to_floats(*fitted(w, h)), part = to_floats(*fitted(tail, h));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 40 * kIn));
}

// A file's weights may be anything: codes stay codes, and other rows of the same tile what they would be without.
TEST(Gptq, ARowThatIsNotNumbersLeavesTheOthersAlone) {
  auto h = moments(correlated_inputs(300));
  auto values = to_floats(*random_weight());
  auto clean = to_floats(*fitted(make_constant(DType::kF32, {kOut, kIn}, values), h));
  values[2 * kIn + 5] = NAN;
  values[7 * kIn] = INFINITY;
  auto spoilt = to_floats(*fitted(make_constant(DType::kF32, {kOut, kIn}, values), h));
  for (int64_t r = 0; r < kOut; ++r)
    if (r != 2 && r != 7) EXPECT_TRUE(std::equal(clean.begin() + r * kIn, clean.begin() + (r + 1) * kIn, spoilt.begin() + r * kIn)) << r;
}

TEST(Gptq, RefusesInputsThatAreNotNumbers) {
  std::vector<float> h(kIn * kIn, 1.0f);
  h[5] = NAN;
  auto g = Gptq::create(h, kIn, {});
  ASSERT_FALSE(g.ok());
  EXPECT_EQ(g.error().kind, ErrorKind::kInvalid);
}

}  // namespace
}  // namespace brisk
