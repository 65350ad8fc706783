// Shape rules of pointwise operators, with arithmetic on tracked elements for shape computations.
#include "op/rules.h"

namespace brisk::rules {
namespace {

bool trackable(const Type& t) { return is_integer(t.dtype) || t.dtype == DType::kBool; }

}  // namespace

Status infer_unary(InferContext& c) {
  c.out() = c.in(0);
  return {};
}

Status infer_predicate(InferContext& c) {
  c.out() = c.in(0);
  c.out().dtype = DType::kBool;
  c.out().elements.reset();
  return {};
}

Status infer_cast(InferContext& c) {
  c.out() = c.in(0);
  c.out().dtype = c.attrs<CastAttrs>().to;
  if (!trackable(c.in(0)) || !is_integer(c.out().dtype)) c.out().elements.reset();
  return {};
}

Status infer_binary(InferContext& c) {
  const Type &a = c.in(0), &b = c.in(1);
  Type& out = c.out();
  out.dtype = a.dtype;
  out.ranked = a.ranked && b.ranked;
  if (!out.ranked) return {};
  BRISK_ASSIGN(out.shape, broadcast(a.shape, b.shape));
  return {};
}

Status infer_compare(InferContext& c) {
  BRISK_TRY(infer_binary(c));
  c.out().dtype = DType::kBool;
  return {};
}

Status infer_where(InferContext& c) {
  const Type &cond = c.in(0), &a = c.in(1), &b = c.in(2);
  Type& out = c.out();
  out.dtype = a.dtype;
  out.ranked = cond.ranked && a.ranked && b.ranked;
  if (!out.ranked) return {};
  BRISK_ASSIGN(auto ab, broadcast(a.shape, b.shape));
  BRISK_ASSIGN(out.shape, broadcast(cond.shape, ab));
  return {};
}

Status infer_pointwise(InferContext& c) {
  const auto& p = c.attrs<PointwiseAttrs>();
  size_t n = p.ops.size();
  if (n == 0 || p.a.size() != n || p.b.size() != n || p.alpha.size() != n || p.beta.size() != n)
    return internal("pointwise program is malformed");
  for (size_t i = 0; i < n; ++i) {
    auto limit = static_cast<int64_t>(c.input_count()) + static_cast<int64_t>(i);
    if (p.a[i] < 0 || p.a[i] >= limit || p.b[i] < -1 || p.b[i] >= limit) return internal("pointwise register out of range");
  }
  Type& out = c.out();
  out.dtype = c.in(0).dtype;
  for (int i = 0; i < c.input_count(); ++i) {
    out.ranked = out.ranked && c.in(i).ranked;
    if (!out.ranked) return {};
    BRISK_ASSIGN(out.shape, broadcast(out.shape, c.in(i).shape));
  }
  return {};
}

}  // namespace brisk::rules
