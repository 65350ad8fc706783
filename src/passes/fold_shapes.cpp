// Shape arithmetic that symbols already answer: operands that computed a shape become constants, and what is left of it
// reads the graph's inputs, so that no intermediate is kept alive for its shape.
#include <algorithm>
#include <limits>

#include "passes/all.h"
#include "passes/rewrite.h"

namespace brisk::passes {
namespace {

struct Source {
  ValueId input;
  int64_t axis;
};

// The first input that has the symbol for a dim.
std::optional<Source> source_of(const Graph& g, const std::string& symbol) {
  for (ValueId v : g.inputs) {
    const Type& t = type_of(g, v);
    if (!t.ranked) continue;
    for (size_t i = 0; i < t.shape.size(); ++i)
      if (auto s = t.shape[i].as_symbol(); s && *s == symbol) return Source{v, static_cast<int64_t>(i)};
  }
  return std::nullopt;
}

bool reads_one_dim(const Graph& g, const Node& n) {
  if (n.op != OpId::kShape || !g.is_input(n.inputs[0])) return false;
  const auto& a = std::get<ShapeAttrs>(n.attrs);
  if (a.start < 0 || a.end != a.start + 1) return false;
  const auto& e = type_of(g, n.outputs[0]).elements;
  auto symbol = e && e->size() == 1 ? (*e)[0].as_symbol() : std::nullopt;
  auto s = symbol ? source_of(g, *symbol) : std::nullopt;
  return s && s->input == n.inputs[0] && s->axis == a.start;
}

bool is_canonical_value(const Round& r, ValueId v, int depth);

// Is this what canonical() would make?
bool is_canonical(const Round& r, const Node& n, int depth = 0) {
  if (reads_one_dim(r.g, n)) return true;
  if (n.op != OpId::kConcat && n.op != OpId::kSqueeze && n.op != OpId::kAdd && n.op != OpId::kMul) return false;
  return std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return is_canonical_value(r, v, depth + 1); });
}
bool is_canonical_value(const Round& r, ValueId v, int depth) {
  if (r.g.constant(v)) return true;
  const Node* p = depth < 6 ? r.index.producer(v) : nullptr;
  return p && is_canonical(r, *p, depth);
}

// A dim as constant + sum of coefficient * symbol of inputs.
struct Sum {
  int64_t constant = 0;
  std::vector<std::pair<int64_t, Source>> terms;
};
std::optional<Sum> sum_of(const Graph& g, const Dim& d) {
  std::vector<std::string> names;
  d.collect_symbols(names);
  auto at = [&](const std::string& one) { return d.evaluate([&](const std::string& s) -> std::optional<int64_t> { return s == one; }); };
  auto zero = at("");
  if (!zero || names.size() > 4) return std::nullopt;
  Sum s{*zero, {}};
  Dim again = *zero;
  for (auto& name : names) {
    auto value = at(name);
    auto from = source_of(g, name);
    if (!value || !from) return std::nullopt;
    s.terms.emplace_back(*value - *zero, *from);
    again = again + Dim(*value - *zero) * Dim::symbol(name);
  }
  return again == d ? std::optional(std::move(s)) : std::nullopt;
}

ShapeAttrs one_dim(const Source& s) {
  ShapeAttrs a;
  a.start = s.axis;
  a.end = s.axis + 1;
  return a;
}

// The sum as i64 [1].
Result<ValueId> add_sum(Round& r, const Node& root, const Sum& s) {
  ValueId sum = kNoValue;
  for (auto& [factor, from] : s.terms) {
    BRISK_ASSIGN(ValueId v, r.add(root, OpId::kShape, one_dim(from), {from.input}));
    if (factor != 1) {
      ValueId k = r.add_ints({factor});
      BRISK_ASSIGN(v, r.add(root, OpId::kMul, NoAttrs{}, {v, k}));
    }
    if (sum < 0) sum = v;
    else {
      BRISK_ASSIGN(sum, r.add(root, OpId::kAdd, NoAttrs{}, {sum, v}));
    }
  }
  if (s.constant == 0) return sum;
  ValueId k = r.add_ints({s.constant});
  return r.add(root, OpId::kAdd, NoAttrs{}, {sum, k});
}

// A vector or scalar of dims as a Concat of sums of single dims of inputs, and of constants.
Status canonical(Round& r, Node& n) {
  Graph& g = r.g;
  if (n.outputs.size() != 1 || n.outputs[0] < 0 || !op_def(n.op).foldable() || is_canonical(r, n)) return {};
  const Type t = type_of(g, n.outputs[0]);
  if (t.dtype != DType::kI64 || !t.ranked || t.rank() > 1 || !t.elements || t.elements->empty() || t.elements->size() > kMaxRank) return {};
  std::vector<Sum> sums;
  for (const Dim& d : *t.elements) {
    auto s = sum_of(g, d);
    if (!s) return {};
    sums.push_back(std::move(*s));
  }
  auto is_number = [](const Sum& s) { return s.terms.empty(); };
  if (std::all_of(sums.begin(), sums.end(), is_number)) return {};  // folding's
  if (t.rank() == 1 && sums.size() == 1 && sums[0].constant == 0 && sums[0].terms.size() == 1 && sums[0].terms[0].first == 1)
    return r.replace(n, OpId::kShape, one_dim(sums[0].terms[0].second), {sums[0].terms[0].second.input});
  std::vector<ValueId> parts;
  std::vector<int64_t> numbers;
  auto flush = [&] {
    if (!numbers.empty()) parts.push_back(r.add_ints(numbers));
    numbers.clear();
  };
  for (const Sum& s : sums) {
    if (is_number(s)) {
      numbers.push_back(s.constant);
      continue;
    }
    flush();
    BRISK_ASSIGN(ValueId dim, add_sum(r, n, s));
    parts.push_back(dim);
  }
  flush();
  if (t.rank() == 1) return r.replace(n, OpId::kConcat, AxisAttrs{0}, std::move(parts));
  ReduceAttrs first;
  first.axes = {0};
  return r.replace(n, OpId::kSqueeze, first, std::move(parts));
}

Status static_reshape(Round& r, Node& n) {
  Graph& g = r.g;
  const Type &x = type_of(g, n.inputs[0]), &out = type_of(g, n.outputs[0]);
  if (g.constant(n.inputs[1]) || !x.ranked || !out.ranked || !type_of(g, n.inputs[1]).elements) return {};
  auto target = reshape_operand(g, x.shape, out.shape);
  if (!target) return {};
  ValueId s = r.add_ints(*target);
  return r.replace(n, OpId::kReshape, NoAttrs{}, {n.inputs[0], s});
}

Status static_expand(Round& r, Node& n) {
  Graph& g = r.g;
  const Type &x = type_of(g, n.inputs[0]), &out = type_of(g, n.outputs[0]);
  if (g.constant(n.inputs[1]) || !x.ranked || !out.ranked || !type_of(g, n.inputs[1]).elements) return {};
  std::vector<int64_t> target;
  size_t lead = out.shape.size() - x.shape.size();
  for (size_t i = 0; i < out.shape.size(); ++i) {
    auto d = out.shape[i].constant();
    if (i >= lead && x.shape[i - lead] == out.shape[i]) target.push_back(1);
    else if (d) target.push_back(*d);
    else return {};
  }
  ValueId s = r.add_ints(target);
  return r.replace(n, OpId::kExpand, NoAttrs{}, {n.inputs[0], s});
}

// Bounds that are numbers, or the axis' whole length.
Status static_slice(Round& r, Node& n) {
  Graph& g = r.g;
  const Type& x = type_of(g, n.inputs[0]);
  auto axes = known_numbers(g, operand(n, 3));
  const auto &starts = type_of(g, n.inputs[1]).elements, &ends = type_of(g, n.inputs[2]).elements;
  if ((g.constant(n.inputs[1]) && g.constant(n.inputs[2])) || !x.ranked || !axes || !starts || !ends) return {};
  if (starts->size() != axes->size() || ends->size() != axes->size()) return {};
  std::vector<int64_t> from, to;
  for (size_t i = 0; i < axes->size(); ++i) {
    int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + x.rank() : (*axes)[i];
    if (axis < 0 || axis >= x.rank()) return {};
    const Dim& length = x.shape[static_cast<size_t>(axis)];
    auto s = (*starts)[i].constant(), e = (*ends)[i].constant();
    if (!s || (!e && !((*ends)[i] == length))) return {};
    from.push_back(*s);
    to.push_back(e ? *e : std::numeric_limits<int64_t>::max());
  }
  std::vector<ValueId> in = n.inputs;
  in[1] = r.add_ints(from);
  in[2] = r.add_ints(to);
  return r.replace(n, OpId::kSlice, NoAttrs{}, std::move(in));
}

}  // namespace

Result<int> fold_shapes(Graph& g, PassContext& c) {
  return until_stable(g, c, [](Round& r, Node& n) -> Status {
    if (n.op == OpId::kReshape) BRISK_TRY(static_reshape(r, n));
    if (n.op == OpId::kExpand) BRISK_TRY(static_expand(r, n));
    if (n.op == OpId::kSlice) BRISK_TRY(static_slice(r, n));
    return canonical(r, n);
  });
}

}  // namespace brisk::passes
