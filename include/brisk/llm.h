// A generative engine with its tokenizer and chat template: text in, streamed text out. Requests from several threads are
// batched continuously.
//
//   auto llm = brisk::LLM::open("smollm2.engine");
//   auto answer = (*llm)->chat("What is the capital of France?", {}, [](std::string_view piece) { std::cout << piece; });
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brisk/result.h"

namespace brisk {

struct LLMOptions {
  int threads = 0;                  // 0: all the process may use
  int64_t max_model_len = 0;        // positions of one sequence; 0: what the model was made for
  int64_t max_num_seqs = 64;        // sequences in one step
  int64_t max_batched_tokens = 512; // tokens in one step: longer prompts are prefilled in chunks
  int64_t memory_bytes = 0;         // cap on weights + state + scratch; 0: half of the memory that is free
  std::string kv_dtype;             // "", "fp32", "fp16", "bf16"
  bool prefix_cache = true;
  std::string chat_template;        // Jinja source instead of the model's own
};

struct GenerateOptions {
  int64_t max_tokens = 0;  // 0: until the model stops or the context is full
  float temperature = 0;   // 0: greedy
  int32_t top_k = 0;
  float top_p = 1, min_p = 0;
  float repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  uint64_t seed = 0;
  std::vector<std::string> stop;
  bool ignore_eos = false;
};

struct Completion {
  std::vector<int32_t> ids;  // new ones only
  std::string text;
  std::string finish_reason;  // "stop", "length", "cancelled"
  int64_t prompt_tokens = 0;
  double ttft_ms = 0, tpot_ms = 0;  // arrival to first token; mean gap of the following
};

class LLM {
 public:
  static Result<std::unique_ptr<LLM>> open(const std::string& engine_path, const LLMOptions& options = {});
  ~LLM();

  // Thread safe. `on_text` is called on the calling thread with whole UTF-8 characters, in order.
  using OnText = std::function<void(std::string_view)>;
  Result<Completion> generate(const std::string& prompt, const GenerateOptions& options = {}, const OnText& on_text = nullptr);
  // One user message through the chat template.
  Result<Completion> chat(const std::string& message, const GenerateOptions& options = {}, const OnText& on_text = nullptr);

  Result<std::vector<int32_t>> tokenize(const std::string& text) const;
  std::string detokenize(const std::vector<int32_t>& ids) const;
  int64_t max_context() const;

 private:
  struct State;
  explicit LLM(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace brisk
