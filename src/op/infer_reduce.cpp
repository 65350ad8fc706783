// Shape rules of reductions.
#include <algorithm>

#include "op/rules.h"

namespace brisk::rules {
namespace {

// Reductions of a whole tracked tensor to one element: sizes computed from shapes.
std::optional<Dim> fold_elements(OpId op, const std::vector<Dim>& e) {
  if (e.empty() && op != OpId::kReduceSum && op != OpId::kReduceProd) return std::nullopt;
  Dim r = op == OpId::kReduceSum ? Dim(0) : op == OpId::kReduceProd ? Dim(1) : e[0];
  for (const Dim& d : e) {
    switch (op) {
      case OpId::kReduceSum: r = r + d; break;
      case OpId::kReduceProd: r = r * d; break;
      case OpId::kReduceMax: r = Dim::max(r, d); break;
      case OpId::kReduceMin: r = Dim::min(r, d); break;
      default: return std::nullopt;
    }
  }
  return r;
}

}  // namespace

Status infer_reduce(InferContext& c) {
  const Type& x = c.in(0);
  const auto& a = c.attrs<ReduceAttrs>();
  Type& out = c.out();
  out.dtype = x.dtype;
  bool all = a.all && !c.has(1);
  // An empty list of axes given at run time means all of them, or (flagged by `all` = false) none: importers say which.
  if (all && !a.keep_dims) {
    if (auto e = c.elements(0))
      if (auto r = fold_elements(c.op(), *e)) out.elements = std::vector<Dim>{*r};
    return {};
  }
  out.ranked = x.ranked;
  if (!x.ranked) return {};
  std::vector<bool> hit(x.shape.size(), all);
  if (!all) {
    BRISK_ASSIGN(auto axes, axes_of(c, x.rank()));
    if (!axes) {
      auto n = c.in(1).ranked && c.in(1).rank() == 1 ? c.in(1).shape[0].constant() : std::nullopt;
      out.ranked = a.keep_dims || n.has_value();
      if (!out.ranked) return {};
      int64_t left = a.keep_dims ? x.rank() : x.rank() - *n;
      BRISK_ASSIGN(out.shape, fresh_shape(c, std::max<int64_t>(left, 0), "reduce"));
      return {};
    }
    for (int axis : *axes) hit[static_cast<size_t>(axis)] = true;
    if (axes->empty() && a.all) hit.assign(hit.size(), true);
  }
  for (size_t i = 0; i < hit.size(); ++i) {
    if (!hit[i]) out.shape.push_back(x.shape[i]);
    else if (a.keep_dims) out.shape.push_back(1);
  }
  if (x.rank() == 1 && hit[0])
    if (auto e = c.elements(0))
      if (auto r = fold_elements(c.op(), *e)) out.elements = std::vector<Dim>{*r};
  return {};
}

Status infer_arg(InferContext& c) {
  const Type& x = c.in(0);
  const auto& a = c.attrs<ReduceAttrs>();
  Type& out = c.out();
  out.dtype = DType::kI64;
  out.ranked = x.ranked;
  if (!x.ranked) return {};
  if (a.axes.size() != 1) return internal("ArgMax and ArgMin take one axis");
  BRISK_ASSIGN(int axis, normalize_axis(a.axes[0], x.rank()));
  out.shape = x.shape;
  if (auto n = x.shape[static_cast<size_t>(axis)].constant(); n && *n == 0) return invalid("axis " + std::to_string(axis) + " is empty");
  if (a.keep_dims) out.shape[static_cast<size_t>(axis)] = 1;
  else out.shape.erase(out.shape.begin() + axis);
  return {};
}

}  // namespace brisk::rules
