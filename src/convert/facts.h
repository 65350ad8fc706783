// What analysis found out about one decoder, for proof and rewriting.
#pragma once
#include <map>

#include "convert/axes.h"
#include "convert/predicate.h"
#include "convert/states.h"

namespace brisk::convert {

struct AttentionFacts {
  KvSource kv;
  Visibility sees;
};

struct Facts {
  std::map<NodeId, AttentionFacts> attention;
  std::map<NodeId, Rotation> rotary;
  std::vector<NodeId> nodes;      // those that a step needs, in order; shape arithmetic, masks and tables are not among them
  std::vector<bool> constant;     // values that are one and the same at all sizes: Geometry::fixed
  std::map<ValueId, int64_t> positions;  // values that are position + this
  int64_t limit = INT64_MAX;      // positions for which all this holds
};

// Operands that are data; those behind are shapes, axes, counts.
size_t data_operands(const Node& n);

// Walks from the logits back to the ids. The error names node and reason.
Result<Facts> find_facts(const Graph& g, const DecoderIo& io, Geometry& geometry, int64_t limit);

// "node 12 '/model/layers.0/Conv' (Conv)".
std::string describe(const Graph& g, NodeId n);

}  // namespace brisk::convert
