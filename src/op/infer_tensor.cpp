// Shape rules of movement and products.
#include "op/rules.h"

namespace brisk::rules {

Status infer_reshape(InferContext& c) {
  const Type& x = c.in(0);
  Type& out = c.out();
  out.dtype = x.dtype;
  auto target = c.elements(1);
  if (!target) {
    // Only the length of the shape operand may be known: each dim is a fresh symbol.
    auto n = c.in(1).ranked && c.in(1).rank() == 1 ? c.in(1).shape[0].constant() : std::nullopt;
    if (!n) return out.ranked = false, Status();
    if (*n > kMaxRank) return unsupported("rank " + std::to_string(*n) + ", at most " + std::to_string(kMaxRank));
    for (int64_t i = 0; i < *n; ++i) out.shape.push_back(c.fresh("reshape"));
    return {};
  }
  if (target->size() > kMaxRank) return unsupported("rank " + std::to_string(target->size()) + ", at most " + std::to_string(kMaxRank));
  Dim known = 1, total = 1;
  int inferred = -1;
  for (size_t i = 0; i < target->size(); ++i) {
    auto v = (*target)[i].constant();
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
  out.elements = x.elements;
  return {};
}

Status infer_transpose(InferContext& c) {
  const Type& x = c.in(0);
  const auto& perm = c.attrs<TransposeAttrs>().perm;
  Type& out = c.out();
  out.dtype = x.dtype;
  out.ranked = x.ranked;
  if (!x.ranked) return {};
  std::vector<bool> seen(perm.size());
  if (static_cast<int>(perm.size()) != x.rank()) return invalid("perm has " + std::to_string(perm.size()) + " axes, x has " + std::to_string(x.rank()));
  for (int64_t p : perm) {
    if (p < 0 || p >= x.rank() || seen[static_cast<size_t>(p)]) return invalid("perm is not a permutation");
    seen[static_cast<size_t>(p)] = true;
    out.shape.push_back(x.shape[static_cast<size_t>(p)]);
  }
  return {};
}

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
  if (out.rank() > kMaxRank) return unsupported("rank " + std::to_string(out.rank()) + ", at most " + std::to_string(kMaxRank));
  auto data = c.elements(0);
  auto which = c.numbers(1);
  if (data && which && x.rank() == 1) {
    std::vector<Dim> picked;
    auto n = static_cast<int64_t>(data->size());
    for (int64_t i : *which) {
      if (i < -n || i >= n) return invalid("index " + std::to_string(i) + " outside [" + std::to_string(-n) + ", " + std::to_string(n) + ")");
      picked.push_back((*data)[static_cast<size_t>(i < 0 ? i + n : i)]);
    }
    out.elements = std::move(picked);
  }
  return {};
}

Status infer_concat(InferContext& c) {
  Type& out = c.out();
  out = c.in(0);
  out.elements.reset();
  for (int i = 0; i < c.input_count(); ++i)
    if (!c.in(i).ranked) return out = Type{c.in(0).dtype, false, {}, {}}, Status();
  BRISK_ASSIGN(int axis, normalize_axis(c.attrs<AxisAttrs>().axis, out.rank()));
  Dim sum = 0;
  for (int i = 0; i < c.input_count(); ++i) {
    if (c.in(i).rank() != out.rank()) return invalid("operands of rank " + std::to_string(out.rank()) + " and " + std::to_string(c.in(i).rank()));
    sum = sum + c.in(i).shape[static_cast<size_t>(axis)];
  }
  out.shape[static_cast<size_t>(axis)] = sum;
  if (out.rank() != 1) return {};
  std::vector<Dim> joined;
  for (int i = 0; i < c.input_count(); ++i) {
    auto e = c.elements(i);
    if (!e || joined.size() + e->size() > kMaxTrackedElements) return {};
    joined.insert(joined.end(), e->begin(), e->end());
  }
  out.elements = std::move(joined);
  return {};
}

Status infer_matmul(InferContext& c) {
  const Type &a = c.in(0), &b = c.in(1);
  Type& out = c.out();
  out.dtype = a.dtype;
  out.ranked = a.ranked && b.ranked;
  if (!out.ranked) return {};
  if (a.rank() < 1 || b.rank() < 1) return invalid("operands must have rank 1 or more");
  Shape x = a.shape, y = b.shape;
  if (a.rank() == 1) x.insert(x.begin(), 1);
  if (b.rank() == 1) y.push_back(1);
  auto k1 = x.back().constant(), k2 = y[y.size() - 2].constant();
  if (k1 && k2 && *k1 != *k2) return invalid("inner sizes differ: " + to_string(a.shape) + " x " + to_string(b.shape));
  BRISK_ASSIGN(out.shape, broadcast(Shape(x.begin(), x.end() - 2), Shape(y.begin(), y.end() - 2)));
  if (a.rank() > 1) out.shape.push_back(x[x.size() - 2]);
  if (b.rank() > 1) out.shape.push_back(y.back());
  return {};
}

}  // namespace brisk::rules
