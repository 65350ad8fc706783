// A stretch of a graph's nodes as a graph of its own.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace brisk {

struct Fragment {
  Graph graph;
  std::vector<ValueId> inputs, outputs;  // of the whole graph, in the order of graph.inputs and graph.outputs
};

// Nodes [from, to). What they read from before, and inputs of the whole, become inputs; what later nodes or the caller of
// the whole read become outputs. Constants and states are taken along.
Fragment cut(const Graph& whole, size_t from, size_t to);

}  // namespace brisk
