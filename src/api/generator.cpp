#include "api/generator.h"

#include <algorithm>
#include <chrono>

#include "base/checked.h"
#include "base/memory.h"
#include "engine/engine_file.h"
#include "engine/kv_dtype.h"
#include "op/step_io.h"
#include "runtime/engine_step_runner.h"
#include "text/prompt.h"

namespace brisk {
namespace {

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

Result<std::optional<DType>> kv_dtype(const std::string& name) {
  if (name.empty()) return std::optional<DType>();
  if (name == "fp32") return std::optional(DType::kF32);
  if (name == "fp16") return std::optional(DType::kF16);
  if (name == "bf16") return std::optional(DType::kBF16);
  return invalid("kv dtype '" + name + "' is not one of fp32, fp16, bf16");
}

Result<StepLimits> limits_for(const EngineContent& content, const Plan& step, const LLMOptions& o) {
  auto in_range = [](const char* what, int64_t v, int64_t lo, int64_t hi) -> Status {
    if (v >= lo && v <= hi) return {};
    return invalid(std::string(what) + " " + std::to_string(v) + " outside [" + std::to_string(lo) + ", " + std::to_string(hi) + "]");
  };
  BRISK_TRY(in_range("max_num_seqs", o.max_num_seqs, 1, 4096));
  BRISK_TRY(in_range("max_batched_tokens", o.max_batched_tokens, 1, 65536));
  BRISK_TRY(in_range("max_model_len", o.max_model_len, 0, content.max_context));
  int64_t context = o.max_model_len ? o.max_model_len : content.max_context;
  StepLimits limits;
  limits.max_tokens = std::max(o.max_batched_tokens, o.max_num_seqs);
  limits.max_sequences = o.max_num_seqs;
  limits.max_blocks_per_sequence = ceil_div(context, kBlockTokens);

  int64_t weights = 0, unit = state_bytes_per_block(step);
  for (const Weight& w : content.weights) weights += static_cast<int64_t>(w.bytes.bytes.size());
  auto temporary = step_bytes(step, limits);
  if (!temporary) return invalid("the temporary values of a step of " + std::to_string(limits.max_tokens) + " tokens are too large to count");
  constexpr int64_t kWorkspace = 32 << 20;  // of kernels, the process itself
  auto mb = [](int64_t bytes) { return std::to_string(bytes >> 20) + " MB"; };
  int64_t whole = o.memory_bytes ? o.memory_bytes - weights : available_memory() / 2;
  if (*temporary > whole - kWorkspace)
    return environment("memory: weights take " + mb(weights) + ", the temporary values of a step of " + std::to_string(limits.max_tokens) +
                       " tokens and " + std::to_string(limits.max_sequences) + " sequences " + mb(*temporary) + ", and " + mb(kWorkspace) +
                       " are kept for the rest; " + (o.memory_bytes ? mb(o.memory_bytes) + " are allowed" : mb(whole) + " (half of what is available) are there") +
                       ". Fewer tokens or sequences in a step take less");
  int64_t budget = whole - kWorkspace - *temporary;
  int64_t wanted = limits.max_blocks_per_sequence * limits.max_sequences;
  limits.blocks = std::min(wanted, unit > 0 ? budget / unit : wanted);
  if (limits.blocks < limits.max_blocks_per_sequence) {
    // A model whose full context does not fit still serves shorter ones.
    if (limits.blocks < 2)
      return environment("memory: weights take " + mb(weights) + " and one block of state " + std::to_string(unit >> 10) +
                         " KB; the limit leaves room for no sequence");
    limits.max_blocks_per_sequence = limits.blocks;
  }
  return limits;
}

// One token through the whole plan: every kernel has run once and every weight page is there.
Status warm(StepRunner& runner) {
  StepInput in;
  in.ids = {0};
  in.positions = {0};
  in.seq_starts = {0, 1};
  in.context_lens = {1};
  in.block_tables = {0};
  in.table_columns = 1;
  in.logit_rows = {0};
  in.slots = {0};
  in.params.resize(1);
  BRISK_ASSIGN(Ticket t, runner.submit(in));
  BRISK_ASSIGN(auto out, runner.wait(t));
  return runner.reset_slot(0, {});
}

}  // namespace

Result<std::unique_ptr<Generator>> open_generator(const std::string& path, const LLMOptions& o, bool with_loop) {
  auto start = std::chrono::steady_clock::now();
  auto g = std::make_unique<Generator>();
  BRISK_ASSIGN(auto metadata, read_engine_metadata(path));
  BRISK_ASSIGN(g->backend, BackendSet::create(metadata->device, o.threads));
  metadata.reset();
  BRISK_ASSIGN(auto kv, kv_dtype(o.kv_dtype));
  BRISK_ASSIGN(auto content, read_engine(path, g->backend->registry()));
  if (kv && content->functions.count("step")) {
    auto changed = std::make_shared<EngineContent>(*content);
    if (auto s = set_kv_dtype(*changed, *kv, g->backend->registry()); !s.ok()) return std::move(s).error().in(path);
    content = std::move(changed);
  }
  auto step = content->functions.find("step");
  if (step == content->functions.end()) return invalid(path + ": not a generative engine (it has no function 'step'); use brisk run");
  if (!content->tokenizer.empty()) {
    BRISK_ASSIGN(g->tokenizer, Tokenizer::deserialize(std::as_bytes(std::span(content->tokenizer))));
  }
  std::string source = o.chat_template.empty() ? content->chat_template : o.chat_template;
  if (!source.empty()) {
    BRISK_ASSIGN(g->chat_template, ChatTemplate::parse(source));
  }
  g->load_ms = ms_since(start);

  g->state_block_bytes = state_bytes_per_block(step->second);
  BRISK_ASSIGN(auto limits, limits_for(*content, step->second, o));
  BRISK_ASSIGN(g->engine, LoadedEngine::create(content, g->backend->device(), g->backend->registry()));
  BRISK_ASSIGN(auto runner, make_step_runner(g->engine, g->backend->context(), {limits, o.memory_bytes}));
  BRISK_TRY(warm(*runner));
  if (with_loop) {
    LoopOptions loop;
    loop.max_batched_tokens = o.max_batched_tokens;
    loop.max_context = o.max_model_len;
    loop.prefix_cache = o.prefix_cache;
    // What decides cached keys and values inside one process; hashing the file itself would read every page of it.
    for (auto& [key, value] : content->build_record) loop.model_key += key + "=" + value + ";";
    loop.model_key += "kv=" + o.kv_dtype;
    BRISK_ASSIGN(g->loop, GenerationLoop::create(std::move(runner), g->tokenizer, loop));
  } else {
    g->runner = std::move(runner);
  }
  g->ready_ms = ms_since(start);
  return g;
}

GenerationRequest make_request(std::vector<int32_t> prompt, const GenerateOptions& o) {
  GenerationRequest r;
  r.prompt = std::move(prompt);
  r.max_tokens = o.max_tokens;
  r.stop_strings = o.stop;
  r.ignore_eos = o.ignore_eos;
  SampleParams& p = r.sampling;
  p.temperature = o.temperature;
  p.top_k = o.top_k;
  p.top_p = o.top_p;
  p.min_p = o.min_p;
  p.repetition_penalty = o.repetition_penalty;
  p.presence_penalty = o.presence_penalty;
  p.frequency_penalty = o.frequency_penalty;
  p.seed = o.seed;
  return r;
}

Result<RenderedPrompt> Generator::render_chat(ChatInput input) const {
  if (!chat_template) return invalid("the model has no chat template; give one with --chat-template, or a plain prompt");
  if (tokenizer && input.special_tokens.empty())
    for (auto [name, id] : {std::pair{"bos_token", tokenizer->bos()}, {"eos_token", tokenizer->eos()},
                            {"unk_token", tokenizer->unknown()}, {"pad_token", tokenizer->pad()}})
      if (id >= 0) input.special_tokens.emplace_back(name, tokenizer->token_piece(id));
  BRISK_ASSIGN(input.messages, chat_template->adapt_messages(std::move(input.messages)));
  return chat_template->render(input);
}

Result<std::vector<int32_t>> Generator::encode_chat(ChatInput input) const {
  if (!tokenizer) return invalid("the engine has no tokenizer; give token ids");
  BRISK_ASSIGN(auto prompt, render_chat(std::move(input)));
  return encode_prompt(*tokenizer, prompt);
}

}  // namespace brisk
