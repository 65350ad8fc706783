// Shape rules of pointwise operators, with arithmetic on tracked elements for shape computations.
#include "op/pointwise_program.h"
#include "op/rules.h"

namespace brisk::rules {
namespace {

bool trackable(const Type& t) { return is_integer(t.dtype) || t.dtype == DType::kBool; }

// Two sizes that are certainly equal (true), certainly different (false), or neither.
std::optional<bool> equal(const Dim& a, const Dim& b) {
  if (a == b) return true;
  Dim d = a - b;
  if (auto c = d.constant()) return *c == 0;
  if (seems_nonnegative(d - Dim(1)) || seems_nonnegative(Dim(-1) - d)) return false;
  return std::nullopt;
}
// a < b, under the same terms.
std::optional<bool> less(const Dim& a, const Dim& b) {
  if (seems_nonnegative(a - b)) return false;
  if (seems_nonnegative(b - a - Dim(1))) return true;
  return std::nullopt;
}
std::optional<Dim> truth(std::optional<bool> b, bool flip = false) {
  if (!b) return std::nullopt;
  return Dim(*b != flip);
}

// One element of a binary operator on sizes; nullopt where it cannot be said.
std::optional<Dim> fold(OpId op, const Dim& a, const Dim& b) {
  auto x = a.constant(), y = b.constant();
  switch (op) {
    case OpId::kAdd: return a + b;
    case OpId::kSub: return a - b;
    case OpId::kMul: return a * b;
    case OpId::kDiv:  // integers divide toward zero, sizes downward: the same unless a sign differs
      if (y && *y == 0) return std::nullopt;
      if (x && y) return *y == -1 ? std::optional(Dim(0) - a) : std::optional(Dim(*x / *y));
      if (!seems_nonnegative(a) || !seems_nonnegative(b - Dim(1))) return std::nullopt;
      return Dim::floor_div(a, b);
    case OpId::kMod:
      if ((y && *y == 0) || !seems_nonnegative(a) || !seems_nonnegative(b - Dim(1))) return std::nullopt;
      return Dim::mod(a, b);
    case OpId::kMin: return seems_nonnegative(b - a) ? a : seems_nonnegative(a - b) ? b : Dim::min(a, b);
    case OpId::kMax: return seems_nonnegative(a - b) ? a : seems_nonnegative(b - a) ? b : Dim::max(a, b);
    case OpId::kEqual: return truth(equal(a, b));
    case OpId::kLess: return truth(less(a, b));
    case OpId::kGreaterOrEqual: return truth(less(a, b), true);
    case OpId::kGreater: return truth(less(b, a));
    case OpId::kLessOrEqual: return truth(less(b, a), true);
    case OpId::kAnd: return x && y ? std::optional(Dim(*x && *y)) : (x && !*x) || (y && !*y) ? std::optional(Dim(0)) : std::nullopt;
    case OpId::kOr: return x && y ? std::optional(Dim(*x || *y)) : (x && *x) || (y && *y) ? std::optional(Dim(1)) : std::nullopt;
    default: return std::nullopt;
  }
}

// Would the number be another one in this type?
bool fits(DType t, const Dim& d) {
  auto v = d.constant();
  if (!v || t == DType::kI64 || t == DType::kBool) return true;
  if (t == DType::kU64) return *v >= 0;
  bool is_signed = t == DType::kI8 || t == DType::kI16 || t == DType::kI32 || t == DType::kI4 || t == DType::kI2;
  int64_t top = int64_t{1} << (dtype_bits(t) - (is_signed ? 1 : 0));
  return *v < top && *v >= (is_signed ? -top : 0);
}

std::optional<std::vector<Dim>> spread(const InferContext& c, int i, const Shape& to) {
  if (!trackable(c.in(i))) return std::nullopt;
  auto e = c.elements(i);
  return e ? spread_elements(*e, c.in(i).shape, to) : std::nullopt;
}

void fold_binary(InferContext& c) {
  Type& out = c.out();
  if (!trackable(out)) return;
  auto a = spread(c, 0, out.shape), b = spread(c, 1, out.shape);
  if (!a || !b) return;
  std::vector<Dim> e;
  for (size_t i = 0; i < a->size(); ++i) {
    auto r = fold(c.op(), (*a)[i], (*b)[i]);
    if (!r || !fits(c.in(0).dtype, *r)) return;
    e.push_back(std::move(*r));
  }
  out.elements = std::move(e);
}

}  // namespace

Status infer_unary(InferContext& c) {
  Type& out = c.out();
  out = c.in(0);
  out.elements.reset();
  auto e = trackable(out) ? c.elements(0) : std::nullopt;
  if (!e) return {};
  for (Dim& d : *e) {
    auto v = d.constant();
    switch (c.op()) {
      case OpId::kIdentity: break;
      case OpId::kNeg: d = Dim(0) - d; break;
      case OpId::kNot: if (!v) return {}; d = Dim(*v == 0); break;
      case OpId::kAbs: if (!seems_nonnegative(d)) return {}; break;
      case OpId::kRelu: d = at_least_zero(d); break;
      default: return {};
    }
  }
  out.elements = std::move(e);
  return {};
}

Status infer_predicate(InferContext& c) {
  c.out() = c.in(0);
  c.out().dtype = DType::kBool;
  c.out().elements.reset();
  return {};
}

Status infer_cast(InferContext& c) {
  const Type& x = c.in(0);
  Type& out = c.out();
  out = Type{c.attrs<CastAttrs>().to, x.ranked, x.shape, {}};
  if (!trackable(x) || !trackable(out)) return {};
  auto e = c.elements(0);
  if (!e) return {};
  for (Dim& d : *e) {
    auto v = d.constant();
    if (out.dtype == DType::kBool && !v) return {};
    if (out.dtype == DType::kBool) d = Dim(*v != 0);
    // Narrow types wrap: only numbers that surely fit are carried over.
    else if (dtype_bits(out.dtype) < 32 && (!v || *v < 0 || *v >= int64_t{1} << (std::min(dtype_bits(out.dtype), 8) - 1))) return {};
    else if (dtype_bits(out.dtype) == 32 && v && (*v < INT32_MIN || *v > INT32_MAX)) return {};
    else if (out.dtype == DType::kU64 && v && *v < 0) return {};
    else if (out.dtype == DType::kU32 && v && *v < 0) return {};
  }
  out.elements = std::move(e);
  return {};
}

Status infer_bitcast(InferContext& c) {
  const Type& x = c.in(0);
  DType to = c.attrs<CastAttrs>().to;
  if (dtype_bits(x.dtype) != dtype_bits(to) || to == DType::kString)
    return invalid("elements of " + std::string(dtype_name(x.dtype)) + " are not as wide as " + std::string(dtype_name(to)));
  c.out() = Type{to, x.ranked, x.shape, {}};
  return {};
}

Status infer_binary(InferContext& c) {
  const Type &a = c.in(0), &b = c.in(1);
  Type& out = c.out();
  out.dtype = a.dtype;
  if (a.dtype != b.dtype && c.op() != OpId::kPow) return invalid("operands are " + to_string(a) + " and " + to_string(b));
  out.ranked = a.ranked && b.ranked;
  if (!out.ranked) return {};
  BRISK_ASSIGN(out.shape, broadcast(a.shape, b.shape));
  fold_binary(c);
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
  auto which = spread(c, 0, out.shape), x = spread(c, 1, out.shape), y = spread(c, 2, out.shape);
  if (!trackable(out) || !which || !x || !y) return {};
  std::vector<Dim> e;
  for (size_t i = 0; i < which->size(); ++i) {
    auto v = (*which)[i].constant();
    if (!v && !((*x)[i] == (*y)[i])) return {};
    e.push_back(v && !*v ? (*y)[i] : (*x)[i]);
  }
  out.elements = std::move(e);
  return {};
}

Status infer_pointwise(InferContext& c) {
  std::vector<DType> operands;
  for (int i = 0; i < c.input_count(); ++i) operands.push_back(c.in(i).dtype);
  BRISK_TRY(decode_program(c.attrs<PointwiseAttrs>(), operands));
  Type& out = c.out();
  out.dtype = c.attrs<PointwiseAttrs>().result;
  for (int i = 0; i < c.input_count(); ++i) {
    out.ranked = out.ranked && c.in(i).ranked;
    if (!out.ranked) return {};
    BRISK_ASSIGN(out.shape, broadcast(out.shape, c.in(i).shape));
  }
  return {};
}

}  // namespace brisk::rules
