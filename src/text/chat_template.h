// Chat templates: a conversation becomes a prompt by the model's own Jinja template, as transformers renders it
// (trim_blocks, lstrip_blocks, loop controls, the generation tag, tojson without HTML escapes, strftime_now,
// raise_exception, and its sandbox: nothing a template gets can be changed, ranges are bounded).
//
// A prompt knows where its text comes from. Every byte of the result is either written by the template or comes
// from data (messages, tools, documents, extra arguments), and that is kept through concatenation, slicing,
// trimming, replacing, formatting and tojson. The tokenizer takes special tokens only where all of their bytes are
// the template's, so a user who writes "<|im_end|>" has written eight characters and ended nothing
// (prompt.h: encode_prompt). Exceptions: the names of special tokens are the template's, and so is a
// message's role if it is a plain word ([A-Za-z0-9_-]+), because some templates spell '<|' + role + '|>'.
//
// A parsed template is immutable; threads may render it at the same time. Rendering needs up to 2 MiB of stack.
#pragma once
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brisk/result.h"
#include "text/json_value.h"

namespace brisk {

struct PromptSegment {
  size_t begin = 0, end = 0;  // bytes of RenderedPrompt::text
  bool from_data = false;
};

struct RenderedPrompt {
  std::string text;                     // UTF-8
  std::vector<PromptSegment> segments;  // cover the text in order; neighbours differ in from_data

  bool from_template(size_t begin, size_t end) const;  // no byte of [begin, end) comes from data
};

struct ChatInput {
  Json messages = Json(Json::Array{});
  Json tools;      // null: none
  Json documents;  // null: none
  bool add_generation_prompt = true;
  // bos_token, eos_token, ...: what the template may name. Those not listed are undefined in it.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  Json extra = Json(Json::Object{});  // further arguments (enable_thinking ...); they win over the others
  std::optional<std::tm> now;         // for strftime_now; the local time if unset
};

// What one rendering may cost. Beyond it: an error that names the limit.
struct RenderLimits {
  size_t max_output = size_t{16} << 20;   // bytes of any string, the prompt included
  size_t max_memory = size_t{256} << 20;  // bytes of all values alive
  uint64_t max_steps = 20'000'000;        // nodes evaluated, items moved, 32-byte pieces copied
};

namespace jinja {
struct Ast;
}

// What a template can read, found out by trying.
struct TemplateReads {
  bool parts = false;               // content as a list of parts
  bool arguments_as_text = false;   // a tool call's arguments as JSON text, the form of OpenAI's protocol
  bool arguments_as_value = false;  // as an object, the form of transformers
};

class ChatTemplate {
 public:
  // Errors (kInvalid) name the line. Source: at most 512 KiB.
  static Result<ChatTemplate> parse(std::string_view source);

  // Errors (kInvalid): "chat template, line 12: TypeError: ..." as Python would have raised; a template's own
  // raise_exception gives "TemplateError".
  Result<RenderedPrompt> render(const ChatInput& input, const RenderLimits& limits = {}) const;

  // Messages of OpenAI's protocol as this template reads them best: text parts become one string where it cannot
  // read parts, and the arguments of tool calls become objects where it can read objects. kInvalid for parts that
  // are no text and that the template does not read.
  Result<Json> adapt_messages(Json messages) const;
  const TemplateReads& reads() const { return reads_; }

  // Renders with nothing but these variables; every string of `context` counts as data.
  Result<RenderedPrompt> render_context(const Json& context, const RenderLimits& limits = {},
                                        std::optional<std::tm> now = std::nullopt) const;

 private:
  explicit ChatTemplate(std::shared_ptr<const jinja::Ast> ast) : ast_(std::move(ast)) {}
  TemplateReads find_reads() const;
  std::shared_ptr<const jinja::Ast> ast_;
  TemplateReads reads_;
};

}  // namespace brisk
