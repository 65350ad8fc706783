// Every field of a request that clients of OpenAI, vLLM or llama.cpp know, and what becomes of it here. A field that
// would change the answer is never passed over: it is obeyed, or a 400 names it. docs/server.md holds the same table; a
// test compares them.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "text/json_value.h"

namespace brisk {

enum Endpoint : uint8_t { kCompletions = 1, kChat = 2, kTokenize = 4, kDetokenize = 8 };

enum class Standing : uint8_t {
  kImplemented,
  kRefused,   // 400, unless null or one of `neutral`, which ask for nothing
  kHarmless,  // accepted; changes no answer
};

struct RequestField {
  const char* name;
  uint8_t endpoints;     // of Endpoint
  Standing standing;
  const char* range;     // implemented: the values allowed, as errors and the documentation show it
  const char* neutral;   // refused: a JSON array of the values that ask for nothing
  double low = 0, high = 0;  // numbers: the range (low < high), checked by number_field() and integer_field()
};

std::span<const RequestField> request_fields();
const RequestField* find_field(std::string_view name, Endpoint endpoint);

// An error in OpenAI's form: {"error": {"message", "type", "param", "code"}}.
struct ApiError {
  int status = 400;
  std::string message, param, code;
  int retry_after_s = 0;  // 0: no Retry-After
};
std::string error_json(const ApiError& e);
ApiError bad_field(std::string_view field, std::string_view value, std::string_view wanted);

// Every member of the body is known here and not refused; else the error. Checks no values of implemented fields.
bool check_fields(const Json& body, Endpoint endpoint, ApiError& error);

}  // namespace brisk
