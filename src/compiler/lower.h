// Graph -> plan: chooses a kernel for each node, packs weights as the kernels want them, turns values into plan values.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "engine/plan.h"
#include "ir/graph.h"
#include "kernel/kernel.h"

namespace brisk {

// Which kernel a problem gets; the tuner's choice goes in here. Null result: none exists.
using ChooseKernel = std::function<const KernelDesc*(const ProblemDesc&)>;
// Steps done of all, for progress.
using LowerProgress = std::function<void(int64_t done, int64_t total)>;

// Appends the graph as function `name` of `content`, sharing weights with what is there: one (constant, packing) pair is
// stored once. All nodes without a kernel are listed in one kUnsupported error.
Status lower(const Graph& graph, const std::string& name, const ChooseKernel& choose, EngineContent& content,
             const LowerProgress& progress = nullptr);

}  // namespace brisk
