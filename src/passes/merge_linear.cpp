// Projections of one value become one Linear: the weights are read in one go, and a norm before them has one reader.
#include <algorithm>
#include <tuple>

#include "passes/all.h"
#include "passes/rewrite.h"
#include "tensor/constant_ops.h"

namespace brisk::passes {
namespace {

// The Linear behind an operand of Attention, through views, rotation and norms of heads.
Node* projection(const Round& r, ValueId v) {
  for (int depth = 0; depth < 8; ++depth) {
    Node* n = r.index.producer(v);
    if (!n || r.gone(*n) || !r.index.single_use(v)) return nullptr;
    if (n->op == OpId::kLinear) return n;
    if (n->op != OpId::kRotaryEmbedding && n->op != OpId::kRmsNorm && !is_view(r.g, *n)) return nullptr;
    v = n->inputs[0];
  }
  return nullptr;
}

bool plain_linear(const Graph& g, const Node& n) {
  const Constant* b = g.constant(operand(n, 2));
  return g.constant(n.inputs[1]) && operand(n, 3) < 0 && operand(n, 4) < 0 && !std::get<LinearAttrs>(n.attrs).gated &&
         (operand(n, 2) < 0 || (b && b->encoding.plain() && b->dtype == DType::kF32));
}

std::vector<float> joined_bias(const Graph& g, const std::vector<Node*>& parts) {
  std::vector<float> all;
  bool any = false;
  for (const Node* p : parts) {
    const Constant* b = g.constant(operand(*p, 2));
    any = any || b;
    auto f = b ? to_floats(*b) : std::vector<float>(static_cast<size_t>(g.constant(p->inputs[1])->shape[0]));
    all.insert(all.end(), f.begin(), f.end());
  }
  return any ? all : std::vector<float>{};
}

// `parts`, in execution order, become one Linear and a Split of its result.
Status merge(Round& r, const std::vector<Node*>& parts) {
  Graph& g = r.g;
  std::vector<ConstantPtr> weights;
  for (const Node* p : parts) weights.push_back(g.value(p->inputs[1]).constant);
  auto merged = concat_rows(weights);
  if (!merged.ok()) return r.missed(*parts[0], "projections", merged.error().message), Status();
  Node all = *parts[0];
  all.inputs = {parts[0]->inputs[0], g.add_constant(g.value(parts[0]->inputs[1]).name + "+more", std::move(*merged))};
  if (auto bias = joined_bias(g, parts); !bias.empty())
    all.inputs.push_back(g.add_constant(all.name + ".bias", make_constant(DType::kF32, {static_cast<int64_t>(bias.size())}, bias)));
  all.outputs = {g.add_value(all.name + ".merged")};
  BRISK_TRY(infer_node(g, all));
  Node split;
  split.op = OpId::kSplit;
  split.name = all.name + ".split";
  split.inputs = all.outputs;
  SliceAttrs a;
  a.axis = type_of(g, all.outputs[0]).rank() - 1;
  for (Node* p : parts) {
    a.sizes.push_back(g.constant(p->inputs[1])->shape[0]);
    split.outputs.push_back(p->outputs[0]);
    if (p != parts[0]) p->outputs[0] = g.add_value(p->name + ".gone", type_of(g, p->outputs[0]));
  }
  split.attrs = a;
  r.insert(*parts[0], std::move(all));
  return r.replace_with(*parts[0], std::move(split));
}

}  // namespace

// act(gate) * up, both halves of one product.
Result<int> fuse_packed_mlp(Graph& g, PassContext& c) {
  return until_stable(g, c, [](Round& r, Node& n) -> Status {
    Graph& g = r.g;
    if (n.op != OpId::kMul) return {};
    for (size_t side : {0u, 1u}) {
      const Node* act = r.index.producer(n.inputs[side]);
      auto function = gate_function(act);
      const Node* split = function ? r.index.producer(act->inputs[0], OpId::kSplit) : nullptr;
      if (!split || split->outputs.size() != 2 || split->outputs[0] != act->inputs[0] || split->outputs[1] != n.inputs[1 - side]) continue;
      const Node* linear = r.index.producer(split->inputs[0]);
      const bool experts = linear && linear->op == OpId::kExpertLinear;
      const size_t at = experts ? 2 : 1;  // the weight
      bool alone = r.index.single_use(n.inputs[side]) && r.index.single_use(split->inputs[0]) && r.index.single_use(split->outputs[0]) && r.index.single_use(split->outputs[1]);
      if (!linear || !alone || linear->inputs.size() > at + 1) continue;
      if (experts ? !g.constant(linear->inputs[2]) || std::get<LinearAttrs>(linear->attrs).gated : linear->op != OpId::kLinear || !plain_linear(g, *linear)) continue;
      const Constant& w = *g.constant(linear->inputs[at]);
      int64_t rows_each = w.shape[w.shape.rank - 2], half = rows_each / 2;
      if (!last_axis(g, split->inputs[0], std::get<SliceAttrs>(split->attrs).axis) || !(type_of(g, split->outputs[0]).shape.back() == Dim(half)) || rows_each % 2) continue;
      std::vector<int64_t> order;
      for (int64_t first = 0, n_rows = w.shape.count(0, w.shape.rank - 1); first < n_rows; first += rows_each)
        for (int64_t i = 0; i < half; ++i) order.push_back(first + i), order.push_back(first + half + i);
      LinearAttrs a = std::get<LinearAttrs>(linear->attrs);
      if (!a.act.empty()) continue;
      a.gated = true;
      std::tie(a.act, a.act_alpha) = *function;
      std::vector<ValueId> in = linear->inputs;
      in[at] = g.add_constant(g.value(in[at]).name + ".gated", permute_rows(w, order));
      return r.replace(n, linear->op, a, in);
    }
    return {};
  });
}

// [a, b, K] -> [a b, K] -> Linear -> [a b, N] -> [a, b, N].
Result<int> linear_on_all_axes(Graph& g, PassContext& c) {
  return until_stable(g, c, [](Round& r, Node& n) -> Status {
    const Graph& g = r.g;
    if (!is_view(g, n)) return {};
    const Node* linear = r.index.producer(n.inputs[0], OpId::kLinear);
    const Node* join = linear ? r.index.producer(linear->inputs[0]) : nullptr;
    if (!join || !is_view(g, *join) || operand(*linear, 3) >= 0 || !r.index.single_use(n.inputs[0])) return {};
    const Shape &x = type_of(g, join->inputs[0]).shape, &out = type_of(g, n.outputs[0]).shape;
    const Shape &rows = type_of(g, join->outputs[0]).shape, &product = type_of(g, n.inputs[0]).shape;
    if (x.size() < 2 || x.size() != out.size() || !(x.back() == rows.back()) || !(out.back() == product.back())) return {};
    for (size_t i = 0; i + 1 < x.size(); ++i)
      if (!(x[i] == out[i])) return {};
    Node whole = *linear;
    whole.inputs[0] = join->inputs[0];
    whole.outputs = n.outputs;
    return r.replace_with(n, std::move(whole));
  });
}

Result<int> merge_projections(Graph& g, PassContext& c) {
  return until_stable(g, c, [](Round& r, Node& n) -> Status {
    if (n.op != OpId::kAttention) return {};
    std::vector<Node*> found;
    for (size_t i = 0; i < 3; ++i) {
      Node* p = projection(r, n.inputs[i]);
      if (p && plain_linear(r.g, *p) && std::find(found.begin(), found.end(), p) == found.end()) found.push_back(p);
    }
    std::sort(found.begin(), found.end());
    for (Node* first : found) {
      std::vector<Node*> alike;
      for (Node* p : found)
        if (p->op == OpId::kLinear && first->op == OpId::kLinear && p->inputs[0] == first->inputs[0] && p->attrs == first->attrs) alike.push_back(p);
      if (alike.size() > 1) return merge(r, alike);
    }
    return {};
  });
}

}  // namespace brisk::passes
