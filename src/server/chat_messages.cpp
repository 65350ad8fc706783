#include "server/chat_messages.h"

#include <algorithm>
#include <array>

#include "server/request.h"

namespace brisk {
namespace {

constexpr std::array kRoles = {"system", "developer", "user", "assistant", "tool"};
// Besides role and content.
constexpr std::array kMembers = {"name", "tool_calls", "tool_call_id", "reasoning_content", "reasoning"};

bool fail(ApiError& error, ApiError e) {
  error = std::move(e);
  return false;
}

// A string, null, or text parts; the template decides in which form it gets parts.
bool check_content(const Json& content, const std::string& where, ApiError& error) {
  if (content.as_string() || content.is_null()) return true;
  const Json::Array* parts = content.as_array();
  if (!parts) return fail(error, bad_field(where, to_text(content), "a string or an array of text parts"));
  for (size_t i = 0; i < parts->size(); ++i) {
    const std::string at = where + "[" + std::to_string(i) + "]";
    const Json* type = (*parts)[i].find("type");
    const Json* text = (*parts)[i].find("text");
    if (!type || !type->as_string() || *type->as_string() != "text")
      return fail(error, bad_field(at + ".type", type ? to_text(*type) : "missing", "\"text\" (the model reads text only)"));
    if (!text || !text->as_string()) return fail(error, bad_field(at + ".text", text ? to_text(*text) : "missing", "a string"));
  }
  return true;
}

bool read_message(const Json& in, const std::string& where, Json& out, ApiError& error) {
  if (!in.as_object()) return fail(error, bad_field(where, to_text(in), "an object with role and content"));
  const Json* role = in.find("role");
  if (!role || !role->as_string() || std::ranges::find(kRoles, *role->as_string()) == kRoles.end())
    return fail(error, bad_field(where + ".role", role ? to_text(*role) : "missing", "system, developer, user, assistant or tool"));
  const Json* content = in.find("content");
  const Json* calls = in.find("tool_calls");
  if (content && !check_content(*content, where + ".content", error)) return false;
  if ((!content || content->is_null()) && !(*role->as_string() == "assistant" && calls && !calls->is_null()))
    return fail(error, bad_field(where + ".content", content ? "null" : "missing", "a string or an array of text parts"));
  out.set("role", *role);
  out.set("content", content ? *content : Json());
  for (auto& [name, value] : *in.as_object()) {
    if (name == "role" || name == "content" || value.is_null()) continue;
    if (value.as_array() && value.as_array()->empty()) continue;  // annotations, tool_calls: none
    if (std::ranges::find(kMembers, name) == kMembers.end())
      return fail(error, {400, "'" + where + "." + name.substr(0, 100) + "' is not a member of a message here", where, "unknown_parameter"});
    out.set(name, value);
  }
  return true;
}

}  // namespace

bool read_chat(const Json& body, ChatInput& chat, ApiError& error) {
  const Json* messages = body.find("messages");
  const Json::Array* list = messages ? messages->as_array() : nullptr;
  if (!list || list->empty() || list->size() > kMaxMessages)
    return fail(error, bad_field("messages", !messages ? "missing" : list ? std::to_string(list->size()) + " messages" : to_text(*messages),
                                 "an array of 1.." + std::to_string(kMaxMessages) + " messages"));
  Json::Array out(list->size());
  for (size_t i = 0; i < list->size(); ++i)
    if (!read_message((*list)[i], "messages[" + std::to_string(i) + "]", out[i], error)) return false;
  chat.messages = Json(std::move(out));
  if (const Json* add = body.find("add_generation_prompt"); add && !add->is_null()) {
    if (!add->as_bool()) return fail(error, bad_field("add_generation_prompt", to_text(*add), "true or false"));
    chat.add_generation_prompt = *add->as_bool();
  }
  if (const Json* extra = body.find("chat_template_kwargs"); extra && !extra->is_null()) {
    if (!extra->as_object()) return fail(error, bad_field("chat_template_kwargs", to_text(*extra), "an object"));
    for (const char* taken : {"messages", "tools", "documents", "add_generation_prompt", "chat_template"})
      if (extra->find(taken))
        return fail(error, {400, std::string("'chat_template_kwargs.") + taken + "' would replace a field of the request", "chat_template_kwargs", "invalid_value"});
    chat.extra = *extra;
  }
  return true;
}

}  // namespace brisk
