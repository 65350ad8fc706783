// Shape rules of gathering, scattering and selection.
#include "base/int_of.h"
#include "op/rules.h"

namespace brisk::rules {

Status infer_gather(InferContext& c) {
  const Type &x = c.in(0), &ids = c.in(1);
  Type& out = c.out();
  out.dtype = x.dtype;
  out.ranked = x.ranked && ids.ranked;
  if (!out.ranked) return {};
  BRISK_ASSIGN(int axis, normalize_axis(c.attrs<AxisAttrs>().axis, x.rank()));
  out.shape.assign(x.shape.begin(), x.shape.begin() + axis);
  out.shape.insert(out.shape.end(), ids.shape.begin(), ids.shape.end());
  out.shape.insert(out.shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  BRISK_TRY(too_many_axes(out.shape.size()));
  auto data = c.elements(0);
  auto which = c.numbers(1);
  if (!data || !which || axis != 0) return {};
  // Whole slices along axis 0; a vector's are its elements.
  auto dims = constant_dims(x.shape);
  if (!dims) return {};
  int64_t n = (*dims)[0], width = n ? static_cast<int64_t>(data->size()) / n : 0;
  if (static_cast<int64_t>(which->size()) * width > kMaxTrackedElements) return {};
  std::vector<Dim> picked;
  for (int64_t i : *which) {
    if (i < -n || i >= n) return invalid("index " + std::to_string(i) + " outside [" + std::to_string(-n) + ", " + std::to_string(n) + ")");
    auto first = data->begin() + (i < 0 ? i + n : i) * width;
    picked.insert(picked.end(), first, first + width);
  }
  out.elements = std::move(picked);
  return {};
}

Status infer_gather_elements(InferContext& c) {
  c.out() = c.in(1);
  c.out().elements.reset();
  c.out().dtype = c.in(0).dtype;
  if (c.in(0).ranked) BRISK_TRY(normalize_axis(c.attrs<AxisAttrs>().axis, c.in(0).rank()).ok() ? Status() : Status(invalid("axis outside the rank")));
  if (c.in(0).ranked && c.in(1).ranked && c.in(0).rank() != c.in(1).rank()) return invalid("x and indices differ in rank");
  return {};
}

Status infer_gather_nd(InferContext& c) {
  const Type &x = c.in(0), &ids = c.in(1);
  Type& out = c.out();
  out.dtype = x.dtype;
  auto k = ids.ranked && ids.rank() >= 1 ? ids.shape.back().constant() : std::nullopt;
  out.ranked = x.ranked && k.has_value();
  if (!out.ranked) return {};
  int64_t batch = c.attrs<AxisAttrs>().axis;
  if (batch < 0 || batch >= ids.rank() || *k < 1 || *k + batch > x.rank())
    return invalid("indices of " + std::to_string(*k) + " coordinates and " + std::to_string(batch) + " batch axes for x of rank " + std::to_string(x.rank()));
  out.shape.assign(ids.shape.begin(), ids.shape.end() - 1);
  out.shape.insert(out.shape.end(), x.shape.begin() + batch + *k, x.shape.end());
  return too_many_axes(out.shape.size());
}

Status infer_one_hot(InferContext& c) {
  const Type& ids = c.in(0);
  Type& out = c.out();
  out.dtype = c.in(2).dtype;
  out.ranked = ids.ranked;
  if (!ids.ranked) return {};
  BRISK_ASSIGN(int axis, normalize_axis(c.attrs<AxisAttrs>().axis, ids.rank() + 1));
  Dim depth = c.fresh("depth");
  if (auto e = c.elements(1); e && e->size() == 1) depth = (*e)[0];
  else if (const TensorView* v = c.data(1); v && v->count() == 1) depth = int_of(static_cast<double>(load_float(v->data, v->dtype, 0)));
  if (auto k = depth.constant(); k && *k < 0) return invalid("depth " + std::to_string(*k));
  out.shape = ids.shape;
  out.shape.insert(out.shape.begin() + axis, depth);
  return too_many_axes(out.shape.size());
}

Status infer_top_k(InferContext& c) {
  const Type& x = c.in(0);
  c.out(0) = Type{x.dtype, x.ranked, x.shape, {}};
  c.out(1) = Type{DType::kI64, x.ranked, x.shape, {}};
  if (!x.ranked) return {};
  BRISK_ASSIGN(int axis, normalize_axis(c.attrs<ModeAttrs>().axis, x.rank()));
  auto k = c.elements(1);
  if (k && k->size() != 1) return invalid("k must be one number");
  Dim n = k ? (*k)[0] : c.fresh("topk");
  auto want = n.constant(), have = x.shape[static_cast<size_t>(axis)].constant();
  if (want && (*want < 0 || (have && *want > *have))) return invalid("k is " + std::to_string(*want) + ", the axis has " + x.shape[static_cast<size_t>(axis)].to_string());
  c.out(0).shape[static_cast<size_t>(axis)] = c.out(1).shape[static_cast<size_t>(axis)] = n;
  return {};
}

Status infer_non_zero(InferContext& c) {
  const Type& x = c.in(0);
  Type& out = c.out();
  out.dtype = DType::kI64;
  const TensorView* v = c.data(0);
  out.shape = {x.ranked ? Dim(x.rank()) : c.fresh("rank"), 0};
  if (!v) return out.shape[1] = c.fresh("nonzero"), Status();
  int64_t n = 0;
  for (int64_t i = 0; i < v->count(); ++i) n += is_float(v->dtype) ? load_float(v->data, v->dtype, i) != 0 : load_int(v->data, v->dtype, i) != 0;
  out.shape[1] = n;
  return {};
}

Status infer_compress(InferContext& c) {
  const Type& x = c.in(0);
  const auto& a = c.attrs<ModeAttrs>();
  Type& out = c.out();
  out.dtype = x.dtype;
  Dim n = c.fresh("compress");
  if (const TensorView* v = c.data(1)) {
    int64_t kept = 0;
    for (int64_t i = 0; i < v->count(); ++i) kept += v->as<uint8_t>()[i] != 0;
    n = kept;
  }
  if (a.flag) return out.shape = {n}, Status();
  out.ranked = x.ranked;
  if (!x.ranked) return {};
  BRISK_ASSIGN(int axis, normalize_axis(a.axis, x.rank()));
  out.shape = x.shape;
  out.shape[static_cast<size_t>(axis)] = n;
  return {};
}

Status infer_tree_ensemble(InferContext& c) {
  const Type &x = c.in(0), &weights = c.in(4);
  for (int i : {1, 2})
    if (c.in(i).dtype != DType::kI64) return invalid("roots and nodes are i64, not " + to_string(c.in(i)));
  for (int i : {3, 4})
    if (c.in(i).dtype != x.dtype) return invalid("splits and weights are of x's type, not " + to_string(c.in(i)));
  if (x.dtype != DType::kF32 && x.dtype != DType::kF64) return unsupported("trees over " + to_string(x));
  Type& out = c.out();
  out.dtype = x.dtype;
  out.ranked = x.ranked && weights.ranked;
  if (!out.ranked) return {};
  if (x.rank() != 2 || weights.rank() != 2) return invalid("x is " + to_string(x) + ", weights " + to_string(weights) + ": rank 2 wanted");
  out.shape = {x.shape[0], weights.shape[1]};
  return {};
}

}  // namespace brisk::rules
