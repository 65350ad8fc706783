// ExpertLinear: rows by the matrix of their expert. As the reference kernel; as Linear alone, bit for bit, in every precision;
// out of what exporters write.
#include "op_check.h"
#include "pass_check.h"
#include "quantize/quantize.h"

namespace brisk {
namespace {

using namespace test;

TEST(Experts, AsTheReferenceKernel) {
  OpCheck expect_same;
  TestTensor none;
  for (int64_t k : {1, 17, 64, 130})
    for (int64_t rows : {0, 1, 5, 40}) {
      TestTensor x = random_tensor(DType::kF32, {rows, k}, 1), w = random_tensor(DType::kF32, {5, 38, k}, 2, -1, 1), bias = random_tensor(DType::kF32, {5, 38}, 3);
      w.constant = true;
      std::vector<int64_t> numbers;
      for (int64_t r = 0; r < rows; ++r) numbers.push_back((r * r + r / 3) % 10 - 5);  // one expert may get none
      LinearAttrs a;
      expect_same(OpId::kExpertLinear, a, {x, ints(numbers), w}, 1, 4e-6);
      expect_same(OpId::kExpertLinear, a, {x, ints(numbers), w, bias}, 1, 4e-6);
      a.act = "Relu";
      expect_same(OpId::kExpertLinear, a, {x, ints(numbers), w}, 1, 4e-6);
      a.act = "", a.gated = true;
      expect_same(OpId::kExpertLinear, a, {x, ints(numbers), w}, 1, 1e-5);
    }
}

TEST(Experts, NumbersOutsideAreErrors) {
  Machine m;
  for (int64_t wrong : {4, -5, 1 << 30}) {
    Net n;
    ValueId x = n.input("x", {Dim::symbol("rows"), 8}), e = n.input("e", {Dim::symbol("rows")}, DType::kI64);
    n.g.outputs = {n.add(kExpertLinear, {x, e, n.weight({4, 6, 8}, 1)}, LinearAttrs{})};
    auto r = m.evaluator->run(n.g, {floats({2, 8}, 1), make_constant(DType::kI64, {2}, std::vector<int64_t>{0, wrong})});
    ASSERT_FALSE(r.ok());
    EXPECT_NE(r.error().message.find("expert " + std::to_string(wrong) + " outside [-4, 4)"), std::string::npos) << r.error().message;
  }
}

TEST(Experts, ARowIsWhatLinearGivesItInEveryPrecision) {
  Machine m;
  constexpr int64_t kExperts = 3, kWidth = 64, kDepth = 96, kRows = 7;
  auto all = floats({kExperts, kWidth, kDepth}, 5), x = floats({kRows, kDepth}, 6);
  const std::vector<int64_t> chosen = {2, 0, 0, 2, 2, 0, 2};
  for (Precision p : {Precision::kFp32, Precision::kFp16, Precision::kBf16, Precision::kInt8w, Precision::kInt8, Precision::kInt4w})
    for (bool gated : {false, true}) {
      LinearAttrs a;
      a.gated = gated;
      auto run = [&](Net& n, ValueId y, const std::vector<ConstantPtr>& in) {
        n.g.outputs = {y};
        EXPECT_TRUE(apply_precision(n.g, {p, {}, {}}).ok());
        auto r = m.evaluator->run(n.g, in);
        EXPECT_TRUE(r.ok()) << r.error().message << print(n.g);
        return r.ok() ? (*r)[0] : nullptr;
      };
      Net mixed;
      ValueId in = mixed.input("x", {kRows, kDepth}), e = mixed.input("e", {kRows}, DType::kI64);
      auto have = run(mixed, mixed.add(kExpertLinear, {in, e, mixed.g.add_constant("w", all)}, a), {x, make_constant(DType::kI64, {kRows}, chosen)});
      ASSERT_NE(have, nullptr);
      for (int64_t r = 0; r < kRows; ++r) {
        Net one;
        std::vector<float> w(all->as<float>() + chosen[static_cast<size_t>(r)] * kWidth * kDepth, all->as<float>() + (chosen[static_cast<size_t>(r)] + 1) * kWidth * kDepth);
        auto want = run(one, one.add(kLinear, {one.input("x", {kRows, kDepth}), one.g.add_constant("w", make_constant(DType::kF32, {kWidth, kDepth}, w))}, a), {x});
        ASSERT_NE(want, nullptr);
        int64_t columns = want->shape[1];
        EXPECT_EQ(std::memcmp(have->as<float>() + r * columns, want->as<float>() + r * columns, static_cast<size_t>(columns) * 4), 0) << precision_name(p) << " row " << r;
      }
    }
}

// x [rows, 8], experts [rows]; the matrix in front or behind, with and without a bias.
TEST(Experts, GatheredMatricesAreRecognised) {
  Machine m;
  for (bool behind : {false, true})
    for (bool biased : {false, true}) {
      Net n;
      ValueId x = n.input("x", {Dim::symbol("rows"), 8}), e = n.input("e", {Dim::symbol("rows")}, DType::kI64);
      ValueId w = n.add(kGather, {n.weight(behind ? Dims{4, 8, 12} : Dims{4, 12, 8}, 1), e}, AxisAttrs{0});
      ValueId seen = n.add(kReshape, {x, n.ints(behind ? std::vector<int64_t>{-1, 1, 8} : std::vector<int64_t>{-1, 8, 1})});
      ValueId y = n.add(kReshape, {n.add(kMatMul, behind ? std::vector{seen, w} : std::vector{w, seen}), n.ints({-1, 12})});
      if (biased) y = n.add(kAdd, {y, n.add(kGather, {n.weight({4, 12}, 2), e}, AxisAttrs{0})});
      n.g.outputs = {y};
      Graph after = expect_same(m, n.g, {{floats({5, 8}, 1), ids({5}, 4)}, {floats({1, 8}, 1), ids({1}, 4)}}, 2e-6);
      ASSERT_EQ(ops(after)[kExpertLinear], 1) << print(after);
      EXPECT_EQ(after.nodes.size(), 1u) << print(after);
    }
}

TEST(Experts, GateAndUpOfEachExpertAreInterleaved) {
  Machine m;
  Net n;
  ValueId x = n.input("x", {Dim::symbol("rows"), 8}), e = n.input("e", {Dim::symbol("rows")}, DType::kI64);
  ValueId both = n.add(kExpertLinear, {x, e, n.weight({4, 12, 8}, 1)}, LinearAttrs{});
  auto half = [&](int64_t i) { return n.add(kSlice, {both, n.ints({6 * i}), n.ints({6 * i + 6}), n.ints({1})}); };
  ValueId gate = half(0), up = half(1);
  n.g.outputs = {n.add(kMul, {n.add(kMul, {gate, n.add(kSigmoid, {gate})}), up})};
  Graph after = expect_same(m, n.g, {{floats({5, 8}, 1), ids({5}, 4)}}, 2e-6);
  ASSERT_EQ(after.nodes.size(), 1u) << print(after);
  EXPECT_TRUE(std::get<LinearAttrs>(after.nodes[0].attrs).gated);
}

}  // namespace
}  // namespace brisk
