// Shape rules of operators that make, read and change shapes.
#include <algorithm>
#include <cmath>

#include "op/rules.h"

namespace brisk::rules {

Status infer_same(InferContext& c) {
  const bool along_axis = c.op() == OpId::kSoftmax || c.op() == OpId::kLogSoftmax || c.op() == OpId::kHardmax;
  if (along_axis && c.in(0).ranked && c.in(0).rank() > 0) BRISK_TRY(normalize_axis(c.attrs<AxisAttrs>().axis, c.in(0).rank()));
  c.out() = c.in(0);
  c.out().elements.reset();
  return {};
}

Status infer_shape(InferContext& c) {
  const Type& x = c.in(0);
  Type& out = c.out();
  out.dtype = DType::kI64;
  if (!x.ranked) return out.shape = {c.fresh("rank")}, Status();
  const auto& a = c.attrs<ShapeAttrs>();
  int64_t rank = x.rank();
  auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  int64_t start = clamp(a.start), end = std::max(clamp(a.end), start);
  out.shape = {end - start};
  out.elements = std::vector<Dim>(x.shape.begin() + start, x.shape.begin() + end);
  return {};
}

Status infer_reshape(InferContext& c) {
  const Type& x = c.in(0);
  Type& out = c.out();
  out.dtype = x.dtype;
  auto target = c.elements(1);
  if (!target) {  // perhaps only the length of the shape operand is known
    BRISK_ASSIGN(auto shape, shape_operand(c, 1, "reshape"));
    out.ranked = shape.has_value();
    if (shape) out.shape = std::move(*shape);
    return {};
  }
  BRISK_TRY(too_many_axes(target->size()));
  Dim known = 1, total = 1;
  int inferred = -1;
  for (size_t i = 0; i < target->size(); ++i) {
    auto v = (*target)[i].constant();
    if (v && *v == 0) {
      if (!x.ranked) (*target)[i] = c.fresh("reshape");
      else if (i < x.shape.size()) (*target)[i] = x.shape[i];
      else return invalid("shape copies axis " + std::to_string(i) + " of x, which has rank " + std::to_string(x.rank()));
    }
    if (v && *v == -1) {
      if (inferred >= 0) return invalid("more than one -1 in shape");
      inferred = static_cast<int>(i);
    } else if (v && *v < -1) {
      return invalid("shape holds " + std::to_string(*v));
    } else {
      known = known * (*target)[i];
    }
  }
  out.shape = *target;
  if (!x.ranked) {
    if (inferred >= 0) out.shape[static_cast<size_t>(inferred)] = c.fresh("reshape");
    return {};
  }
  for (const Dim& d : x.shape) total = total * d;
  if (inferred >= 0) out.shape[static_cast<size_t>(inferred)] = known == Dim(0) ? Dim(0) : Dim::floor_div(total, known);
  auto t = total.constant(), k = known.constant();
  if (t && k && (inferred >= 0 ? *k != 0 && *t % *k != 0 : *t != *k))
    return invalid("cannot reshape " + to_string(x.shape) + " to " + to_string(*target));
  out.elements = c.elements(0);
  return {};
}

Status infer_squeeze(InferContext& c) {
  const Type& x = c.in(0);
  const auto& a = c.attrs<ReduceAttrs>();
  Type& out = c.out();
  out.dtype = x.dtype;
  out.ranked = x.ranked;
  if (!x.ranked) return {};
  std::vector<bool> drop(x.shape.size());
  if (a.all && !c.has(1)) {
    auto dims = constant_dims(x.shape);
    if (!dims) return out.ranked = false, Status();  // whether a symbol is 1 is seen at run time only
    for (size_t i = 0; i < dims->size(); ++i) drop[i] = (*dims)[i] == 1;
  } else {
    BRISK_ASSIGN(auto axes, axes_of(c, x.rank()));
    if (!axes) return out.ranked = false, Status();
    for (int axis : *axes) {
      auto v = x.shape[static_cast<size_t>(axis)].constant();
      if (v && *v != 1) return invalid("axis " + std::to_string(axis) + " of " + to_string(x.shape) + " is not 1");
      drop[static_cast<size_t>(axis)] = true;
    }
  }
  for (size_t i = 0; i < drop.size(); ++i)
    if (!drop[i]) out.shape.push_back(x.shape[i]);
  out.elements = c.elements(0);
  return {};
}

Status infer_unsqueeze(InferContext& c) {
  const Type& x = c.in(0);
  Type& out = c.out();
  out.dtype = x.dtype;
  auto n = static_cast<int64_t>(c.attrs<ReduceAttrs>().axes.size());
  if (c.has(1)) {
    if (auto e = c.numbers(1)) n = static_cast<int64_t>(e->size());
    else if (auto len = c.in(1).ranked && c.in(1).rank() == 1 ? c.in(1).shape[0].constant() : std::nullopt) n = *len;
    else return out.ranked = false, Status();
  }
  out.ranked = x.ranked;
  if (!x.ranked) return {};
  auto rank = static_cast<size_t>(x.rank() + n);
  BRISK_TRY(too_many_axes(rank));
  BRISK_ASSIGN(auto axes, axes_of(c, static_cast<int>(rank)));
  if (!axes) {
    BRISK_ASSIGN(out.shape, fresh_shape(c, static_cast<int64_t>(rank), "unsqueeze"));
    return {};
  }
  for (size_t i = 0, from = 0; i < rank; ++i)
    out.shape.push_back(std::binary_search(axes->begin(), axes->end(), static_cast<int>(i)) ? Dim(1) : x.shape[from++]);
  out.elements = c.elements(0);
  return {};
}

Status infer_flatten(InferContext& c) {
  const Type& x = c.in(0);
  Type& out = c.out();
  out.dtype = x.dtype;
  if (!x.ranked) return out.shape = {c.fresh("flatten"), c.fresh("flatten")}, Status();
  int64_t axis = c.attrs<AxisAttrs>().axis;
  if (axis < -x.rank() || axis > x.rank()) return invalid("axis " + std::to_string(axis) + " outside the rank " + std::to_string(x.rank()));
  if (axis < 0) axis += x.rank();
  Dim before = 1, after = 1;
  for (int i = 0; i < x.rank(); ++i) (i < axis ? before : after) = (i < axis ? before : after) * x.shape[static_cast<size_t>(i)];
  out.shape = {before, after};
  out.elements = c.elements(0);
  return {};
}

Status infer_expand(InferContext& c) {
  const Type& x = c.in(0);
  Type& out = c.out();
  out.dtype = x.dtype;
  BRISK_ASSIGN(auto target, shape_operand(c, 1, "expand"));
  out.ranked = x.ranked && target.has_value();
  if (!out.ranked) return {};
  for (const Dim& d : *target)
    if (auto v = d.constant(); v && *v < 0) return invalid("shape holds " + std::to_string(*v));
  BRISK_ASSIGN(out.shape, broadcast(x.shape, *target));
  if (auto e = c.elements(0)) out.elements = spread_elements(*e, x.shape, out.shape);
  return {};
}

namespace {

std::optional<double> scalar(const InferContext& c, int i) {
  const TensorView* v = c.data(i);
  if (!v || v->count() != 1 || !is_float(v->dtype)) return std::nullopt;
  return v->dtype == DType::kF64 ? v->as<double>()[0] : static_cast<double>(load_float(v->data, v->dtype, 0));
}

}  // namespace

Status infer_range(InferContext& c) {
  Type& out = c.out();
  out.dtype = c.in(0).dtype;
  if (is_float(out.dtype)) {
    auto a = scalar(c, 0), b = scalar(c, 1), d = scalar(c, 2);
    if (!a || !b || !d) return out.shape = {c.fresh("range")}, Status();
    double n = *d == 0 ? NAN : std::ceil((*b - *a) / *d);
    if (!(n < 9e15)) return invalid("Range from " + std::to_string(*a) + " to " + std::to_string(*b) + " by " + std::to_string(*d));
    out.shape = {n > 0 ? static_cast<int64_t>(n) : 0};
    return {};
  }
  auto start = c.elements(0), limit = c.elements(1);
  auto step = c.numbers(2);
  for (auto* e : {&start, &limit})
    if (*e && (*e)->size() != 1) return invalid("start and limit must be scalars");
  if (step && (step->size() != 1 || (*step)[0] == 0)) return invalid("delta must be a scalar other than 0");
  if (!start || !limit || !step) return out.shape = {c.fresh("range")}, Status();
  int64_t by = (*step)[0];
  Dim span = by > 0 ? (*limit)[0] - (*start)[0] : (*start)[0] - (*limit)[0];
  int64_t size = by > 0 ? by : by == INT64_MIN ? INT64_MAX : -by;
  Dim n = at_least_zero(size == 1 ? span : Dim::floor_div(span + Dim(size - 1), size));
  out.shape = {n};
  if (auto k = n.constant(); k && *k <= kMaxTrackedElements) {
    std::vector<Dim> e;
    for (int64_t i = 0; i < *k; ++i) e.push_back((*start)[0] + Dim(i) * Dim(by));
    out.elements = std::move(e);
  }
  return {};
}

}  // namespace brisk::rules
