// Shape rules with symbolic and concrete operands.
#include <gtest/gtest.h>

#include "ir/graph.h"

namespace brisk {
namespace {

struct Rules : testing::Test {
  Graph g;
  Dim b = Dim::symbol("b"), n = Dim::symbol("n");

  ValueId in(const Shape& s, DType t = DType::kF32) { return g.add_input("x" + std::to_string(g.values.size()), Type{t, true, s, {}}); }
  ValueId i64(const std::vector<int64_t>& v) { return g.add_constant("c", make_constant<int64_t>(DType::kI64, {static_cast<int64_t>(v.size())}, v)); }
  ValueId i64_scalar(int64_t v) { return g.add_constant("c", make_constant<int64_t>(DType::kI64, {}, {v})); }
  ValueId add(OpId op, Attrs a, std::vector<ValueId> operands) {
    auto v = g.add(op, std::move(a), std::move(operands));
    EXPECT_TRUE(v.ok()) << (v.ok() ? "" : v.error().message);
    return v.ok() ? *v : kNoValue;
  }
  std::string shape(ValueId v) { return to_string(g.value(v).type.shape); }
  std::string elements(ValueId v) { return g.value(v).type.elements ? to_string(*g.value(v).type.elements) : "unknown"; }
};

TEST_F(Rules, SliceOfSymbols) {
  ValueId x = in({b, n, 8});
  auto cut = [&](int64_t start, int64_t end, int64_t axis, int64_t step) { return shape(add(OpId::kSlice, NoAttrs{}, {x, i64({start}), i64({end}), i64({axis}), i64({step})})); };
  EXPECT_EQ(cut(0, INT64_MAX, 1, 1), "[b, n, 8]");
  EXPECT_EQ(cut(1, INT64_MAX, 1, 1), "[b, n - 1, 8]");
  EXPECT_EQ(cut(-1, INT64_MAX, 1, 1), "[b, 1, 8]");
  EXPECT_EQ(cut(0, -1, 1, 1), "[b, n - 1, 8]");
  EXPECT_EQ(cut(-1, INT64_MIN, 1, -1), "[b, n, 8]");
  EXPECT_EQ(cut(7, 0, 2, -2), "[b, n, 4]");
  EXPECT_EQ(cut(100, 200, 2, 1), "[b, n, 0]");
}

TEST_F(Rules, ShapeElementsAreFollowed) {
  ValueId s = add(OpId::kShape, ShapeAttrs{}, {in({b, n, 8})});
  EXPECT_EQ(elements(s), "[b, n, 8]");
  ValueId last = add(OpId::kGather, AxisAttrs{0}, {s, i64({1})});
  ValueId next = add(OpId::kAdd, NoAttrs{}, {last, i64({1})});
  EXPECT_EQ(elements(next), "[n + 1]");
  EXPECT_EQ(elements(add(OpId::kSub, NoAttrs{}, {next, last})), "[1]");
  ValueId minus = add(OpId::kEqual, NoAttrs{}, {s, i64({-1})});
  EXPECT_EQ(elements(minus), "[0, 0, 0]");  // sizes are never -1
  EXPECT_EQ(elements(add(OpId::kWhere, NoAttrs{}, {minus, i64({1, 1, 1}), s})), "[b, n, 8]");
  ReduceAttrs all;
  all.all = true, all.keep_dims = false;
  EXPECT_EQ(elements(add(OpId::kReduceProd, all, {s})), "[8*b*n]");
  EXPECT_EQ(elements(add(OpId::kDiv, NoAttrs{}, {add(OpId::kMul, NoAttrs{}, {last, i64({6})}), i64({2})})), "[3*n]");
  EXPECT_EQ(elements(add(OpId::kEqual, NoAttrs{}, {s, i64({8})})), "unknown");  // b may be 8
}

TEST_F(Rules, RangeOfSizes) {
  ValueId len = add(OpId::kSqueeze, [] { ReduceAttrs a; a.axes = {0}; return a; }(), {add(OpId::kShape, ShapeAttrs{1, 2}, {in({b, n})})});
  EXPECT_EQ(shape(add(OpId::kRange, NoAttrs{}, {i64_scalar(0), len, i64_scalar(1)})), "[n]");
  ValueId longer = add(OpId::kAdd, NoAttrs{}, {len, i64_scalar(5)});
  EXPECT_EQ(shape(add(OpId::kRange, NoAttrs{}, {len, longer, i64_scalar(1)})), "[5]");
  EXPECT_EQ(shape(add(OpId::kRange, NoAttrs{}, {i64_scalar(10), i64_scalar(0), i64_scalar(-3)})), "[4]");
}

TEST_F(Rules, WindowsGiveTheSizesOfTheFormula) {
  WindowAttrs a;
  a.strides = {2, 2}, a.pads = {1, 1, 1, 1};
  ValueId w = g.add_constant("w", make_constant<float>(DType::kF32, {4, 3, 3, 3}, std::vector<float>(108)));
  EXPECT_EQ(shape(add(OpId::kConv, a, {in({b, 3, 224, 7}), w})), "[b, 4, 112, 4]");
  a.auto_pad = "SAME_UPPER", a.pads = {};
  EXPECT_EQ(shape(add(OpId::kConv, a, {in({b, 3, 5, 6}), w})), "[b, 4, 3, 3]");
  WindowAttrs p;
  p.kernel = {3}, p.strides = {2}, p.ceil_mode = true;
  EXPECT_EQ(shape(add(OpId::kMaxPool, p, {in({1, 1, 6})})), "[1, 1, 3]");
  p.strides = {3}, p.pads = {0, 1};
  EXPECT_EQ(shape(add(OpId::kMaxPool, p, {in({1, 1, 6})})), "[1, 1, 2]");  // a third window would start in the padding
}

TEST_F(Rules, SplitReshapeExpand) {
  SliceAttrs s;
  s.axis = 1;
  auto parts = g.add_node(OpId::kSplit, s, {in({b, n * Dim(3)})}, 3);
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(shape((*parts)[2]), "[b, n]");
  EXPECT_EQ(shape(add(OpId::kReshape, NoAttrs{}, {in({b, n, 4}), i64({0, -1})})), "[b, 4*n]");
  EXPECT_EQ(shape(add(OpId::kExpand, NoAttrs{}, {in({b, 1, n}), i64({1, 4, 1})})), "[b, 4, n]");
  EXPECT_FALSE(g.add(OpId::kReshape, NoAttrs{}, {in({2, 3}), i64({4, -1})}).ok());
  EXPECT_FALSE(g.add(OpId::kExpand, NoAttrs{}, {in({2}), i64({3})}).ok());
}

TEST_F(Rules, SizesThatDependOnDataAreCountedFromData) {
  std::vector<uint8_t> bits = {1, 0, 1, 1};
  Type t{DType::kBool, true, {4}, {}};
  const Type* in[] = {&t};
  TensorView view(bits.data(), DType::kBool, {4});
  auto known = infer_types(OpId::kNonZero, NoAttrs{}, in, 1, nullptr, [&](int) { return &view; });
  ASSERT_TRUE(known.ok());
  EXPECT_EQ(to_string((*known)[0].shape), "[1, 3]");
  auto open = infer_types(OpId::kNonZero, NoAttrs{}, in, 1);
  ASSERT_TRUE(open.ok());
  EXPECT_FALSE((*open)[0].shape[1].is_constant());
}

TEST_F(Rules, EinsumShapes) {
  ModeAttrs a;
  a.mode = ".ij,.jk->.ik";
  EXPECT_EQ(shape(add(OpId::kEinsum, a, {in({b, 2, n}), in({b, n, 5})})), "[b, 2, 5]");
  a.mode = "ii->i";
  EXPECT_EQ(shape(add(OpId::kEinsum, a, {in({3, 3})})), "[3]");
}

TEST_F(Rules, WindowsOfAttentionFitPositions) {
  ValueId x = in({b, 32});
  AttentionAttrs a;
  a.heads = 2, a.kv_heads = 1, a.head_dim = 8;
  for (int64_t window : {int64_t{-1}, int64_t{1} << 31, INT64_MAX}) {
    a.window = window;
    auto v = g.add(OpId::kPagedAttention, a, std::vector<ValueId>(8, x));
    ASSERT_FALSE(v.ok());
    EXPECT_NE(v.error().message.find("window " + std::to_string(window) + ", allowed 0 to 2147483647"), std::string::npos) << v.error().message;
  }
}

}  // namespace
}  // namespace brisk
