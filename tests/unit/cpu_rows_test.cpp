// Functions of one row at every instruction set: norms, softmax, elementary functions, narrowing, quantisation, argmax.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "backend/cpu/quantize_act.h"
#include "base/half.h"

namespace brisk::cpu {
namespace {

const int64_t kSizes[] = {1, 3, 7, 8, 15, 16, 17, 31, 64, 100, 576, 1031};

std::vector<float> random_row(int64_t n, unsigned seed, float size = 1) {
  std::mt19937 rng(seed);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = size * std::normal_distribution<float>()(rng);
  return v;
}
template <class F> void each(F&& f) {
  for (Isa isa : present_isas())
    for (int64_t n : kSizes) {
      SCOPED_TRACE(std::string(isa_name(isa)) + " n " + std::to_string(n));
      f(kernels(isa), n);
    }
}

TEST(CpuRows, RmsNorm) {
  each([](const KernelTable& t, int64_t n) {
    auto x = random_row(n, 1), w = random_row(n, 2);
    std::vector<float> y(x.size() + 1, 77.0f);
    t.rms_norm(x.data(), w.data(), n, 1e-5f, y.data());
    double squares = 0;
    for (float v : x) squares += double(v) * double(v);
    double scale = 1 / std::sqrt(squares / double(n) + 1e-5);
    for (size_t i = 0; i < x.size(); i++) EXPECT_NEAR(y[i], double(x[i]) * scale * double(w[i]), 2e-6 * (1 + std::fabs(y[i])));
    EXPECT_EQ(y.back(), 77.0f);  // nothing written beyond
  });
}

TEST(CpuRows, LayerNorm) {
  each([](const KernelTable& t, int64_t n) {
    auto x = random_row(n, 1), w = random_row(n, 2), b = random_row(n, 3);
    for (float& v : x) v += 30;  // a mean far from zero
    std::vector<float> y(x.size() + 1, 77.0f);
    t.layer_norm(x.data(), w.data(), b.data(), n, 1e-3f, y.data());
    double mean = 0, variance = 0;
    for (float v : x) mean += double(v) / double(n);
    for (float v : x) variance += (double(v) - mean) * (double(v) - mean) / double(n);
    for (size_t i = 0; i < x.size(); i++)
      EXPECT_NEAR(y[i], (double(x[i]) - mean) / std::sqrt(variance + 1e-3) * double(w[i]) + double(b[i]), 1e-4);
    EXPECT_EQ(y.back(), 77.0f);
  });
}

TEST(CpuRows, Softmax) {
  each([](const KernelTable& t, int64_t n) {
    auto x = random_row(n, 4, 20);
    if (n > 2) x[1] = -INFINITY;
    std::vector<float> y(x.size() + 1, 77.0f);
    t.softmax(x.data(), n, y.data());
    double top = -INFINITY, sum = 0;
    for (float v : x) top = std::max(top, double(v));
    for (float v : x) sum += std::exp(double(v) - top);
    for (size_t i = 0; i < x.size(); i++) EXPECT_NEAR(y[i], std::exp(double(x[i]) - top) / sum, 1e-6);
    EXPECT_EQ(y.back(), 77.0f);
  });
}

TEST(CpuRows, UnaryFunctions) {
  struct Row { UnaryCall f; double (*want)(double); };
  const Row rows[] = {{Unary::kIdentity, [](double x) { return x; }},
                      {Unary::kRelu, [](double x) { return x > 0 ? x : 0; }},
                      {Unary::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
                      {Unary::kSilu, [](double x) { return x / (1 + std::exp(-x)); }},
                      {Unary::kTanh, [](double x) { return std::tanh(x); }},
                      {Unary::kGeluTanh, [](double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }},
                      {Unary::kGeluErf, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
                      {Unary::kExp, [](double x) { return std::exp(x); }},
                      {Unary::kHardSwish, [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
                      {{Unary::kClip, -1.5f, 6}, [](double x) { return std::clamp(x, -1.5, 6.0); }},
                      {{Unary::kLeakyRelu, 0.25f}, [](double x) { return x < 0 ? 0.25 * x : x; }},
                      {{Unary::kHardSigmoid, 0.25f, 0.5f}, [](double x) { return std::clamp(0.25 * x + 0.5, 0.0, 1.0); }},
                      {Unary::kErf, [](double x) { return std::erf(x); }}};
  std::vector<float> x;
  for (int i = -4000; i <= 4000; i++) x.push_back(float(i) * 0.005f);
  for (float v : {0.0f, 1e-4f, -1e-4f, 1e-20f, 87.0f, -87.0f}) x.push_back(v);
  std::vector<float> y(x.size());
  for (Isa isa : present_isas())
    for (const Row& r : rows) {
      kernels(isa).unary(r.f, x.data(), int64_t(x.size()), y.data());
      for (size_t i = 0; i < x.size(); i++) {
        double want = r.want(double(x[i]));
        ASSERT_NEAR(y[i], want, 4e-7 * std::max(1.0, std::fabs(want))) << isa_name(isa) << " function " << int(r.f.f) << " x " << x[i];
      }
    }
}

TEST(CpuRows, ExpAtTheEdges) {
  const float x[] = {-INFINITY, -1e30f, -88.0f, 89.0f, 1e30f, INFINITY, std::nanf(""), 88.5f};
  float y[8];
  for (Isa isa : present_isas()) {
    kernels(isa).unary(Unary::kExp, x, 8, y);
    for (int i : {0, 1, 2}) EXPECT_EQ(y[i], 0.0f) << isa_name(isa);
    for (int i : {3, 4, 5}) EXPECT_EQ(y[i], INFINITY) << isa_name(isa);
    EXPECT_TRUE(std::isnan(y[6])) << isa_name(isa);
    EXPECT_NEAR(y[7] / std::exp(88.5), 1.0, 1e-6) << isa_name(isa);
  }
}

TEST(CpuRows, Argmax) {
  each([](const KernelTable& t, int64_t n) {
    auto x = random_row(n, 5);
    auto best = std::max_element(x.begin(), x.end()) - x.begin();
    EXPECT_EQ(t.argmax(x.data(), n), best);
    if (n > 2) {
      x[size_t(n - 1)] = x[size_t(n / 2)] = 50;
      x[0] = std::nanf("");
      EXPECT_EQ(t.argmax(x.data(), n), n / 2);  // the first of equals; NaN never
    }
    std::fill(x.begin(), x.end(), std::nanf(""));
    EXPECT_EQ(t.argmax(x.data(), n), 0);
  });
}

TEST(CpuRows, Narrowing) {
  each([](const KernelTable& t, int64_t n) {
    auto x = random_row(n, 6, 100);
    if (n > 8) x[3] = INFINITY, x[4] = 1e-41f, x[5] = std::nanf(""), x[6] = 65519.0f, x[7] = 1e9f;
    std::vector<uint16_t> b(x.size() + 1, 9), h(x.size() + 1, 9);
    t.to_bf16(x.data(), n, b.data());
    t.to_f16(x.data(), n, h.data());
    for (size_t i = 0; i < x.size(); i++) {
      EXPECT_EQ(b[i], bf16(x[i]).bits) << x[i];
      if (!std::isnan(x[i])) EXPECT_EQ(h[i], f16(x[i]).bits) << x[i];
    }
    EXPECT_EQ(b.back(), 9);
    EXPECT_EQ(h.back(), 9);
  });
}

TEST(CpuRows, Quantise) {
  each([](const KernelTable& t, int64_t n) {
    auto x = random_row(n, 7);
    if (n > 64) std::fill(x.begin(), x.begin() + 64, 0.0f);  // a group of zeros
    for (int unit : {32, 64})
      for (ActSums sums : {ActSums::kTimes128, ActSums::kTimes8, ActSums::kPlain, ActSums::kScaled}) {
        ActForm form;
        form.k = n;
        form.padded_k = (n + 63) / 64 * 64;
        form.sum_unit = unit;
        form.sums = sums;
        std::vector<double> buffer(form.bytes(1) / 8 + 1);
        QuantizedRows rows(form, 1, buffer.data());
        rows.quantize_row(t, x.data(), 0);
        for (int64_t g = 0; g < form.padded_k / 64; g++) {
          float top = 0;
          for (int64_t i = g * 64; i < std::min(n, g * 64 + 64); i++) top = std::max(top, std::fabs(x[size_t(i)]));
          EXPECT_EQ(rows.scale[g], top / 127.0f);
          for (int64_t i = g * 64; i < g * 64 + 64; i++) {
            float want = i < n && top > 0 ? std::nearbyint(x[size_t(i)] * (127.0f / top)) : 0.0f;
            ASSERT_EQ(rows.q[i], static_cast<int8_t>(want)) << i;
          }
        }
        for (int64_t u = 0; u < form.sums_per_row(); u++) {
          int sum = 0;
          for (int64_t i = u * unit; i < (u + 1) * unit; i++) sum += rows.q[i];
          float scale = rows.scale[u * unit / 64];
          if (sums == ActSums::kTimes128) EXPECT_EQ(static_cast<int32_t*>(rows.sum)[u], -128 * sum);
          if (sums == ActSums::kTimes8) EXPECT_EQ(static_cast<int32_t*>(rows.sum)[u], -8 * sum);
          if (sums == ActSums::kPlain) EXPECT_EQ(static_cast<float*>(rows.sum)[u], float(sum));
          if (sums == ActSums::kScaled) EXPECT_EQ(static_cast<float*>(rows.sum)[u], scale * float(sum));
        }
      }
  });
}

TEST(CpuIsa, NamesComeBack) {
  ASSERT_FALSE(present_isas().empty());
  for (Isa isa : present_isas()) {
    EXPECT_EQ(isa_from_name(isa_name(isa)), isa);
    EXPECT_EQ(kernels(isa).isa, isa);
  }
  EXPECT_FALSE(isa_from_name("native"));
}

}  // namespace
}  // namespace brisk::cpu
