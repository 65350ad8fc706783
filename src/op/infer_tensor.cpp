// Shape rules of movement.
#include <algorithm>

#include "op/rules.h"

namespace brisk::rules {

Status infer_transpose(InferContext& c) {
  const Type& x = c.in(0);
  const auto& perm = c.attrs<TransposeAttrs>().perm;
  Type& out = c.out();
  out.dtype = x.dtype;
  out.ranked = x.ranked;
  if (!x.ranked) return {};
  if (perm.empty()) return out.shape.assign(x.shape.rbegin(), x.shape.rend()), Status();
  std::vector<bool> seen(perm.size());
  if (static_cast<int>(perm.size()) != x.rank()) return invalid("perm has " + std::to_string(perm.size()) + " axes, x has " + std::to_string(x.rank()));
  for (int64_t p : perm) {
    if (p < 0 || p >= x.rank() || seen[static_cast<size_t>(p)]) return invalid("perm is not a permutation");
    seen[static_cast<size_t>(p)] = true;
    out.shape.push_back(x.shape[static_cast<size_t>(p)]);
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
    const Type& x = c.in(i);
    if (x.rank() != out.rank()) return invalid("operands of rank " + std::to_string(out.rank()) + " and " + std::to_string(x.rank()));
    if (x.dtype != out.dtype) return invalid("operands of types " + to_string(out) + " and " + to_string(x));
    for (int d = 0; d < out.rank(); ++d) {
      if (d == axis) continue;
      Dim& have = out.shape[static_cast<size_t>(d)];
      const Dim& other = x.shape[static_cast<size_t>(d)];
      auto h = have.constant(), o = other.constant();
      if (h && o && *h != *o) return invalid("operands of shapes " + to_string(c.in(0).shape) + " and " + to_string(x.shape) + " along axis " + std::to_string(axis));
      if (!h && o) have = other;  // a number is better than a symbol
    }
    sum = sum + x.shape[static_cast<size_t>(axis)];
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

namespace {

// Where a slice begins and how long it is along one axis of n; nullopt if that cannot be said.
struct Piece {
  Dim start, length;
};

std::optional<Piece> constant_piece(int64_t n, int64_t start, int64_t end, int64_t step) {
  auto place = [&](int64_t v, int64_t lo, int64_t hi) { return std::clamp(v < 0 ? v + n : v, lo, hi); };
  int64_t s = step > 0 ? place(start, 0, n) : place(start, -1, n - 1);
  int64_t e = step > 0 ? place(end, 0, n) : place(end, -1, n - 1);
  if (step < 0 && start < -n) s = -1;
  if (step < 0 && end < -n) e = -1;
  int64_t length = step > 0 ? (e > s ? (e - s - 1) / step + 1 : 0) : (s > e ? (s - e - 1) / (step == INT64_MIN ? INT64_MAX : -step) + 1 : 0);
  return Piece{s, length};
}

// A bound given as an expression, put into [0, n].
std::optional<Dim> symbolic_bound(const Dim& n, const Dim& v) {
  constexpr int64_t kFar = INT32_MAX;  // exporters write 2^31 - 1 and 2^63 - 1 for "to the end"
  auto k = v.constant();
  if (v == n || (k && *k >= kFar)) return n;
  if (k && *k <= -kFar) return Dim(0);
  if (seems_nonnegative(v)) return seems_nonnegative(n - v) ? v : Dim::min(v, n);
  if (seems_nonnegative(Dim(-1) - v)) return at_least_zero(n + v);  // counted from the end
  return std::nullopt;
}

std::optional<Piece> piece(const Dim& n, const Dim& start, const Dim& end, int64_t step) {
  auto nk = n.constant(), sk = start.constant(), ek = end.constant();
  if (nk && sk && ek) return constant_piece(*nk, *sk, *ek, step);
  if (step < 0) {
    bool whole = sk && ek && (*sk == -1 || *sk >= INT32_MAX) && *ek <= -INT32_MAX;
    return whole && step == -1 ? std::optional(Piece{n - Dim(1), n}) : std::nullopt;
  }
  auto s = symbolic_bound(n, start), e = symbolic_bound(n, end);
  if (!s || !e) return std::nullopt;
  Dim length = at_least_zero(*e - *s);
  return Piece{*s, step == 1 ? length : Dim::floor_div(length + Dim(step - 1), step)};
}

}  // namespace

Status infer_slice(InferContext& c) {
  const Type& x = c.in(0);
  Type& out = c.out();
  out.dtype = x.dtype;
  out.ranked = x.ranked;
  if (!x.ranked) return {};
  out.shape = x.shape;
  auto starts = c.elements(1), ends = c.elements(2);
  std::optional<std::vector<int64_t>> axes = c.numbers(3), steps = c.numbers(4);
  if (starts && ends && starts->size() != ends->size()) return invalid("starts and ends differ in length");
  if (!c.has(3) && starts) {
    axes.emplace();
    for (size_t i = 0; i < starts->size(); ++i) axes->push_back(static_cast<int64_t>(i));
  }
  if (!c.has(4) && axes) steps.emplace(axes->size(), 1);
  if (!axes) {  // any axis may be cut
    BRISK_ASSIGN(out.shape, fresh_shape(c, x.rank(), "slice"));
    return {};
  }
  if ((starts && starts->size() != axes->size()) || (steps && steps->size() != axes->size())) return invalid("starts, axes and steps differ in length");
  for (size_t i = 0; i < axes->size(); ++i) {
    BRISK_ASSIGN(int axis, normalize_axis((*axes)[i], x.rank()));
    if (steps && (*steps)[i] == 0) return invalid("step 0");
    auto at = static_cast<size_t>(axis);
    std::optional<Piece> p;
    if (starts && ends && steps) p = piece(x.shape[at], (*starts)[i], (*ends)[i], (*steps)[i]);
    out.shape[at] = p ? p->length : c.fresh("slice");
    if (!p || x.rank() != 1 || axes->size() != 1) continue;
    auto e = c.elements(0);
    auto s = p->start.constant(), n = p->length.constant();
    if (!e || !s || !n) continue;
    std::vector<Dim> picked;
    for (int64_t k = 0; k < *n; ++k) picked.push_back((*e)[static_cast<size_t>(*s + k * (*steps)[i])]);
    out.elements = std::move(picked);
  }
  if (axes->empty()) out.elements = c.elements(0);
  return {};
}

Status infer_split(InferContext& c) {
  const Type& x = c.in(0);
  const auto& a = c.attrs<SliceAttrs>();
  auto parts = static_cast<size_t>(c.output_count());
  for (size_t i = 0; i < parts; ++i) c.out(static_cast<int>(i)) = Type{x.dtype, x.ranked, x.shape, {}};
  if (!x.ranked) return {};
  BRISK_ASSIGN(int axis, normalize_axis(a.axis, x.rank()));
  const Dim& n = x.shape[static_cast<size_t>(axis)];
  std::vector<Dim> sizes(a.sizes.begin(), a.sizes.end());
  if (c.has(1)) {
    auto e = c.elements(1);
    if (e) sizes = *e;
    else for (size_t i = 0; i < parts; ++i) sizes.push_back(c.fresh("split"));
  }
  if (sizes.empty()) {
    auto count = static_cast<int64_t>(parts);
    Dim chunk = Dim::floor_div(n, count);
    if (!(chunk * Dim(count) == n)) chunk = Dim::floor_div(n + Dim(count - 1), count);
    for (size_t i = 0; i + 1 < parts; ++i) sizes.push_back(chunk);
    sizes.push_back(at_least_zero(n - chunk * Dim(count - 1)));
  }
  if (sizes.size() != parts) return invalid(std::to_string(sizes.size()) + " sizes for " + std::to_string(parts) + " results");
  Dim sum = 0;
  for (const Dim& s : sizes) {
    if (auto k = s.constant(); k && *k < 0) return invalid("a part of size " + std::to_string(*k));
    sum = sum + s;
  }
  auto total = sum.constant(), have = n.constant();
  if (total && have && *total != *have) return invalid("parts of " + sum.to_string() + " in all, the axis has " + n.to_string());
  auto e = x.rank() == 1 ? c.elements(0) : std::nullopt;
  int64_t from = 0;
  for (size_t i = 0; i < parts; ++i) {
    Type& out = c.out(static_cast<int>(i));
    out.shape[static_cast<size_t>(axis)] = sizes[i];
    auto k = sizes[i].constant();
    if (!e || !k || from + *k > static_cast<int64_t>(e->size())) { e.reset(); continue; }
    out.elements = std::vector<Dim>(e->begin() + from, e->begin() + from + *k);
    from += *k;
  }
  return {};
}

Status infer_tile(InferContext& c) {
  const Type& x = c.in(0);
  Type& out = c.out();
  out.dtype = x.dtype;
  out.ranked = x.ranked;
  if (!x.ranked) return {};
  auto repeats = c.elements(1);
  if (!repeats) {
    BRISK_ASSIGN(out.shape, fresh_shape(c, x.rank(), "tile"));
    return {};
  }
  if (static_cast<int>(repeats->size()) != x.rank()) return invalid("repeats has " + std::to_string(repeats->size()) + " elements, x rank " + std::to_string(x.rank()));
  for (size_t i = 0; i < repeats->size(); ++i) {
    if (auto v = (*repeats)[i].constant(); v && *v < 0) return invalid("repeats holds " + std::to_string(*v));
    out.shape.push_back(x.shape[i] * (*repeats)[i]);
  }
  auto e = c.elements(0);
  auto k = constant_dims(out.shape);
  if (e && x.rank() == 1 && k && (*k)[0] <= kMaxTrackedElements) {
    std::vector<Dim> all;
    while (!e->empty() && static_cast<int64_t>(all.size()) < (*k)[0]) all.insert(all.end(), e->begin(), e->end());
    out.elements = std::move(all);
  }
  return {};
}

Status infer_pad(InferContext& c) {
  const Type& x = c.in(0);
  Type& out = c.out();
  out.dtype = x.dtype;
  out.ranked = x.ranked;
  if (!x.ranked) return {};
  auto pads = c.elements(1);
  std::optional<std::vector<int64_t>> axes = c.numbers(3);
  if (!c.has(3)) {
    axes.emplace();
    for (int i = 0; i < x.rank(); ++i) axes->push_back(i);
  }
  if (!pads || !axes) {
    BRISK_ASSIGN(out.shape, fresh_shape(c, x.rank(), "pad"));
    return {};
  }
  size_t n = axes->size();
  if (pads->size() != 2 * n) return invalid("pads has " + std::to_string(pads->size()) + " elements, wanted " + std::to_string(2 * n));
  out.shape = x.shape;
  for (size_t i = 0; i < n; ++i) {
    BRISK_ASSIGN(int axis, normalize_axis((*axes)[i], x.rank()));
    Dim& d = out.shape[static_cast<size_t>(axis)];
    Dim padded = d + (*pads)[i] + (*pads)[n + i];
    if (auto v = padded.constant(); v && *v < 0) return invalid("pads leave " + std::to_string(*v) + " elements of axis " + std::to_string(axis));
    d = at_least_zero(padded);
  }
  return {};
}

}  // namespace brisk::rules
