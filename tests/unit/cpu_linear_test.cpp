#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "backend/cpu/linear.h"
#include "base/half.h"

namespace brisk::cpu {
namespace {

// A random weight of any layout with its value as doubles, and activations; the naive product is the oracle.
struct Problem {
  WeightLayout layout;
  std::vector<float> f32, scales, terms;
  std::vector<uint16_t> bf;
  std::vector<int8_t> i8;
  std::vector<uint8_t> i4;
  std::vector<double> value;  // [n][k]
  std::vector<std::byte> storage;
  std::byte* packed = nullptr;

  explicit Problem(const WeightLayout& l, unsigned seed = 1) : layout(l) {
    std::mt19937 rng(seed);
    auto uniform = [&] { return std::uniform_real_distribution<float>(-1, 1)(rng); };
    size_t n = size_t(l.n), k = size_t(l.k), groups = l.group ? (k + size_t(l.group) - 1) / size_t(l.group) : 1;
    value.resize(n * k);
    for (size_t i = 0; i < n * groups; i++) {
      scales.push_back(float(f16(0.001f + 0.01f * std::fabs(uniform()))));
      terms.push_back(l.term == GroupTerm::kMinimum ? float(f16(0.05f * uniform())) : float(rng() % 17));
    }
    for (size_t i = 0; i < n * k; i++) {
      size_t s = l.group ? i / k * groups + i % k / size_t(l.group) : i / k;
      switch (l.kind) {
        case WeightKind::kF32: value[i] = f32.emplace_back(uniform()); break;
        case WeightKind::kF16: {
          f16 h(uniform());
          bf.push_back(h.bits);
          value[i] = float(h);
          break;
        }
        case WeightKind::kBf16: value[i] = std::bit_cast<float>(uint32_t(bf.emplace_back(bf16(uniform()).bits)) << 16); break;
        case WeightKind::kInt8:
          value[i] = double(i8.emplace_back(int8_t(int(rng() % 256) - 128))) * double(scales[s]);
          break;
        case WeightKind::kInt4: {
          double q = i4.emplace_back(uint8_t(rng() % 16)), d = scales[s], t = terms[s];
          value[i] = l.term == GroupTerm::kSymmetric ? (q - 8) * d : l.term == GroupTerm::kZero ? (q - t) * d : q * d + t;
        }
      }
    }
    storage.resize(size_t(l.bytes()) + 64);
    packed = storage.data() + (64 - reinterpret_cast<uintptr_t>(storage.data()) % 64) % 64;
    LogicalWeight from{nullptr, scales.data(), terms.data()};
    from.rows = l.kind == WeightKind::kF32    ? static_cast<const void*>(f32.data())
                : l.kind == WeightKind::kBf16 || l.kind == WeightKind::kF16 ? static_cast<const void*>(bf.data())
                : l.kind == WeightKind::kInt8 ? static_cast<const void*>(i8.data())
                                              : i4.data();
    Status s = pack_weight(l, from, {packed, size_t(l.bytes())});
    EXPECT_TRUE(s.ok()) << (s.ok() ? "" : s.error().message);
  }
};

std::vector<float> random_rows(int64_t m, int64_t k, unsigned seed = 7) {
  std::mt19937 rng(seed);
  std::vector<float> x(size_t(m * k));
  for (float& v : x) v = std::normal_distribution<float>()(rng);
  return x;
}

// Runs the operator; x has a row stride larger than k, and nothing readable lies behind its end but padding of NaN.
std::vector<float> run(const KernelTable& t, const Problem& p, Arithmetic a, const std::vector<float>& rows, int64_t m,
                       ThreadPool& pool, LinearCall call = {}, int terms = 1) {
  const WeightLayout& l = p.layout;
  std::vector<float> x(size_t(m * (l.k + 3)), std::nanf(""));
  for (int64_t r = 0; r < m; r++) std::memcpy(&x[size_t(r * (l.k + 3))], &rows[size_t(r * l.k)], size_t(l.k) * 4);
  std::vector<uint16_t> rounded(size_t(m * (l.k + 1)));
  std::vector<std::byte> q(act_form(l, terms).bytes(m) + 64);
  std::vector<float> y(size_t(m * l.outputs()));
  call.layout = &l;
  call.weight = p.packed;
  call.arithmetic = a;
  call.m = m;
  call.x = x.data();
  call.ldx = l.k + 3;
  call.y = y.data();
  call.ldy = l.outputs();
  if (a == Arithmetic::kBf16Dot) {
    round_rows_bf16(t, x.data(), l.k + 3, m, l.k, rounded.data(), pool);
    call.x = rounded.data();
    call.ldx = (l.k + 1) / 2 * 2;
  } else if (a == Arithmetic::kInt8) {
    call.q = QuantizedRows(act_form(l, terms), m, q.data() + (64 - reinterpret_cast<uintptr_t>(q.data()) % 64) % 64);
    quantize_rows(t, x.data(), l.k + 3, call.q, pool);
  }
  linear(t, call, pool);
  return y;
}

// What the activations become before the product, by the definition of the arithmetic.
std::vector<double> effective_rows(const std::vector<float>& x, int64_t k, Arithmetic a, int terms = 1) {
  std::vector<double> e(x.begin(), x.end());
  if (a == Arithmetic::kBf16Dot)
    for (size_t i = 0; i < x.size(); i++) e[i] = float(bf16(x[i]));
  if (a != Arithmetic::kInt8) return e;
  if (terms == 2) {
    auto first = effective_rows(x, k, a);
    std::vector<float> rest(x.size());
    for (size_t i = 0; i < x.size(); i++) rest[i] = static_cast<float>(double(x[i]) - first[i]);
    auto second = effective_rows(rest, k, a);
    for (size_t i = 0; i < x.size(); i++) e[i] = first[i] + second[i];
    return e;
  }
  for (size_t row = 0; row < x.size(); row += size_t(k))
    for (size_t g = 0; g < size_t(k); g += 64) {
      size_t end = std::min(size_t(k), g + 64);
      float top = 0;
      for (size_t i = g; i < end; i++) top = std::max(top, std::fabs(x[row + i]));
      float scale = top / 127.0f, inverse = top > 0 ? 127.0f / top : 0.0f;
      for (size_t i = g; i < end; i++) e[row + i] = double(std::nearbyint(x[row + i] * inverse)) * double(scale);
    }
  return e;
}

std::vector<WeightLayout> layouts(int64_t n, int64_t k) {
  std::vector<WeightLayout> all = {{WeightKind::kF32, n, k}, {WeightKind::kF16, n, k}, {WeightKind::kBf16, n, k}, {WeightKind::kInt8, n, k},
                                   {WeightKind::kInt8, n, k, 32}, {WeightKind::kInt8, n, k, 64}};
  for (int g : {32, 64, 128})
    for (GroupTerm term : {GroupTerm::kSymmetric, GroupTerm::kZero, GroupTerm::kMinimum})
      all.push_back({WeightKind::kInt4, n, k, g, term});
  return all;
}

std::string describe(const KernelTable& t, const WeightLayout& l, Arithmetic a, int64_t m) {
  return std::string(isa_name(t.isa)) + " kind " + std::to_string(int(l.kind)) + " group " + std::to_string(l.group) +
         " term " + std::to_string(int(l.term)) + " arithmetic " + std::to_string(int(a)) + " m " + std::to_string(m) +
         " n " + std::to_string(l.n) + " k " + std::to_string(l.k);
}

template <class F>
void for_each_kernel(int64_t n, int64_t k, F&& f) {
  ASSERT_FALSE(present_isas().empty());
  for (Isa isa : present_isas())
    for (const WeightLayout& l : layouts(n, k))
      for (Arithmetic a : {Arithmetic::kFloat, Arithmetic::kBf16Dot, Arithmetic::kInt8})
        if (find_tile_kernel(kernels(isa), l, a)) f(kernels(isa), l, a);
}

void expect_product(const KernelTable& t, const Problem& p, Arithmetic a, const std::vector<float>& x, int64_t m,
                    const std::vector<float>& y, int terms = 1) {
  std::vector<double> e = effective_rows(x, p.layout.k, a, terms);
  int64_t n = p.layout.n, k = p.layout.k;
  for (int64_t r = 0; r < m; r++)
    for (int64_t o = 0; o < n; o++) {
      double sum = 0, size = 0;
      for (int64_t i = 0; i < k; i++) {
        double term = e[size_t(r * k + i)] * p.value[size_t(o * k + i)];
        sum += term;
        size += std::fabs(term);
      }
      // rounding of a chain of k additions; bf16 dots may flush subnormals and round twice
      ASSERT_NEAR(y[size_t(r * n + o)], sum, 1e-6 * size + 1e-6) << describe(t, p.layout, a, m) << " row " << r << " output " << o;
    }
}

TEST(CpuLinear, MatchesNaiveProduct) {
  ThreadPool pool(2);
  for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1}, {2, 31, 3}, {3, 33, 67}, {7, 65, 130}, {13, 32, 257}, {5, 97, 96}})
    for_each_kernel(n, k, [&, m = m](const KernelTable& t, const WeightLayout& l, Arithmetic a) {
      Problem p(l);
      auto x = random_rows(m, l.k);
      expect_product(t, p, a, x, m, run(t, p, a, x, m, pool));
    });
}

// Two int8 terms: within 2^-15 of the largest of its 64 of the product with the floats themselves.
TEST(CpuLinear, TwoTermsAreNearlyFloats) {
  ThreadPool pool(2);
  for (auto [m, n, k] : {std::array<int64_t, 3>{1, 33, 67}, {7, 65, 130}, {101, 32, 257}})
    for_each_kernel(n, k, [&, m = m](const KernelTable& t, const WeightLayout& l, Arithmetic a) {
      if (a != Arithmetic::kInt8) return;
      Problem p(l);
      auto x = random_rows(m, l.k);
      auto y = run(t, p, a, x, m, pool, {}, 2);
      expect_product(t, p, a, x, m, y, 2);
      for (int64_t r = 0; r < m; r++)
        for (int64_t o = 0; o < l.n; o++) {
          double sum = 0, error = 0, size = 0;
          for (int64_t i = 0; i < l.k; i++) {
            double w = p.value[size_t(o * l.k + i)], v = x[size_t(r * l.k + i)];
            sum += v * w;
            size += std::fabs(v * w);
            error += std::fabs(w) * 5.0 / 32768;  // no value of these rows reaches 5
          }
          ASSERT_NEAR(y[size_t(r * l.n + o)], sum, error + 1e-6 * size) << describe(t, l, a, m);
        }
      for (int64_t r = 0; r < std::min<int64_t>(m, 3); r++) {  // alone as in the crowd
        std::vector<float> row(x.begin() + r * l.k, x.begin() + (r + 1) * l.k);
        auto alone = run(t, p, a, row, 1, pool, {}, 2);
        ASSERT_EQ(0, std::memcmp(alone.data(), &y[size_t(r * l.n)], size_t(l.n) * 4)) << describe(t, l, a, m);
      }
    });
}

// The contract behind "same answer in a crowd": a row's bits depend on nothing but the row and the weight.
TEST(CpuLinear, RowsAreBitEqualForEveryBatchAndThreadCount) {
  constexpr int64_t kRows = 101;  // more than one block of rows
  ThreadPool one(1), two(2), three(3);
  for_each_kernel(40, 835, [&](const KernelTable& t, const WeightLayout& l, Arithmetic a) {
    Problem p(l);
    auto x = random_rows(kRows, l.k);
    auto all = run(t, p, a, x, kRows, one);
    for (int64_t m : {1, 2, 3, 4, 5, 6, 8, 17}) {
      auto part = run(t, p, a, x, m, m % 2 ? two : three);
      ASSERT_EQ(0, std::memcmp(all.data(), part.data(), part.size() * 4)) << describe(t, l, a, m);
    }
    auto again = run(t, p, a, x, kRows, three);
    ASSERT_EQ(0, std::memcmp(all.data(), again.data(), again.size() * 4)) << describe(t, l, a, kRows);
  });
}

double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double silu(double x) { return x / (1 + std::exp(-x)); }

TEST(CpuLinear, Epilogue) {
  ThreadPool pool(2);
  constexpr int64_t kM = 5, kN = 70, kK = 40;
  auto x = random_rows(kM, kK), bias = random_rows(1, kN, 3), residual = random_rows(kM, kN, 4);
  for (Isa isa : present_isas()) {
    const KernelTable& t = kernels(isa);
    Problem p({WeightKind::kF32, kN, kK});
    auto plain = run(t, p, Arithmetic::kFloat, x, kM, pool);
    LinearCall call;
    call.bias = bias.data();
    call.residual = residual.data();
    call.ld_residual = kN;
    call.out_scale = 0.5f;
    call.act = Unary::kGeluErf;
    auto y = run(t, p, Arithmetic::kFloat, x, kM, pool, call);
    for (size_t i = 0; i < y.size(); i++)
      ASSERT_NEAR(y[i], gelu(double(plain[i]) + double(bias[i % kN])) * 0.5 + double(residual[i]), 2e-6) << isa_name(isa);

    WeightLayout gated{WeightKind::kF32, kN, kK};
    gated.gated = true;
    Problem g(gated);
    LinearCall gate_call;
    gate_call.act = Unary::kSilu;
    gate_call.bias = bias.data();
    auto z = run(t, g, Arithmetic::kFloat, x, kM, pool, gate_call);
    for (size_t r = 0; r < kM; r++)
      for (size_t j = 0; j < kN / 2; j++) {
        double gate = double(plain[r * kN + 2 * j]) + double(bias[2 * j]);
        double up = double(plain[r * kN + 2 * j + 1]) + double(bias[2 * j + 1]);
        ASSERT_NEAR(z[r * kN / 2 + j], silu(gate) * up, 1e-5) << isa_name(isa);
      }
  }
}

TEST(CpuPack, RowsComeBack) {
  for (const WeightLayout& l : layouts(45, 70)) {
    Problem p(l);
    std::vector<float> row(size_t(l.k));
    for (int64_t r : {int64_t{0}, int64_t{31}, int64_t{32}, l.n - 1}) {
      unpack_row(l, p.packed, r, row.data());
      for (size_t i = 0; i < row.size(); i++) ASSERT_NEAR(row[i], p.value[size_t(r) * row.size() + i], 1e-6);
    }
  }
}

TEST(CpuPack, RefusesWhatNoKernelReads) {
  EXPECT_FALSE(check_layout({WeightKind::kInt8, 4, 4, 48}).ok());
  EXPECT_FALSE(check_layout({WeightKind::kF32, 0, 4}).ok());
  WeightLayout l{WeightKind::kInt4, 1, 32, 32};
  std::vector<uint8_t> codes(32, 3);
  std::vector<std::byte> out(size_t(l.bytes()));
  float scale = 0.1f;  // not exact in fp16
  Status s = pack_weight(l, {codes.data(), &scale, nullptr}, out);
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.error().message.find("row 0, group 0"), std::string::npos);
}

}  // namespace
}  // namespace brisk::cpu
