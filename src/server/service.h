// Routes, keys, health, metrics: what stands between HTTP and a call. On the I/O thread, but for what it gives to workers.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "server/fields.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/server.h"
#include "server/workers.h"

namespace brisk {

class Service final : public HttpHandler {
 public:
  Service(const ServerOptions& options, HttpServer& http, std::vector<ServedModel> models);
  ~Service() override;

  bool admit(const HttpRequest& head, Exchange& exchange) override;
  void handle(HttpRequest request, std::shared_ptr<Exchange> exchange) override;
  std::string new_request_id() override;
  std::string error_body(int status, std::string_view message) override;
  void signalled(int count) override;

 private:
  enum class Route { kNone, kHealth, kLive, kReady, kVersion, kMetrics, kModels, kModel, kCompletions, kChat, kTokenize, kDetokenize };
  struct RouteRow;
  static const RouteRow* find_route(std::string_view path);

  void respond_error(Exchange& exchange, const ApiError& e) const;
  void answer_health(Exchange& exchange, bool live_only) const;
  std::string models_json() const;
  std::string model_json(const ServedModel& m) const;
  void answer_model(Exchange& exchange, std::string_view path) const;
  void work(std::shared_ptr<Exchange> exchange, std::function<void()> job);
  void answer_tokens(HttpRequest request, std::shared_ptr<Exchange> exchange, bool back);
  void start_call(HttpRequest request, std::shared_ptr<Exchange> exchange, Endpoint endpoint);

  const ServerOptions& options_;
  HttpServer& http_;
  std::vector<ServedModel> models_;
  std::vector<ModelMetrics> metrics_;
  int64_t created_ = 0;
  std::atomic<bool> draining_{false};
  std::thread drain_;
  Workers workers_{2};
};

}  // namespace brisk
