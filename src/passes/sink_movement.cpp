// Views and transposes behind pointwise operators, where something waits for what they stand in front of: Conv1D of a
// framework that has Conv2D only is Unsqueeze, Conv, Squeeze, Add, Relu, and the next one begins with Unsqueeze again.
#include <algorithm>

#include "passes/all.h"
#include "passes/rewrite.h"

namespace brisk::passes {
namespace {

constexpr int kLongest = 16;  // chain of followers that is looked along

bool moves(const Graph& g, const Node& n) {
  return is_view(g, n) || (n.op == OpId::kTranspose && type_of(g, n.inputs[0]).ranked);
}

// The place in x of each axis of y that is not 1; nullopt where the movement joins or cuts axes.
std::optional<std::vector<int64_t>> axes_in_operand(const Graph& g, const Node& n) {
  const Shape &x = type_of(g, n.inputs[0]).shape, &y = type_of(g, n.outputs[0]).shape;
  std::vector<int64_t> place(y.size(), -1);
  if (n.op == OpId::kTranspose) return perm_of(g, n);
  size_t j = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    if (y[i].constant_or(0) == 1) continue;
    while (j < x.size() && x[j].constant_or(0) == 1) ++j;
    if (j == x.size() || !(x[j] == y[i])) return std::nullopt;
    place[i] = static_cast<int64_t>(j++);
  }
  for (; j < x.size(); ++j)
    if (x[j].constant_or(0) != 1) return std::nullopt;
  return place;
}

// The constant that does to x what `v` does to the movement's result: one number, or a vector along one axis.
ValueId moved_constant(Graph& g, const Node& movement, ValueId v) {
  const Constant* c = g.constant(v);
  if (!c || !c->encoding.plain()) return kNoValue;
  const size_t rank = type_of(g, movement.outputs[0]).shape.size(), own = static_cast<size_t>(c->shape.rank);
  Dims shape;
  if (c->count() != 1) {
    auto place = axes_in_operand(g, movement);
    int64_t axis = -1;
    for (size_t i = 0; i < own; ++i) {
      if (c->shape[static_cast<int>(i)] == 1) continue;
      if (axis >= 0 || !place || own > rank) return kNoValue;
      axis = (*place)[rank - own + i];
      if (axis < 0) return kNoValue;
    }
    for (size_t i = 0, n = type_of(g, movement.inputs[0]).shape.size(); i < n; ++i) shape.push(static_cast<int64_t>(i) == axis ? c->count() : 1);
  }
  auto copy = std::make_shared<Constant>(*c);
  copy->shape = shape;
  return g.add_constant(g.value(v).name, std::move(copy));
}

// The pointwise operator that alone reads `v`, beside constants, and keeps its shape.
Node* follower(const Round& r, ValueId v) {
  Node* n = r.index.single_user(v);
  if (!n || r.gone(*n) || !op_def(n->op).is(kPointwise) || n->outputs.size() != 1 || !equal_shapes(r.g, v, n->outputs[0])) return nullptr;
  for (ValueId in : n->inputs)
    if (in != v && !r.g.constant(in)) return nullptr;
  return n;
}

// Does the chain of followers end where the movement is undone?
bool undone(const Round& r, const Node& movement) {
  ValueId v = movement.outputs[0];
  for (int i = 0; i < kLongest; ++i) {
    const Node* n = follower(r, v);
    if (!n) break;
    v = n->outputs[0];
  }
  const Node* end = r.index.single_user(v);
  if (v == movement.outputs[0] || !end || !moves(r.g, *end) || (end->op == OpId::kTranspose) != (movement.op == OpId::kTranspose)) return false;
  if (end->op != OpId::kTranspose) return equal_shapes(r.g, movement.inputs[0], end->outputs[0]);
  auto first = perm_of(r.g, movement), second = perm_of(r.g, *end);
  for (size_t i = 0; i < second.size(); ++i)
    if (first[static_cast<size_t>(second[i])] != static_cast<int64_t>(i)) return false;
  return true;
}

// Does x come from a convolution, over followers that went before? Its epilogue takes constants and an activation.
bool waits(const Round& r, ValueId x) {
  for (int i = 0; i < kLongest && r.index.single_use(x); ++i) {
    const Node* n = r.index.producer(x);
    if (n && (n->op == OpId::kConv || n->op == OpId::kConvTranspose)) return true;
    if (!n || !op_def(n->op).is(kPointwise)) return false;
    auto computed = std::find_if(n->inputs.begin(), n->inputs.end(), [&](ValueId v) { return !r.g.constant(v); });
    if (computed == n->inputs.end() || follower(r, *computed) != n) return false;
    x = *computed;
  }
  return false;
}

Status sink(Round& r, Node& n) {
  Graph& g = r.g;
  if (!moves(g, n)) return {};
  Node* next = follower(r, n.outputs[0]);
  if (!next || !(waits(r, n.inputs[0]) || undone(r, n))) return {};
  std::vector<ValueId> in;
  for (ValueId v : next->inputs) {
    in.push_back(v == n.outputs[0] ? n.inputs[0] : moved_constant(g, n, v));
    if (in.back() < 0) return {};
  }
  BRISK_ASSIGN(ValueId y, r.add(*next, next->op, next->attrs, in));
  std::vector<ValueId> moved = n.inputs;
  moved[0] = y;
  return r.replace(*next, n.op, n.attrs, moved);
}

}  // namespace

Result<int> sink_movement(Graph& g, PassContext& c) { return until_stable(g, c, sink); }

}  // namespace brisk::passes
