// What most fusions need: who made a value, who reads it, and replacing one node by another in place.
#pragma once
#include "ir/graph.h"

namespace brisk::passes {

// A snapshot of producers and users, refreshed by the pass after each rewrite.
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
    if (v < 0 || producers_[static_cast<size_t>(v)] < 0) return nullptr;
    return &g_.nodes[static_cast<size_t>(producers_[static_cast<size_t>(v)])];
  }
  NodeId position(const Node& n) const { return static_cast<NodeId>(&n - g_.nodes.data()); }
  // Read by exactly one node, once, and not a result of the graph.
  bool single_use(ValueId v) const {
    auto& u = users_[static_cast<size_t>(v)];
    if (u.size() != 1 || g_.is_output(v)) return false;
    int uses = 0;
    for (ValueId in : g_.nodes[static_cast<size_t>(u[0])].inputs) uses += in == v;
    return uses == 1;
  }
  const std::vector<NodeId>& users(ValueId v) const { return users_[static_cast<size_t>(v)]; }

 private:
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

}  // namespace brisk::passes
