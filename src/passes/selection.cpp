// Slices and splits come before transposes and views of what they pick, and slices that together are the whole become
// one Split: packed projections of q, k and v end as a Split of one Linear, however the file took them apart.
#include <algorithm>
#include <numeric>

#include "passes/all.h"
#include "passes/rewrite.h"
#include "tensor/constant_ops.h"

namespace brisk::passes {
namespace {

// One contiguous range of one axis.
struct Cut {
  int64_t axis = 0, start = 0, length = 0;
};

std::optional<Cut> cut_of(const Graph& g, const Node& n) {
  const Type &x = type_of(g, n.inputs[0]), &out = type_of(g, n.outputs[0]);
  if (n.op != OpId::kSlice || !x.ranked || !out.ranked) return std::nullopt;
  auto starts = known_numbers(g, n.inputs[1]), axes = known_numbers(g, operand(n, 3)), steps = known_numbers(g, operand(n, 4));
  if (!starts || !axes || axes->size() != 1 || (operand(n, 4) >= 0 && (!steps || (*steps)[0] != 1))) return std::nullopt;
  Cut c{front_axis((*axes)[0], x.rank()), (*starts)[0], 0};
  if (c.axis < 0) return std::nullopt;
  auto whole = x.shape[static_cast<size_t>(c.axis)].constant(), length = out.shape[static_cast<size_t>(c.axis)].constant();
  if (!whole || !length) return std::nullopt;
  if (c.start < 0) c.start += *whole;
  c.length = *length;
  return c.start >= 0 && c.start + c.length <= *whole ? std::optional(c) : std::nullopt;
}

std::vector<ValueId> slice_operands(Round& r, ValueId x, const Cut& c) {
  return {x, r.add_ints({c.start}), r.add_ints({c.start + c.length}), r.add_ints({c.axis})};
}

int64_t split_axis(const Graph& g, const Node& n) { return front_axis(std::get<SliceAttrs>(n.attrs).axis, type_of(g, n.inputs[0]).rank()); }

// The sizes of a Split's parts along its axis; empty where they are not numbers.
std::vector<int64_t> split_sizes(const Graph& g, const Node& n) {
  std::vector<int64_t> sizes;
  auto axis = static_cast<size_t>(split_axis(g, n));
  for (ValueId v : n.outputs) {
    auto k = v < 0 || !type_of(g, v).ranked ? std::nullopt : type_of(g, v).shape[axis].constant();
    if (!k) return {};
    sizes.push_back(*k);
  }
  return sizes;
}

// A Split along `axis` in front of `root`; its results.
Result<std::vector<ValueId>> add_split(Round& r, const Node& root, ValueId x, int64_t axis, std::vector<int64_t> sizes) {
  Node s;
  s.op = OpId::kSplit;
  SliceAttrs a;
  a.axis = axis;
  a.sizes = std::move(sizes);
  s.inputs = {x};
  s.name = root.name;
  for (size_t i = 0; i < a.sizes.size(); ++i) s.outputs.push_back(r.g.add_value(root.name + ".part" + std::to_string(r.g.values.size())));
  s.attrs = std::move(a);
  BRISK_TRY(infer_node(r.g, s));
  auto out = s.outputs;
  r.insert(root, std::move(s));
  return out;
}

// `root`, a Split, goes; each of its results is made by `make` out of the part of the same number.
using MakeResult = std::function<Result<Node>(ValueId part, ValueId result)>;
Status results_from(Round& r, Node& root, const std::vector<ValueId>& parts, const MakeResult& make) {
  const std::vector<ValueId> results = root.outputs;
  for (size_t i = 1; i < parts.size(); ++i) {
    BRISK_ASSIGN(Node n, make(parts[i], results[i]));
    n.outputs = {results[i]};
    n.name = root.name;
    BRISK_TRY(infer_node(r.g, n));
    r.insert(root, std::move(n));
  }
  BRISK_ASSIGN(Node first, make(parts[0], results[0]));
  first.outputs = {results[0]};
  first.name = root.name;
  return r.replace_with(root, std::move(first));
}

Node transpose_of(ValueId x, const std::vector<int64_t>& perm) {
  Node n;
  n.op = OpId::kTranspose;
  n.attrs = TransposeAttrs{perm};
  n.inputs = {x};
  return n;
}

// Only selections read it: then it may move behind them.
bool only_selected(const Round& r, ValueId v) {
  auto& users = r.index.users(v);
  return !r.g.is_output(v) && std::all_of(users.begin(), users.end(), [&](NodeId u) {
    OpId op = r.g.nodes[static_cast<size_t>(u)].op;
    return op == OpId::kSlice || op == OpId::kSplit;
  });
}

// Slice or Split of a Transpose.
Status before_transpose(Round& r, Node& n) {
  Graph& g = r.g;
  const Node* t = r.index.producer(n.inputs[0], OpId::kTranspose);
  if (!t || !type_of(g, t->inputs[0]).ranked || !only_selected(r, n.inputs[0])) return {};
  const auto perm = perm_of(g, *t);
  const ValueId x = t->inputs[0];
  if (n.op == OpId::kSlice) {
    auto c = cut_of(g, n);
    if (!c) return {};
    c->axis = perm[static_cast<size_t>(c->axis)];
    BRISK_ASSIGN(ValueId cut, r.add(n, OpId::kSlice, NoAttrs{}, slice_operands(r, x, *c)));
    return r.replace(n, OpId::kTranspose, TransposeAttrs{perm}, {cut});
  }
  auto sizes = split_sizes(g, n);
  if (sizes.empty()) return {};
  BRISK_ASSIGN(auto parts, add_split(r, n, x, perm[static_cast<size_t>(split_axis(g, n))], std::move(sizes)));
  return results_from(r, n, parts, [&](ValueId part, ValueId) -> Result<Node> { return transpose_of(part, perm); });
}

// How many elements one step along `axis` of a view is of the last axis of what it views; 0 if that axis is not the first of
// those that the last axis became: [a, b, C] seen as [a, b, H, d], axis 2: d.
int64_t stride_in_last(const Graph& g, const Node& view, int64_t axis) {
  const Shape &x = type_of(g, view.inputs[0]).shape, &v = type_of(g, view.outputs[0]).shape;
  if (x.empty() || v.size() <= x.size() || axis != static_cast<int64_t>(x.size()) - 1) return 0;
  for (size_t i = 0; i + 1 < x.size(); ++i)
    if (!(x[i] == v[i])) return 0;
  int64_t stride = 1;
  for (size_t i = x.size() - 1; i < v.size(); ++i) {
    auto k = v[i].constant();
    if (!k || *k < 1) return 0;
    if (static_cast<int64_t>(i) > axis) stride *= *k;
  }
  return stride;
}

Status before_view(Round& r, Node& n) {
  Graph& g = r.g;
  const Node* view = r.index.producer(n.inputs[0]);
  if (!view || !is_view(g, *view)) return {};
  const ValueId x = view->inputs[0];
  const int64_t last = type_of(g, x).rank() - 1;
  auto reshaped = [&](ValueId part, ValueId result) -> Result<Node> {
    auto target = reshape_operand(g, type_of(g, part).shape, type_of(g, result).shape);
    if (!target) return internal("a part that no constant shape describes");
    Node y;
    y.op = OpId::kReshape;
    y.inputs = {part, r.add_ints(*target)};
    return y;
  };
  auto expressible = [&](ValueId result, int64_t width) {
    Shape part = type_of(g, x).shape;
    part.back() = width;
    return reshape_operand(g, part, type_of(g, result).shape).has_value();
  };
  if (n.op == OpId::kSlice) {
    auto c = cut_of(g, n);
    int64_t stride = c ? stride_in_last(g, *view, c->axis) : 0;
    if (stride == 0 || !expressible(n.outputs[0], c->length * stride)) return {};
    Cut flat{last, c->start * stride, c->length * stride};
    BRISK_ASSIGN(ValueId cut, r.add(n, OpId::kSlice, NoAttrs{}, slice_operands(r, x, flat)));
    BRISK_ASSIGN(Node y, reshaped(cut, n.outputs[0]));
    y.outputs = n.outputs;
    y.name = n.name;
    return r.replace_with(n, std::move(y));
  }
  int64_t stride = stride_in_last(g, *view, split_axis(g, n));
  auto sizes = split_sizes(g, n);
  if (stride == 0 || sizes.empty()) return {};
  for (size_t i = 0; i < sizes.size(); ++i)
    if (!expressible(n.outputs[i], sizes[i] *= stride)) return {};
  BRISK_ASSIGN(auto parts, add_split(r, n, x, last, sizes));
  return results_from(r, n, parts, reshaped);
}

// Gather of neighbours, by constants: a Slice. One of them without its axis: a Slice, seen without it.
Status gather_to_slice(Round& r, Node& n) {
  Graph& g = r.g;
  const Node* from = r.index.producer(n.inputs[0]);
  const Type& x = type_of(g, n.inputs[0]);
  if (!from || (!is_view(g, *from) && from->op != OpId::kTranspose) || !is_float(x.dtype) || !g.constant(n.inputs[1])) return {};
  std::vector<int64_t> ids = to_ints(g.constant(n.inputs[1])->view());
  int64_t axis = 0, rank = type_of(g, n.inputs[1]).rank();
  if (n.op == OpId::kGatherND) {  // indices [..., 1]: of the first axis
    if (std::get<AxisAttrs>(n.attrs).axis != 0 || rank < 1 || !(type_of(g, n.inputs[1]).shape.back() == Dim(1))) return {};
    --rank;
  } else {
    axis = front_axis(std::get<AxisAttrs>(n.attrs).axis, x.rank());
  }
  auto whole = axis < 0 ? std::nullopt : x.shape[static_cast<size_t>(axis)].constant();
  if (!whole || rank > 1 || ids.empty()) return {};
  for (int64_t& i : ids) i += i < 0 ? *whole : 0;
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] != ids[0] + static_cast<int64_t>(i) || ids[i] < 0 || ids[i] >= *whole) return {};
  Cut c{axis, ids[0], static_cast<int64_t>(ids.size())};
  if (rank == 1) return r.replace(n, OpId::kSlice, NoAttrs{}, slice_operands(r, n.inputs[0], c));
  Shape part = x.shape;
  part[static_cast<size_t>(axis)] = 1;
  auto target = reshape_operand(g, part, type_of(g, n.outputs[0]).shape);
  if (!target) return {};
  BRISK_ASSIGN(ValueId cut, r.add(n, OpId::kSlice, NoAttrs{}, slice_operands(r, n.inputs[0], c)));
  ValueId shape = r.add_ints(*target);
  return r.replace(n, OpId::kReshape, NoAttrs{}, {cut, shape});
}

// Slices of one value that lie side by side and are all of it.
Status slices_to_split(Round& r, Node& n) {
  Graph& g = r.g;
  auto own = cut_of(g, n);
  if (!own || !is_float(type_of(g, n.outputs[0]).dtype)) return {};
  std::vector<std::pair<int64_t, Node*>> parts;
  int64_t covered = 0;
  for (NodeId u : r.index.users(n.inputs[0])) {
    Node& other = g.nodes[static_cast<size_t>(u)];
    auto c = other.inputs.empty() || other.inputs[0] != n.inputs[0] || r.gone(other) ? std::nullopt : cut_of(g, other);
    if (!c || c->axis != own->axis) continue;
    parts.emplace_back(c->start, &other);
    covered += c->length;
  }
  std::sort(parts.begin(), parts.end(), [](auto& a, auto& b) { return a.first < b.first; });
  if (parts.size() < 2 || !(Dim(covered) == type_of(g, n.inputs[0]).shape[static_cast<size_t>(own->axis)])) return {};
  Node split;
  split.op = OpId::kSplit;
  split.name = n.name;
  split.inputs = {n.inputs[0]};
  SliceAttrs a;
  a.axis = own->axis;
  int64_t at = 0;
  Node* first = parts[0].second;
  for (auto& [start, part] : parts) {
    if (start != at) return {};
    int64_t length = *type_of(g, part->outputs[0]).shape[static_cast<size_t>(own->axis)].constant();
    at += length;
    a.sizes.push_back(length);
    split.outputs.push_back(part->outputs[0]);
    first = std::min(first, part);
  }
  split.attrs = std::move(a);
  for (auto& [start, part] : parts)
    if (part != first) part->outputs[0] = g.add_value(part->name + ".gone", type_of(g, part->outputs[0]));
  return r.replace_with(*first, std::move(split));
}

// A view that only leaves out axes of 1 comes before a Transpose.
Status squeeze_before_transpose(Round& r, Node& n) {
  Graph& g = r.g;
  const Node* t = r.index.producer(n.inputs[0], OpId::kTranspose);
  if (!t || !type_of(g, t->inputs[0]).ranked) return {};
  const Shape wide = type_of(g, n.inputs[0]).shape, out = type_of(g, n.outputs[0]).shape;
  if (out.size() >= wide.size()) return {};
  const auto perm = perm_of(g, *t);
  std::vector<bool> dropped(wide.size());  // of the axes before the Transpose
  size_t at = 0;
  for (size_t i = 0; i < wide.size(); ++i) {
    bool spare = wide.size() - i > out.size() - at;
    if (at < out.size() && wide[i] == out[at] && !(spare && wide[i] == Dim(1))) ++at;
    else if (wide[i] == Dim(1)) dropped[static_cast<size_t>(perm[i])] = true;
    else return {};
  }
  if (at != out.size()) return {};
  Shape narrow;
  std::vector<int64_t> place(wide.size());
  const Shape x = type_of(g, t->inputs[0]).shape;
  for (size_t i = 0; i < x.size(); ++i)
    if (!dropped[i]) place[i] = static_cast<int64_t>(narrow.size()), narrow.push_back(x[i]);
  TransposeAttrs a;
  for (int64_t p : perm)
    if (!dropped[static_cast<size_t>(p)]) a.perm.push_back(place[static_cast<size_t>(p)]);
  auto target = reshape_operand(g, x, narrow);
  if (!target) return {};
  BRISK_ASSIGN(ValueId y, r.add_view(n, t->inputs[0], *target));
  return r.replace(n, OpId::kTranspose, a, {y});
}

Status step(Round& r, Node& n) {
  if (n.op == OpId::kGather || n.op == OpId::kGatherND) return gather_to_slice(r, n);
  if (is_view(r.g, n)) return squeeze_before_transpose(r, n);
  if ((n.op != OpId::kSlice && n.op != OpId::kSplit) || !type_of(r.g, n.inputs[0]).ranked) return {};
  const ValueId x = n.inputs[0];
  BRISK_TRY(before_transpose(r, n));
  if ((n.op != OpId::kSlice && n.op != OpId::kSplit) || n.inputs[0] != x) return {};
  BRISK_TRY(before_view(r, n));
  if (n.op != OpId::kSlice || n.inputs[0] != x) return {};
  return slices_to_split(r, n);
}

// The rows of weight and bias in the order of the parts: [H, W] seen as parts of W, each with its rows of all H.
std::vector<int64_t> rows_by_part(int64_t heads, const std::vector<int64_t>& sizes) {
  int64_t width = std::accumulate(sizes.begin(), sizes.end(), int64_t{0}), from = 0;
  std::vector<int64_t> order;
  for (int64_t size : sizes) {
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < size; ++i) order.push_back(h * width + from + i);
    from += size;
  }
  return order;
}

// Linear, seen as [.., H, W], split within heads: its rows are put in the order of the parts, which then lie side by side.
Status split_of_heads(Round& r, Node& n) {
  Graph& g = r.g;
  if (n.op != OpId::kSplit) return {};
  const Node* view = r.index.producer(n.inputs[0]);
  const Node* linear = view && is_view(g, *view) ? r.index.producer(view->inputs[0], OpId::kLinear) : nullptr;
  if (!linear || !r.index.single_use(n.inputs[0]) || !r.index.single_use(view->inputs[0])) return {};
  const Shape v = type_of(g, n.inputs[0]).shape;
  auto sizes = split_sizes(g, n);
  const Constant *w = g.constant(linear->inputs[1]), *b = g.constant(operand(*linear, 2));
  auto heads = v.size() < 2 ? std::nullopt : v[v.size() - 2].constant();
  if (sizes.empty() || !heads || split_axis(g, n) != static_cast<int64_t>(v.size()) - 1 || !w || (operand(*linear, 2) >= 0 && !b)) return {};
  if (operand(*linear, 3) >= 0 || std::get<LinearAttrs>(linear->attrs).gated || stride_in_last(g, *view, static_cast<int64_t>(v.size()) - 2) == 0) return {};
  auto order = rows_by_part(*heads, sizes);
  if (static_cast<int64_t>(order.size()) != w->shape[0]) return {};
  Node all = *linear;
  all.inputs[1] = g.add_constant(g.value(linear->inputs[1]).name + ".by_part", permute_rows(*w, order));
  if (b) {
    std::vector<float> old = to_floats(*b), bias;
    for (int64_t i : order) bias.push_back(old[static_cast<size_t>(i)]);
    all.inputs[2] = g.add_constant(g.value(linear->inputs[2]).name + ".by_part", make_constant(DType::kF32, b->shape, bias));
  }
  all.outputs = {g.add_value(linear->name + ".by_part")};
  BRISK_TRY(infer_node(g, all));
  ValueId y = all.outputs[0];
  const int64_t axis = type_of(g, y).rank() - 1;
  r.insert(n, std::move(all));
  for (int64_t& s : sizes) s *= *heads;
  BRISK_ASSIGN(auto parts, add_split(r, n, y, axis, std::move(sizes)));
  return results_from(r, n, parts, [&](ValueId part, ValueId result) -> Result<Node> {
    auto target = reshape_operand(g, type_of(g, part).shape, type_of(g, result).shape);
    if (!target) return internal("a part that no constant shape describes");
    Node view_of;
    view_of.op = OpId::kReshape;
    view_of.inputs = {part, r.add_ints(*target)};
    return view_of;
  });
}

}  // namespace

Result<int> simplify_selection(Graph& g, PassContext& c) {
  int total = 0;
  for (bool again = true; again;) {
    BRISK_ASSIGN(int picked, until_stable(g, c, step));
    BRISK_ASSIGN(int moved, simplify_movement(g, c));
    total += picked + moved;
    again = picked > 0 && moved > 0;
  }
  return total;
}

Result<int> order_packed_rows(Graph& g, PassContext& c) { return until_stable(g, c, split_of_heads); }

}  // namespace brisk::passes
