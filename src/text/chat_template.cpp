#include "text/chat_template.h"

#include <chrono>
#include <new>

#include "text/jinja_interp.h"
#include "text/jinja_lexer.h"
#include "text/jinja_parser.h"
#include "text/utf8.h"

namespace brisk {

using namespace jinja;

bool RenderedPrompt::from_template(size_t begin, size_t end) const {
  for (const PromptSegment& s : segments)
    if (s.from_data && s.begin < end && begin < s.end) return false;
  return true;
}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  if (!utf8_valid(source)) return invalid("chat template: the text is not UTF-8");
  try {
    ChatTemplate t(std::make_shared<const Ast>(jinja::parse(source)));
    t.reads_ = t.find_reads();
    return t;
  } catch (const SyntaxError& e) {
    return invalid("chat template, line " + std::to_string(e.line) + ": " + e.message);
  } catch (const RenderError& e) {
    return invalid(std::string("chat template: ") + e.type + ": " + e.message);
  } catch (const std::bad_alloc&) {
    return environment("chat template: out of memory");
  }
}

namespace {

bool is_plain_word(std::string_view s) {
  for (char c : s)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-'))
      return false;
  return !s.empty();
}

// Messages are data, apart from roles that are plain words.
Val messages_value(Budget& b, const Json& messages) {
  const Json::Array* list = messages.as_array();
  if (!list) return from_json(b, messages, true);
  std::vector<Val> out;
  for (const Json& m : *list) {
    const Json::Object* members = m.as_object();
    if (!members) {
      out.push_back(from_json(b, m, true));
      continue;
    }
    auto d = new_dict(b);
    for (auto& [k, v] : *members) {
      bool structural = k == "role" && v.as_string() && is_plain_word(*v.as_string());
      d->put(b, make_str(b, k, !is_plain_word(k)), from_json(b, v, !structural));
    }
    out.push_back(make_dict(b, std::move(d)));
  }
  return make_list(b, std::move(out));
}

struct Now {
  std::tm time{};
  int microseconds = 0;
};

Now now_or(const std::optional<std::tm>& given) {
  Now n;
  if (given) {
    n.time = *given;
    return n;
  }
  auto since = std::chrono::system_clock::now().time_since_epoch();
  std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(since).count();
  n.microseconds =
      static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(since).count() % 1'000'000);
  localtime_r(&seconds, &n.time);
  return n;
}

// Runs the template with the variables that `define` sets.
template <class Define>
Result<RenderedPrompt> run(const Ast& ast, const RenderLimits& limits, const std::optional<std::tm>& given,
                           Define&& define) {
  Budget budget;
  budget.max_string = std::min<size_t>(limits.max_output, size_t{1} << 30);
  budget.max_live = limits.max_memory;
  budget.max_steps = limits.max_steps;
  Now now = now_or(given);
  Interp in(ast, budget, now.time, now.microseconds);
  try {
    define(in);
    StrBuilder out(budget);
    in.run(out);
    RenderedPrompt p;
    p.text = out.bytes();
    size_t begin = 0;
    for (const Run& r : out.runs()) {
      p.segments.push_back({begin, r.end, r.data});
      begin = r.end;
    }
    return p;
  } catch (const RenderError& e) {
    return invalid("chat template, line " + std::to_string(in.line()) + ": " + e.type + ": " + e.message);
  } catch (const std::bad_alloc&) {
    return environment("chat template, line " + std::to_string(in.line()) + ": out of memory");
  }
}

}  // namespace

Result<RenderedPrompt> ChatTemplate::render(const ChatInput& input, const RenderLimits& limits) const {
  return run(*ast_, limits, input.now, [&](Interp& in) {
    for (auto& [name, text] : input.special_tokens) in.define(name, make_str(in.budget, text));
    in.define("messages", messages_value(in.budget, input.messages));
    in.define("tools", from_json(in.budget, input.tools, true));
    in.define("documents", from_json(in.budget, input.documents, true));
    in.define("add_generation_prompt", Val::boolean(input.add_generation_prompt));
    if (const Json::Object* extra = input.extra.as_object())
      for (auto& [name, v] : *extra) in.define(name, from_json(in.budget, v, true));
  });
}

Result<RenderedPrompt> ChatTemplate::render_context(const Json& context, const RenderLimits& limits,
                                                    std::optional<std::tm> now) const {
  return run(*ast_, limits, now, [&](Interp& in) {
    if (const Json::Object* members = context.as_object())
      for (auto& [name, v] : *members) in.define(name, from_json(in.budget, v, true));
  });
}

}  // namespace brisk
