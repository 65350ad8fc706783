// Messages of a chat request, checked.
#pragma once
#include "server/fields.h"
#include "text/chat_template.h"

namespace brisk {

// Reads messages, add_generation_prompt and chat_template_kwargs. Null members and empty lists are dropped. False: `error`
// names the field.
bool read_chat(const Json& body, ChatInput& chat, ApiError& error);

}  // namespace brisk
