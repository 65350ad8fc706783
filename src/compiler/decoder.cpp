#include "compiler/decoder.h"

#include <algorithm>

#include "base/log.h"
#include "compiler/evaluator.h"
#include "convert/convert.h"
#include "passes/all.h"

namespace brisk {
namespace {

constexpr int64_t kContextUnknown = 4096;  // positions where neither file nor tables say how many
constexpr const char* kExpertPass = "recognize-experts";
constexpr const char* kFirstStepPass = "gather-before-head";

// Normalising passes, then the conversion. `single`: see prepare_decoder.
Result<DecoderConversion> try_conversion(const Model& model, const CompileOptions& o, const Backend& backend, bool single) {
  Graph source = model.functions.at("main");
  BRISK_TRY(prepare_decoder(source, single));
  auto small = make_evaluator(backend.registry, backend.device, backend.context);
  auto whole = make_evaluator(backend.registry, backend.device, backend.context, /*with_passes=*/true);
  PassContext context{backend.registry, small.get()};
  if (!o.passes.disabled.count("widen-floats")) {  // a step's caches have a type of their own
    BRISK_TRY(passes::widen_floats(source, context));
    passes::widen_interface(source);
  }
  PipelineOptions normalise;
  normalise.disabled = o.passes.disabled;
  normalise.until = kFirstStepPass;
  normalise.disabled.insert(kExpertPass);  // the proof knows its parts
  BRISK_ASSIGN(auto passes, run_pipeline(source, context, normalise));
  BRISK_ASSIGN(auto converted, convert_decoder(source, model.max_context, *small, *whole));
  if (!o.passes.disabled.count(kExpertPass)) {  // before weights get their precision
    BRISK_TRY(passes::recognize_experts(converted.step, context));
    BRISK_TRY(passes::simplify_movement(converted.step, context));
  }
  return converted;
}

Status to_step(Model& model, const CompileOptions& o, const Backend& backend, std::map<std::string, std::string>& record,
               std::vector<std::string>& notes) {
  auto converted = try_conversion(model, o, backend, false);
  if (!converted.ok() && converted.error().kind == ErrorKind::kUnsupported)
    if (auto again = try_conversion(model, o, backend, true); again.ok()) converted = std::move(again);
  if (!converted.ok()) {
    ErrorKind kind = converted.error().kind;
    if (kind == ErrorKind::kEnvironment || kind == ErrorKind::kCancelled) return std::move(converted).error();
    record["decoder"] = "not converted: " + converted.error().message;
    notes.push_back("runs as a plain function, not as a generative engine: " + converted.error().message);
    // A check that failed, or a graph that broke on the way, is a fault of brisk; the function is right all the same.
    log(kind == ErrorKind::kInternal ? LogLevel::kWarning : LogLevel::kInfo, notes.back());
    model.max_context = 0;
    return {};
  }
  if (model.max_context == 0 && converted->limit > kContextUnknown)
    notes.push_back("no file says how many positions the model was made for; taken are " + std::to_string(kContextUnknown));
  model.max_context = std::min(converted->limit, model.max_context > 0 ? model.max_context : kContextUnknown);
  char difference[32];
  std::snprintf(difference, sizeof difference, "%.1e", converted->difference);
  record["decoder"] = "converted; checked against its source: " + std::string(difference) + " of the largest logit";
  log(LogLevel::kInfo, "decoder " + record["decoder"]);
  model.functions.erase("main");
  model.functions.emplace("step", std::move(converted->step));
  return {};
}

}  // namespace

Status convert_to_step(Model& model, const CompileOptions& o, const Backend& backend, std::map<std::string, std::string>& record,
                       std::vector<std::string>& notes) {
  auto main = model.functions.find("main");
  if (main == model.functions.end()) return {};
  bool wanted = o.generative && !o.passes.disabled.count(kConvertDecoder) && may_be_decoder(main->second);
  if (wanted) return to_step(model, o, backend, record, notes);
  model.max_context = 0;
  return {};
}

}  // namespace brisk
