#include "server/metrics.h"

#include <algorithm>

#include "server/json_out.h"

namespace brisk {
namespace {

std::string number(double v) {
  char buffer[64];
  const bool plain = v == 0 || (std::abs(v) >= 1e-6 && std::abs(v) < 1e15);
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, v, plain ? std::chars_format::fixed : std::chars_format::general).ptr);
}

void declare(std::string& out, const std::string& name, const char* type, const char* help) {
  out += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

}  // namespace

void Histogram::observe(double seconds) {
  if (!(seconds >= 0)) return;
  auto at = std::ranges::lower_bound(kBounds, seconds) - kBounds.begin();
  ++counts_[static_cast<size_t>(at)];
  ++count_;
  sum_ += seconds;
}

void Histogram::write(std::string& out, const std::string& name, const std::string& labels) const {
  int64_t below = 0;
  for (size_t i = 0; i <= kBounds.size(); ++i) {
    below += counts_[i];
    out += name + "_bucket{" + labels + ",le=\"" + (i < kBounds.size() ? number(kBounds[i]) : "+Inf") + "\"} " + std::to_string(below) + "\n";
  }
  out += name + "_sum{" + labels + "} " + number(sum_) + "\n" + name + "_count{" + labels + "} " + std::to_string(count_) + "\n";
}

std::string metrics_text(std::span<const ServedModel> models, std::span<const ModelMetrics> metrics) {
  std::string out;
  std::vector<LoopStats> stats;
  for (const ServedModel& m : models) stats.push_back(m.loop->stats());
  auto label = [&](size_t i) { return "model_name=\"" + models[i].name + "\""; };
  auto simple = [&](const char* name, const char* type, const char* help, auto value) {
    declare(out, name, type, help);
    for (size_t i = 0; i < models.size(); ++i) out += std::string(name) + "{" + label(i) + "} " + number(static_cast<double>(value(stats[i]))) + "\n";
  };
  simple("brisk:num_requests_running", "gauge", "requests in progress", [](const LoopStats& s) { return s.running; });
  simple("brisk:num_requests_waiting", "gauge", "requests that wait for their first step", [](const LoopStats& s) { return s.waiting; });
  simple("brisk:kv_cache_usage_perc", "gauge", "state blocks owned by requests; 1 is all", [](const LoopStats& s) { return s.kv_usage(); });
  simple("brisk:prompt_tokens_total", "counter", "prompt tokens of requests that started", [](const LoopStats& s) { return s.prompt_tokens; });
  simple("brisk:generation_tokens_total", "counter", "tokens generated", [](const LoopStats& s) { return s.generated_tokens; });
  simple("brisk:prefix_cache_queries_total", "counter", "prompt tokens looked up in the prefix cache", [](const LoopStats& s) { return s.prefix_queries_tokens; });
  simple("brisk:prefix_cache_hits_total", "counter", "prompt tokens found in the prefix cache", [](const LoopStats& s) { return s.prefix_hit_tokens; });
  simple("brisk:num_preemptions_total", "counter", "requests put back to be computed again", [](const LoopStats& s) { return s.preemptions; });
  simple("brisk:request_refused_total", "counter", "requests refused: queue full, draining, out of range", [](const LoopStats& s) { return s.refused; });
  declare(out, "brisk:request_success_total", "counter", "requests that ended, by reason");
  for (size_t i = 0; i < models.size(); ++i) {
    const LoopStats& s = stats[i];
    for (auto [reason, n] : {std::pair{"stop", s.finished_stop}, {"length", s.finished_length}, {"abort", s.finished_cancelled},
                             {"deadline", s.finished_deadline}, {"error", s.finished_error}})
      out += "brisk:request_success_total{" + label(i) + ",finished_reason=\"" + reason + "\"} " + std::to_string(n) + "\n";
  }
  auto histogram = [&](const char* name, const char* help, Histogram ModelMetrics::*member) {
    declare(out, name, "histogram", help);
    for (size_t i = 0; i < models.size(); ++i) (metrics[i].*member).write(out, name, label(i));
  };
  histogram("brisk:time_to_first_token_seconds", "arrival to first token sampled", &ModelMetrics::time_to_first_token);
  histogram("brisk:inter_token_latency_seconds", "from one token to the next", &ModelMetrics::inter_token_latency);
  histogram("brisk:e2e_request_latency_seconds", "arrival to last token", &ModelMetrics::e2e_latency);
  histogram("brisk:request_queue_time_seconds", "arrival to first step", &ModelMetrics::queue_time);
  return out;
}

}  // namespace brisk
