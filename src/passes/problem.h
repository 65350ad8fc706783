// The problem a node poses, as kernels see it.
#pragma once
#include "ir/graph.h"
#include "kernel/kernel.h"

namespace brisk {

ProblemDesc describe_problem(const Graph& graph, const Node& node);

}  // namespace brisk
