// What most fusions need: who made a value, who reads it, and replacing one node by others.
#pragma once
#include <functional>
#include <optional>

#include "ir/graph.h"
#include "passes/pass.h"

namespace brisk::passes {

// A snapshot of producers and users, refreshed by the pass after each rewrite. Values added later have neither.
class Index {
 public:
  explicit Index(Graph& g) : g_(g) { refresh(); }
  void refresh() {
    producers_ = g_.producers();
    users_ = g_.users();
  }
  // The node that makes `v` if it is of that operator; null otherwise (inputs, constants, other operators).
  Node* producer(ValueId v, OpId op) const {
    Node* n = producer(v);
    return n && n->op == op ? n : nullptr;
  }
  Node* producer(ValueId v) const {
    if (!known(v) || producers_[static_cast<size_t>(v)] < 0) return nullptr;
    return &g_.nodes[static_cast<size_t>(producers_[static_cast<size_t>(v)])];
  }
  NodeId position(const Node& n) const { return static_cast<NodeId>(&n - g_.nodes.data()); }
  // Read by exactly one node, once, and not a result of the graph.
  bool single_use(ValueId v) const {
    if (!known(v)) return false;
    auto& u = users_[static_cast<size_t>(v)];
    if (u.size() != 1 || g_.is_output(v)) return false;
    int uses = 0;
    for (ValueId in : g_.nodes[static_cast<size_t>(u[0])].inputs) uses += in == v;
    return uses == 1;
  }
  // The only node that reads `v`; null where there are more, or `v` is a result.
  Node* single_user(ValueId v) const { return single_use(v) ? &g_.nodes[static_cast<size_t>(users_[static_cast<size_t>(v)][0])] : nullptr; }
  void set_producer(ValueId v, NodeId n) { producers_[static_cast<size_t>(v)] = n; }
  const std::vector<NodeId>& users(ValueId v) const {
    static const std::vector<NodeId> kNone;
    return known(v) ? users_[static_cast<size_t>(v)] : kNone;
  }

 private:
  bool known(ValueId v) const { return v >= 0 && static_cast<size_t>(v) < producers_.size(); }
  Graph& g_;
  std::vector<NodeId> producers_;
  std::vector<std::vector<NodeId>> users_;
};

// Operand i, kNoValue where there is none.
inline ValueId operand(const Node& n, size_t i) { return i < n.inputs.size() ? n.inputs[i] : kNoValue; }
inline void set_operand(Node& n, size_t i, ValueId v) {
  if (n.inputs.size() <= i) n.inputs.resize(i + 1, kNoValue);
  n.inputs[i] = v;
}

// What a gated Linear can do with its gate: the attributes' act and number; nullopt for other nodes.
std::optional<std::pair<std::string, float>> gate_function(const Node* n);

// One round of rewriting: each match turns its root node into another one of the same results, in place, with new nodes
// in front of it. Nothing else is touched, so that values with further readers, results of the graph among them, stay
// as they are; what nobody reads any more goes in the end. Producers and users are those of the round's beginning:
// a match made out of nodes that another one left behind is found in the next round.
class Round {
 public:
  Round(Graph& g, PassContext& c) : g(g), context(c), index(g), before_(g.nodes.size()) {}

  Graph& g;
  PassContext& context;
  Index index;

  // A new node in front of `root`; its result.
  Result<ValueId> add(const Node& root, OpId op, Attrs attrs, std::vector<ValueId> in, int outputs = 1);
  void insert(const Node& root, Node n) { before_[static_cast<size_t>(index.position(root))].push_back(std::move(n)); }
  Result<ValueId> add_view(const Node& root, ValueId x, const std::vector<int64_t>& shape);  // a Reshape
  ValueId add_ints(const std::vector<int64_t>& v);
  // `root` becomes this operator; its results keep their names and readers, and must keep dtype and shape.
  Status replace(Node& root, OpId op, Attrs attrs, std::vector<ValueId> in);
  Status replace_with(Node& root, Node n);
  // Every reader of `root`'s first result reads `v` instead, and `root` goes. Where the result is one of the graph's, the
  // node that makes `v` makes it under the result's name; where that cannot be, nothing happens and this is false.
  bool bypass(Node& root, ValueId v);
  // A match that was tried and failed: what the last round says goes into the report.
  void missed(const Node& n, const std::string& what, const std::string& why);
  bool gone(const Node& n) const { return !dead_.empty() && dead_[static_cast<size_t>(index.position(n))]; }

  // Puts the new nodes in, drops what is dead; the number of rewrites.
  Result<int> finish();
  const std::vector<std::string>& misses() const { return missed_; }

 private:
  void rename_uses(ValueId from, ValueId to);

  int changed_ = 0;
  std::vector<std::string> missed_;
  std::vector<std::vector<Node>> before_;
  std::vector<bool> dead_;
};

// Rounds of `step` over all nodes, last to first, until nothing changes.
Result<int> until_stable(Graph& g, PassContext& c, const std::function<Status(Round&, Node&)>& step);

// An axis counted from the front; -1 if it is out of range.
inline int64_t front_axis(int64_t axis, int rank) { return axis < -rank || axis >= rank ? -1 : axis < 0 ? axis + rank : axis; }
// Reshape, Squeeze, Unsqueeze or Flatten, of known ranks.
bool is_view(const Graph& g, const Node& n);
// A Transpose's permutation, written out.
std::vector<int64_t> perm_of(const Graph& g, const Node& n);
// A piece of the last axis of `of`: elements start, start + step, ... `length` of them. By Slice or Split.
struct LastAxisPart {
  ValueId of = kNoValue;
  int64_t start = 0, length = 0, step = 1;
};
std::optional<LastAxisPart> last_axis_part(const Round& r, ValueId v);

// The number that all elements of a plain constant have; nullopt for others.
std::optional<double> uniform(const Graph& g, ValueId v);
// The numbers of an integer constant or of elements that shape arithmetic knows.
std::optional<std::vector<int64_t>> known_numbers(const Graph& g, ValueId v);
inline const Type& type_of(const Graph& g, ValueId v) { return g.value(v).type; }
// Ranked, with symbolically equal shapes.
bool equal_shapes(const Graph& g, ValueId a, ValueId b);
// Is that axis (negative: from the end) the last one of `v`?
bool last_axis(const Graph& g, ValueId v, int64_t axis);
// A reduction over the last axis only, that axis kept.
bool reduces_last(const Graph& g, const Node& n);
// Is the dim 1 or more, whatever its symbols are?
bool positive(const Graph& g, const Dim& d);
// The constant operand by which Reshape makes `to` of a value of shape `from`: numbers, 0 for dims that stay in place, one -1.
// nullopt where that cannot be written.
std::optional<std::vector<int64_t>> reshape_operand(const Graph& g, const Shape& from, const Shape& to);

}  // namespace brisk::passes
