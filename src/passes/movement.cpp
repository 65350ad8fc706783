// Views and transposes that cancel, merge, or say the same with fewer steps.
#include <algorithm>

#include "passes/all.h"
#include "passes/rewrite.h"

namespace brisk::passes {
namespace {

// A view of a view.
Status merge_views(Round& r, Node& n) {
  Graph& g = r.g;
  Node* first = r.index.producer(n.inputs[0]);
  if (!first || r.gone(*first) || !is_view(g, *first)) return {};
  const Type &x = type_of(g, first->inputs[0]), &out = type_of(g, n.outputs[0]);
  if (x.shape == out.shape && r.bypass(n, first->inputs[0])) return {};
  auto target = reshape_operand(g, x.shape, out.shape);
  if (!target) return {};
  ValueId x0 = first->inputs[0], s = r.add_ints(*target);
  return r.replace(n, OpId::kReshape, NoAttrs{}, {x0, s});
}

Status merge_transposes(Round& r, Node& n) {
  Graph& g = r.g;
  if (!type_of(g, n.inputs[0]).ranked) return {};
  auto perm = perm_of(g, n);
  if (Node* first = r.index.producer(n.inputs[0], OpId::kTranspose); first && !r.gone(*first)) {
    auto inner = perm_of(g, *first);
    TransposeAttrs both;
    for (int64_t p : perm) both.perm.push_back(inner[static_cast<size_t>(p)]);
    ValueId x = first->inputs[0];
    if (std::is_sorted(both.perm.begin(), both.perm.end()) && r.bypass(n, x)) return {};
    return r.replace(n, OpId::kTranspose, both, {x});
  }
  // Only axes of 1 change places: a view.
  std::vector<int64_t> real;
  for (int64_t p : perm)
    if (type_of(g, n.inputs[0]).shape[static_cast<size_t>(p)].constant_or(0) != 1) real.push_back(p);
  if (!std::is_sorted(real.begin(), real.end()) || std::is_sorted(perm.begin(), perm.end())) return {};
  auto target = reshape_operand(g, type_of(g, n.inputs[0]).shape, type_of(g, n.outputs[0]).shape);
  if (!target) return {};
  ValueId s = r.add_ints(*target);
  return r.replace(n, OpId::kReshape, NoAttrs{}, {n.inputs[0], s});
}

// Leading axes joined, the rest transposed, leading axes taken apart again: one Transpose of the whole. [a, b, s, d] ->
// [a b, s, d] -> [a b, d, s] -> [a, b, d, s].
Status unjoin_leading(Round& r, Node& n) {
  Graph& g = r.g;
  Node* t = r.index.producer(n.inputs[0], OpId::kTranspose);
  Node* join = t ? r.index.producer(t->inputs[0]) : nullptr;
  if (!join || !is_view(g, *join)) return {};
  const Shape &x = type_of(g, join->inputs[0]).shape, &mid = type_of(g, join->outputs[0]).shape;
  const Shape &mid2 = type_of(g, t->outputs[0]).shape, &out = type_of(g, n.outputs[0]).shape;
  auto perm = perm_of(g, *t);
  if (x.size() != out.size() || x.size() <= mid.size() || perm.empty() || perm[0] != 0) return {};
  size_t tail = mid.size() - 1, lead = x.size() - tail;
  for (size_t i = 0; i < tail; ++i)
    if (!(x[lead + i] == mid[1 + i]) || !(out[lead + i] == mid2[1 + i])) return {};
  for (size_t i = 0; i < lead; ++i)
    if (!(x[i] == out[i])) return {};
  TransposeAttrs a;
  for (size_t i = 0; i < lead; ++i) a.perm.push_back(static_cast<int64_t>(i));
  for (size_t i = 1; i < perm.size(); ++i) a.perm.push_back(perm[i] - 1 + static_cast<int64_t>(lead));
  ValueId source = join->inputs[0];
  return r.replace(n, OpId::kTranspose, a, {source});
}

}  // namespace

Result<int> simplify_movement(Graph& g, PassContext& c) {
  return until_stable(g, c, [](Round& r, Node& n) -> Status {
    if (n.op == OpId::kTranspose) return merge_transposes(r, n);
    if (!is_view(r.g, n)) return {};
    OpId before = n.op;
    std::vector<ValueId> in = n.inputs;
    BRISK_TRY(merge_views(r, n));
    if (r.gone(n) || n.op != before || n.inputs != in) return {};
    return unjoin_leading(r, n);
  });
}

}  // namespace brisk::passes
