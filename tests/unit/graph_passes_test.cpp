// Passes over graphs as exporters write them: what comes out, and that it computes the same.
#include "import/onnx/import.h"
#include "pass_check.h"

namespace brisk {
namespace {

using namespace test;

Graph import(const std::string& name) {
  auto m = import_onnx(std::string(BRISK_TEST_DATA) + "/exports/" + name + "/model.onnx");
  EXPECT_TRUE(m.ok()) << m.error().message;
  return m.ok() ? m->functions.at("main") : Graph{};
}

// ---- whole exports --------------------------------------------------------------------------------------------------------

TEST(GraphPasses, BertLayerIsAtMostEightKernels) {
  Machine m;
  Graph before = import("legacy-bert");
  Graph after = expect_same(m, before, {{ids({2, 7}, 512), ones({2, 7})}, {ids({3, 11}, 512), ones({3, 11})}, {ids({1, 1}, 512), ones({1, 1})}}, 1e-5);
  auto n = ops(after);
  EXPECT_EQ(n[kAttention], 2);
  EXPECT_EQ(n[kLinear], 8);
  EXPECT_EQ(n[kLayerNorm], 5);
  EXPECT_EQ(n[kSoftmax] + n[kMatMul] + n[kTranspose] + n[kErf], 0);
  EXPECT_GE(kernels(before, "/layer.1/"), 45);
  EXPECT_LE(kernels(after, "/layer.1/"), 8) << print(after);
}

TEST(GraphPasses, LlamaFromDynamoHasGroupedAttentionAndRotary) {
  Machine m;
  Graph before = import("dynamo-llama");
  auto mask = ones({2, 7});
  std::vector<int64_t> padded(14, 1);
  padded[12] = padded[13] = 0;
  Graph after = expect_same(m, before, {{ids({2, 7}, 512), mask}, {ids({2, 7}, 512), make_constant(DType::kI64, {2, 7}, padded)}, {ids({3, 11}, 512), ones({3, 11})}, {ids({1, 1}, 512), ones({1, 1})}}, 2e-5);
  auto n = ops(after);
  EXPECT_EQ(n[kAttention], 2);
  EXPECT_EQ(n[kRotaryEmbedding], 4);
  EXPECT_EQ(n[kSoftmax] + n[kMatMul] + n[kTranspose] + n[kNeg] + n[kReduceMean], 0);
  for (const Node& node : after.nodes)
    if (node.op == kAttention) {
      const auto& a = std::get<SdpaAttrs>(node.attrs);
      EXPECT_EQ(a.heads, 4);
      EXPECT_EQ(a.kv_heads, 2);
      EXPECT_FLOAT_EQ(a.scale, 0.25f);
    }
}

TEST(GraphPasses, PastOfGpt2IsAttentions) {
  Machine m;
  Graph before = import("dynamo-past-gpt2");
  auto inputs = [](int64_t batch, int64_t steps, int64_t past) {
    std::vector<ConstantPtr> in = {ids({batch, steps}, 512), ones({batch, past + steps})};
    for (int i = 0; i < 4; ++i) in.push_back(floats({batch, 4, past, 16}, i));
    return in;
  };
  Graph after = expect_same(m, before, {inputs(2, 7, 5), inputs(1, 1, 9), inputs(3, 2, 1)}, 5e-5);
  auto n = ops(after);
  EXPECT_EQ(n[kAttention], 2);
  EXPECT_EQ(n[kSoftmax] + n[kMatMul] + n[kGemm], 0);
  for (const Node& node : after.nodes)
    if (node.op == kAttention) {
      ASSERT_EQ(node.outputs.size(), 3u) << print(after);
      EXPECT_TRUE(after.is_input(node.inputs[4]) && after.is_input(node.inputs[5]));
      EXPECT_TRUE(after.is_output(node.outputs[1]) && after.is_output(node.outputs[2]));
      EXPECT_EQ(std::get<SdpaAttrs>(node.attrs).heads, 4);
    }
}

TEST(GraphPasses, EveryPassAloneKeepsTheResults) {
  Machine m;
  std::vector<std::pair<Graph, std::vector<ConstantPtr>>> models;
  models.push_back({import("legacy-bert"), {ids({2, 5}, 512), ones({2, 5})}});
  models.push_back({import("dynamo-llama"), {ids({2, 5}, 512), ones({2, 5})}});
  for (auto& [g, in] : models)
    for (const Pass& p : pipeline()) {
      SCOPED_TRACE(p.name);
      expect_same(m, g, {in}, 2e-5, only({p.name}));
    }
}

// ---- small graphs ---------------------------------------------------------------------------------------------------------

TEST(GraphPasses, NormsInEverySpelling) {
  Machine m;
  auto check = [&](OpId op, int count, auto build) {
    Net n;
    ValueId x = n.input("x", kRows), w = n.weight({8}, 3), b = n.weight({8}, 4), two = n.number(2), eps = n.number(1e-5f), one = n.number(1);
    n.g.outputs = {build(n, x, w, b, two, eps, one)};
    Graph after = expect_same(m, n.g, {{floats({2, 3, 8}, 1)}, {floats({1, 1, 8}, 2)}}, 2e-6, only({"merge-common", "recognize-norm", "remove-dead"}));
    EXPECT_EQ(ops(after)[op], 1) << print(after);
    EXPECT_EQ(static_cast<int>(after.nodes.size()), count) << print(after);
  };
  check(kLayerNorm, 1, [](Net& n, ValueId x, ValueId w, ValueId b, ValueId two, ValueId eps, ValueId) {
    ValueId d = n.add(kSub, {x, n.mean(x)}), var = n.mean(n.add(kPow, {d, two}));
    return n.add(kAdd, {n.add(kMul, {n.add(kDiv, {d, n.add(kSqrt, {n.add(kAdd, {var, eps})})}), w}), b});
  });
  check(kLayerNorm, 1, [](Net& n, ValueId x, ValueId w, ValueId, ValueId, ValueId eps, ValueId) {
    ValueId d = n.add(kSub, {x, n.mean(x)}), e = n.add(kSub, {x, n.mean(x)}), var = n.mean(n.add(kMul, {e, e}));
    return n.add(kMul, {w, n.add(kMul, {d, n.add(kReciprocal, {n.add(kSqrt, {n.add(kAdd, {var, eps})})})})});
  });
  check(kRmsNorm, 1, [](Net& n, ValueId x, ValueId w, ValueId, ValueId two, ValueId eps, ValueId) {
    ValueId var = n.mean(n.add(kPow, {x, two}));
    return n.add(kMul, {w, n.add(kMul, {x, n.add(kReciprocal, {n.add(kSqrt, {n.add(kAdd, {var, eps})})})})});
  });
  check(kRmsNorm, 1, [](Net& n, ValueId x, ValueId w, ValueId, ValueId, ValueId eps, ValueId one) {
    ValueId var = n.mean(n.add(kMul, {x, x}));
    return n.add(kMul, {n.add(kMul, {n.add(kDiv, {one, n.add(kSqrt, {n.add(kAdd, {eps, var})})}), x}), w});
  });
  check(kRmsNorm, 1, [](Net& n, ValueId x, ValueId, ValueId, ValueId two, ValueId eps, ValueId) {  // no weight
    return n.add(kDiv, {x, n.add(kSqrt, {n.add(kAdd, {n.mean(n.add(kPow, {x, two})), eps})})});
  });
  // A scaled value that is read twice stays, and so does its norm.
  check(kLayerNorm, 3, [](Net& n, ValueId x, ValueId w, ValueId b, ValueId two, ValueId eps, ValueId) {
    ValueId d = n.add(kSub, {x, n.mean(x)}), var = n.mean(n.add(kPow, {d, two}));
    ValueId scaled = n.add(kMul, {n.add(kDiv, {d, n.add(kSqrt, {n.add(kAdd, {var, eps})})}), w}), y = n.add(kAdd, {scaled, b});
    return n.add(kConcat, {scaled, y}, AxisAttrs{2});
  });
}

TEST(GraphPasses, ActivationsInEverySpelling) {
  Machine m;
  auto check = [&](OpId op, float alpha, auto build) {
    Net n;
    ValueId x = n.input("x", kRows);
    n.g.outputs = {build(n, x)};
    Graph after = expect_same(m, n.g, {{floats({2, 3, 8}, 1)}}, 2e-6, only({"recognize-activation"}));
    ASSERT_EQ(after.nodes.size(), 1u) << print(after);
    EXPECT_EQ(after.nodes[0].op, op);
    if (op == kGelu) EXPECT_EQ(std::get<AlphaBetaAttrs>(after.nodes[0].attrs).alpha, alpha);
  };
  check(kGelu, 0, [](Net& n, ValueId x) {
    ValueId e = n.add(kAdd, {n.add(kErf, {n.add(kDiv, {x, n.number(1.41421356f)})}), n.number(1)});
    return n.add(kMul, {n.add(kMul, {x, e}), n.number(0.5f)});
  });
  check(kGelu, 0, [](Net& n, ValueId x) {
    ValueId e = n.add(kAdd, {n.number(1), n.add(kErf, {n.add(kMul, {x, n.number(0.70710678f)})})});
    return n.add(kMul, {n.add(kMul, {n.number(0.5f), x}), e});
  });
  check(kGelu, 1, [](Net& n, ValueId x) {
    ValueId cubic = n.add(kAdd, {x, n.add(kMul, {n.number(0.044715f), n.add(kPow, {x, n.number(3)})})});
    ValueId t = n.add(kTanh, {n.add(kMul, {cubic, n.number(0.7978845608f)})});
    return n.add(kMul, {n.add(kMul, {n.number(0.5f), x}), n.add(kAdd, {t, n.number(1)})});
  });
  check(kGelu, 1, [](Net& n, ValueId x) {  // x taken out of the argument
    ValueId inner = n.add(kAdd, {n.number(1), n.add(kMul, {n.number(0.044715f), n.add(kMul, {x, x})})});
    ValueId t = n.add(kTanh, {n.add(kMul, {n.add(kMul, {x, n.number(0.7978845608f)}), inner})});
    return n.add(kMul, {n.add(kMul, {n.number(0.5f), x}), n.add(kAdd, {n.number(1), t})});
  });
  check(kHardSwish, 0, [](Net& n, ValueId x) {
    return n.add(kMul, {x, n.add(kHardSigmoid, {x}, AlphaBetaAttrs{1.0f / 6, 0.5f})});
  });
  check(kHardSwish, 0, [](Net& n, ValueId x) {
    ValueId r = n.add(kMin, {n.add(kMax, {n.add(kAdd, {x, n.number(3)}), n.number(0)}), n.number(6)});
    return n.add(kDiv, {n.add(kMul, {x, r}), n.number(6)});
  });
  check(kMish, 0, [](Net& n, ValueId x) { return n.add(kMul, {x, n.add(kTanh, {n.add(kSoftplus, {x})})}); });
}

// q, k, v [batch, 4, seq, 8] of which k and v may have fewer heads.
struct Heads {
  Net n;
  ValueId q, k, v;
  explicit Heads(int64_t kv = 4) {
    Dim b = Dim::symbol("batch"), s = Dim::symbol("seq");
    q = n.input("q", {b, 4, s, 8}), k = n.input("k", {b, kv, s, 8}), v = n.input("v", {b, kv, s, 8});
  }
  std::vector<ConstantPtr> some(int64_t batch, int64_t seq) const {
    std::vector<ConstantPtr> in;
    for (size_t i = 0; i < n.g.inputs.size(); ++i) {
      Dims d;
      for (const Dim& dim : n.g.value(n.g.inputs[i]).type.shape)
        d.push(dim.constant() ? *dim.constant() : dim == Dim::symbol("batch") ? batch : dim == Dim::symbol("past") ? 3 : seq);
      in.push_back(floats(d, static_cast<int>(i)));
    }
    return in;
  }
};

Graph expect_attention(Machine& m, const Heads& h, double tolerance = 3e-6) {
  return expect_same(m, h.n.g, {h.some(2, 5), h.some(1, 1)}, tolerance);
}

TEST(GraphPasses, AttentionWithScaleOnBothSidesSoftcapAndMasks) {
  Machine m;
  Heads h;
  Net& n = h.n;
  ValueId bias = n.input("bias", {1, 4, Dim::symbol("seq"), Dim::symbol("seq")});
  ValueId kt = n.add(kMul, {n.transpose(h.k, {0, 1, 3, 2}), n.number(0.5f)});
  ValueId scores = n.add(kMatMul, {n.add(kMul, {h.q, n.number(0.5f)}), kt});
  scores = n.add(kMul, {n.add(kTanh, {n.add(kDiv, {scores, n.number(3)})}), n.number(3)});
  ValueId far = n.add(kGreater, {bias, n.number(0.8f)});
  scores = n.add(kWhere, {far, n.number(-3.4e38f), n.add(kAdd, {bias, scores})});
  ValueId p = n.softmax(scores);
  p = n.add(kWhere, {n.add(kIsNaN, {p}), n.number(0), p});
  n.g.outputs = {n.add(kMatMul, {p, h.v})};
  Graph after = expect_attention(m, h);
  ASSERT_EQ(ops(after)[kAttention], 1) << print(after);
  EXPECT_EQ(ops(after)[kSoftmax], 0);
  for (const Node& node : after.nodes)
    if (node.op == kAttention) {
      EXPECT_FLOAT_EQ(std::get<SdpaAttrs>(node.attrs).scale, 0.25f);
      EXPECT_FLOAT_EQ(std::get<SdpaAttrs>(node.attrs).softcap, 3);
    }
}

TEST(GraphPasses, AttentionTakesRepeatedHeadsAndThePast) {
  Machine m;
  Heads h(2);
  Net& n = h.n;
  Dim b = Dim::symbol("batch"), s = Dim::symbol("seq"), p = Dim::symbol("past");
  ValueId pk = n.input("pk", {b, 2, p, 8}), pv = n.input("pv", {b, 2, p, 8});
  auto repeated = [&](ValueId past, ValueId fresh) {
    ValueId all = n.add(kConcat, {past, fresh}, AxisAttrs{2});
    ReduceAttrs at;
    at.axes = {2};
    ValueId one = n.add(kUnsqueeze, {all}, at);
    ValueId shape = n.add(kShape, {all}, ShapeAttrs{});
    ValueId batch = n.add(kGather, {shape, n.ints({0})}, AxisAttrs{0}), len = n.add(kGather, {shape, n.ints({2})}, AxisAttrs{0});
    ValueId wide = n.add(kExpand, {one, n.add(kConcat, {batch, n.ints({2, 2}), len, n.ints({8})}, AxisAttrs{0})});
    return std::pair(all, n.add(kReshape, {wide, n.add(kConcat, {batch, n.ints({4}), len, n.ints({8})}, AxisAttrs{0})}));
  };
  auto [ak, k] = repeated(pk, h.k);
  auto [av, v] = repeated(pv, h.v);
  ValueId scores = n.add(kDiv, {n.add(kMatMul, {h.q, n.transpose(k, {0, 1, 3, 2})}), n.number(2)});
  n.g.outputs = {n.add(kMatMul, {n.softmax(scores), v}), ak, av};
  Graph after = expect_attention(m, h);
  ASSERT_EQ(after.nodes.size(), 1u) << print(after);
  EXPECT_EQ(after.nodes[0].outputs.size(), 3u);
  EXPECT_FLOAT_EQ(std::get<SdpaAttrs>(after.nodes[0].attrs).scale, 0.5f);
}

TEST(GraphPasses, AttentionStaysApartWhereItsProbabilitiesAreRead) {
  Machine m;
  Heads h;
  Net& n = h.n;
  ValueId p = n.softmax(n.add(kMatMul, {h.q, n.transpose(h.k, {0, 1, 3, 2})}));
  n.g.outputs = {n.add(kMatMul, {p, h.v}), p};
  Graph after = expect_attention(m, h);
  EXPECT_EQ(ops(after)[kAttention], 0);
  // The result of the inner product only is not in the way: it is computed once more for itself.
  Heads open;
  ValueId scores = open.n.add(kMatMul, {open.q, open.n.transpose(open.k, {0, 1, 3, 2})});
  open.n.g.outputs = {open.n.add(kMatMul, {open.n.softmax(scores), open.v}), scores};
  EXPECT_EQ(ops(expect_attention(m, open))[kAttention], 1);
}

// Rotation of the first `dim` of 8 elements, as transformers writes it.
ValueId rotate(Net& n, ValueId x, ValueId cos, ValueId sin, int64_t dim) {
  auto part = [&](ValueId of, int64_t from, int64_t to) { return n.add(kSlice, {of, n.ints({from}), n.ints({to}), n.ints({3})}); };
  ValueId head = dim == 8 ? x : part(x, 0, dim);
  ValueId turned = n.add(kConcat, {n.add(kNeg, {part(head, dim / 2, INT64_MAX)}), part(head, 0, dim / 2)}, AxisAttrs{-1});
  ValueId y = n.add(kAdd, {n.add(kMul, {head, cos}), n.add(kMul, {turned, sin})});
  return dim == 8 ? y : n.add(kConcat, {y, part(x, dim, INT64_MAX)}, AxisAttrs{3});
}

TEST(GraphPasses, RotaryOfWholeAndPartialHeads) {
  Machine m;
  for (int64_t dim : {8, 4})
    for (bool heads_first : {true, false}) {
      Net n;
      Dim b = Dim::symbol("batch"), s = Dim::symbol("seq");
      ValueId x = n.input("x", heads_first ? Shape{b, 4, s, 8} : Shape{b, s, 4, 8}), angle = n.input("angle", {b, s, dim / 2});
      ReduceAttrs at;
      at.axes = {heads_first ? 1 : 2};
      ValueId both = n.add(kConcat, {angle, angle}, AxisAttrs{-1});
      ValueId cos = n.add(kUnsqueeze, {n.add(kCos, {both})}, at), sin = n.add(kUnsqueeze, {n.add(kMul, {n.add(kSin, {both}), n.number(1.5f)})}, at);
      n.g.outputs = {rotate(n, x, cos, sin, dim)};
      auto inputs = [&](int64_t batch, int64_t seq) {
        return std::vector<ConstantPtr>{floats(heads_first ? Dims{batch, 4, seq, 8} : Dims{batch, seq, 4, 8}, 1), floats({batch, seq, dim / 2}, 2)};
      };
      Graph after = expect_same(m, n.g, {inputs(2, 5), inputs(1, 1), inputs(3, 1)}, 1e-6);
      EXPECT_EQ(ops(after)[kRotaryEmbedding], 1) << dim << heads_first << print(after);
      EXPECT_EQ(ops(after)[kNeg] + ops(after)[kConcat], 0) << print(after);
    }
}

TEST(GraphPasses, TablesWhoseHalvesDifferAreNoRotary) {
  Machine m;
  Net n;
  ValueId x = n.input("x", {1, 4, 3, 8}), cos = n.weight({3, 8}, 5), sin = n.weight({3, 8}, 6);
  n.g.outputs = {rotate(n, x, cos, sin, 8)};
  EXPECT_EQ(ops(expect_same(m, n.g, {{floats({1, 4, 3, 8}, 1)}}, 1e-6))[kRotaryEmbedding], 0);
}

// ---- shapes and movement --------------------------------------------------------------------------------------------------

TEST(GraphPasses, ShapeArithmeticIsGone) {
  Machine m;
  Net n;
  ValueId x = n.input("x", kRows);
  ValueId shape = n.add(kShape, {n.add(kNeg, {x})}, ShapeAttrs{});
  auto dim = [&](int64_t i) { return n.add(kGather, {shape, n.ints({i})}, AxisAttrs{0}); };
  ValueId heads = n.add(kReshape, {x, n.add(kConcat, {dim(0), dim(1), n.ints({2, -1})}, AxisAttrs{0})});
  // Expand to Where(shape == -1, 1, shape), as legacy exports write "keep this axis".
  ValueId want = n.add(kConcat, {dim(0), dim(1), n.ints({2, 4})}, AxisAttrs{0});
  ValueId keep = n.add(kEqual, {want, n.ints({-1})});
  ValueId same = n.add(kExpand, {heads, n.add(kWhere, {keep, n.ints({1}), want})});
  n.g.outputs = {n.add(kReshape, {same, n.add(kConcat, {dim(0), dim(1), n.ints({8})}, AxisAttrs{0})})};
  Graph after = expect_same(m, n.g, {{floats({2, 3, 8}, 1)}, {floats({1, 1, 8}, 1)}}, 0);
  // Reshape, Expand and Reshape give x as it was; it is a result, so one Reshape of x to its own shape may stay.
  EXPECT_LE(after.nodes.size(), 1u) << print(after);
}

TEST(GraphPasses, WhatIsLeftOfShapeArithmeticReadsInputs) {
  Machine m;
  Net n;
  ValueId x = n.input("x", kRows);
  ValueId y = n.add(kExp, {x});
  ValueId rows = n.add(kGather, {n.add(kShape, {y}, ShapeAttrs{}), n.ints({1})}, AxisAttrs{0});
  ReduceAttrs first;
  first.axes = {0};
  ValueId zero = n.g.add_constant("zero", make_constant(DType::kI64, {}, std::vector<int64_t>{0}));
  ValueId one = n.g.add_constant("one", make_constant(DType::kI64, {}, std::vector<int64_t>{1}));
  ValueId range = n.add(kRange, {zero, n.add(kSqueeze, {rows}, first), one});
  n.g.outputs = {n.add(kCast, {range}, CastAttrs{})};
  Graph after = expect_same(m, n.g, {{floats({2, 3, 8}, 1)}}, 0);
  EXPECT_EQ(ops(after)[kExp], 0) << print(after);
  EXPECT_EQ(ops(after)[kShape], 1);
}

TEST(GraphPasses, MovementCancelsAndMerges) {
  Machine m;
  Net n;
  ValueId x = n.input("x", {Dim::symbol("batch"), 4, Dim::symbol("seq"), 8});
  // Rank 3 and back round a transpose: dynamo's way to k^T.
  ValueId joined = n.add(kReshape, {x, n.add(kConcat, {n.ints({-1}), n.add(kShape, {x}, ShapeAttrs{2, 4})}, AxisAttrs{0})});
  ValueId turned = n.transpose(joined, {0, 2, 1});
  ValueId back = n.add(kReshape, {turned, n.add(kConcat, {n.add(kShape, {x}, ShapeAttrs{0, 2}), n.ints({8}), n.add(kShape, {x}, ShapeAttrs{2, 3})}, AxisAttrs{0})});
  n.g.outputs = {n.add(kExp, {n.transpose(back, {0, 1, 3, 2})})};
  Graph after = expect_same(m, n.g, {{floats({2, 4, 3, 8}, 1)}, {floats({1, 4, 1, 8}, 1)}}, 0);
  ASSERT_EQ(after.nodes.size(), 1u) << print(after);
  EXPECT_EQ(after.nodes[0].op, kExp);
}

TEST(GraphPasses, IdentitiesDisappear) {
  Machine m;
  Net n;
  ValueId x = n.input("x", kRows);
  ValueId y = n.add(kAdd, {n.add(kMul, {n.add(kDiv, {n.add(kPow, {n.add(kExp, {x}), n.number(1)}), n.number(1)}), n.number(1)}), n.number(0)});
  y = n.add(kSlice, {y, n.ints({0}), n.ints({INT64_MAX}), n.ints({1})});
  y = n.add(kConcat, {y}, AxisAttrs{0});
  y = n.transpose(y, {0, 1, 2});
  y = n.add(kTile, {y, n.ints({1, 1, 1})});
  n.g.outputs = {y};
  Graph after = expect_same(m, n.g, {{floats({2, 3, 8}, 1)}}, 0);
  ASSERT_EQ(after.nodes.size(), 1u) << print(after);
  EXPECT_EQ(after.nodes[0].op, kExp);
  EXPECT_EQ(after.value(after.outputs[0]).name, n.g.value(y).name);  // a result keeps its name
  // x + 0 of another shape is no identity.
  Net wide;
  ValueId row = wide.input("x", {8});
  wide.g.outputs = {wide.add(kAdd, {row, wide.g.add_constant("zeros", make_constant(DType::kF32, {2, 8}, std::vector<float>(16)))})};
  EXPECT_EQ(expect_same(m, wide.g, {{floats({8}, 1)}}, 0).nodes.size(), 1u);
}

// ---- selections -------------------------------------------------------------------------------------------------------------

// Packed q, k, v within heads, heads moved in front, then taken apart: GPT-NeoX.
TEST(GraphPasses, PackedHeadsBecomeOneProductAndOneSplit) {
  for (bool by_slices : {true, false}) {
    Machine m;
    Net n;
    ValueId x = n.input("x", kRows);
    ValueId packed = n.add(kAdd, {n.add(kMatMul, {x, n.weight({8, 4 * 3 * 2}, 1)}), n.weight({24}, 2)});
    ValueId heads = n.transpose(n.add(kReshape, {packed, n.ints({0, 0, 4, 6})}), {0, 2, 1, 3});
    ValueId part[3];
    for (int64_t i = 0; i < 3 && by_slices; ++i) part[i] = n.add(kSlice, {heads, n.ints({2 * i}), n.ints({2 * i + 2}), n.ints({-1})});
    if (!by_slices) {
      auto parts = n.g.add_node(kSplit, SliceAttrs{3, {2, 2, 2}}, {heads}, 3, "Split");
      ASSERT_TRUE(parts.ok());
      std::copy(parts->begin(), parts->end(), part);
    }
    ValueId p = n.softmax(n.add(kMatMul, {part[0], n.transpose(part[1], {0, 1, 3, 2})}));
    ValueId y = n.transpose(n.add(kMatMul, {p, part[2]}), {0, 2, 1, 3});
    n.g.outputs = {n.add(kReshape, {y, n.ints({0, 0, 8})})};
    Graph after = expect_same(m, n.g, {{floats({2, 3, 8}, 1)}, {floats({1, 1, 8}, 1)}}, 3e-6);
    auto count = ops(after);
    EXPECT_EQ(after.nodes.size(), 3u) << print(after);
    EXPECT_EQ(count[kLinear] + count[kSplit] + count[kAttention], 3);
  }
}

TEST(GraphPasses, SelectionsOfHeadsAreSlicesOfTheLastAxis) {
  Machine m;
  Net n;  // Falcon: [B, S, 4 + 2, 2], the last two heads picked by index
  ValueId x = n.input("x", {Dim::symbol("batch"), Dim::symbol("seq"), 12});
  ValueId heads = n.add(kReshape, {x, n.ints({0, 0, 6, 2})});
  ValueId q = n.add(kSlice, {heads, n.ints({0}), n.ints({-2}), n.ints({-2})});
  ValueId k = n.add(kGather, {heads, n.ints({-2})}, AxisAttrs{2});
  ValueId index = n.g.add_constant("five", make_constant(DType::kI64, {1, 1}, std::vector<int64_t>{5}));
  ValueId v = n.add(kGatherND, {n.transpose(heads, {2, 0, 1, 3}), index}, AxisAttrs{0});
  n.g.outputs = {n.add(kExp, {q}), n.add(kExp, {k}), n.add(kExp, {v})};
  Graph after = expect_same(m, n.g, {{floats({2, 3, 12}, 1)}, {floats({1, 1, 12}, 1)}}, 0);
  EXPECT_EQ(ops(after)[kSplit], 1) << print(after);
  EXPECT_EQ(ops(after)[kSlice] + ops(after)[kGather] + ops(after)[kGatherND], 0) << print(after);
}

TEST(GraphPasses, SlicesThatOverlapOrLeaveSomethingOutStay) {
  Machine m;
  Net n;
  ValueId x = n.input("x", kRows);
  auto part = [&](int64_t from, int64_t to) { return n.add(kExp, {n.add(kSlice, {x, n.ints({from}), n.ints({to}), n.ints({2})})}); };
  n.g.outputs = {part(0, 5), part(4, 8), part(0, 3)};
  EXPECT_EQ(ops(expect_same(m, n.g, {{floats({2, 3, 8}, 1)}}, 0))[kSplit], 0);
}

TEST(GraphPasses, GateAndUpOfOneProductAreOneGatedProduct) {
  Machine m;
  for (bool gate_first : {true, false}) {
    Net n;
    ValueId both = n.add(kMatMul, {n.input("x", kRows), n.weight({8, 12}, 1)});
    auto half = [&](int64_t i) { return n.add(kSlice, {both, n.ints({6 * i}), n.ints({6 * i + 6}), n.ints({2})}); };
    ValueId gate = half(0), up = half(1), silu = n.add(kMul, {gate, n.add(kSigmoid, {gate})});
    n.g.outputs = {gate_first ? n.add(kMul, {silu, up}) : n.add(kMul, {up, silu})};
    Graph after = expect_same(m, n.g, {{floats({2, 3, 8}, 1)}, {floats({1, 1, 8}, 1)}}, 2e-6);
    ASSERT_EQ(after.nodes.size(), 1u) << print(after);
    EXPECT_TRUE(std::get<LinearAttrs>(after.nodes[0].attrs).gated);
  }
}

TEST(GraphPasses, GeluMayBeTheGate) {
  Machine m;
  for (float form : {0.0f, 1.0f})
    for (bool packed : {false, true}) {
      Net n;
      ValueId x = n.input("x", kRows), gate, up;
      if (packed) {
        ValueId both = n.add(kMatMul, {x, n.weight({8, 12}, 1)});
        gate = n.add(kSlice, {both, n.ints({0}), n.ints({6}), n.ints({2})}), up = n.add(kSlice, {both, n.ints({6}), n.ints({12}), n.ints({2})});
      } else {
        gate = n.add(kMatMul, {x, n.weight({8, 6}, 1)}), up = n.add(kMatMul, {x, n.weight({8, 6}, 2)});
      }
      n.g.outputs = {n.add(kMul, {n.add(kGelu, {gate}, AlphaBetaAttrs{form, 0}), up})};
      Graph after = expect_same(m, n.g, {{floats({2, 3, 8}, 1)}, {floats({1, 1, 8}, 1)}}, 3e-6);
      ASSERT_EQ(after.nodes.size(), 1u) << print(after);
      const auto& a = std::get<LinearAttrs>(after.nodes[0].attrs);
      EXPECT_TRUE(a.gated && a.act == "Gelu" && a.act_alpha == form) << print(after);
    }
}

// ---- reports --------------------------------------------------------------------------------------------------------------------

TEST(GraphPasses, ReportsSayWhyNot) {
  Machine m;
  Heads h;
  Net& n = h.n;
  ValueId p = n.softmax(n.add(kMatMul, {h.q, n.transpose(h.k, {0, 1, 3, 2})}));
  n.g.outputs = {n.add(kMatMul, {p, h.v}), p};
  auto reports = run_pipeline(n.g, m.context, {});
  ASSERT_TRUE(reports.ok());
  bool said = false;
  for (const PassReport& r : *reports)
    if (r.name == "recognize-attention") said = r.missed == std::vector<std::string>{"attention: node 'MatMul3' not fused: the probabilities are read elsewhere, too"};
  EXPECT_TRUE(said);
  Heads fused;
  fused.n.g.outputs = {fused.n.add(kMatMul, {fused.n.softmax(fused.n.add(kMatMul, {fused.q, fused.n.transpose(fused.k, {0, 1, 3, 2})})), fused.v})};
  reports = run_pipeline(fused.n.g, m.context, {});
  ASSERT_TRUE(reports.ok());
  for (const PassReport& r : *reports)
    if (r.name == "recognize-attention") EXPECT_EQ(r.fired, std::vector<std::string>{"MatMul 'MatMul3' is Attention now"});
}

}  // namespace
}  // namespace brisk
