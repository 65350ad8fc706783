// Times a loop from inside the process: random prompts, each used once, a fixed number of requests in flight.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "loop/generation_loop.h"

namespace brisk {

struct Percentiles {
  double p50 = 0, p90 = 0, p99 = 0;
};
// By linear interpolation between the two nearest ranks (numpy's default). Zeros for no values.
Percentiles percentiles(std::vector<double> values);

struct BenchOptions {
  int64_t prompt_len = 512;
  int64_t gen_len = 64;      // end tokens are ignored
  int64_t concurrency = 1;   // a new request starts when one ends
  int64_t requests = 0;      // measured ones; 0: nine, or three times the concurrency if that is more
  int64_t warmup = -1;       // not counted, before the others; -1: as many as in flight, so that they touch all state
  uint64_t seed = 0;         // of the prompts; 0: another one each time
};

struct BenchResult {
  Percentiles ttft_ms;       // over requests
  Percentiles tpot_ms;       // over requests: mean gap between ids after the first (zeros if gen_len is 1)
  double tokens_per_s = 0;   // generated, over the whole time
  double prompt_tokens_per_s = 0;
  double seconds = 0;
  int64_t requests = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
};

// `progress`, if given, is called on the calling thread after each measured request; false stops (kCancelled).
// kInvalid: lengths that do not fit the context, counts outside [1, 1000000].
Result<BenchResult> bench_generation(GenerationLoop& loop, const BenchOptions& options,
                                     const std::function<bool(int64_t done, int64_t all)>& progress = {});

}  // namespace brisk
