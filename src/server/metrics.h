// What /metrics shows, in Prometheus' text form. Names are those of vLLM under the prefix "brisk:". All on one thread.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "server/model.h"

namespace brisk {

class Histogram {
 public:
  static constexpr std::array kBounds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                         0.25,   0.5,     1.0,    2.5,   5.0,    10.0,  25.0, 60.0,  120.0};  // seconds
  void observe(double seconds);
  // `labels`: inside the braces, without "le".
  void write(std::string& out, const std::string& name, const std::string& labels) const;

 private:
  std::array<int64_t, kBounds.size() + 1> counts_{};
  int64_t count_ = 0;
  double sum_ = 0;
};

struct ModelMetrics {
  Histogram time_to_first_token, inter_token_latency, e2e_latency, queue_time;
};

std::string metrics_text(std::span<const ServedModel> models, std::span<const ModelMetrics> metrics);

}  // namespace brisk
