// Messages of a chat request, checked and brought into the form that chat templates expect.
#pragma once
#include "server/fields.h"
#include "text/chat_template.h"

namespace brisk {

// Reads messages, add_generation_prompt and chat_template_kwargs. Text parts are joined by newlines; null members are
// dropped; arguments of past tool calls become objects, as templates want them. False: `error` names the field.
bool read_chat(const Json& body, ChatInput& chat, ApiError& error);

}  // namespace brisk
