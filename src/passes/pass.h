// A pass rewrites a graph and says how often it did. pipeline.cpp lists them all, in order.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "kernel/kernel.h"

namespace brisk {

struct PassContext {
  const Registry& registry;         // what kernels exist: a fusion without a kernel is not made
  Evaluator* evaluator = nullptr;   // for folding
  // What the running pass made of which node, and what it tried and left alone, with the reason.
  std::vector<std::string> fired = {}, missed = {};
};

struct Pass {
  const char* name;  // for --disable-pass and --dump-after
  const char* what;
  Result<int> (*run)(Graph& g, PassContext& c);  // number of rewrites
};

struct PassReport {
  std::string name;
  int rewrites = 0;
  int64_t nodes = 0;   // after the pass
  double ms = 0;
  std::vector<std::string> fired, missed;  // "node '/layer.0/MatMul_1' is Attention now", "... not fused: the mask ..."
};

struct PipelineOptions {
  std::set<std::string> disabled;    // names; an unknown one is an error
  std::string until;                 // stop in front of this pass; empty: run all
  std::string dump_after;            // a name, or "all"
  std::function<void(const std::string& pass, const std::string& text)> dump;
};

std::span<const Pass> pipeline();

// Runs the list over the graph and its blocks, the verifier after each pass. Reports one row a pass.
Result<std::vector<PassReport>> run_pipeline(Graph& g, PassContext& c, const PipelineOptions& options);

}  // namespace brisk
