// A two-layer decoder of random weights, built as an importer would: primitive operators only.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "op/step_io.h"

namespace brisk::test {

struct TinyConfig {
  int64_t hidden = 64, heads = 4, kv_heads = 2, head_dim = 16, intermediate = 96, vocab = 97;
  int layers = 2;
  uint32_t seed = 1;
  int64_t nan_token = -1;  // its embedding is not a number: what a sequence that holds it computes is none, either
};

inline ConstantPtr random_constant(std::mt19937& rng, Dims shape, float scale) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> v(static_cast<size_t>(shape.count()));
  for (float& x : v) x = normal(rng);
  return make_constant(DType::kF32, shape, v);
}

inline Model tiny_llama(const TinyConfig& c = {}) {
  std::mt19937 rng(c.seed);
  Graph g;
  g.name = "step";
  auto in = [&](const char* name, DType t, Shape s) { return g.add_input(name, Type{t, true, std::move(s), {}}); };
  Dim t = Dim::symbol("T"), s = Dim::symbol("S"), l = Dim::symbol("L"), b = Dim::symbol("B");
  ValueId ids = in(step_io::kIds, DType::kI32, {t}), positions = in(step_io::kPositions, DType::kI32, {t});
  ValueId starts = in(step_io::kSeqStarts, DType::kI32, {s + 1}), lens = in(step_io::kContextLens, DType::kI32, {s});
  ValueId tables = in(step_io::kBlockTables, DType::kI32, {s, b}), rows = in(step_io::kLogitRows, DType::kI32, {l});
  ValueId params = in(step_io::kSampleParams, DType::kU8, {l, static_cast<int64_t>(sizeof(SampleParams))});
  ValueId slots = in(step_io::kSlots, DType::kI32, {l});
  ValueId last = g.add_state({kNoValue, step_io::kLastIds, StateSpec::Kind::kSlots, DType::kI32, 0, 0, 1});
  ValueId counts = g.add_state({kNoValue, step_io::kTokenCounts, StateSpec::Kind::kSlots, DType::kU16, 0, 0, c.vocab});

  auto add = [&](OpId op, Attrs a, std::vector<ValueId> v, std::string name) { return g.add(op, std::move(a), std::move(v), std::move(name)).value(); };
  auto weight = [&](std::string name, Dims shape) { return g.add_constant(std::move(name), random_constant(rng, shape, 0.15f)); };
  auto ones = [&](std::string name) {
    std::vector<float> v(static_cast<size_t>(c.hidden), 1.0f);
    for (size_t i = 0; i < v.size(); ++i) v[i] += 0.01f * static_cast<float>(i % 7);
    return g.add_constant(std::move(name), make_constant(DType::kF32, {c.hidden}, v));
  };
  std::vector<float> f;
  for (int64_t i = 0; i < c.head_dim / 2; ++i) f.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(c.head_dim)));
  ValueId frequencies = g.add_constant("rope.frequencies", make_constant(DType::kF32, {c.head_dim / 2}, f));
  ConstantPtr rows_of_ids = random_constant(rng, {c.vocab, c.hidden}, 0.15f);
  if (c.nan_token >= 0) {
    std::vector<float> v(rows_of_ids->data.bytes.size() / sizeof(float));
    std::memcpy(v.data(), rows_of_ids->data.bytes.data(), rows_of_ids->data.bytes.size());
    std::fill_n(v.begin() + c.nan_token * c.hidden, c.hidden, std::nanf(""));
    rows_of_ids = make_constant(DType::kF32, {c.vocab, c.hidden}, v);
  }
  ValueId embedding = g.add_constant("embed", rows_of_ids);
  ValueId x = add(OpId::kEmbedding, NoAttrs{}, {embedding, add(OpId::kResolveIds, NoAttrs{}, {ids, last}, "resolve")}, "embedding");
  for (int i = 0; i < c.layers; ++i) {
    std::string p = "layers." + std::to_string(i) + ".";
    ValueId kv = g.add_state({kNoValue, "kv." + std::to_string(i), StateSpec::Kind::kPagedKv, DType::kF32, c.kv_heads, c.head_dim, 0});
    ValueId n = add(OpId::kRmsNorm, NormAttrs{1e-5f}, {x, ones(p + "norm1")}, p + "attn_norm");
    auto linear = [&](ValueId v, int64_t rows_out, int64_t k, const std::string& name) {
      return add(OpId::kLinear, LinearAttrs{}, {v, weight(p + name + ".weight", {rows_out, k})}, p + name);
    };
    RopeAttrs rope{c.head_dim, c.head_dim, false, 1};
    ValueId q = add(OpId::kRope, rope, {linear(n, c.heads * c.head_dim, c.hidden, "q"), positions, frequencies}, p + "rope_q");
    ValueId k = add(OpId::kRope, rope, {linear(n, c.kv_heads * c.head_dim, c.hidden, "k"), positions, frequencies}, p + "rope_k");
    ValueId v = linear(n, c.kv_heads * c.head_dim, c.hidden, "v");
    AttentionAttrs a;
    a.heads = c.heads, a.kv_heads = c.kv_heads, a.head_dim = c.head_dim, a.scale = 1 / std::sqrt(static_cast<float>(c.head_dim));
    ValueId o = add(OpId::kPagedAttention, a, {q, k, v, kv, positions, starts, lens, tables}, p + "attention");
    x = add(OpId::kAdd, NoAttrs{}, {x, linear(o, c.hidden, c.heads * c.head_dim, "o")}, p + "residual1");
    n = add(OpId::kRmsNorm, NormAttrs{1e-5f}, {x, ones(p + "norm2")}, p + "mlp_norm");
    ValueId gate = add(OpId::kSilu, NoAttrs{}, {linear(n, c.intermediate, c.hidden, "gate")}, p + "silu");
    ValueId up = linear(n, c.intermediate, c.hidden, "up");
    ValueId h = add(OpId::kMul, NoAttrs{}, {gate, up}, p + "gated");
    x = add(OpId::kAdd, NoAttrs{}, {x, linear(h, c.hidden, c.intermediate, "down")}, p + "residual2");
  }
  x = add(OpId::kRmsNorm, NormAttrs{1e-5f}, {x, ones("norm")}, "final_norm");
  x = add(OpId::kLinear, LinearAttrs{}, {x, embedding}, "head");
  x = add(OpId::kGather, AxisAttrs{0}, {x, rows}, "pick_rows");
  auto sampled = g.add_node(OpId::kSample, NoAttrs{}, {x, params, slots, counts, last}, 4, "sample").value();
  g.outputs = {x, sampled[0], sampled[1], sampled[2], sampled[3]};
  const char* names[] = {step_io::kLogits, step_io::kNextIds, step_io::kLogprob, step_io::kTopIds, step_io::kTopLogprobs};
  for (size_t i = 0; i < 5; ++i) g.value(g.outputs[i]).name = names[i];
  Model m;
  m.functions["step"] = std::move(g);
  m.max_context = 512;
  m.default_precision = "fp32";
  return m;
}

}  // namespace brisk::test
