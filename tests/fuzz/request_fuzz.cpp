// Bodies of requests: JSON from anybody, for every endpoint.
#include "server/request.h"

#include "fuzz/fuzz.h"
#include "unit/fake_runner.h"

namespace brisk::fuzz {

std::vector<std::string> seeds() {
  return {
      R"({"model":"m","prompt":[[1,2],[3]],"temperature":0.5,"top_p":0.9,"top_k":5,"seed":-1,"max_tokens":3,"stop_token_ids":[9],"stream":true,)"
      R"("stream_options":{"include_usage":true},"logprobs":4,"cache_salt":"s","logit_bias":{},"n":1})",
      R"({"messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},{"role":"assistant","content":null,)"
      R"("tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","content":"c","tool_call_id":"1"}],)"
      R"("max_completion_tokens":7,"logprobs":true,"top_logprobs":2,"chat_template_kwargs":{"x":1},"tools":[],"response_format":{"type":"text"}})",
      R"({"prompt":"a b","add_special_tokens":false,"return_token_strs":true})",
      R"({"tokens":[1,2,3]})",
  };
}

bool parse(const uint8_t* data, size_t size) {
  static auto loop = std::move(*GenerationLoop::create(std::make_unique<FakeRunner>(FakeOptions{}), nullptr, {}));
  static const std::vector<ServedModel> models = {{.name = "m", .loop = loop.get(), .encode_chat = [](ChatInput in) -> Result<std::vector<int32_t>> {
    return std::vector<int32_t>(in.messages.as_array()->size(), 7);
  }}};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (Endpoint e : {kCompletions, kChat}) {
    auto r = parse_call(text, e, models, "");
    if (auto* error = std::get_if<ApiError>(&r); error && !parse_json(error_json(*error)).ok()) std::abort();
  }
  (void)answer_tokenize(text, models);
  (void)answer_detokenize(text, models);
  return parse_json(text).ok();
}

}  // namespace brisk::fuzz
