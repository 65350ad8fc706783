#include "compiler/compile.h"

#include <algorithm>
#include <cmath>

#include "compiler/calibration.h"
#include "compiler/decoder.h"
#include "compiler/evaluator.h"
#include "compiler/in_place.h"
#include "compiler/scratch.h"

namespace brisk {

namespace {

// What each pass did and left alone, for `brisk inspect`: "pass.main.03 fold-shapes" -> "42 rewrites, 124 nodes left".
void record_passes(const std::string& function, const std::vector<PassReport>& passes, std::map<std::string, std::string>& record) {
  constexpr size_t kReasons = 8;  // a model of many layers repeats itself
  for (size_t i = 0; i < passes.size(); ++i) {
    const PassReport& p = passes[i];
    if (p.rewrites == 0 && p.missed.empty()) continue;
    std::string what = std::to_string(p.rewrites) + " rewrites, " + std::to_string(p.nodes) + " nodes left";
    for (size_t k = 0; k < std::min(kReasons, p.missed.size()); ++k) what += "; " + p.missed[k];
    if (p.missed.size() > kReasons) what += "; and " + std::to_string(p.missed.size() - kReasons) + " more";
    record["pass." + function + "." + (i < 10 ? "0" : "") + std::to_string(i) + " " + p.name] = std::move(what);
  }
}

// Weights get their precision where a product reads them: ONNX's products must be Linears by then.
Status find_products(Graph& g, const CompileOptions& o, const Backend& backend) {
  auto evaluator = make_evaluator(backend.registry, backend.device, backend.context);
  PassContext context{backend.registry, evaluator.get()};
  PipelineOptions first;
  first.disabled = o.passes.disabled;
  first.until = "gather-before-head";
  auto done = run_pipeline(g, context, first);
  return done.ok() ? Status() : Status(std::move(done).error());
}

// One function of the engine under the plan's name.
Status lower_within(const Graph& g, const std::string& name, const CompileOptions& o, const Backend& backend, EngineContent& content,
                    std::vector<std::string>& notes) {
  auto lower_with = [&](const ChooseKernel& choose) -> Status {
    BRISK_TRY(lower(g, name, choose, content, [&](int64_t done, int64_t total) {
      if (o.progress) o.progress("pack weights", static_cast<double>(done) / static_cast<double>(total));
    }));
    if (o.in_place) plan_in_place(content.functions.at(name), backend.registry);
    return {};
  };
  // In a step, what a row gets must not depend on the rows beside it.
  auto usable = [&, ragged = name == "step"](const ProblemDesc& p) {
    auto all = backend.registry.candidates(p);
    if (ragged) std::erase_if(all, [](const KernelDesc* k) { return !k->row_independent; });
    return all;
  };
  auto best = [&](const ProblemDesc& p) -> const KernelDesc* {
    auto all = usable(p);
    return all.empty() ? nullptr : all[0];
  };
  if (o.workspace_bytes == 0) return lower_with(best);
  const EngineContent before = content;
  BRISK_TRY(lower_with(best));
  auto need = scratch_of(content.functions.at(name), backend.registry);
  if (!need) {
    notes.push_back("--workspace is held at run time: a size of '" + name + "' has no maximum (--profile gives one)");
    return {};
  }
  if (need->total() <= o.workspace_bytes) return {};
  std::string first = need->kernel_at;
  if (need->temporaries < o.workspace_bytes) {  // a leaner kernel may do
    auto largest = [symbols = content.functions.at(name).symbols](const std::string& symbol) -> std::optional<int64_t> {
      for (const PlanSymbol& s : symbols)
        if (s.name == symbol) return s.max;
      return std::nullopt;
    };
    content = before;
    BRISK_TRY(lower_with([&](const ProblemDesc& p) -> const KernelDesc* {
      auto all = usable(p);
      for (const KernelDesc* k : all)
        if (workspace_of(*k, p, largest) <= o.workspace_bytes - need->temporaries) return k;
      return all.empty() ? nullptr : all[0];
    }));
    need = scratch_of(content.functions.at(name), backend.registry);
    if (need->total() <= o.workspace_bytes) {
      notes.push_back("--workspace: a leaner kernel for " + first);
      return {};
    }
  }
  std::string text = "--workspace: '" + name + "' needs " + std::to_string(need->total()) + " bytes at its largest sizes, the limit is " + std::to_string(o.workspace_bytes) +
                     ": " + std::to_string(need->temporaries) + " of temporary values (most at " + need->temporaries_at + ", " + std::to_string(need->temporaries_live) + " alive)";
  if (need->kernel) text += " and " + std::to_string(need->kernel) + " of scratch of the kernel of " + need->kernel_at;
  return invalid(text);
}

}  // namespace

Result<EngineContent> compile(Model model, const CompileOptions& options, const Backend& backend, CompileReport* report) {
  CompileOptions o = options;
  CompileReport local;
  CompileReport& r = report ? *report : local;
  auto progress = [&](const char* stage, double f) { if (o.progress) o.progress(stage, f); };

  Precision precision = Precision::kBf16;
  if (o.precision) precision = *o.precision;
  else if (!model.default_precision.empty()) {
    BRISK_ASSIGN(precision, precision_from_name(model.default_precision));
  }
  r.precision = precision_name(precision);

  EngineContent content;
  QuantizeOptions quantize{precision, o.keep, {}};
  std::map<std::string, std::string> record = o.input_hashes;
  if (o.passes.disabled.erase(kPlanInPlace)) o.in_place = false, record[std::string("disabled-pass.") + kPlanInPlace] = "1";
  progress("decoder", 0);
  // Profiles and marked results speak of the model's own inputs and values: it stays a function.
  if (!o.profiles.empty() || !o.mark_outputs.empty()) o.generative = false;
  BRISK_TRY(convert_to_step(model, o, backend, record, r.notes));
  if (o.passes.disabled.erase(kConvertDecoder)) record[std::string("disabled-pass.") + kConvertDecoder] = "1";
  BRISK_ASSIGN(quantize.encoded, calibrate(model, quantize, o, backend, record));
  if (auto how = record.find("calibration"); how != record.end()) r.calibration = how->second;
  for (auto& [name, graph] : model.functions) {
    for (const std::string& wanted : o.mark_outputs) {
      if (name != "main") return invalid("--mark-output: a generative engine has no such results");
      BRISK_TRY(mark_output(graph, wanted));
    }
    progress("precision", 0);
    if (name == "main" && precision != Precision::kFp32) BRISK_TRY(find_products(graph, o, backend));
    BRISK_ASSIGN(auto weights, apply_precision(graph, quantize));
    r.weights.insert(r.weights.end(), weights.begin(), weights.end());
    const bool profiled = !o.profiles.empty();
    if (profiled && name != "main") return invalid("--profile: '" + name + "' of a generative engine has no shapes to choose");
    for (size_t i = 0; i < std::max<size_t>(o.profiles.size(), 1); ++i) {
      Graph g = i + 1 < o.profiles.size() ? graph : std::move(graph);
      if (profiled) BRISK_TRY(apply_profile(g, o.profiles[i]));
      progress("passes", 0);
      auto evaluator = make_evaluator(backend.registry, backend.device, backend.context);
      PassContext context{backend.registry, evaluator.get()};
      BRISK_ASSIGN(auto passes, run_pipeline(g, context, o.passes));
      record_passes(i == 0 ? name : name + "." + std::to_string(i), passes, record);
      if (i == 0) r.passes.insert(r.passes.end(), passes.begin(), passes.end());
      BRISK_TRY(lower_within(g, i == 0 ? name : name + "." + std::to_string(i), o, backend, content, r.notes));
    }
  }
  content.metadata = std::move(model.metadata);
  content.metadata["precision"] = r.precision;
  if (!o.label.empty()) content.metadata["label"] = o.label;
  content.tokenizer = std::move(model.tokenizer);
  content.chat_template = std::move(model.chat_template);
  content.generation_config = std::move(model.generation_config);
  content.max_context = model.max_context;
  content.device = o.device;
  content.build_record = std::move(record);
  content.build_record["precision"] = r.precision;
  if (o.workspace_bytes) content.build_record["workspace"] = std::to_string(o.workspace_bytes);
  for (auto& m : o.mark_outputs) content.build_record["mark-output." + m] = "1";
  for (auto& p : o.passes.disabled) content.build_record["disabled-pass." + p] = "1";
  for (auto& [pattern, p] : o.keep) content.build_record["keep." + pattern] = precision_name(p);
  for (const WeightReport& w : r.weights)
    content.layer_loss.push_back({w.name, w.encoding, std::isfinite(w.sqnr_db) ? static_cast<float>(w.sqnr_db) : INFINITY});
  return content;
}

}  // namespace brisk
