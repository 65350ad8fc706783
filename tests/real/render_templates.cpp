// Renders templates for comparison with an oracle (tools/oracles/templates.py drives it).
// stdin: one JSON object a line, {"source": TEMPLATE, "context": {NAME: VALUE, ...}}; the clock stands at
// 2026-01-02 03:04:05. stdout: one line each, {"text": ...} or {"error": ...}.
// With "chat": true the context goes through ChatInput (bos_token and the like are special tokens), and the answer
// has "data" (with "adapt": true messages are adapted first): the byte ranges [[begin, end], ...] of the text that come from data.
#include <ctime>
#include <iostream>
#include <map>
#include <string>

#include "text/chat_template.h"

namespace {

using namespace brisk;

std::tm fixed_clock() {
  std::tm t{};
  t.tm_year = 126;
  t.tm_mday = 2;
  t.tm_hour = 3;
  t.tm_min = 4;
  t.tm_sec = 5;
  t.tm_wday = 5;
  t.tm_yday = 1;
  return t;
}

ChatInput chat_input(const Json::Object& context) {
  ChatInput in;
  in.now = fixed_clock();
  for (auto& [name, value] : context) {
    if (name == "messages") in.messages = value;
    else if (name == "tools") in.tools = value;
    else if (name == "documents") in.documents = value;
    else if (name == "add_generation_prompt") in.add_generation_prompt = value.as_bool() && *value.as_bool();
    else if (name.ends_with("_token") && value.as_string())
      in.special_tokens.emplace_back(name, *value.as_string());
    else in.extra.set(name, value);
  }
  return in;
}

Result<Json> render_line(const std::string& line) {
  BRISK_ASSIGN(Json job, parse_json(line));
  const Json *source = job.find("source"), *context = job.find("context");
  if (!source || !source->as_string() || !context || !context->as_object())
    return invalid("a job needs source and context");
  static std::map<std::string, ChatTemplate> parsed;
  auto it = parsed.find(*source->as_string());
  if (it == parsed.end()) {
    BRISK_ASSIGN(ChatTemplate t, ChatTemplate::parse(*source->as_string()));
    it = parsed.emplace(*source->as_string(), std::move(t)).first;
  }
  Json out;
  if (!job.find("chat")) {
    BRISK_ASSIGN(RenderedPrompt p, it->second.render_context(*context, {}, fixed_clock()));
    out.set("text", p.text);
    return out;
  }
  ChatInput in = chat_input(*context->as_object());
  if (job.find("adapt")) {
    BRISK_ASSIGN(in.messages, it->second.adapt_messages(std::move(in.messages)));
  }
  BRISK_ASSIGN(RenderedPrompt p, it->second.render(in));
  Json::Array ranges;
  for (const PromptSegment& s : p.segments)
    if (s.from_data)
      ranges.push_back(Json::Array{static_cast<int64_t>(s.begin), static_cast<int64_t>(s.end)});
  out.set("text", p.text);
  out.set("data", std::move(ranges));
  return out;
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  std::string line;
  while (std::getline(std::cin, line)) {
    auto r = render_line(line);
    Json failed;
    if (!r.ok()) failed.set("error", r.error().message);
    std::cout << to_text(r.ok() ? *r : failed) << "\n";
  }
  return 0;
}
