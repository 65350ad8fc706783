// Model -> engine content: passes, precision, kernels, plan. The way of a build, in one function.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/lower.h"
#include "passes/pass.h"
#include "quantize/quantize.h"

namespace brisk {

struct CompileOptions {
  std::string device = "cpu";                   // recorded in the engine
  std::optional<Precision> precision;           // default: what the model says
  std::map<std::string, Precision> keep;
  PipelineOptions passes;
  std::string label;
  std::map<std::string, std::string> input_hashes;  // for the build record
  // Stage name and progress inside it, 0..1. Called on the building thread.
  std::function<void(const std::string& stage, double fraction)> progress;
};

struct CompileReport {
  std::vector<PassReport> passes;
  std::vector<WeightReport> weights;
  std::string precision;
};

struct Backend {
  const Registry& registry;          // kernels the engine may use
  std::shared_ptr<Device> device;    // host-accessible, for folding
  KernelContext context;
};

Result<EngineContent> compile(Model model, const CompileOptions& options, const Backend& backend, CompileReport* report = nullptr);

}  // namespace brisk
