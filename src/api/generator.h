// A generative engine ready to answer: loop, tokenizer, template, defaults. LLM, the command line and the server share it.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "api/backends.h"
#include "brisk/llm.h"
#include "engine/plan.h"
#include "loop/generation_loop.h"
#include "runtime/loaded_engine.h"
#include "runtime/step_runner.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace brisk {

struct Generator {
  std::shared_ptr<BackendSet> backend;
  std::shared_ptr<const LoadedEngine> engine;
  std::shared_ptr<const Tokenizer> tokenizer;              // null: the engine brought none
  std::optional<ChatTemplate> chat_template;
  std::unique_ptr<GenerationLoop> loop;                    // null if opened without one
  std::unique_ptr<StepRunner> runner;                      // only if opened without a loop
  int64_t state_block_bytes = 0;  // of one block of keys and values, over all layers
  double load_ms = 0;   // open to validated
  double ready_ms = 0;  // open to warm

  const EngineContent& content() const { return engine->content(); }
  // Token ids of a conversation, through the chat template; message text never becomes a special token.
  Result<std::vector<int32_t>> encode_chat(ChatInput input) const;
  Result<RenderedPrompt> render_chat(ChatInput input) const;
};

// The loop's request for a prompt under the public options.
GenerationRequest make_request(std::vector<int32_t> prompt, const GenerateOptions& options);

// `with_loop` false: the bare StepRunner, for evaluation.
Result<std::unique_ptr<Generator>> open_generator(const std::string& engine_path, const LLMOptions& options, bool with_loop = true);

}  // namespace brisk
