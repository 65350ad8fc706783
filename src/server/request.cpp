#include "server/request.h"

#include <sys/random.h>

#include <cmath>

#include "server/chat_messages.h"
#include "server/json_out.h"

namespace brisk {
namespace {

// Reads fields one after the other; the first error stays, and what follows reads defaults.
class Reader {
 public:
  Reader(const Json& body, Endpoint endpoint) : body_(body), endpoint_(endpoint) {}

  bool ok() const { return ok_; }
  ApiError take_error() { return std::move(error_); }
  void fail(ApiError e) {
    if (ok_) error_ = std::move(e);
    ok_ = false;
  }
  void fail(const char* field, const Json* value) {
    const RequestField* f = find_field(field, endpoint_);
    fail(bad_field(field, value ? to_text(*value) : "missing", f ? f->range : ""));
  }

  // nullptr: not there, or null.
  const Json* get(const char* field) const {
    const Json* v = body_.find(field);
    return v && !v->is_null() ? v : nullptr;
  }
  void read(const char* field, bool& out) {
    const Json* v = get(field);
    if (!v) return;
    if (v->as_bool()) out = *v->as_bool();
    else fail(field, v);
  }
  void read(const char* field, float& out) {
    const Json* v = get(field);
    if (!v) return;
    const RequestField* f = find_field(field, endpoint_);
    double d = v->as_double() ? *v->as_double() : v->as_int() ? static_cast<double>(*v->as_int()) : NAN;
    if (d >= f->low && d <= f->high) out = static_cast<float>(d);
    else fail(field, v);
  }
  void read(const char* field, int64_t& out) {
    const Json* v = get(field);
    if (!v) return;
    const RequestField* f = find_field(field, endpoint_);
    int128 n = 0;
    if (v->as_int()) n = *v->as_int();
    else if (v->as_double() && std::abs(*v->as_double()) < 1e15 && *v->as_double() == std::floor(*v->as_double()))
      n = static_cast<int64_t>(*v->as_double());
    else return fail(field, v);
    if (n >= INT64_MIN && n <= INT64_MAX && static_cast<double>(n) >= f->low && static_cast<double>(n) <= f->high)
      out = static_cast<int64_t>(n);
    else fail(field, v);
  }
  // A text that cannot fit into the context is not cut into tokens first, which takes a second for some megabytes.
  bool fits(const ServedModel& model, size_t bytes, const char* field) {
    if (bytes <= model.max_prompt_bytes) return true;
    fail({400, "the text has " + std::to_string(bytes) + " bytes, but prompt and answer together may have " + std::to_string(model.loop->max_context()) +
                   " tokens, which hold " + std::to_string(model.max_prompt_bytes) + " bytes at most", field, "context_length_exceeded"});
    return false;
  }
  bool read_ids(const Json& v, std::vector<int32_t>& out, size_t most = SIZE_MAX) const {
    const Json::Array* list = v.as_array();
    if (!list || list->size() > most) return false;
    for (const Json& x : *list) {
      const int128* n = x.as_int();
      if (!n || *n < 0 || *n > INT32_MAX) return false;
      out.push_back(static_cast<int32_t>(*n));
    }
    return true;
  }

 private:
  const Json& body_;
  Endpoint endpoint_;
  bool ok_ = true;
  ApiError error_;
};

ApiError api_error(const Error& e, const char* param) {
  if (e.kind == ErrorKind::kInternal) return {500, e.message, "", "internal_error"};
  return {400, e.message, param, "invalid_value"};
}

std::variant<Json, ApiError> parse_body(std::string_view text, Endpoint endpoint) {
  auto body = parse_json(text, {.max_depth = kMaxJsonDepth, .repeated_names = false});
  if (!body.ok()) return ApiError{400, "the body is not JSON: " + body.error().message, "", "invalid_json"};
  if (!body->as_object()) return ApiError{400, "the body is not a JSON object", "", "invalid_json"};
  ApiError error;
  if (!check_fields(*body, endpoint, error)) return error;
  return std::move(*body);
}

const ServedModel* find_model(Reader& in, std::span<const ServedModel> models) {
  const Json* name = in.get("model");
  if (!name && models.size() == 1) return &models[0];
  if (!name || !name->as_string()) {
    in.fail("model", name);
    return nullptr;
  }
  for (const ServedModel& m : models)
    if (m.name == *name->as_string()) return &m;
  in.fail({404, "the model '" + name->as_string()->substr(0, 200) + "' is not served here", "model", "model_not_found"});
  return nullptr;
}

void read_stop(Reader& in, GenerationRequest& r) {
  const Json* stop = in.get("stop");
  if (stop) {
    Json::Array one{*stop};
    const Json::Array* list = stop->as_array() ? stop->as_array() : &one;
    if (list->size() > request_limits::kMaxStopStrings) return in.fail("stop", stop);
    for (const Json& s : *list) {
      const std::string* text = s.as_string();
      if (!text || text->empty() || text->size() > request_limits::kMaxStopBytes) return in.fail("stop", stop);
      r.stop_strings.push_back(*text);
    }
  }
  const Json* ids = in.get("stop_token_ids");
  if (ids && !in.read_ids(*ids, r.stop_ids, request_limits::kMaxStopIds)) in.fail("stop_token_ids", ids);
}

void read_sampling(Reader& in, const ServedModel& model, SampleParams& p) {
  p = model.defaults;
  in.read("temperature", p.temperature);
  in.read("top_p", p.top_p);
  in.read("min_p", p.min_p);
  in.read("presence_penalty", p.presence_penalty);
  in.read("frequency_penalty", p.frequency_penalty);
  in.read("repetition_penalty", p.repetition_penalty);
  int64_t top_k = p.top_k;
  in.read("top_k", top_k);
  if (top_k > model.loop->vocab_size())
    in.fail(bad_field("top_k", std::to_string(top_k), "integer 0.." + std::to_string(model.loop->vocab_size())));
  p.top_k = static_cast<int32_t>(std::max<int64_t>(top_k, 0));
  if (in.get("seed")) {
    int64_t seed = 0;
    in.read("seed", seed);
    p.seed = static_cast<uint64_t>(seed);
  } else if (::getrandom(&p.seed, sizeof p.seed, 0) != sizeof p.seed) {
    p.seed = static_cast<uint64_t>(monotonic_ns());
  }
}

void read_logprobs(Reader& in, ParsedCall& call) {
  int64_t top = 0;
  if (call.chat) {
    in.read("logprobs", call.logprobs);
    const Json* wanted = in.get("top_logprobs");
    in.read("top_logprobs", top);
    if (wanted && top > 0 && !call.logprobs) in.fail("top_logprobs", wanted);
  } else {
    call.logprobs = in.get("logprobs") != nullptr;
    in.read("logprobs", top);
  }
  call.top_logprobs = static_cast<int>(top);
}

void read_stream(Reader& in, ParsedCall& call) {
  in.read("stream", call.stream);
  const Json* options = in.get("stream_options");
  if (!options) return;
  if (!options->as_object() || !call.stream) return in.fail("stream_options", options);
  for (auto& [name, value] : *options->as_object()) {
    if (name == "include_usage" && value.as_bool()) call.include_usage = *value.as_bool();
    else if (name == "continuous_usage_stats" && value == Json(false)) continue;
    else if (name == "include_obfuscation" && value.as_bool()) continue;  // padding against listeners; TLS's business here
    else return in.fail("stream_options", options);
  }
}

// All fields but the prompt.
GenerationRequest read_common(Reader& in, ParsedCall& call) {
  GenerationRequest r;
  read_sampling(in, *call.model, r.sampling);
  read_stop(in, r);
  read_stream(in, call);
  read_logprobs(in, call);
  r.sampling.top_logprobs = call.logprobs ? call.top_logprobs : -1;
  r.max_tokens = call.chat ? 0 : 16;
  in.read("max_tokens", r.max_tokens);
  if (call.chat) in.read("max_completion_tokens", r.max_tokens);
  in.read("ignore_eos", r.ignore_eos);
  in.read("include_stop_str_in_output", r.include_stop);
  in.read("skip_special_tokens", r.skip_special);
  in.read("return_token_ids", call.return_ids);
  in.read("debug_timing", call.debug_timing);
  if (const Json* salt = in.get("cache_salt")) {
    if (!salt->as_string() || salt->as_string()->empty() || salt->as_string()->size() > request_limits::kMaxKeyBytes)
      in.fail("cache_salt", salt);
    else r.cache_salt = *salt->as_string();
  }
  return r;
}

void encode_text(Reader& in, const ServedModel& model, Endpoint endpoint, const Json& text, bool special, std::vector<std::vector<int32_t>>& prompts) {
  const auto& tokenizer = model.loop->tokenizer();
  if (!text.as_string()) return in.fail("prompt", &text);
  if (!tokenizer) return in.fail({400, "the model '" + model.name + "' has no tokenizer; 'prompt' must be token ids", "prompt", "invalid_value"});
  if (endpoint == kCompletions && !in.fits(model, text.as_string()->size(), "prompt")) return;
  auto ids = tokenizer->encode(*text.as_string(), {special, true});
  if (ids.ok()) prompts.push_back(std::move(*ids));
  else in.fail(api_error(ids.error(), "prompt"));
}

std::vector<std::vector<int32_t>> read_prompts(Reader& in, const ServedModel& model) {
  std::vector<std::vector<int32_t>> prompts;
  bool special = true;
  in.read("add_special_tokens", special);
  const Json* prompt = in.get("prompt");
  if (!prompt || !in.ok()) {
    in.fail("prompt", prompt);
    return prompts;
  }
  const Json::Array* list = prompt->as_array();
  if (!list) {
    encode_text(in, model, kCompletions, *prompt, special, prompts);
  } else if (list->empty() || (!list->front().as_int() && list->size() > kMaxPrompts)) {
    in.fail(bad_field("prompt", "an array of " + std::to_string(list->size()), find_field("prompt", kCompletions)->range));
  } else if (list->front().as_int()) {
    if (!in.read_ids(*prompt, prompts.emplace_back())) in.fail("prompt", prompt);
  } else {
    for (const Json& one : *list) {
      if (!in.ok()) break;
      if (!one.as_array()) encode_text(in, model, kCompletions, one, special, prompts);
      else if (!in.read_ids(one, prompts.emplace_back())) in.fail("prompt", prompt);
    }
  }
  return prompts;
}

size_t text_bytes(const Json& v) {
  size_t sum = v.as_string() ? v.as_string()->size() : 0;
  if (v.as_array())
    for (const Json& x : *v.as_array()) sum += text_bytes(x);
  if (v.as_object())
    for (const auto& [name, x] : *v.as_object()) sum += text_bytes(x);
  return sum;
}

std::vector<int32_t> read_conversation(Reader& in, Endpoint endpoint, const Json& body, const ServedModel& model) {
  if (const Json* messages = in.get("messages"); endpoint == kChat && messages && !in.fits(model, text_bytes(*messages), "messages")) return {};
  ChatInput chat;
  ApiError error;
  if (!read_chat(body, chat, error)) {
    in.fail(std::move(error));
    return {};
  }
  auto ids = model.encode_chat(std::move(chat));
  if (ids.ok()) return std::move(*ids);
  in.fail(api_error(ids.error(), "messages"));
  return {};
}

}  // namespace

std::variant<ParsedCall, ApiError> parse_call(std::string_view text, Endpoint endpoint, std::span<const ServedModel> models,
                                              const std::string& key) {
  auto parsed = parse_body(text, endpoint);
  if (auto* e = std::get_if<ApiError>(&parsed)) return std::move(*e);
  const Json& body = std::get<Json>(parsed);
  Reader in(body, endpoint);
  ParsedCall call;
  call.chat = endpoint == kChat;
  call.model = find_model(in, models);
  if (!call.model) return in.take_error();
  GenerationRequest common = read_common(in, call);
  common.key = key;
  if (!in.ok()) return in.take_error();
  std::vector<std::vector<int32_t>> prompts;
  if (call.chat) prompts.push_back(read_conversation(in, kChat, body, *call.model));
  else prompts = read_prompts(in, *call.model);
  if (!in.ok()) return in.take_error();
  for (auto& ids : prompts) {
    GenerationRequest& r = call.requests.emplace_back(common);
    r.prompt = std::move(ids);
    if (Status s = call.model->loop->check(r); !s.ok()) {
      const bool long_prompt = static_cast<int64_t>(r.prompt.size()) >= call.model->loop->max_context();
      return ApiError{400, s.error().message, call.chat ? "messages" : "prompt", long_prompt ? "context_length_exceeded" : "invalid_value"};
    }
  }
  return call;
}

std::variant<std::string, ApiError> answer_tokenize(std::string_view text, std::span<const ServedModel> models) {
  auto parsed = parse_body(text, kTokenize);
  if (auto* e = std::get_if<ApiError>(&parsed)) return std::move(*e);
  const Json& body = std::get<Json>(parsed);
  Reader in(body, kTokenize);
  const ServedModel* model = find_model(in, models);
  if (!model) return in.take_error();
  if (!model->loop->tokenizer()) return ApiError{400, "the model '" + model->name + "' has no tokenizer", "model", "invalid_value"};
  bool pieces = false;
  in.read("return_token_strs", pieces);
  std::vector<int32_t> ids;
  if (in.get("messages")) {
    ids = read_conversation(in, kTokenize, body, *model);
  } else {
    bool special = true;
    in.read("add_special_tokens", special);
    std::vector<std::vector<int32_t>> prompts;
    const Json* prompt = in.get("prompt");
    if (!prompt) in.fail("prompt", prompt);
    else encode_text(in, *model, kTokenize, *prompt, special, prompts);
    if (in.ok()) ids = std::move(prompts[0]);
  }
  if (!in.ok()) return in.take_error();
  std::string out = "{\"count\":" + std::to_string(ids.size()) + ",\"max_model_len\":" + std::to_string(model->loop->max_context()) + ",\"tokens\":[";
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i) out += ',';
    json_number(out, int64_t{ids[i]});
  }
  out += "],\"token_strs\":";
  if (pieces) {
    for (size_t i = 0; i < ids.size(); ++i) {
      out += i ? ',' : '[';
      json_string(out, model->loop->tokenizer()->token_piece(ids[i]));
    }
    out += ids.empty() ? "[]" : "]";
  } else {
    out += "null";
  }
  return out + "}";
}

std::variant<std::string, ApiError> answer_detokenize(std::string_view text, std::span<const ServedModel> models) {
  auto parsed = parse_body(text, kDetokenize);
  if (auto* e = std::get_if<ApiError>(&parsed)) return std::move(*e);
  Reader in(std::get<Json>(parsed), kDetokenize);
  const ServedModel* model = find_model(in, models);
  if (!model) return in.take_error();
  if (!model->loop->tokenizer()) return ApiError{400, "the model '" + model->name + "' has no tokenizer", "model", "invalid_value"};
  std::vector<int32_t> ids;
  const Json* tokens = in.get("tokens");
  if (!tokens || !in.read_ids(*tokens, ids)) in.fail("tokens", tokens);
  for (int32_t id : ids)
    if (id >= model->loop->tokenizer()->vocab_size())
      in.fail(bad_field("tokens", std::to_string(id), "ids 0.." + std::to_string(model->loop->tokenizer()->vocab_size() - 1)));
  if (!in.ok()) return in.take_error();
  return "{\"prompt\":" + json_string(model->loop->tokenizer()->decode(ids, false)) + "}";
}

}  // namespace brisk
