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

// Is this what canonical() would make? `r` knows the makers of operands.
bool is_canonical(const Round& r, const Node& n) {
  if (reads_one_dim(r.g, n)) return true;
  if (n.op != OpId::kConcat && n.op != OpId::kSqueeze) return false;
  return std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) {
    const Node* p = r.index.producer(v);
    return p ? reads_one_dim(r.g, *p) : r.g.constant(v) != nullptr;
  });
}

// A vector or scalar of dims as a Concat of single dims of inputs and of constants.
Status canonical(Round& r, Node& n) {
  Graph& g = r.g;
  if (n.outputs.size() != 1 || n.outputs[0] < 0 || !op_def(n.op).foldable() || is_canonical(r, n)) return {};
  const Type t = type_of(g, n.outputs[0]);
  if (t.dtype != DType::kI64 || !t.ranked || t.rank() > 1 || !t.elements || t.elements->empty()) return {};
  std::vector<std::optional<Source>> from;
  for (const Dim& d : *t.elements) {
    auto symbol = d.as_symbol();
    from.push_back(symbol ? source_of(g, *symbol) : std::nullopt);
    if (!d.is_constant() && !from.back()) return {};
  }
  if (std::none_of(from.begin(), from.end(), [](auto& s) { return s.has_value(); })) return {};  // numbers: folding's
  auto shape_attrs = [](const Source& s) {
    ShapeAttrs a;
    a.start = s.axis;
    a.end = s.axis + 1;
    return a;
  };
  if (t.rank() == 1 && t.elements->size() == 1) return r.replace(n, OpId::kShape, shape_attrs(*from[0]), {from[0]->input});
  std::vector<ValueId> parts;
  std::vector<int64_t> numbers;
  auto flush = [&] {
    if (!numbers.empty()) parts.push_back(r.add_ints(numbers));
    numbers.clear();
  };
  for (size_t i = 0; i < from.size(); ++i) {
    if (!from[i]) {
      numbers.push_back(*(*t.elements)[i].constant());
      continue;
    }
    flush();
    BRISK_ASSIGN(ValueId dim, r.add(n, OpId::kShape, shape_attrs(*from[i]), {from[i]->input}));
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
