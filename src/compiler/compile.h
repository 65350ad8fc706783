// Model -> engine content: passes, precision, kernels, plan. The way of a build, in one function.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/lower.h"
#include "compiler/profile.h"
#include "passes/pass.h"
#include "quantize/quantize.h"

namespace brisk {

struct CompileOptions {
  std::string device = "cpu";                   // recorded in the engine
  std::optional<Precision> precision;           // default: what the model says
  std::map<std::string, Precision> keep;
  PipelineOptions passes;
  bool generative = false;                      // a `main` that proves to be a decoder becomes a `step`
  // One plan each ("main", "main.1", ...), for models that are no decoders with a cache; none: all sizes in one plan.
  std::vector<Profile> profiles;
  int64_t workspace_bytes = 0;                  // most scratch the engine may use; 0: no limit
  bool in_place = true;                         // results may take the bytes of operands that nobody reads afterwards
  std::vector<std::string> mark_outputs;        // nodes or values whose results become results of the model
  std::string label;
  std::map<std::string, std::string> input_hashes;  // for the build record
  // What int4w weights that are not 4 bits yet are fitted to.
  struct Calibration {
    enum class Source : uint8_t { kNone, kSampled, kText };
    Source source = Source::kNone;
    std::string text;  // kText
  } calibration;
  int threads = 1;  // of calibration's mathematics; changes no bit
  // Stage name and progress inside it, 0..1. Called on the building thread.
  std::function<void(const std::string& stage, double fraction)> progress;
};

struct CompileReport {
  std::vector<PassReport> passes;
  std::vector<WeightReport> weights;
  std::string precision;
  std::vector<std::string> notes;
  std::string calibration;  // how int4w weights were fitted; empty: rounded, or nothing to fit
};

struct Backend {
  const Registry& registry;          // kernels the engine may use
  std::shared_ptr<Device> device;    // host-accessible, for folding
  KernelContext context;
};

Result<EngineContent> compile(Model model, const CompileOptions& options, const Backend& backend, CompileReport* report = nullptr);

}  // namespace brisk
