// One request through a loop, waited for: for the command line and the C++ API.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "loop/generation_loop.h"

namespace brisk {

struct GenerationOutcome {
  std::string text;
  std::vector<int32_t> ids;            // new ones only, the end token included
  std::vector<SampledToken> logprobs;  // if asked for
  FinishReason finish = FinishReason::kNone;  // never kNone, kError
  std::string stop_string;
  int32_t stop_id = -1;
  GenerationUsage usage;
  GenerationTimes times;
  double ttft_ms = 0;  // submit() to the first id sampled; 0 without one
  double tpot_ms = 0;  // mean gap between two ids after the first; 0 with fewer than two
};

// Called on the calling thread, so it may block (a slow terminal); the answer goes on meanwhile. False cancels the request.
using OnGenerationEvent = std::function<bool(const GenerationEvent&)>;

// Errors: submit()'s, and the request's own if it ends with kError. An exception of `on_event` cancels the request and
// passes through.
Result<GenerationOutcome> generate(GenerationLoop& loop, GenerationRequest request, const OnGenerationEvent& on_event = {});

}  // namespace brisk
