#include "server/service.h"

#include <sys/random.h>

#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/log.h"
#include "server/call.h"
#include "server/json_out.h"
#include "server/request.h"

namespace brisk {

struct Service::RouteRow {
  const char* path;
  const char* method;
  bool open;  // no key needed
  Route route;
};

const Service::RouteRow* Service::find_route(std::string_view path) {
  static constexpr RouteRow kRoutes[] = {
      {"/health", "GET", true, Route::kHealth},
      {"/health/live", "GET", true, Route::kLive},
      {"/health/ready", "GET", true, Route::kReady},
      {"/version", "GET", true, Route::kVersion},
      {"/metrics", "GET", false, Route::kMetrics},
      {"/v1/models", "GET", false, Route::kModels},
      {"/v1/completions", "POST", false, Route::kCompletions},
      {"/v1/chat/completions", "POST", false, Route::kChat},
      {"/tokenize", "POST", false, Route::kTokenize},
      {"/detokenize", "POST", false, Route::kDetokenize},
  };
  static constexpr RouteRow kOneModel = {"/v1/models/", "GET", false, Route::kModel};
  for (const RouteRow& r : kRoutes)
    if (path == r.path) return &r;
  return path.starts_with(kOneModel.path) ? &kOneModel : nullptr;
}

Service::Service(const ServerOptions& options, HttpServer& http, std::vector<ServedModel> models)
    : options_(options), http_(http), models_(std::move(models)), metrics_(models_.size()), created_(static_cast<int64_t>(std::time(nullptr))) {
  for (ServedModel& m : models_) m.max_prompt_bytes = std::min(m.max_prompt_bytes, bytes_that_fit(*m.loop));
}

size_t bytes_that_fit(const GenerationLoop& loop) {
  if (!loop.tokenizer()) return SIZE_MAX;
  size_t longest = 1;
  for (int32_t id = 0; id < loop.tokenizer()->vocab_size(); ++id) longest = std::max(longest, loop.tokenizer()->token_bytes(id).size());
  return longest * static_cast<size_t>(loop.max_context());
}

Service::~Service() {
  if (drain_.joinable()) drain_.join();
}

std::string Service::new_request_id() {
  unsigned char bytes[12] = {};
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    const int64_t now = monotonic_ns();
    std::memcpy(bytes, &now, sizeof now);
  }
  std::string out;
  for (unsigned char b : bytes) out += "0123456789abcdef"[b >> 4], out += "0123456789abcdef"[b & 15];
  return out;
}

std::string Service::error_body(int status, std::string_view message) {
  return error_json({status, std::string(message), "", ""});
}

void Service::respond_error(Exchange& exchange, const ApiError& e) const {
  HttpHeaders more;
  if (e.retry_after_s) more.emplace_back("Retry-After", std::to_string(e.retry_after_s));
  if (e.status == 401) more.emplace_back("WWW-Authenticate", "Bearer");
  exchange.respond(e.status, "application/json", error_json(e), more);
}

bool Service::admit(const HttpRequest& head, Exchange& exchange) {
  auto refuse = [&](ApiError e) {
    respond_error(exchange, e);
    return false;
  };
  const RouteRow* r = find_route(head.path);
  const bool open = r && (r->open || (r->route == Route::kMetrics && options_.open_metrics));
  if (!open && !options_.keys.empty() && !options_.keys.find(head.authorization))
    return refuse({401, head.authorization.empty() ? "an API key is needed: Authorization: Bearer KEY" : "the API key is not known here", "", "invalid_api_key"});
  if (!r) return refuse({404, "there is no " + printable(head.path.substr(0, 200)) + " here", "", "not_found"});
  if (head.method != r->method && !(head.method == "HEAD" && std::string_view(r->method) == "GET"))
    return refuse({405, std::string(r->path) + " takes " + r->method, "", "method_not_allowed"});
  if (std::string_view(r->method) != "POST") return true;
  // A web page of another origin can post text and forms unasked, but not JSON.
  std::string_view type = std::string_view(head.content_type).substr(0, head.content_type.find(';'));
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
  if (type != "application/json")
    return refuse({415, "the body must be JSON: Content-Type: application/json", "", "unsupported_media_type"});
  if (draining_) return refuse({503, "the server is shutting down", "", "draining", 5});
  return true;
}

void Service::handle(HttpRequest request, std::shared_ptr<Exchange> exchange) {
  constexpr std::string_view kJson = "application/json";
  switch (find_route(request.path)->route) {
    case Route::kHealth:
    case Route::kReady: return answer_health(*exchange, false);
    case Route::kLive: return answer_health(*exchange, true);
    case Route::kVersion: return exchange->respond(200, kJson, "{\"version\":" + json_string(options_.version) + "}");
    case Route::kMetrics: return exchange->respond(200, "text/plain; version=0.0.4; charset=utf-8", metrics_text(models_, metrics_));
    case Route::kModels: return exchange->respond(200, kJson, models_json());
    case Route::kModel: return answer_model(*exchange, request.path);
    case Route::kCompletions: return start_call(std::move(request), std::move(exchange), kCompletions);
    case Route::kChat: return start_call(std::move(request), std::move(exchange), kChat);
    case Route::kTokenize: return answer_tokens(std::move(request), std::move(exchange), false);
    case Route::kDetokenize: return answer_tokens(std::move(request), std::move(exchange), true);
    case Route::kNone: break;
  }
  respond_error(*exchange, {404, "there is nothing here", "", "not_found"});
}

// Live: the process can still do its work, so that a restart would not help. Draining is live, a dead device is not.
void Service::answer_health(Exchange& exchange, bool live_only) const {
  std::string reason = draining_ && !live_only ? "draining" : "";
  for (const ServedModel& m : models_) {
    const LoopHealth h = m.loop->health();
    if (!h.ready && reason.empty() && !(live_only && h.draining)) reason = m.name + ": " + h.reason;
  }
  if (reason.empty()) return exchange.respond(200, "application/json", "{\"status\":\"ok\"}");
  exchange.respond(503, "application/json", "{\"status\":\"unavailable\",\"reason\":" + json_string(reason) + "}", {{"Retry-After", "5"}});
}

std::string Service::model_json(const ServedModel& m) const {
  return "{\"id\":" + json_string(m.name) + ",\"object\":\"model\",\"created\":" + std::to_string(created_) +
         ",\"owned_by\":\"brisk\",\"max_model_len\":" + std::to_string(m.loop->max_context()) + "}";
}

std::string Service::models_json() const {
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (size_t i = 0; i < models_.size(); ++i) out += (i ? "," : "") + model_json(models_[i]);
  return out + "]}";
}

void Service::answer_model(Exchange& exchange, std::string_view path) const {
  path.remove_prefix(std::string_view("/v1/models/").size());
  for (const ServedModel& m : models_)
    if (m.name == path) return exchange.respond(200, "application/json", model_json(m));
  respond_error(exchange, {404, "the model '" + printable(path.substr(0, 200)) + "' is not served here", "model", "model_not_found"});
}

// Runs `job` on a worker; one that throws (memory, as a rule) fails its request alone.
void Service::work(std::shared_ptr<Exchange> exchange, std::function<void()> job) {
  workers_.post([this, exchange = std::move(exchange), job = std::move(job)] {
    try {
      job();
    } catch (const std::exception& e) {
      exchange->post([this, exchange, what = std::string(e.what())] { respond_error(*exchange, {500, what, "", "internal_error"}); });
    }
  });
}

void Service::answer_tokens(HttpRequest request, std::shared_ptr<Exchange> exchange, bool back) {
  work(exchange, [this, body = std::move(request.body), exchange, back] {
    auto answer = back ? answer_detokenize(body, models_) : answer_tokenize(body, models_);
    exchange->post([this, exchange, answer = std::move(answer)] {
      if (auto* e = std::get_if<ApiError>(&answer)) respond_error(*exchange, *e);
      else exchange->respond(200, "application/json", std::get<std::string>(answer));
    });
  });
}

void Service::start_call(HttpRequest request, std::shared_ptr<Exchange> exchange, Endpoint endpoint) {
  std::string key;
  if (auto n = options_.keys.find(request.authorization)) key = std::to_string(*n);
  work(exchange, [this, body = std::move(request.body), exchange, endpoint, key] {
    auto parsed = parse_call(body, endpoint, models_, key);
    if (auto* e = std::get_if<ApiError>(&parsed)) {
      exchange->post([this, exchange, error = *e] { respond_error(*exchange, error); });
      return;
    }
    ParsedCall call = std::get<ParsedCall>(std::move(parsed));
    ModelMetrics* metrics = &metrics_[static_cast<size_t>(call.model - models_.data())];
    std::make_shared<Call>(exchange, metrics, std::move(call))->submit();
  });
}

void Service::signalled(int count) {
  if (count > 1) {
    log(LogLevel::kWarning, "second signal: ending at once");
    std::_Exit(1);
  }
  draining_ = true;
  log(LogLevel::kInfo, "shutting down: requests that run may end");
  drain_ = std::thread([this] {
    const int64_t end = monotonic_ns() + static_cast<int64_t>(options_.drain_s * 1e9);
    int64_t cut = 0;
    for (const ServedModel& m : models_) cut += m.loop->drain(std::chrono::nanoseconds(std::max<int64_t>(end - monotonic_ns(), 0)));
    if (cut) log(LogLevel::kWarning, std::to_string(cut) + " requests were cut off");
    http_.finish(5);
  });
}

}  // namespace brisk
