#include "convert/facts.h"

#include <algorithm>

namespace brisk::convert {
namespace {

class Walk {
 public:
  Walk(const Graph& g, const DecoderIo& io, Geometry& geometry, int64_t limit)
      : g_(g), io_(io), geometry_(geometry), producer_(g.producers()), seen_(g.nodes.size()) {
    facts_.limit = limit;
    facts_.constant.assign(g.values.size(), false);
  }

  Result<Facts> run() {
    BRISK_TRY(value(io_.logits, "the result"));
    while (!open_.empty()) {
      NodeId n = open_.back();
      open_.pop_back();
      if (auto s = node(n); !s.ok()) return Error{s.error().kind, describe(g_, n) + ": " + s.error().message};
    }
    for (size_t i = 0; i < seen_.size(); ++i)
      if (seen_[i]) facts_.nodes.push_back(static_cast<NodeId>(i));
    return std::move(facts_);
  }

 private:
  Status node(NodeId id) {
    const Node& n = g_.nodes[static_cast<size_t>(id)];
    auto name = [&](ValueId v) { return "operand '" + g_.value(v).name + "'"; };
    if (n.op == OpId::kAttention) {
      AttentionFacts a;
      BRISK_ASSIGN(a.kv, kv_source(g_, io_, n));
      BRISK_ASSIGN(a.sees, visibility(geometry_, g_, n, facts_.limit));
      for (ValueId v : {n.inputs[0], a.kv.k, a.kv.v}) BRISK_TRY(value(v, name(v)));
      facts_.attention[id] = std::move(a);
      return {};
    }
    if (n.op == OpId::kRotaryEmbedding) {
      BRISK_ASSIGN(facts_.rotary[id], rotation_of(n));
      return value(n.inputs[0], name(n.inputs[0]));
    }
    for (size_t i = 0; i < std::min(n.inputs.size(), data_operands(n)); ++i)
      if (n.inputs[i] >= 0) BRISK_TRY(value(n.inputs[i], name(n.inputs[i])));
    if (n.op == OpId::kGather || n.op == OpId::kEmbedding)  // a table of learned positions ends somewhere
      if (auto p = facts_.positions.find(n.inputs[1]); p != facts_.positions.end())
        if (auto rows = g_.value(n.inputs[0]).type.shape[0].constant()) facts_.limit = std::min(facts_.limit, *rows - p->second);
    return {};
  }

  Status value(ValueId v, const std::string& what) {
    const Value& value = g_.value(v);
    if (value.constant || v == io_.ids || facts_.constant[static_cast<size_t>(v)]) return {};
    auto axes = axes_of(value.type, io_);
    if (geometry_.has(v)) {
      if (!axes.ok()) return unsupported(what + " " + axes.error().message);
      if (axes->token < 0) {
        BRISK_TRY(geometry_.fixed(v));
        facts_.constant[static_cast<size_t>(v)] = true;
        return {};
      }
      if (auto offset = position_offset(geometry_, g_, v)) {
        facts_.positions[v] = *offset;
        return {};
      }
    }
    NodeId n = producer_[static_cast<size_t>(v)];
    if (n < 0) return unsupported("reads input '" + value.name + "' in a way that is not understood");
    if (!seen_[static_cast<size_t>(n)]) open_.push_back(n);
    seen_[static_cast<size_t>(n)] = true;
    return {};
  }

  // Layers share tables: one analysis for each set of operands.
  Result<Rotation> rotation_of(const Node& n) {
    std::vector<ValueId> key(n.inputs.begin() + 1, n.inputs.end());
    auto known = rotations_.find(key);
    if (known != rotations_.end()) return known->second;
    BRISK_ASSIGN(Rotation r, rotation(geometry_, g_, n, facts_.limit));
    return rotations_.emplace(std::move(key), std::move(r)).first->second;
  }

  const Graph& g_;
  const DecoderIo& io_;
  Geometry& geometry_;
  std::vector<NodeId> producer_;
  std::vector<bool> seen_;
  std::vector<NodeId> open_;
  std::map<std::vector<ValueId>, Rotation> rotations_;
  Facts facts_;
};

}  // namespace

size_t data_operands(const Node& n) {
  switch (n.op) {
    case OpId::kReshape: case OpId::kUnsqueeze: case OpId::kSqueeze: case OpId::kFlatten: case OpId::kExpand: case OpId::kTile:
    case OpId::kSlice: case OpId::kSplit: case OpId::kTopK: case OpId::kCumSum: case OpId::kCumProd: case OpId::kPad:
      return 1;
    default: return op_def(n.op).is(kReduction) ? 1 : n.inputs.size();
  }
}

Result<Facts> find_facts(const Graph& g, const DecoderIo& io, Geometry& geometry, int64_t limit) {
  return Walk(g, io, geometry, limit).run();
}

std::string describe(const Graph& g, NodeId id) {
  const Node& n = g.nodes[static_cast<size_t>(id)];
  return "node " + std::to_string(id) + (n.name.empty() ? "" : " '" + n.name + "'") + " (" + op_name(n.op) + ")";
}

}  // namespace brisk::convert
