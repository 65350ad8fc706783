// The body of a request becomes what the loop runs. Pure but for tokenising; any thread. Every value is checked against
// the range that fields.cpp lists, and an error names the field.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/fields.h"
#include "server/model.h"

namespace brisk {

struct ParsedCall {
  bool chat = false;
  const ServedModel* model = nullptr;
  std::vector<GenerationRequest> requests;  // one a prompt; chat: exactly one
  bool stream = false, include_usage = false;
  bool logprobs = false;
  int top_logprobs = 0;
  bool return_ids = false, debug_timing = false;
};
// `key`: who asks, for fairness.
std::variant<ParsedCall, ApiError> parse_call(std::string_view body, Endpoint endpoint, std::span<const ServedModel> models,
                                              const std::string& key);

// The whole answers of POST /tokenize and /detokenize, as JSON.
std::variant<std::string, ApiError> answer_tokenize(std::string_view body, std::span<const ServedModel> models);
std::variant<std::string, ApiError> answer_detokenize(std::string_view body, std::span<const ServedModel> models);

inline constexpr size_t kMaxPrompts = 64;
inline constexpr size_t kMaxMessages = 4096;
inline constexpr size_t kMaxJsonDepth = 64;

}  // namespace brisk
