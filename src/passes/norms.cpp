// LayerNorm and RMS norm out of the parts that exporters write.
#include <cmath>

#include "passes/all.h"
#include "passes/rewrite.h"

namespace brisk::passes {
namespace {

bool is_wide_cast(const Graph& g, const Node* n) {
  return n && n->op == OpId::kCast && is_float(type_of(g, n->inputs[0]).dtype) && is_float(type_of(g, n->outputs[0]).dtype);
}

// v = x^2, as Pow or Mul.
ValueId squared(const Round& r, ValueId v) {
  const Node* n = r.index.producer(v);
  if (!n) return kNoValue;
  if (n->op == OpId::kMul && n->inputs[0] == n->inputs[1]) return n->inputs[0];
  if (n->op == OpId::kPow)
    if (auto e = uniform(r.g, n->inputs[1]); e && *e == 2) return n->inputs[0];
  return kNoValue;
}

// v = a + constant, the constant one number: {a, constant}.
struct Offset {
  ValueId of = kNoValue;
  double by = 0;
};
std::optional<Offset> plus_number(const Round& r, ValueId v) {
  const Node* n = r.index.producer(v, OpId::kAdd);
  if (!n) return std::nullopt;
  for (size_t side : {1u, 0u})
    if (auto u = uniform(r.g, n->inputs[side])) return Offset{n->inputs[1 - side], *u};
  return std::nullopt;
}

// The last axis' mean of x^2 plus epsilon, as the standard deviation (root) or its inverse.
struct Deviation {
  ValueId x = kNoValue;
  float epsilon = 0;
};
std::optional<Deviation> mean_square(const Round& r, ValueId v) {
  auto sum = plus_number(r, v);
  Offset o = sum ? *sum : Offset{v, 0};
  if (!(o.by >= 0 && o.by < 1)) return std::nullopt;
  const Node* mean = r.index.producer(o.of, OpId::kReduceMean);
  if (!mean || !reduces_last(r.g, *mean)) return std::nullopt;
  ValueId x = squared(r, mean->inputs[0]);
  if (x < 0) return std::nullopt;
  return Deviation{x, static_cast<float>(o.by)};
}
std::optional<Deviation> root_mean_square(const Round& r, ValueId v) {
  const Node* n = r.index.producer(v);
  if (!n) return std::nullopt;
  if (n->op == OpId::kSqrt) return mean_square(r, n->inputs[0]);
  if (n->op == OpId::kPow)
    if (auto e = uniform(r.g, n->inputs[1]); e && *e == 0.5) return mean_square(r, n->inputs[0]);
  return std::nullopt;
}
std::optional<Deviation> inverse_root_mean_square(const Round& r, ValueId v) {
  const Node* n = r.index.producer(v);
  if (!n) return std::nullopt;
  if (n->op == OpId::kReciprocal) return root_mean_square(r, n->inputs[0]);
  if (n->op == OpId::kDiv)
    if (auto one = uniform(r.g, n->inputs[0]); one && *one == 1) return root_mean_square(r, n->inputs[1]);
  if (n->op == OpId::kPow)
    if (auto e = uniform(r.g, n->inputs[1]); e && *e == -0.5) return mean_square(r, n->inputs[0]);
  return std::nullopt;
}

// x divided by its root mean square.
std::optional<Deviation> normalised(const Round& r, ValueId v) {
  const Node* n = r.index.producer(v);
  if (!n) return std::nullopt;
  if (n->op == OpId::kDiv) {
    auto d = root_mean_square(r, n->inputs[1]);
    return d && d->x == n->inputs[0] ? d : std::nullopt;
  }
  if (n->op != OpId::kMul) return std::nullopt;
  for (size_t side : {1u, 0u})
    if (auto d = inverse_root_mean_square(r, n->inputs[side]); d && d->x == n->inputs[1 - side]) return d;
  return std::nullopt;
}

// v = x - mean(x).
ValueId centred(const Round& r, ValueId v) {
  const Node* n = r.index.producer(v, OpId::kSub);
  const Node* mean = n ? r.index.producer(n->inputs[1], OpId::kReduceMean) : nullptr;
  return mean && mean->inputs[0] == n->inputs[0] && reduces_last(r.g, *mean) ? n->inputs[0] : kNoValue;
}

bool is_row(const Graph& g, ValueId v, ValueId x) {
  const Type &w = type_of(g, v), &t = type_of(g, x);
  return w.ranked && t.ranked && t.rank() > 0 && w.rank() == 1 && w.shape[0] == t.shape.back() && is_float(w.dtype);
}

// A weight of the norm's type: an f16 weight beside an f32 norm is cast.
Result<ValueId> as_type(Round& r, const Node& root, ValueId v, DType t) {
  if (type_of(r.g, v).dtype == t) return v;
  CastAttrs a;
  a.to = t;
  return r.add(root, OpId::kCast, a, {v});
}

// `root` becomes the norm of `x`, times `weight` (absent: ones), plus `bias`.
Status make_norm(Round& r, Node& root, OpId op, ValueId x, float epsilon, ValueId weight, ValueId bias) {
  Graph& g = r.g;
  if (!equal_shapes(g, x, root.outputs[0])) return {};
  DType t = type_of(g, root.outputs[0]).dtype;
  // A norm that works in f32 round an f16 value: the operator does so by itself.
  if (const Node* wide = r.index.producer(x, OpId::kCast); is_wide_cast(g, wide) && type_of(g, wide->inputs[0]).dtype == t) x = wide->inputs[0];
  if (weight < 0) {
    auto k = type_of(g, x).shape.back().constant();
    if (!k) return {};
    weight = g.add_constant(root.name + ".ones", make_constant(DType::kF32, {*k}, std::vector<float>(static_cast<size_t>(*k), 1)));
  }
  DType given = type_of(g, weight).dtype;
  if (given != DType::kF32) {
    BRISK_ASSIGN(weight, as_type(r, root, weight, type_of(g, x).dtype));
  }
  NormAttrs a;
  a.epsilon = epsilon;
  std::vector<ValueId> in = {x, weight};
  if (bias >= 0) {
    BRISK_ASSIGN(bias, as_type(r, root, bias, type_of(g, weight).dtype));
    in.push_back(bias);
  }
  if (type_of(g, x).dtype == t) return r.replace(root, op, a, std::move(in));
  BRISK_ASSIGN(ValueId y, r.add(root, op, a, std::move(in)));
  CastAttrs cast;
  cast.to = t;
  return r.replace(root, OpId::kCast, cast, {y});
}

// The norm behind `v`, perhaps through a Cast back to a narrow type.
struct Norm {
  OpId op = OpId::kRmsNorm;
  ValueId x = kNoValue;
  float epsilon = 0;
};
std::optional<Norm> norm_of(const Round& r, ValueId v) {
  if (const Node* n = r.index.producer(v); is_wide_cast(r.g, n) && r.index.single_use(n->inputs[0])) v = n->inputs[0];
  auto d = normalised(r, v);
  if (!d) {  // a LayerNorm divides x - mean by the deviation of x - mean
    return std::nullopt;
  }
  if (ValueId x = centred(r, d->x); x >= 0) return Norm{OpId::kLayerNorm, x, d->epsilon};
  return Norm{OpId::kRmsNorm, d->x, d->epsilon};
}

// One side of a commutative node is a norm, the other a row of weights.
struct Scaled {
  Norm norm;
  ValueId row = kNoValue;
};
std::optional<Scaled> scaled_norm(const Round& r, const Node& n) {
  if (n.op != OpId::kMul) return std::nullopt;
  for (size_t side : {0u, 1u}) {
    auto norm = norm_of(r, n.inputs[side]);
    if (norm && is_row(r.g, n.inputs[1 - side], norm->x) && r.index.single_use(n.inputs[side])) return Scaled{*norm, n.inputs[1 - side]};
  }
  return std::nullopt;
}

Status step(Round& r, Node& n) {
  Graph& g = r.g;
  if (n.op == OpId::kAdd) {
    for (size_t side : {0u, 1u}) {
      const Node* mul = r.index.producer(n.inputs[side], OpId::kMul);
      auto s = mul ? scaled_norm(r, *mul) : std::nullopt;
      if (!s || s->norm.op != OpId::kLayerNorm || !is_row(g, n.inputs[1 - side], s->norm.x)) continue;
      if (!r.index.single_use(n.inputs[side])) return r.missed(n, "norm", "the scaled value has further readers"), Status();
      return make_norm(r, n, OpId::kLayerNorm, s->norm.x, s->norm.epsilon, s->row, n.inputs[1 - side]);
    }
    return {};
  }
  if (auto s = scaled_norm(r, n)) {
    // The bias comes next: the Add is the root then.
    const Node* next = r.index.single_user(n.outputs[0]);
    if (s->norm.op == OpId::kLayerNorm && next && next->op == OpId::kAdd)
      for (ValueId v : next->inputs)
        if (is_row(g, v, s->norm.x)) return {};
    return make_norm(r, n, s->norm.op, s->norm.x, s->norm.epsilon, s->row, kNoValue);
  }
  // Without a weight.
  if (n.op != OpId::kDiv && n.op != OpId::kMul) return {};
  auto plain = norm_of(r, n.outputs[0]);
  if (!plain) return {};
  const Node* next = r.index.single_user(n.outputs[0]);
  if (is_wide_cast(g, next)) next = r.index.single_user(next->outputs[0]);
  if (next && next->op == OpId::kMul)
    for (ValueId v : next->inputs)
      if (is_row(g, v, plain->x)) return {};
  return make_norm(r, n, plain->op, plain->x, plain->epsilon, kNoValue, kNoValue);
}

}  // namespace

Result<int> recognize_norm(Graph& g, PassContext& c) { return until_stable(g, c, step); }

}  // namespace brisk::passes
