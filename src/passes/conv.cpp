// What follows a convolution (or a Linear) moves into it: BatchNorm and arithmetic with a constant per channel into its
// weights, residual and activation into its epilogue.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "op/activation.h"
#include "passes/all.h"
#include "passes/rewrite.h"

namespace brisk::passes {
namespace {

using Numbers = std::vector<float>;

const Constant* plain_f32(const Graph& g, ValueId v) {
  const Constant* c = g.constant(v);
  return c && c->dtype == DType::kF32 && c->encoding.plain() ? c : nullptr;
}

// The axis of the result along which the weight's filters lie; -1 for other operators.
int channel_axis(const Graph& g, const Node& n) {
  const Type& t = g.value(n.outputs[0]).type;
  if (!t.ranked || t.dtype != DType::kF32) return -1;
  if (n.op == OpId::kConv || n.op == OpId::kConvTranspose) return 1;
  return n.op == OpId::kLinear ? t.rank() - 1 : -1;
}

// Filters of a product whose weight and bias are constants and that nothing follows inside the node; 0 for others.
int64_t open_filters(const Graph& g, const Node& n) {
  if (channel_axis(g, n) < 0 || n.inputs.size() < 2) return 0;
  const Constant* w = plain_f32(g, n.inputs[1]);
  if (!w || (operand(n, 2) >= 0 && !plain_f32(g, n.inputs[2])) || operand(n, 3) >= 0) return 0;
  if (n.op == OpId::kLinear) {
    const auto& a = std::get<LinearAttrs>(n.attrs);
    return a.gated || !a.act.empty() ? 0 : w->shape[0];
  }
  const auto& a = std::get<WindowAttrs>(n.attrs);
  if (!a.act.empty() || w->shape.rank < 3) return 0;
  return n.op == OpId::kConv ? w->shape[0] : w->shape[1] * a.group;
}

// A constant that varies along one axis of a result of `rank` axes only, as `count` numbers.
std::optional<Numbers> along(const Constant& c, int rank, int axis, int64_t count) {
  if (c.shape.rank > rank) return std::nullopt;
  for (int i = 0; i < c.shape.rank; i++) {
    bool here = i + rank - c.shape.rank == axis;
    if (c.shape[i] != 1 && !(here && c.shape[i] == count)) return std::nullopt;
  }
  Numbers v(c.as<float>(), c.as<float>() + c.count());
  if (v.size() == 1) v.assign(static_cast<size_t>(count), v[0]);
  if (static_cast<int64_t>(v.size()) != count) return std::nullopt;
  return v;
}

ConstantPtr scaled_weight(const Node& n, const Constant& w, const Numbers& scale) {
  Numbers out(w.as<float>(), w.as<float>() + w.count());
  int64_t inner = w.shape.count(n.op == OpId::kConvTranspose ? 2 : 1, w.shape.rank);
  if (inner == 0) return make_constant(DType::kF32, w.shape, out);
  for (size_t i = 0; i < out.size(); i++) {
    int64_t row = static_cast<int64_t>(i) / inner, filter = row;
    if (n.op == OpId::kConvTranspose) {  // rows are [C][M / group]
      int64_t group = std::get<WindowAttrs>(n.attrs).group, per = w.shape[1];
      filter = row / per / (w.shape[0] / group) * per + row % per;
    }
    out[i] *= scale[static_cast<size_t>(filter)];
  }
  return make_constant(DType::kF32, w.shape, out);
}

// `n` becomes `product` with its result scaled and shifted per filter.
void absorb(Graph& g, Node& n, const Node& product, const Numbers* scale, const Numbers& shift) {
  Node fused = product;
  Numbers bias(shift.size(), 0.0f);
  if (operand(product, 2) >= 0) {
    const Constant& old = *g.constant(product.inputs[2]);
    std::copy(old.as<float>(), old.as<float>() + old.count(), bias.begin());
  }
  for (size_t i = 0; i < bias.size(); i++) bias[i] = (scale ? bias[i] * (*scale)[i] : bias[i]) + shift[i];
  std::string name = g.value(product.inputs[1]).name;
  if (scale) {
    ConstantPtr w = scaled_weight(product, *g.constant(product.inputs[1]), *scale);
    fused.inputs[1] = g.add_constant(name + ".scaled", std::move(w));
  }
  auto count = static_cast<int64_t>(bias.size());
  set_operand(fused, 2, g.add_constant(name + ".bias", make_constant(DType::kF32, Dims{count}, bias)));
  fused.outputs = n.outputs;
  n = std::move(fused);
}

// scale and shift of a BatchNorm with constant statistics.
bool normalisation(const Graph& g, const Node& n, Numbers& scale, Numbers& shift) {
  const Constant* c[4];
  for (size_t i = 0; i < 4; i++) {
    c[i] = plain_f32(g, n.inputs[i + 1]);
    if (!c[i] || c[i]->count() != c[0]->count()) return false;
  }
  auto epsilon = static_cast<double>(std::get<NormAttrs>(n.attrs).epsilon);
  for (int64_t i = 0; i < c[0]->count(); i++) {
    double s = static_cast<double>(c[0]->as<float>()[i]) / std::sqrt(static_cast<double>(c[3]->as<float>()[i]) + epsilon);
    scale.push_back(static_cast<float>(s));
    shift.push_back(static_cast<float>(static_cast<double>(c[1]->as<float>()[i]) - s * static_cast<double>(c[2]->as<float>()[i])));
  }
  return true;
}

// What an activation node is called in the attributes; "" for other nodes.
struct ActivationName {
  std::string act;
  float alpha = 0, beta = 0;
};
std::optional<ActivationName> activation_of(const Graph& g, const Node& n, ValueId x) {
  if (n.op == OpId::kMax || n.op == OpId::kMin) {
    const Constant* c = plain_f32(g, n.inputs[n.inputs[0] == x ? 1 : 0]);
    if (!c || c->count() != 1 || c->shape.rank > g.value(x).type.rank()) return std::nullopt;
    float bound = c->as<float>()[0], infinity = std::numeric_limits<float>::infinity();
    if (std::isnan(bound)) return std::nullopt;
    return n.op == OpId::kMax ? ActivationName{"Clip", bound, infinity} : ActivationName{"Clip", -infinity, bound};
  }
  if (n.inputs.size() != 1 || !activation_from_name(op_name(n.op)).has_value()) return std::nullopt;
  const auto* ab = std::get_if<AlphaBetaAttrs>(&n.attrs);
  return ActivationName{op_name(n.op), ab ? ab->alpha : 0, ab ? ab->beta : 0};
}

// The activation of `next` after one that is there already: only bounds join.
bool join(std::string& act, float& alpha, float& beta, const ActivationName& next) {
  if (act.empty()) {
    act = next.act, alpha = next.alpha, beta = next.beta;
    return true;
  }
  if (next.act != "Clip" || (act != "Relu" && act != "Clip")) return false;
  if (act == "Relu") alpha = 0, beta = std::numeric_limits<float>::infinity();
  act = "Clip";
  // min(max(x, a), b), then min(max(y, c), d)
  float low = std::min(std::max(alpha, next.alpha), next.beta), high = std::min(std::max(beta, next.alpha), next.beta);
  alpha = low, beta = high;
  return true;
}

bool add_activation(Node& product, const ActivationName& next) {
  if (product.op == OpId::kLinear) {
    auto& a = std::get<LinearAttrs>(product.attrs);
    if (a.gated || operand(product, 3) >= 0) return false;
    return join(a.act, a.act_alpha, a.act_beta, next);
  }
  auto& a = std::get<WindowAttrs>(product.attrs);
  if (product.op != OpId::kConv || a.residual_last) return false;
  return join(a.act, a.act_alpha, a.act_beta, next);
}

// One round over the nodes: activations, or residuals of convolutions.
int fuse_activations(Graph& g, OpId product) {
  int changed = 0;
  Index index(g);
  for (Node& n : g.nodes) {
    if (n.outputs.size() != 1 || n.inputs.empty() || g.value(n.outputs[0]).type.dtype != DType::kF32) continue;
    for (ValueId x : std::vector<ValueId>(n.inputs)) {
      Node* p = index.producer(x, product);
      if (!p || !index.single_use(x) || channel_axis(g, *p) < 0) continue;
      auto next = activation_of(g, n, x);
      Node fused = *p;
      if (!next || !add_activation(fused, *next)) continue;
      fused.outputs = n.outputs;
      n = std::move(fused);
      ++changed;
      break;
    }
  }
  return changed;
}

int fuse_conv_residuals(Graph& g) {
  int changed = 0;
  Index index(g);
  for (Node& n : g.nodes) {
    if (n.op != OpId::kAdd) continue;
    Node* conv = nullptr;
    ValueId residual = kNoValue;
    for (size_t side : {0u, 1u}) {  // of two convolutions the later one
      Node* p = index.producer(n.inputs[side], OpId::kConv);
      ValueId other = n.inputs[1 - side];
      if (!p || operand(*p, 3) >= 0 || !index.single_use(n.inputs[side]) || other == n.inputs[side]) continue;
      const Type &a = g.value(n.inputs[side]).type, &b = g.value(other).type;
      if (!a.ranked || !b.ranked || a.dtype != DType::kF32 || b.dtype != a.dtype || !(a.shape == b.shape)) continue;
      if (conv && index.position(*p) < index.position(*conv)) continue;
      conv = p;
      residual = other;
    }
    if (!conv) continue;
    Node fused = *conv;
    set_operand(fused, 3, residual);
    auto& a = std::get<WindowAttrs>(fused.attrs);
    a.residual_last = !a.act.empty();
    fused.outputs = n.outputs;
    n = std::move(fused);
    ++changed;
  }
  return changed;
}

}  // namespace

Result<int> fold_batch_norm(Graph& g, PassContext& c) {
  int changed = 0;
  Index index(g);
  for (Node& n : g.nodes) {
    if (n.op != OpId::kBatchNorm || g.value(n.outputs[0]).type.dtype != DType::kF32) continue;
    Numbers scale, shift;
    if (!normalisation(g, n, scale, shift)) continue;
    Node* p = index.producer(n.inputs[0]);
    if (!p || !index.single_use(n.inputs[0]) || open_filters(g, *p) != static_cast<int64_t>(scale.size()) || channel_axis(g, *p) != 1) continue;
    absorb(g, n, *p, &scale, shift);
    ++changed;
  }
  if (changed) BRISK_TRY(remove_dead(g, c));
  return changed;
}

Result<int> fold_channel_arithmetic(Graph& g, PassContext& c) {
  int changed = 0;
  Index index(g);
  for (Node& n : g.nodes) {
    bool adds = n.op == OpId::kAdd || n.op == OpId::kSub, scales = n.op == OpId::kMul || n.op == OpId::kDiv;
    if (!adds && !scales) continue;
    for (size_t side : {0u, 1u}) {
      if (side == 1 && (n.op == OpId::kSub || n.op == OpId::kDiv)) continue;
      Node* p = index.producer(n.inputs[side]);
      const Constant* k = plain_f32(g, n.inputs[1 - side]);
      if (!p || !k || !index.single_use(n.inputs[side])) continue;
      int64_t filters = open_filters(g, *p);
      auto numbers = filters ? along(*k, g.value(n.inputs[side]).type.rank(), channel_axis(g, *p), filters) : std::nullopt;
      if (!numbers) continue;
      for (float& v : *numbers) v = n.op == OpId::kSub ? -v : n.op == OpId::kDiv ? 1 / v : v;
      if (!std::all_of(numbers->begin(), numbers->end(), [](float v) { return std::isfinite(v); })) continue;
      if (adds) absorb(g, n, *p, nullptr, *numbers);
      else absorb(g, n, *p, &*numbers, Numbers(numbers->size(), 0.0f));
      ++changed;
      break;
    }
  }
  if (changed) BRISK_TRY(remove_dead(g, c));
  return changed;
}

Result<int> fuse_conv_epilogue(Graph& g, PassContext& c) {
  int changed = 0;
  for (int last = -1; last != changed;) {
    last = changed;
    changed += fuse_conv_residuals(g);
    if (changed != last) BRISK_TRY(remove_dead(g, c));
    int before = changed;
    changed += fuse_activations(g, OpId::kConv);
    if (changed != before) BRISK_TRY(remove_dead(g, c));
  }
  return changed;
}

Result<int> fuse_linear_activation(Graph& g, PassContext& c) {
  int changed = fuse_activations(g, OpId::kLinear);
  if (changed) BRISK_TRY(remove_dead(g, c));
  return changed;
}

Result<int> expand_batch_norm(Graph& g, PassContext&) {
  int changed = 0;
  std::vector<Node> nodes;
  for (Node& n : g.nodes) {
    Numbers scale, shift;
    Type type = n.op == OpId::kBatchNorm ? g.value(n.outputs[0]).type : Type{};
    if (n.op != OpId::kBatchNorm || !type.ranked || type.rank() < 2 || type.dtype != DType::kF32 || !normalisation(g, n, scale, shift)) {
      nodes.push_back(std::move(n));
      continue;
    }
    Dims shape{static_cast<int64_t>(scale.size())};
    for (int i = 2; i < type.rank(); i++) shape.push(1);
    Node mul, add;
    mul.op = OpId::kMul, add.op = OpId::kAdd;
    mul.attrs = add.attrs = NoAttrs{};
    mul.name = add.name = n.name;
    ValueId scaled = g.add_value(g.value(n.outputs[0]).name + ".scaled", type);
    mul.inputs = {n.inputs[0], g.add_constant(n.name + ".scale", make_constant(DType::kF32, shape, scale))};
    mul.outputs = {scaled};
    add.inputs = {scaled, g.add_constant(n.name + ".shift", make_constant(DType::kF32, shape, shift))};
    add.outputs = n.outputs;
    nodes.push_back(std::move(mul));
    nodes.push_back(std::move(add));
    ++changed;
  }
  g.nodes = std::move(nodes);
  g.compact();
  return changed;
}

}  // namespace brisk::passes
