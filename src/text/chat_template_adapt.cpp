// What a template can read, found out by rendering small conversations with it, and messages made fit for it.
#include <string_view>

#include "text/chat_template.h"

namespace brisk {
namespace {

Json text_message(const char* role, Json content) {
  Json m;
  m.set("role", role);
  m.set("content", std::move(content));
  return m;
}

Json text_part(const char* text) {
  Json part;
  part.set("type", "text");
  part.set("text", text);
  return part;
}

Json call_message(Json arguments) {
  Json function, call, m = text_message("assistant", "");
  function.set("name", "probe");
  function.set("arguments", std::move(arguments));
  call.set("id", "abcdef123");  // some templates insist on nine characters
  call.set("type", "function");
  call.set("function", std::move(function));
  m.set("tool_calls", Json::Array{std::move(call)});
  return m;
}

// The prompt of these messages; empty if the template refuses them.
std::string probe(const ChatTemplate& t, Json::Array messages) {
  ChatInput in;
  in.messages = Json(std::move(messages));
  in.special_tokens = {{"bos_token", ""}, {"eos_token", ""}};
  in.now = std::tm{.tm_mday = 2, .tm_year = 126, .tm_wday = 5};  // any date will do
  RenderLimits limits;
  limits.max_output = size_t{1} << 20;
  limits.max_memory = size_t{8} << 20;
  limits.max_steps = 100'000;
  auto r = t.render(in, limits);
  return r.ok() ? r->text : "";
}

bool has(std::string_view text, std::string_view what) { return text.find(what) != text.npos; }

constexpr const char* kWord = "Qzprobe";

}  // namespace

TemplateReads ChatTemplate::find_reads() const {
  TemplateReads reads;
  std::string parts = probe(*this, {text_message("user", Json::Array{text_part(kWord)})});
  reads.parts = has(parts, kWord) && !has(parts, "'text'") && !has(parts, "\"text\"");

  auto calls = [&](Json arguments) {
    Json result = text_message("tool", "y");
    result.set("tool_call_id", "abcdef123");
    result.set("name", "probe");
    return probe(*this, {text_message("user", "x"), call_message(std::move(arguments)), std::move(result)});
  };
  const std::string form = std::string("\"k\": \"") + kWord + "\"";
  Json value;
  value.set("k", kWord);
  reads.arguments_as_text = has(calls("{" + form + "}"), form);  // not if it comes out quoted once more
  std::string as_value = calls(value);
  reads.arguments_as_value = has(as_value, kWord) && !has(as_value, "'k'");
  return reads;
}

namespace {

// Text parts as one string; an error for parts that are no text.
Result<Json> joined(const Json::Array& parts, const std::string& where) {
  std::string text;
  for (size_t k = 0; k < parts.size(); ++k) {
    const Json *type = parts[k].find("type"), *t = parts[k].find("text");
    if (!t || !t->as_string() || (type && (!type->as_string() || *type->as_string() != "text")))
      return invalid(where + "[" + std::to_string(k) + "]: this model's chat template reads text only");
    text += *t->as_string();
  }
  return Json(std::move(text));
}

void parse_arguments(Json& message) {
  Json* calls = message.find("tool_calls");
  if (!calls || !calls->as_array()) return;
  for (Json& call : *calls->as_array()) {
    Json* function = call.find("function");
    Json* arguments = function ? function->find("arguments") : nullptr;
    if (!arguments || !arguments->as_string()) continue;
    auto value = parse_json(*arguments->as_string());
    if (value.ok() && value->as_object()) *arguments = std::move(*value);
  }
}

}  // namespace

Result<Json> ChatTemplate::adapt_messages(Json messages) const {
  if (!messages.as_array()) return messages;
  for (size_t k = 0; k < messages.as_array()->size(); ++k) {
    Json& m = (*messages.as_array())[k];
    Json* content = m.find("content");
    if (!reads_.parts && content && content->as_array()) {
      BRISK_ASSIGN(*content, joined(*content->as_array(), "messages[" + std::to_string(k) + "].content"));
    }
    if (reads_.arguments_as_value) parse_arguments(m);
  }
  return messages;
}

}  // namespace brisk
