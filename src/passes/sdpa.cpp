// softmax(q k^T * scale + mask) v, as exporters spell it, becomes one Attention over whole tensors.
#include <cmath>
#include <limits>

#include "passes/all.h"
#include "passes/rewrite.h"

namespace brisk::passes {
namespace {

constexpr const char* kWhat = "attention";

// What lies between the product q k^T and the softmax, from the outside in.
struct Scores {
  ValueId q = kNoValue, kt = kNoValue;
  double scale = 1;
  double softcap = 0;
  std::vector<ValueId> added;   // float masks and biases
  struct Choice {               // Where(keep, scores, fill)
    ValueId condition;
    bool keep_if;
    double fill;
  };
  std::vector<Choice> choices;
  std::string why;  // not, if so
};

bool is_float_cast(const Graph& g, const Node& n) {
  return n.op == OpId::kCast && is_float(type_of(g, n.inputs[0]).dtype) && is_float(type_of(g, n.outputs[0]).dtype);
}

bool broadcasts_to(const Graph& g, ValueId mask, ValueId scores) {
  const Type &m = type_of(g, mask), &s = type_of(g, scores);
  if (!m.ranked || m.rank() > s.rank()) return false;
  size_t lead = s.shape.size() - m.shape.size();
  for (size_t i = 0; i < m.shape.size(); ++i) {
    const Dim &a = m.shape[i], &b = s.shape[lead + i];
    if (!(a == b) && a.is_constant() && !(a == Dim(1)) && b.is_constant()) return false;
  }
  return true;
}

bool walk(const Round& r, ValueId v, Scores& s, int depth);

bool walk_add(const Round& r, const Node& n, Scores& s, int depth) {
  if (s.scale != 1 || s.softcap != 0) return s.why = "a mask is added before the scale", false;
  for (size_t side : {0u, 1u}) {
    if (!equal_shapes(r.g, n.inputs[side], n.outputs[0]) && type_of(r.g, n.inputs[side]).rank() != 4) continue;
    Scores inner = s;
    if (!walk(r, n.inputs[side], inner, depth + 1)) {
      if (side == 0 || s.why.empty()) s.why = inner.why;
      continue;
    }
    if (!broadcasts_to(r.g, n.inputs[1 - side], n.inputs[side])) return s.why = "the mask does not broadcast to the scores", false;
    inner.added.push_back(n.inputs[1 - side]);
    s = std::move(inner);
    return true;
  }
  return false;
}

bool walk_where(const Round& r, const Node& n, Scores& s, int depth) {
  if (s.scale != 1 || s.softcap != 0) return s.why = "scores are masked before the scale", false;
  for (size_t side : {1u, 2u}) {
    auto fill = uniform(r.g, n.inputs[3 - side]);
    if (!fill || *fill > -1e3) continue;
    if (!broadcasts_to(r.g, n.inputs[0], n.inputs[side])) return s.why = "the mask does not broadcast to the scores", false;
    s.choices.push_back({n.inputs[0], side == 1, *fill});
    return walk(r, n.inputs[side], s, depth + 1);
  }
  return s.why = "a Where that puts no large negative number in", false;
}

bool walk(const Round& r, ValueId v, Scores& s, int depth) {
  const Graph& g = r.g;
  const Node* n = r.index.producer(v);
  if (!n || depth > 16) return s.why = "its operand comes from no product", false;
  switch (n->op) {
    case OpId::kMatMul: {
      const Type &q = type_of(g, n->inputs[0]), &k = type_of(g, n->inputs[1]);
      if (!q.ranked || !k.ranked || q.rank() != 4 || k.rank() != 4) return s.why = "q k^T is not of rank 4", false;
      s.q = n->inputs[0], s.kt = n->inputs[1];
      return true;
    }
    case OpId::kCast:
      if (!is_float_cast(g, *n)) break;
      return walk(r, n->inputs[0], s, depth + 1);
    case OpId::kDiv: case OpId::kMul: {
      for (size_t side : {1u, 0u}) {
        auto u = uniform(g, n->inputs[side]);
        if (!u || *u == 0 || (side == 0 && n->op == OpId::kDiv)) continue;
        s.scale *= n->op == OpId::kMul ? *u : 1 / *u;
        return walk(r, n->inputs[1 - side], s, depth + 1);
      }
      return s.why = "scores are multiplied by what is not one number", false;
    }
    case OpId::kTanh: {
      if (s.softcap != 0 || !(s.scale > 0)) return s.why = "two softcaps", false;
      double cap = s.softcap = s.scale;
      s.scale = 1;
      if (!walk(r, n->inputs[0], s, depth + 1)) return false;
      s.scale *= cap;
      return true;
    }
    case OpId::kMax: {  // clamped at the lowest number: nothing changes
      for (size_t side : {1u, 0u})
        if (auto u = uniform(g, n->inputs[side]); u && *u < -1e30) return walk(r, n->inputs[1 - side], s, depth + 1);
      break;
    }
    case OpId::kAdd: return walk_add(r, *n, s, depth);
    case OpId::kWhere: return walk_where(r, *n, s, depth);
    default: break;
  }
  return s.why = std::string("a ") + op_name(n->op) + " between product and softmax", false;
}

// The Softmax behind `v`: through Where(IsNaN(p), 0, p), casts and Identity.
const Node* softmax_behind(const Round& r, ValueId v) {
  for (int depth = 0; depth < 6; ++depth) {
    const Node* n = r.index.producer(v);
    if (!n) return nullptr;
    if (n->op == OpId::kSoftmax) return last_axis(r.g, v, std::get<AxisAttrs>(n->attrs).axis) ? n : nullptr;
    if (is_float_cast(r.g, *n)) {
      v = n->inputs[0];
    } else if (n->op == OpId::kWhere) {
      const Node* nan = r.index.producer(n->inputs[0], OpId::kIsNaN);
      auto zero = uniform(r.g, n->inputs[1]);
      if (!nan || nan->inputs[0] != n->inputs[2] || !zero || *zero != 0) return nullptr;
      v = n->inputs[2];
    } else {
      return nullptr;
    }
  }
  return nullptr;
}

struct Scaled {
  ValueId value;
  double scale;
};

// `v` without the number that it was multiplied by, looking through movement and rotation, which are linear.
Result<Scaled> without_scale(Round& r, const Node& root, ValueId v, int depth = 0) {
  Graph& g = r.g;
  const Node* n = r.index.producer(v);
  if (!n || depth > 8) return Scaled{v, 1};
  if (n->op == OpId::kMul || n->op == OpId::kDiv)
    for (size_t side : {1u, 0u}) {
      auto u = uniform(g, n->inputs[side]);
      if (!u || !(*u > 0) || (side == 0 && n->op == OpId::kDiv) || !equal_shapes(g, n->inputs[1 - side], v)) continue;
      BRISK_ASSIGN(Scaled inner, without_scale(r, root, n->inputs[1 - side], depth + 1));
      return Scaled{inner.value, inner.scale * (n->op == OpId::kMul ? *u : 1 / *u)};
    }
  bool linear = n->op == OpId::kTranspose || is_view(g, *n) || n->op == OpId::kExpand || n->op == OpId::kRotaryEmbedding;
  if (!linear || !r.index.single_use(v)) return Scaled{v, 1};
  BRISK_ASSIGN(Scaled inner, without_scale(r, root, n->inputs[0], depth + 1));
  if (inner.value == n->inputs[0]) return Scaled{v, 1};
  std::vector<ValueId> in = n->inputs;
  in[0] = inner.value;
  BRISK_ASSIGN(inner.value, r.add(root, n->op, n->attrs, std::move(in)));
  return inner;
}

// k [B, H, T, d] out of its transposed form.
Result<ValueId> untransposed(Round& r, const Node& root, ValueId kt) {
  const Node* t = r.index.producer(kt, OpId::kTranspose);
  TransposeAttrs a;
  a.perm = t ? perm_of(r.g, *t) : std::vector<int64_t>{0, 1, 2, 3};
  std::swap(a.perm[2], a.perm[3]);
  ValueId from = t ? t->inputs[0] : kt;
  if (a.perm == std::vector<int64_t>{0, 1, 2, 3}) return from;
  return r.add(root, OpId::kTranspose, a, {from});
}

// Is the batch of `v` that of q, or at least joined with something of q's batch (a past of its own symbol)?
bool same_batch(const Round& r, ValueId q, ValueId v, int depth = 0) {
  const Graph& g = r.g;
  const Dim& want = type_of(g, q).shape[0];
  const Type& t = type_of(g, v);
  if (t.ranked && t.rank() > 0 && t.shape[0] == want) return true;
  const Node* n = r.index.producer(v);
  if (!n || depth > 8) return false;
  if (n->op == OpId::kConcat)
    for (ValueId in : n->inputs)
      if (type_of(g, in).ranked && type_of(g, in).rank() > 0 && type_of(g, in).shape[0] == want) return true;
  if (n->op == OpId::kConcat || n->op == OpId::kExpand || n->op == OpId::kTranspose || is_view(g, *n))
    return same_batch(r, q, n->inputs[0], depth + 1);
  return false;
}

Result<ValueId> scalar(Round& r, const Node& root, DType t, double value) {
  ValueId f = r.g.add_constant("number", make_constant(DType::kF32, {}, std::vector<float>{static_cast<float>(value)}));
  if (t == DType::kF32) return f;
  CastAttrs a;
  a.to = t;
  return r.add(root, OpId::kCast, a, {f});
}

// The masks as one operand of Attention: bool (keep) if all it does is choose -inf, else floats to add.
Result<ValueId> mask_of(Round& r, const Node& root, const Scores& s, DType t) {
  ValueId sum = kNoValue;
  for (ValueId v : s.added) {
    if (type_of(r.g, v).dtype != t) {
      CastAttrs a;
      a.to = t;
      BRISK_ASSIGN(v, r.add(root, OpId::kCast, a, {v}));
    }
    if (sum < 0) sum = v;
    else {
      BRISK_ASSIGN(sum, r.add(root, OpId::kAdd, NoAttrs{}, {sum, v}));
    }
  }
  for (const Scores::Choice& c : s.choices) {
    if (sum < 0 && s.choices.size() == 1 && std::isinf(c.fill)) {
      if (c.keep_if) return c.condition;
      return r.add(root, OpId::kNot, NoAttrs{}, {c.condition});
    }
    BRISK_ASSIGN(ValueId fill, scalar(r, root, t, c.fill));
    if (sum < 0) {
      BRISK_ASSIGN(sum, scalar(r, root, t, 0));
    }
    std::vector<ValueId> in = {c.condition, c.keep_if ? sum : fill, c.keep_if ? fill : sum};
    BRISK_ASSIGN(sum, r.add(root, OpId::kWhere, NoAttrs{}, std::move(in)));
  }
  return sum;
}

Status step(Round& r, Node& n) {
  Graph& g = r.g;
  if (n.op != OpId::kMatMul) return {};
  const Node* softmax = softmax_behind(r, n.inputs[0]);
  if (!softmax) return {};
  if (!r.index.single_use(n.inputs[0]) || g.is_output(softmax->outputs[0])) return r.missed(n, kWhat, "the probabilities are read elsewhere, too"), Status();
  Scores s;
  if (!walk(r, softmax->inputs[0], s, 0)) return r.missed(n, kWhat, s.why), Status();
  ValueId v = n.inputs[1];
  if (!type_of(g, v).ranked || type_of(g, v).rank() != 4) return r.missed(n, kWhat, "v is " + to_string(type_of(g, v))), Status();
  BRISK_ASSIGN(Scaled q, without_scale(r, n, s.q));
  BRISK_ASSIGN(Scaled kt, without_scale(r, n, s.kt));
  BRISK_ASSIGN(ValueId k, untransposed(r, n, kt.value));
  const Shape qs = type_of(g, q.value).shape, ks = type_of(g, k).shape, vs = type_of(g, v).shape;
  auto heads = qs[1].constant(), kv = ks[1].constant();
  bool fits = ks[1] == vs[1] && (ks[1] == qs[1] || (heads && kv && *kv > 0 && *heads % *kv == 0 && *kv == 1));
  if (!fits) return r.missed(n, kWhat, "heads of q, k, v: " + qs[1].to_string() + ", " + ks[1].to_string() + ", " + vs[1].to_string()), Status();
  if (!same_batch(r, q.value, s.kt) || !same_batch(r, q.value, v))
    return r.missed(n, kWhat, "batches of q, k, v: " + qs[0].to_string() + ", " + ks[0].to_string() + ", " + vs[0].to_string()), Status();
  if (type_of(g, q.value).dtype != type_of(g, k).dtype || type_of(g, k).dtype != type_of(g, v).dtype) return r.missed(n, kWhat, "q, k, v of different types"), Status();
  SdpaAttrs a;
  a.scale = static_cast<float>(s.scale * q.scale * kt.scale);
  a.softcap = static_cast<float>(s.softcap);
  if (!(a.scale > 0)) return r.missed(n, kWhat, "a scale of " + std::to_string(a.scale)), Status();
  BRISK_ASSIGN(ValueId mask, mask_of(r, n, s, type_of(g, q.value).dtype));
  std::vector<ValueId> in = {q.value, k, v};
  if (mask >= 0) in.push_back(mask);
  return r.replace(n, OpId::kAttention, a, std::move(in));
}

}  // namespace

Result<int> recognize_attention(Graph& g, PassContext& c) { return until_stable(g, c, step); }

}  // namespace brisk::passes
