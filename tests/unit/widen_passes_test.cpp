// Graphs on 16-bit floats: between nodes that the device computes in f32 anyway, values stay f32.
#include "pass_check.h"
#include "tensor/constant_ops.h"

namespace brisk {
namespace {

using namespace test;

// The file's own conversions stand at both ends, so that results are compared as f32.
struct Narrow {
  Net n;
  DType type;
  explicit Narrow(DType t) : type(t) {}
  ValueId to(ValueId x, DType t) {
    CastAttrs a;
    a.to = t;
    return n.add(kCast, {x}, a);
  }
  ValueId weight(const Dims& d, int seed) {
    auto c = std::make_shared<Constant>();
    c->dtype = type, c->shape = d;
    std::vector<std::byte> bytes(static_cast<size_t>(d.count()) * 2);
    auto f = floats(d, seed);
    for (int64_t i = 0; i < d.count(); ++i) store_float(bytes.data(), type, i, f->as<float>()[i] / 4);
    c->data = Buffer::of(std::move(bytes));
    return n.g.add_constant("w" + std::to_string(n.g.values.size()), std::move(c));
  }
};

int narrow_results(const Graph& g) {
  int count = 0;
  for (const Node& n : g.nodes)
    for (ValueId v : n.outputs) count += v >= 0 && (g.value(v).type.dtype == DType::kF16 || g.value(v).type.dtype == DType::kBF16);
  return count;
}

TEST(WidenPasses, ProductsAndWhatFollowsAreF32) {
  Machine m;
  for (DType t : {DType::kF16, DType::kBF16}) {
    Narrow b(t);
    ValueId x = b.to(b.n.input("x", kRows), t);
    ValueId y = b.n.add(kRelu, {b.n.add(kAdd, {b.n.add(kMatMul, {x, b.weight({8, 12}, 1)}), b.weight({12}, 2)})});
    ValueId z = b.n.add(kMatMul, {y, b.weight({12, 8}, 3)});
    b.n.g.outputs = {b.to(b.n.add(kAdd, {z, x}), DType::kF32)};
    Graph after = expect_same(m, b.n.g, {{floats({2, 3, 8}, 1)}, {floats({1, 1, 8}, 2)}}, t == DType::kF16 ? 4e-3 : 3e-2);
    EXPECT_EQ(ops(after)[kLinear], 2) << print(after);
    EXPECT_EQ(narrow_results(after), 0) << print(after);
    EXPECT_EQ(after.nodes.size(), 2u) << print(after);
  }
}

TEST(WidenPasses, AttentionIsRecognisedInNarrowFloats) {
  Machine m;
  Narrow b(DType::kF16);
  const Shape heads = {Dim::symbol("batch"), 4, Dim::symbol("seq"), 8};
  ValueId q = b.to(b.n.input("q", heads), DType::kF16), k = b.to(b.n.input("k", heads), DType::kF16), v = b.to(b.n.input("v", heads), DType::kF16);
  ValueId scale = b.n.g.add_constant("scale", make_constant(DType::kF16, {}, std::vector<uint16_t>{0x3400}));  // 0.25
  ValueId scores = b.n.add(kMul, {b.n.add(kMatMul, {q, b.n.transpose(k, {0, 1, 3, 2})}), scale});
  b.n.g.outputs = {b.to(b.n.add(kMatMul, {b.n.softmax(scores), v}), DType::kF32)};
  Graph after = expect_same(m, b.n.g, {{floats({2, 4, 5, 8}, 1), floats({2, 4, 5, 8}, 2), floats({2, 4, 5, 8}, 3)}}, 2e-3);
  EXPECT_EQ(ops(after)[kAttention], 1) << print(after);
  EXPECT_EQ(ops(after)[kMatMul] + ops(after)[kSoftmax], 0) << print(after);
}

TEST(WidenPasses, TheFilesOwnRoundingStays) {
  Machine m;
  Narrow b(DType::kF16);
  ValueId x = b.n.input("x", kRows);
  b.n.g.outputs = {b.to(b.to(x, DType::kF16), DType::kF32)};
  Graph after = expect_same(m, b.n.g, {{floats({2, 3, 8}, 1)}}, 0);
  EXPECT_EQ(ops(after)[kCast], 2) << print(after);
  // A result in 16 bits is rounded once, at the end.
  Narrow c(DType::kF16);
  ValueId y = c.n.add(kMatMul, {c.to(c.n.input("x", kRows), DType::kF16), c.weight({8, 4}, 1)});
  c.n.g.outputs = {y};
  auto reports = run_pipeline(c.n.g, m.context, {});
  ASSERT_TRUE(reports.ok()) << reports.error().message;
  EXPECT_EQ(c.n.g.value(c.n.g.outputs[0]).type.dtype, DType::kF16);
  EXPECT_EQ(c.n.g.nodes.back().op, kCast) << print(c.n.g);
}

TEST(WidenPasses, TablesAreReadAsTheyAre) {
  Machine m;
  Narrow b(DType::kF16);
  ValueId ids = b.n.input("ids", {Dim::symbol("n")}, DType::kI64);
  ValueId rows = b.n.add(kGather, {b.weight({100, 8}, 1), ids}, AxisAttrs{0});
  b.n.g.outputs = {b.to(b.n.add(kMatMul, {rows, b.weight({8, 8}, 2)}), DType::kF32)};
  auto reports = run_pipeline(b.n.g, m.context, {});
  ASSERT_TRUE(reports.ok()) << reports.error().message;
  for (const Node& n : b.n.g.nodes)
    if (n.op == kGather) EXPECT_EQ(b.n.g.value(n.inputs[0]).type.dtype, DType::kF16);
}

}  // namespace
}  // namespace brisk
