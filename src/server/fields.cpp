#include "server/fields.h"

#include "server/json_out.h"

namespace brisk {
namespace {

constexpr auto kYes = Standing::kImplemented;
constexpr auto kNo = Standing::kRefused;
constexpr auto kFine = Standing::kHarmless;
constexpr uint8_t kText = kCompletions | kChat;
constexpr uint8_t kPrompted = kCompletions | kChat | kTokenize;
constexpr double kMaxInt = 2147483647;

constexpr RequestField kFields[] = {
    // OpenAI
    {"model", kText | kTokenize | kDetokenize, kYes, "a model's name; may be left out if one is served", ""},
    {"prompt", kCompletions, kYes, "string, array of 1..64 strings, array of token ids, or array of 1..64 such arrays", ""},
    {"prompt", kTokenize, kYes, "string", ""},
    {"messages", kChat | kTokenize, kYes, "array of 1..4096 messages: role system, developer, user, assistant or tool; content a string or text parts", ""},
    {"max_tokens", kText, kYes, "integer 1..2147483647; completions: 16, chat: until the context is full", "", 1, kMaxInt},
    {"max_completion_tokens", kChat, kYes, "integer 1..2147483647", "", 1, kMaxInt},
    {"temperature", kText, kYes, "number 0..100; default 1, 0 is greedy", "", 0, 100},
    {"top_p", kText, kYes, "number above 0, to 1; default 1", "", 1e-9, 1},
    {"presence_penalty", kText, kYes, "number -2..2; default 0", "", -2, 2},
    {"frequency_penalty", kText, kYes, "number -2..2; default 0", "", -2, 2},
    {"seed", kText, kYes, "integer -2^63..2^63-1; default: drawn", "", -9223372036854775808.0, 9223372036854775807.0},
    {"stop", kText, kYes, "string or array of 0..16 strings, each of 1..1024 bytes", ""},
    {"stream", kText, kYes, "true or false; default false", ""},
    {"stream_options", kText, kYes, "object: include_usage true or false; only with stream", ""},
    {"logprobs", kCompletions, kYes, "integer 0..20", "", 0, 20},
    {"logprobs", kChat, kYes, "true or false", ""},
    {"top_logprobs", kChat, kYes, "integer 0..20; only with logprobs", "", 0, 20},
    {"n", kText, kNo, "", "[1]"},
    {"best_of", kCompletions, kNo, "", "[1]"},
    {"echo", kText, kNo, "", "[false]"},
    {"suffix", kCompletions, kNo, "", "[\"\"]"},
    {"logit_bias", kText, kNo, "", "[{}]"},
    {"response_format", kText, kNo, "", "[{\"type\":\"text\"}]"},
    {"tools", kChat | kTokenize, kNo, "", "[[]]"},
    {"tool_choice", kChat, kNo, "", "[\"none\",\"auto\"]"},
    {"parallel_tool_calls", kChat, kFine, "", ""},  // says how tools are called, and there are none
    {"functions", kChat, kNo, "", "[[]]"},
    {"function_call", kChat, kNo, "", "[\"none\",\"auto\"]"},
    {"modalities", kChat, kNo, "", "[[\"text\"]]"},
    {"audio", kChat, kNo, "", "[]"},
    {"prediction", kChat, kNo, "", "[]"},
    {"reasoning_effort", kChat, kNo, "", "[]"},
    {"verbosity", kChat, kNo, "", "[]"},
    {"web_search_options", kChat, kNo, "", "[]"},
    {"user", kText, kFine, "", ""},
    {"metadata", kText, kFine, "", ""},
    {"store", kText, kNo, "", "[false]"},
    {"service_tier", kText, kFine, "", ""},
    {"safety_identifier", kText, kFine, "", ""},
    {"prompt_cache_key", kText, kFine, "", ""},
    {"prompt_cache_retention", kText, kFine, "", ""},
    // vLLM
    {"top_k", kText, kYes, "integer 0..vocabulary (-1 or 0: all); default 0", "", -1, kMaxInt},
    {"min_p", kText, kYes, "number 0..1; default 0", "", 0, 1},
    {"repetition_penalty", kText, kYes, "number above 0, to 100; default 1", "", 1e-9, 100},
    {"ignore_eos", kText, kYes, "true or false; default false", ""},
    {"stop_token_ids", kText, kYes, "array of 0..64 token ids", ""},
    {"include_stop_str_in_output", kText, kYes, "true or false; default false", ""},
    {"skip_special_tokens", kText, kYes, "true or false; default true", ""},
    {"add_special_tokens", kCompletions | kTokenize, kYes, "true or false; default true (tokenize of messages: false)", ""},
    {"add_special_tokens", kChat, kNo, "", "[false]"},
    {"add_generation_prompt", kChat | kTokenize, kYes, "true or false; default true", ""},
    {"chat_template_kwargs", kChat | kTokenize, kYes, "object: further variables of the chat template", ""},
    {"return_token_ids", kText, kYes, "true or false; default false: token_ids and prompt_token_ids in each choice", ""},
    {"return_token_strs", kTokenize, kYes, "true or false; default false", ""},
    {"tokens", kDetokenize, kYes, "array of token ids", ""},
    {"cache_salt", kText, kYes, "string of 1..256 bytes: prefixes are shared only between equal salts", ""},
    {"debug_timing", kText, kYes, "true or false; default false: brisk_sampled_at_ns (CLOCK_MONOTONIC) in each chunk", ""},
    {"min_tokens", kText, kNo, "", "[0]"},
    {"use_beam_search", kText, kNo, "", "[false]"},
    {"length_penalty", kText, kNo, "", "[1]"},
    {"spaces_between_special_tokens", kText, kNo, "", "[true]"},
    {"truncate_prompt_tokens", kText, kNo, "", "[]"},
    {"allowed_token_ids", kText, kNo, "", "[]"},
    {"bad_words", kText, kNo, "", "[[]]"},
    {"prompt_logprobs", kText, kNo, "", "[]"},
    {"prompt_embeds", kCompletions, kNo, "", "[]"},
    {"priority", kText, kNo, "", "[0]"},
    {"documents", kChat | kTokenize, kNo, "", "[[]]"},
    {"chat_template", kChat | kTokenize, kNo, "", "[]"},
    {"continue_final_message", kChat | kTokenize, kNo, "", "[false]"},
    {"include_reasoning", kChat, kFine, "", ""},
    {"mm_processor_kwargs", kPrompted, kNo, "", "[{}]"},
    {"return_tokens_as_token_ids", kText, kNo, "", "[false]"},
    {"logits_processors", kText, kNo, "", "[[]]"},
    {"structured_outputs", kText, kNo, "", "[]"},
    {"guided_json", kText, kNo, "", "[]"},
    {"guided_regex", kText, kNo, "", "[]"},
    {"guided_choice", kText, kNo, "", "[]"},
    {"guided_grammar", kText, kNo, "", "[]"},
    {"guided_decoding_backend", kText, kFine, "", ""},
    {"guided_whitespace_pattern", kText, kFine, "", ""},
    {"request_id", kText, kFine, "", ""},
    {"kv_transfer_params", kText, kNo, "", "[]"},
    {"vllm_xargs", kText, kNo, "", "[{}]"},
    // llama.cpp
    {"n_predict", kText, kNo, "", "[-1]"},
    {"typical_p", kText, kNo, "", "[1]"},
    {"tfs_z", kText, kNo, "", "[1]"},
    {"top_n_sigma", kText, kNo, "", "[-1]"},
    {"mirostat", kText, kNo, "", "[0]"},
    {"mirostat_tau", kText, kFine, "", ""},  // parameters of what is refused above
    {"mirostat_eta", kText, kFine, "", ""},
    {"dynatemp_range", kText, kNo, "", "[0]"},
    {"dynatemp_exponent", kText, kFine, "", ""},
    {"xtc_probability", kText, kNo, "", "[0]"},
    {"xtc_threshold", kText, kFine, "", ""},
    {"repeat_penalty", kText, kNo, "", "[1]"},
    {"repeat_last_n", kText, kFine, "", ""},
    {"dry_multiplier", kText, kNo, "", "[0]"},
    {"dry_base", kText, kFine, "", ""},
    {"dry_allowed_length", kText, kFine, "", ""},
    {"dry_penalty_last_n", kText, kFine, "", ""},
    {"dry_sequence_breakers", kText, kFine, "", ""},
    {"grammar", kText, kNo, "", "[\"\"]"},
    {"json_schema", kText, kNo, "", "[]"},
    {"samplers", kText, kNo, "", "[]"},
    {"min_keep", kText, kNo, "", "[0]"},
    {"n_probs", kText, kNo, "", "[0]"},
    {"n_keep", kText, kFine, "", ""},  // what to keep when the context is shifted, which never happens here
    {"t_max_predict_ms", kText, kNo, "", "[0]"},
    {"n_indent", kText, kNo, "", "[0]"},
    {"lora", kText, kNo, "", "[[]]"},
    {"reasoning_format", kChat, kNo, "", "[\"none\",\"auto\"]"},
    {"cache_prompt", kText, kFine, "", ""},
    {"id_slot", kText, kFine, "", ""},
    {"timings_per_token", kText, kFine, "", ""},
    {"content", kTokenize, kNo, "", "[]"},
};

bool is_neutral(const RequestField& f, const Json& value) {
  if (value.is_null()) return true;
  Json same = value;  // 1.0 is 1
  if (auto* d = value.as_double(); d && std::abs(*d) < 1e9 && *d == std::floor(*d)) same = Json(static_cast<int64_t>(*d));
  auto list = parse_json(f.neutral);
  if (!list.ok()) return false;
  for (const Json& v : *list->as_array())
    if (v == same) return true;
  return false;
}

}  // namespace

std::span<const RequestField> request_fields() { return kFields; }

const RequestField* find_field(std::string_view name, Endpoint endpoint) {
  for (const RequestField& f : kFields)
    if (name == f.name && (f.endpoints & endpoint)) return &f;
  return nullptr;
}

std::string error_json(const ApiError& e) {
  std::string out = "{\"error\":{\"message\":";
  json_string(out, e.message);
  out += ",\"type\":";
  out += e.status >= 500 ? "\"server_error\"" : e.status == 401 ? "\"authentication_error\"" : e.status == 429 ? "\"rate_limit_error\"" : "\"invalid_request_error\"";
  out += ",\"param\":" + (e.param.empty() ? std::string("null") : json_string(e.param));
  out += ",\"code\":" + (e.code.empty() ? std::string("null") : json_string(e.code)) + "}}";
  return out;
}

ApiError bad_field(std::string_view field, std::string_view value, std::string_view wanted) {
  std::string shown(value.substr(0, 100));
  if (value.size() > 100) shown += "...";
  return {400, "'" + std::string(field) + "' is " + shown + "; allowed: " + std::string(wanted), std::string(field), "invalid_value"};
}

bool check_fields(const Json& body, Endpoint endpoint, ApiError& error) {
  for (auto& [name, value] : *body.as_object()) {
    const RequestField* f = find_field(name, endpoint);
    if (!f) {
      error = {400, "'" + name.substr(0, 100) + "' is not a field of this request", name.substr(0, 100), "unknown_parameter"};
      return false;
    }
    if (f->standing != Standing::kRefused || is_neutral(*f, value)) continue;
    error = bad_field(name, to_text(value), std::string("null or one of ") + f->neutral + " (brisk does not have this yet)");
    error.code = "unsupported_parameter";
    return false;
  }
  return true;
}

}  // namespace brisk
