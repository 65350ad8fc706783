// Renders templates for comparison with an oracle (tools/oracles/templates.py drives it).
// stdin: one JSON object a line, {"source": TEMPLATE, "context": {NAME: VALUE, ...}}; the clock stands at
// 2026-01-02 03:04:05. stdout: one line each, {"text": ...} or {"error": ...}.
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

Result<std::string> render_line(const std::string& line) {
  BRISK_ASSIGN(Json job, parse_json(line));
  const Json *source = job.find("source"), *context = job.find("context");
  if (!source || !source->as_string() || !context) return invalid("a job needs source and context");
  static std::map<std::string, ChatTemplate> parsed;
  auto it = parsed.find(*source->as_string());
  if (it == parsed.end()) {
    BRISK_ASSIGN(ChatTemplate t, ChatTemplate::parse(*source->as_string()));
    it = parsed.emplace(*source->as_string(), std::move(t)).first;
  }
  BRISK_ASSIGN(RenderedPrompt p, it->second.render_context(*context, {}, fixed_clock()));
  return p.text;
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  std::string line;
  while (std::getline(std::cin, line)) {
    auto r = render_line(line);
    Json out;
    out.set(r.ok() ? "text" : "error", r.ok() ? *r : r.error().message);
    std::cout << to_text(out) << "\n";
  }
  return 0;
}
