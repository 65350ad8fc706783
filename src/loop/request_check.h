// What submit() demands of a request's fields.
#pragma once
#include "brisk/result.h"
#include "loop/generation_loop.h"

namespace brisk {

struct RequestBounds {
  int64_t vocab_size = 0;
  int64_t max_context = 0;
  bool has_text = false;  // a tokenizer is there, so stop strings can be found
};

// kInvalid names the first field outside its range, its value and the range.
Status check_request(const GenerationRequest& request, const RequestBounds& bounds);

}  // namespace brisk
