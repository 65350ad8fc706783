// Passes over quantised graphs: weights stay codes, and products of quantised operands become integer products.
#include "pass_check.h"

namespace brisk {
namespace {

using namespace test;

TEST(QuantisedPasses, QuantisedWeightsStayCodes) {
  Machine m;
  auto codes = [](DType t, const Dims& d) {
    std::vector<int8_t> v;
    for (int64_t i = 0; i < d.count(); ++i) v.push_back(static_cast<int8_t>(t == DType::kU8 ? (i * 29 + 7) % 127 : (i * 53 + i * i) % 255 - 127));
    return make_constant(t, d, v);
  };
  struct Case {
    DType type;
    Dims codes, scale;
    int64_t axis, block;
    bool transposed, zero;
    bool kept;
  };
  for (const Case& c : {Case{DType::kI8, {64, 6}, {}, 1, 0, false, false, true}, Case{DType::kI8, {64, 6}, {6}, 1, 0, false, false, true},
                        Case{DType::kU8, {64, 6}, {6}, 1, 0, false, true, true}, Case{DType::kI8, {64, 6}, {2, 6}, 0, 32, false, true, true},
                        Case{DType::kI8, {6, 64}, {6}, 0, 0, true, false, true}, Case{DType::kI8, {6, 64}, {6, 2}, 1, 32, true, false, true},
                        Case{DType::kI8, {64, 6}, {64}, 0, 0, false, false, false}}) {
    Net n;
    ValueId x = n.input("x", {Dim::symbol("rows"), 64});
    QuantAttrs a;
    a.axis = c.axis;
    a.block = c.block;
    a.to = DType::kF32;
    ValueId w = n.g.add_constant("codes", codes(c.type, c.codes));
    std::vector<float> scale(static_cast<size_t>(c.scale.count()));
    for (size_t i = 0; i < scale.size(); ++i) scale[i] = 0.01f + 0.003f * static_cast<float>(i % 5);
    std::vector<ValueId> in = {w, n.g.add_constant("scale", make_constant(DType::kF32, c.scale, scale))};
    if (c.zero) {
      std::vector<int8_t> zero(scale.size());
      for (size_t i = 0; i < zero.size(); ++i) zero[i] = static_cast<int8_t>(3 + i);
      in.push_back(n.g.add_constant("zero", make_constant(c.type, c.scale, zero)));
    }
    ValueId wide = n.add(kDequantizeLinear, in, a);
    n.g.outputs = {n.add(kMatMul, {x, c.transposed ? n.transpose(wide, {1, 0}) : wide})};
    Graph after = expect_same(m, n.g, {{floats({3, 64}, 1)}, {floats({1, 64}, 2)}}, 2e-4);
    ASSERT_EQ(after.nodes.size(), 1u) << print(after);
    ASSERT_EQ(after.nodes[0].op, kLinear);
    EXPECT_EQ(!after.constant(after.nodes[0].inputs[1])->encoding.plain(), c.kept) << print(after);
  }
}

// x -> QuantizeLinear -> DequantizeLinear -> product with a dequantised weight, plus a bias.
struct Quantised {
  Net n;
  ValueId pair(ValueId x, float scale, int zero, DType t) {
    QuantAttrs q, d;
    q.to = t;
    d.to = DType::kF32;
    ValueId s = n.number(scale), z = n.g.add_constant("z" + std::to_string(n.g.values.size()), make_constant(t, {}, std::vector<int8_t>{static_cast<int8_t>(zero)}));
    return n.add(kDequantizeLinear, {n.add(kQuantizeLinear, {x, s, z}, q), s, z}, d);
  }
  ValueId weight(const Dims& shape, int64_t axis, bool each) {
    std::vector<int8_t> codes;
    for (int64_t i = 0; i < shape.count(); ++i) codes.push_back(static_cast<int8_t>((i * 53 + i * i) % 255 - 127));
    std::vector<float> scale(static_cast<size_t>(each ? shape[static_cast<int>(axis)] : 1));
    for (size_t i = 0; i < scale.size(); ++i) scale[i] = 0.002f + 0.001f * static_cast<float>(i % 3);
    QuantAttrs d;
    d.to = DType::kF32;
    d.axis = axis;
    return n.add(kDequantizeLinear, {n.g.add_constant("codes", make_constant(DType::kI8, shape, codes)),
                                     n.g.add_constant("scales", make_constant(DType::kF32, each ? Dims{static_cast<int64_t>(scale.size())} : Dims{}, scale))}, d);
  }
};

TEST(QuantisedPasses, QuantisedProductsAreIntegerProductsWhereTheDeviceHasThem) {
  Machine m;
  const int integer = m.registry.find("cpu.MatMulInteger") != nullptr;
  for (bool each : {false, true}) {
    Quantised a;
    ValueId x = a.n.input("x", {Dim::symbol("batch"), Dim::symbol("seq"), 32});
    ValueId y = a.n.add(kMatMul, {a.pair(x, 0.01f, 120, DType::kU8), a.weight({32, 6}, 1, each)});
    a.n.g.outputs = {a.n.add(kAdd, {y, a.n.weight({6}, 2)})};
    Graph after = expect_same(m, a.n.g, {{floats({2, 3, 32}, 1)}, {floats({1, 1, 32}, 2)}}, 1e-5);
    EXPECT_EQ(ops(after)[kMatMulInteger], integer) << print(after);
    EXPECT_EQ(ops(after)[kDequantizeLinear], 1 - integer) << print(after);

    Quantised b;
    GemmAttrs gemm;
    gemm.trans_b = true;
    x = b.n.input("x", {Dim::symbol("rows"), 32});
    b.n.g.outputs = {b.n.add(kGemm, {b.pair(x, 0.01f, -3, DType::kI8), b.weight({6, 32}, 0, each), b.n.weight({6}, 2)}, gemm)};
    EXPECT_EQ(ops(expect_same(m, b.n.g, {{floats({5, 32}, 1)}}, 1e-5))[kMatMulInteger], integer);

    Quantised c;
    WindowAttrs window;
    window.kernel = {3, 3};
    window.strides = window.dilations = {1, 1};
    window.pads = {1, 1, 1, 1};
    x = c.n.input("x", {Dim::symbol("batch"), 4, 7, 5});
    c.n.g.outputs = {c.n.add(kConv, {c.pair(x, 0.01f, 128, DType::kU8), c.weight({6, 4, 3, 3}, 0, each), c.n.weight({6}, 2)}, window)};
    EXPECT_EQ(ops(expect_same(m, c.n.g, {{floats({2, 4, 7, 5}, 1)}}, 1e-5))[kConvInteger], integer);
  }
}

TEST(QuantisedPasses, ProductsThatStayFloatsSayWhy) {
  Machine m;
  Quantised q;  // scales along K cannot leave the sum
  ValueId x = q.n.input("x", {Dim::symbol("rows"), 32});
  q.n.g.outputs = {q.n.add(kMatMul, {q.pair(x, 0.01f, 120, DType::kU8), q.weight({32, 6}, 0, true)})};
  auto reports = run_pipeline(q.n.g, m.context, {});
  ASSERT_TRUE(reports.ok());
  for (const PassReport& r : *reports)
    if (r.name == "fuse-quantized")
      EXPECT_EQ(r.missed, std::vector<std::string>{"product of quantised operands: node 'MatMul3' not fused: the weight's scales lie along an axis that is summed over"});
  EXPECT_EQ(ops(q.n.g)[kMatMulInteger], 0);
}

}  // namespace
}  // namespace brisk
