// What the server needs of one model; whoever opened the engine fills it in and keeps everything alive.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "brisk/result.h"
#include "loop/generation_loop.h"
#include "op/step_io.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace brisk {

struct ServedModel {
  std::string name;              // [A-Za-z0-9._-]+
  GenerationLoop* loop = nullptr;
  // Renders a conversation and cuts it into ids; any thread.
  std::function<Result<std::vector<int32_t>>(ChatInput)> encode_chat;
  SampleParams defaults{.temperature = 1};  // of requests that do not say
  size_t max_prompt_bytes = SIZE_MAX;       // a longer text is refused unread; see bytes_that_fit()
};

// Of a text that is nothing but the longest token, as often as the context has room.
size_t bytes_that_fit(const GenerationLoop& loop);

}  // namespace brisk
