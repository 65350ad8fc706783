#include "compiler/compile.h"

#include <algorithm>
#include <cmath>

#include "compiler/calibration.h"
#include "compiler/decoder.h"
#include "compiler/evaluator.h"

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
  progress("decoder", 0);
  BRISK_TRY(convert_to_step(model, o, backend, record, r.notes));
  if (o.passes.disabled.erase(kConvertDecoder)) record[std::string("disabled-pass.") + kConvertDecoder] = "1";
  BRISK_ASSIGN(quantize.encoded, calibrate(model, quantize, o, backend, record));
  if (auto how = record.find("calibration"); how != record.end()) r.calibration = how->second;
  for (auto& [name, graph] : model.functions) {
    progress("precision", 0);
    BRISK_ASSIGN(auto weights, apply_precision(graph, quantize));
    r.weights.insert(r.weights.end(), weights.begin(), weights.end());
    progress("passes", 0);
    auto evaluator = make_evaluator(backend.registry, backend.device, backend.context);
    PassContext context{backend.registry, evaluator.get()};
    BRISK_ASSIGN(auto passes, run_pipeline(graph, context, o.passes));
    record_passes(name, passes, record);
    r.passes.insert(r.passes.end(), passes.begin(), passes.end());
    // In a step, what a row gets must not depend on the rows beside it.
    auto choose = [&, ragged = name == "step"](const ProblemDesc& p) -> const KernelDesc* {
      if (!ragged) return backend.registry.best(p);
      for (const KernelDesc* k : backend.registry.candidates(p))
        if (k->row_independent) return k;
      return nullptr;
    };
    BRISK_TRY(lower(graph, name, choose, content, [&](int64_t done, int64_t total) {
      progress("pack weights", static_cast<double>(done) / static_cast<double>(total));
    }));
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
  for (auto& p : o.passes.disabled) content.build_record["disabled-pass." + p] = "1";
  for (auto& [pattern, p] : o.keep) content.build_record["keep." + pattern] = precision_name(p);
  for (const WeightReport& w : r.weights)
    content.layer_loss.push_back({w.name, w.encoding, std::isfinite(w.sqnr_db) ? static_cast<float>(w.sqnr_db) : INFINITY});
  return content;
}

}  // namespace brisk
