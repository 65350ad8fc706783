// Answers of /v1/completions and /v1/chat/completions as JSON: whole, and chunk by chunk. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "loop/generation_loop.h"

namespace brisk {

struct AnswerStyle {
  bool chat = false;
  std::string id;       // "cmpl-..." or "chatcmpl-..."
  int64_t created = 0;  // seconds since 1970
  std::string model;
  bool logprobs = false, return_ids = false, include_usage = false, debug_timing = false;
};

// One choice while it grows.
struct Choice {
  std::vector<int32_t> prompt;  // only with return_ids
  std::string text;
  std::vector<int32_t> ids;
  std::vector<SampledToken> logprobs;
  FinishReason finish = FinishReason::kNone;
  std::string stop_string;
  GenerationUsage usage;
  GenerationTimes times;
  size_t text_offset = 0;  // of the next token, for completions' logprobs
};

// "data: {...}\n\n" with what the event adds; `first`: chat's role goes ahead in a chunk of its own, prompt ids come along.
// Empty if there is nothing to say.
void write_chunk(std::string& out, const AnswerStyle& style, size_t index, Choice& choice, const GenerationEvent& e, bool first);
void write_usage_chunk(std::string& out, const AnswerStyle& style, const std::vector<Choice>& choices);
std::string whole_answer(const AnswerStyle& style, std::vector<Choice>& choices);

}  // namespace brisk
