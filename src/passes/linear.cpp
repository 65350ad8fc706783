// Fusions round Linear: from MatMul, bias, residual, norm prologue, gated MLP.
#include <tuple>

#include "passes/all.h"
#include "passes/rewrite.h"
#include "tensor/constant_ops.h"

namespace brisk::passes {
namespace {

LinearAttrs& linear_attrs(Node& n) { return std::get<LinearAttrs>(n.attrs); }

bool same_shape(const Graph& g, ValueId a, ValueId b) {
  const Type &x = g.value(a).type, &y = g.value(b).type;
  return x.ranked && y.ranked && x.dtype == y.dtype && x.shape == y.shape;
}

// Gemm: rows of x as they lie, alpha goes into the weight, a row is the bias.
bool gemm_to_linear(Graph& g, Node& n) {
  const auto& a = std::get<GemmAttrs>(n.attrs);
  const Constant* w = g.constant(n.inputs[1]);
  const Type& x = g.value(n.inputs[0]).type;
  if (!w || a.trans_a || w->shape.rank != 2 || !w->encoding.plain() || w->dtype != DType::kF32 || x.dtype != DType::kF32 || x.rank() != 2) return false;
  ConstantPtr rows = a.trans_b ? g.value(n.inputs[1]).constant : transposed(*w);
  int64_t outputs = rows->shape[0];
  ValueId bias = kNoValue;
  if (operand(n, 2) >= 0 && a.beta != 0) {
    const Constant* c = g.constant(n.inputs[2]);
    bool row = c && c->encoding.plain() && c->dtype == DType::kF32 && c->count() == outputs && (c->shape.rank == 1 || (c->shape.rank == 2 && c->shape[0] == 1));
    if (!row) return false;
    std::vector<float> numbers(c->as<float>(), c->as<float>() + outputs);
    for (float& v : numbers) v *= a.beta;
    bias = g.add_constant(g.value(n.inputs[2]).name + ".row", make_constant(DType::kF32, Dims{outputs}, numbers));
  }
  if (a.alpha != 1) {
    std::vector<float> numbers(rows->as<float>(), rows->as<float>() + rows->count());
    for (float& v : numbers) v *= a.alpha;
    rows = make_constant(DType::kF32, rows->shape, numbers);
  }
  if (rows != g.value(n.inputs[1]).constant) n.inputs[1] = g.add_constant(g.value(n.inputs[1]).name + ".T", rows);
  n.inputs.resize(2);
  if (bias >= 0) set_operand(n, 2, bias);
  n.op = OpId::kLinear;
  n.attrs = LinearAttrs{};
  return true;
}

}  // namespace

Result<int> matmul_to_linear(Graph& g, PassContext&) {
  int changed = 0;
  for (Node& n : g.nodes) {
    if (n.op == OpId::kGemm) changed += gemm_to_linear(g, n);
    if (n.op != OpId::kMatMul) continue;
    const Constant* w = g.constant(n.inputs[1]);
    const Type& x = g.value(n.inputs[0]).type;
    if (!w || w->shape.rank != 2 || !w->encoding.plain() || w->dtype != DType::kF32 || !x.ranked || x.rank() < 2) continue;
    ValueId t = g.add_constant(g.value(n.inputs[1]).name + ".T", transposed(*w));
    n.op = OpId::kLinear;
    n.attrs = LinearAttrs{};
    n.inputs[1] = t;
    ++changed;
  }
  g.compact();
  return changed;
}

Result<int> recognize_silu(Graph& g, PassContext& c) {
  int changed = 0;
  Index index(g);
  for (Node& n : g.nodes) {
    if (n.op != OpId::kMul) continue;
    for (size_t side : {0u, 1u}) {
      Node* sigmoid = index.producer(n.inputs[side], OpId::kSigmoid);
      if (!sigmoid || sigmoid->inputs[0] != n.inputs[1 - side] || !index.single_use(n.inputs[side])) continue;
      n.op = OpId::kSilu;
      n.attrs = NoAttrs{};
      n.inputs = {sigmoid->inputs[0]};
      ++changed;
      break;
    }
  }
  if (changed) BRISK_TRY(remove_dead(g, c));
  return changed;
}

Result<int> fuse_gated_mlp(Graph& g, PassContext& c) {
  int changed = 0;
  Index index(g);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Node& n = g.nodes[i];
    if (n.op != OpId::kMul) continue;
    for (size_t side : {0u, 1u}) {
      Node* act = index.producer(n.inputs[side]);
      auto function = gate_function(act);
      Node* gate = function ? index.producer(act->inputs[0], OpId::kLinear) : nullptr;
      Node* up = index.producer(n.inputs[1 - side], OpId::kLinear);
      if (!gate || !up || gate == up || gate->inputs[0] != up->inputs[0] || !(gate->attrs == up->attrs)) continue;
      if (linear_attrs(*gate).gated || !linear_attrs(*gate).act.empty() || gate->inputs.size() > 2 || up->inputs.size() > 2) continue;
      if (!index.single_use(n.inputs[side]) || !index.single_use(act->inputs[0]) || !index.single_use(n.inputs[1 - side])) continue;
      if (!g.constant(gate->inputs[1]) || !g.constant(up->inputs[1])) continue;
      auto merged = interleave_rows(g.value(gate->inputs[1]).constant, g.value(up->inputs[1]).constant);
      if (!merged.ok()) continue;  // encodings differ
      LinearAttrs attrs = linear_attrs(*gate);
      attrs.gated = true;
      std::tie(attrs.act, attrs.act_alpha) = *function;
      ValueId x = gate->inputs[0];
      ValueId w = g.add_constant(g.value(gate->inputs[1]).name + "+up", std::move(*merged));
      n.op = OpId::kLinear;
      n.attrs = attrs;
      n.inputs = {x, w};
      ++changed;
      break;
    }
  }
  if (changed) BRISK_TRY(remove_dead(g, c));
  return changed;
}

Result<int> fuse_bias(Graph& g, PassContext& c) {
  int changed = 0;
  Index index(g);
  for (Node& n : g.nodes) {
    if (n.op != OpId::kAdd) continue;
    for (size_t side : {0u, 1u}) {
      Node* linear = index.producer(n.inputs[side], OpId::kLinear);
      const Constant* bias = g.constant(n.inputs[1 - side]);
      if (!linear || !bias || linear->inputs.size() > 2 || linear_attrs(*linear).gated || !linear_attrs(*linear).act.empty() || !index.single_use(n.inputs[side])) continue;
      if (bias->shape.rank != 1 || bias->dtype != DType::kF32 || bias->count() != g.constant(linear->inputs[1])->shape[0]) continue;
      Node fused = *linear;
      set_operand(fused, 2, n.inputs[1 - side]);
      fused.outputs = n.outputs;
      n = std::move(fused);
      ++changed;
      break;
    }
  }
  if (changed) BRISK_TRY(remove_dead(g, c));
  return changed;
}

Result<int> fuse_residual(Graph& g, PassContext& c) {
  int changed = 0;
  for (bool again = true; again;) {
    again = false;
    Index index(g);
    for (Node& n : g.nodes) {
      if (n.op != OpId::kAdd) continue;
      for (size_t side : {1u, 0u}) {
        Node* linear = index.producer(n.inputs[side], OpId::kLinear);
        ValueId residual = n.inputs[1 - side];
        if (!linear || operand(*linear, 3) >= 0 || linear_attrs(*linear).gated || !index.single_use(n.inputs[side])) continue;
        if (!same_shape(g, residual, n.inputs[side]) || residual == n.inputs[side]) continue;
        // The fused node stands where the Add stood: both operands are defined there.
        Node fused = *linear;
        set_operand(fused, 3, residual);
        fused.outputs = n.outputs;
        n = std::move(fused);
        ++changed;
        again = true;
        break;
      }
    }
    if (again) BRISK_TRY(remove_dead(g, c));
  }
  return changed;
}

Result<int> fuse_norm(Graph& g, PassContext& c) {
  int changed = 0;
  Index index(g);
  for (Node& n : g.nodes) {
    if (n.op != OpId::kLinear || operand(n, 4) >= 0) continue;
    Node* norm = index.producer(n.inputs[0], OpId::kRmsNorm);
    if (!norm || !index.single_use(n.inputs[0]) || g.value(norm->inputs[0]).type.dtype != DType::kF32) continue;
    linear_attrs(n).norm_epsilon = std::get<NormAttrs>(norm->attrs).epsilon;
    set_operand(n, 4, norm->inputs[1]);
    n.inputs[0] = norm->inputs[0];
    ++changed;
  }
  if (changed) BRISK_TRY(remove_dead(g, c));
  return changed;
}

}  // namespace brisk::passes
