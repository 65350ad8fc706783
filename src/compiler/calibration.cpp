#include "compiler/calibration.h"

#include <algorithm>

#include "base/checked.h"
#include "compiler/evaluator.h"
#include "op/step_io.h"
#include "passes/pass.h"
#include "quantize/calibrate.h"
#include "runtime/engine_step_runner.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace brisk {
namespace {

constexpr int64_t kWindow = 512;          // tokens of one sequence of a text
constexpr int64_t kMinWindows = 8;
constexpr int64_t kSampledLength = 256;   // tokens of one sampled sequence
constexpr int64_t kSampledTogether = 64;  // sequences sampled at a time

Result<std::shared_ptr<const Tokenizer>> tokenizer_of(const Model& model) {
  if (model.tokenizer.empty()) return std::shared_ptr<const Tokenizer>();
  return Tokenizer::deserialize(std::as_bytes(std::span(model.tokenizer)));
}

// Tokens that calibration takes: fewer for large models, whose layers would otherwise hold too much at a cut.
int64_t token_budget(const Graph& step) {
  int64_t widest = 1, elements = 0;
  for (const Node& n : step.nodes)
    if (n.op == OpId::kLinear)
      if (const Constant* w = step.constant(n.inputs[1])) {
        widest = std::max(widest, w->shape[w->shape.rank - 1]);
        elements += w->count();
      }
  constexpr int64_t kMost = 16384, kLeast = 4096, kMemory = 256 << 20, kProducts = int64_t{1} << 42;
  int64_t by_memory = kMemory / (widest * 4), by_time = kProducts / std::max<int64_t>(elements, 1);
  return std::clamp(std::min(by_memory, by_time), kLeast, kMost) / kWindow * kWindow;
}

// The step function in int8, ready to run: accurate enough to talk, half the bytes of bf16.
Result<std::unique_ptr<StepRunner>> make_talker(const Model& model, const Backend& backend) {
  Graph step = model.functions.at("step");
  BRISK_ASSIGN(auto weights, apply_precision(step, {Precision::kInt8, {}, {}}));
  auto evaluator = make_evaluator(backend.registry, backend.device, backend.context);
  PassContext context{backend.registry, evaluator.get()};
  BRISK_ASSIGN(auto passes, run_pipeline(step, context, {}));
  auto content = std::make_shared<EngineContent>();
  BRISK_TRY(lower(step, "step", [&](const ProblemDesc& p) { return backend.registry.best(p); }, *content));
  content->max_context = model.max_context;
  BRISK_ASSIGN(auto engine, LoadedEngine::create(content, backend.device, backend.registry));
  int64_t blocks = ceil_div(kSampledLength, int64_t{kBlockTokens});
  StepRunnerOptions o{{kSampledTogether, kSampledTogether, blocks * kSampledTogether, blocks}};
  return make_step_runner(engine, backend.context, o);
}

}  // namespace

Result<Sequences> sequences_of_text(const Model& model, const std::string& text, int64_t max_tokens) {
  BRISK_ASSIGN(auto tokenizer, tokenizer_of(model));
  if (!tokenizer) return invalid("calibration text: the model has no tokenizer; give one with --tokenizer");
  if (!utf8_valid(text)) return invalid("calibration text: not UTF-8");
  BRISK_ASSIGN(auto ids, tokenizer->encode(text, {false, false}));
  int32_t bos = tokenizer->adds_bos() ? tokenizer->bos() : -1;
  int64_t length = std::min(kWindow, model.max_context), payload = length - (bos >= 0), all = payload > 0 ? static_cast<int64_t>(ids.size()) / payload : 0;
  if (all < kMinWindows)
    return invalid("calibration text: " + std::to_string(ids.size()) + " tokens, at least " + std::to_string(kMinWindows * payload) + " are needed");
  int64_t wanted = std::min(all, std::max(kMinWindows, max_tokens / length));
  Sequences out;
  for (int64_t w = 0; w < wanted; ++w) {
    auto& s = out.emplace_back();
    if (bos >= 0) s.push_back(bos);
    auto from = ids.begin() + w * all / wanted * payload;
    s.insert(s.end(), from, from + payload);
  }
  return out;
}

Result<Sequences> sampled_sequences(const Model& model, const Backend& backend, int64_t max_tokens,
                                    const std::function<void(double)>& progress) {
  BRISK_ASSIGN(auto tokenizer, tokenizer_of(model));
  BRISK_ASSIGN(auto runner, make_talker(model, backend));
  int32_t bos = tokenizer && tokenizer->bos() < runner->vocab_size() ? tokenizer->bos() : -1;
  int64_t length = std::min(kSampledLength, model.max_context), rounds = std::max<int64_t>(1, max_tokens / (length * kSampledTogether));
  int64_t columns = ceil_div(length, int64_t{kBlockTokens});
  Sequences all;
  for (int64_t round = 0; round < rounds; ++round) {
    Sequences now(static_cast<size_t>(kSampledTogether));
    StepInput in;
    in.table_columns = static_cast<int32_t>(columns);
    for (int32_t s = 0; s < kSampledTogether; ++s) {
      auto n = static_cast<int32_t>(round * kSampledTogether + s);
      now[static_cast<size_t>(s)].push_back(bos >= 0 ? bos : static_cast<int32_t>(n * int64_t{7919} % runner->vocab_size()));
      for (int64_t c = 0; c < columns; ++c) in.block_tables.push_back(static_cast<int32_t>(s * columns + c));
      in.seq_starts.push_back(s);
      in.logit_rows.push_back(s);
      in.slots.push_back(s);
      SampleParams p;
      p.temperature = 1;
      p.seed = static_cast<uint64_t>(n);
      in.params.push_back(p);
    }
    in.seq_starts.push_back(static_cast<int32_t>(kSampledTogether));
    for (int32_t at = 0; at + 1 < length; ++at) {
      if (progress) progress((static_cast<double>(round) + static_cast<double>(at) / static_cast<double>(length)) / static_cast<double>(rounds));
      in.ids.clear();
      for (auto& s : now) in.ids.push_back(s.back());
      in.positions.assign(static_cast<size_t>(kSampledTogether), at);
      in.context_lens.assign(static_cast<size_t>(kSampledTogether), at + 1);
      for (SampleParams& p : in.params) p.draw = static_cast<uint32_t>(at);
      BRISK_ASSIGN(Ticket t, runner->submit(in));
      BRISK_ASSIGN(auto out, runner->wait(t));
      for (size_t s = 0; s < now.size(); ++s) {
        if (out.next_ids[s] < 0) return invalid("calibration: the model's logits are not numbers");
        now[s].push_back(out.next_ids[s]);
      }
    }
    all.insert(all.end(), now.begin(), now.end());
  }
  return all;
}

Result<std::map<const Constant*, ConstantPtr>> calibrate(const Model& model, const QuantizeOptions& precision,
                                                         const CompileOptions& o, const Backend& backend,
                                                         std::map<std::string, std::string>& record) {
  using Source = CompileOptions::Calibration::Source;
  using Encoded = std::map<const Constant*, ConstantPtr>;
  auto step = model.functions.find("step");
  bool text = o.calibration.source == Source::kText;
  if (text && precision.precision != Precision::kInt4w) return invalid("calibration text: only int4w builds take one, this one is " + std::string(precision_name(precision.precision)));
  if (text && step == model.functions.end()) return invalid("calibration text: the model is not generative");
  if (o.calibration.source == Source::kNone || step == model.functions.end()) return Encoded();
  int64_t budget = token_budget(step->second);
  Sequences sequences;
  if (text) {  // checked even where nothing is to be fitted
    BRISK_ASSIGN(sequences, sequences_of_text(model, o.calibration.text, budget));
  }
  if (!calibration_pays(step->second, precision)) return Encoded();
  auto progress = [&](const char* stage) {
    return [&o, stage](double f) { if (o.progress) o.progress(stage, f); };
  };
  if (!text) {
    BRISK_ASSIGN(sequences, sampled_sequences(model, backend, budget, progress("sample text")));
  }
  int64_t tokens = 0;
  for (auto& s : sequences) tokens += static_cast<int64_t>(s.size());
  record["calibration.tokens"] = std::to_string(tokens);
  record["calibration"] = text ? "gptq, text" : "gptq, sampled by the model";
  auto evaluator = make_evaluator(backend.registry, backend.device, backend.context, /*with_passes=*/true);
  return calibrate_int4(step->second, precision, sequences, *evaluator, {o.threads, progress("calibrate")});
}

}  // namespace brisk
