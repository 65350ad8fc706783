// Views and transposes go behind pointwise operators where a convolution or their inverse waits.
#include "pass_check.h"

namespace brisk {
namespace {

using namespace test;

WindowAttrs row_window(int64_t width) {
  WindowAttrs a;
  a.kernel = {1, width}, a.strides = a.dilations = {1, 1}, a.pads = {0, width / 2, 0, width / 2};
  return a;
}

// [b, 8, s] as tf2onnx writes Conv1D: Unsqueeze, Conv, Squeeze, bias, activation, and again.
TEST(SinkMovement, ConvolutionsOfOneAxisTakeTheirBiasAndActivation) {
  Machine m;
  Net n;
  ValueId x = n.input("x", {Dim::symbol("batch"), 8, Dim::symbol("seq")});
  for (int i = 0; i < 3; ++i) {
    ValueId y = n.add(kConv, {n.add(kUnsqueeze, {x, n.ints({2})}, ReduceAttrs{}), n.weight({8, 8, 1, 3}, i)}, row_window(3));
    x = n.add(kRelu, {n.add(kAdd, {n.add(kSqueeze, {y, n.ints({2})}, ReduceAttrs{}), n.weight({8, 1}, 10 + i)})});
  }
  n.g.outputs = {x};
  Graph after = expect_same(m, n.g, {{floats({2, 8, 9}, 1)}, {floats({1, 8, 1}, 2)}}, 2e-5);
  EXPECT_EQ(ops(after)[kConv], 3);
  EXPECT_EQ(ops(after)[kAdd] + ops(after)[kRelu] + ops(after)[OpId::kPointwise], 0) << print(after);
  EXPECT_LE(after.nodes.size(), 5u) << print(after);
}

TEST(SinkMovement, TransposesMeetTheirInverse) {
  Machine m;
  Net n;
  ValueId x = n.input("x", {Dim::symbol("batch"), 4, Dim::symbol("seq"), 8});
  ValueId t = n.transpose(x, {0, 2, 3, 1});
  ValueId y = n.add(kTanh, {n.add(kMul, {n.add(kAdd, {t, n.weight({4}, 1)}), n.weight({8, 1}, 2)})});
  n.g.outputs = {n.transpose(n.add(kSub, {n.number(2), y}), {0, 3, 1, 2})};
  Graph after = expect_same(m, n.g, {{floats({2, 4, 5, 8}, 1)}}, 1e-6);
  EXPECT_EQ(ops(after)[kTranspose], 0) << print(after);
  EXPECT_EQ(after.nodes.size(), 1u) << print(after);
}

TEST(SinkMovement, StaysWhereNothingWaitsOrConstantsDoNotFit) {
  Machine m;
  Net n;  // no inverse, no convolution
  ValueId x = n.input("x", kRows);
  n.g.outputs = {n.add(kTanh, {n.transpose(x, {0, 2, 1})})};
  auto reports = run_pipeline(n.g, m.context, only({"sink-movement"}));
  ASSERT_TRUE(reports.ok());
  EXPECT_EQ(n.g.nodes[0].op, kTranspose);
  Net t;  // a matrix of constants
  x = t.input("x", {Dim::symbol("batch"), 4, 8});
  t.g.outputs = {t.transpose(t.add(kAdd, {t.transpose(x, {0, 2, 1}), t.weight({8, 4}, 1)}), {0, 2, 1})};
  EXPECT_EQ(ops(expect_same(m, t.g, {{floats({2, 4, 8}, 1)}}, 0))[kTranspose], 2);
  Net u;  // the view joins axes that a vector goes along
  x = u.input("x", {Dim::symbol("batch"), 4, 8});
  ValueId joined = u.add(kReshape, {x, u.ints({0, 32})});
  u.g.outputs = {u.add(kReshape, {u.add(kMul, {joined, u.weight({32}, 1)}), u.ints({-1, 4, 8})})};
  EXPECT_EQ(ops(expect_same(m, u.g, {{floats({2, 4, 8}, 1)}}, 0))[kReshape], 2);
  Net s;  // a number goes anywhere
  x = s.input("x", {Dim::symbol("batch"), 4, 8});
  s.g.outputs = {s.add(kReshape, {s.add(kMul, {s.add(kReshape, {x, s.ints({0, 32})}), s.number(3)}), s.ints({-1, 4, 8})})};
  EXPECT_EQ(ops(expect_same(m, s.g, {{floats({2, 4, 8}, 1)}}, 0))[kReshape], 0);
}

}  // namespace
}  // namespace brisk
