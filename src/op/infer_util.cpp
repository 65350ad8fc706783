// What shape rules share.
#include <algorithm>

#include "op/rules.h"

namespace brisk::rules {

Status too_many_axes(size_t rank) {
  if (rank <= static_cast<size_t>(kMaxRank)) return {};
  return unsupported("rank " + std::to_string(rank) + ", at most " + std::to_string(kMaxRank));
}

bool seems_nonnegative(const Dim& d) {
  if (auto c = d.constant()) return *c >= 0;
  std::vector<std::string> names;
  d.collect_symbols(names);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.size() > 6) return false;
  // Every combination of a small and a large value for each symbol.
  for (unsigned mask = 0; mask < 1u << names.size(); ++mask) {
    auto v = d.evaluate([&](const std::string& name) -> std::optional<int64_t> {
      auto i = static_cast<size_t>(std::lower_bound(names.begin(), names.end(), name) - names.begin());
      return mask >> i & 1 ? 1009 : 1;
    });
    if (!v || *v < 0) return false;
  }
  return true;
}

Dim at_least_zero(const Dim& d) { return seems_nonnegative(d) ? d : Dim::max(d, 0); }

Result<Shape> fresh_shape(InferContext& c, int64_t n, std::string_view prefix) {
  if (n < 0) return invalid("a shape of " + std::to_string(n) + " elements");
  BRISK_TRY(too_many_axes(static_cast<size_t>(n)));
  Shape s;
  for (int64_t i = 0; i < n; ++i) s.push_back(c.fresh(prefix));
  return s;
}

Result<std::optional<Shape>> shape_operand(InferContext& c, int i, std::string_view prefix) {
  if (auto e = c.elements(i)) {
    BRISK_TRY(too_many_axes(e->size()));
    return std::optional<Shape>(std::move(*e));
  }
  if (!c.in(i).ranked || c.in(i).rank() != 1) return std::optional<Shape>();
  auto n = c.in(i).shape[0].constant();
  if (!n) return std::optional<Shape>();
  BRISK_ASSIGN(Shape s, fresh_shape(c, *n, prefix));
  return std::optional<Shape>(std::move(s));
}

Result<std::optional<std::vector<int>>> axes_of(InferContext& c, int rank) {
  const auto& a = c.attrs<ReduceAttrs>();
  std::vector<int64_t> given = a.axes;
  if (c.has(1)) {
    auto n = c.numbers(1);
    if (!n) return std::optional<std::vector<int>>();
    given = *n;
  }
  std::vector<int> axes;
  for (int64_t axis : given) {
    BRISK_ASSIGN(int at, normalize_axis(axis, rank));
    axes.push_back(at);
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return invalid("an axis is named twice");
  return std::optional<std::vector<int>>(std::move(axes));
}

std::optional<std::vector<int64_t>> constant_dims(const Shape& s) {
  std::vector<int64_t> out;
  for (const Dim& d : s) {
    auto v = d.constant();
    if (!v) return std::nullopt;
    out.push_back(*v);
  }
  return out;
}

std::optional<std::vector<Dim>> spread_elements(const std::vector<Dim>& elements, const Shape& from, const Shape& to) {
  auto f = constant_dims(from), t = constant_dims(to);
  if (!f || !t) return std::nullopt;
  auto n = checked_count(*t);
  if (!n || *n > kMaxTrackedElements) return std::nullopt;
  std::vector<Dim> out;
  size_t lead = t->size() - f->size();
  for (int64_t i = 0; i < *n; ++i) {
    int64_t at = 0, stride = 1, rest = i;
    for (size_t d = t->size(); d-- > 0;) {
      int64_t index = rest % (*t)[d];
      rest /= (*t)[d];
      if (d < lead) continue;
      if ((*f)[d - lead] != 1) at += index * stride;
      stride *= (*f)[d - lead];
    }
    if (at >= static_cast<int64_t>(elements.size())) return std::nullopt;
    out.push_back(elements[static_cast<size_t>(at)]);
  }
  return out;
}

}  // namespace brisk::rules
