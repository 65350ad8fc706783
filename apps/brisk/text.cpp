// brisk tokenize F.engine TEXT, and brisk template F.engine messages.json
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "command.h"
#include "engine/engine_file.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace brisk::cli {
namespace {

Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const EngineContent& content) {
  if (content.tokenizer.empty()) return invalid("the engine has no tokenizer");
  return Tokenizer::deserialize(std::as_bytes(std::span(content.tokenizer)));
}

Status tokenize(const std::string& engine, const std::string& text, bool json, bool special) {
  BRISK_ASSIGN(auto content, read_engine_metadata(engine));
  BRISK_ASSIGN(auto tokenizer, open_tokenizer(*content));
  BRISK_ASSIGN(auto ids, tokenizer->encode(text, {special, true}));
  if (json) {
    nlohmann::json j = {{"ids", ids}, {"pieces", nlohmann::json::array()}};
    for (int32_t id : ids) j["pieces"].push_back(std::string(tokenizer->token_bytes(id)));
    std::printf("%s\n", j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return {};
  }
  for (int32_t id : ids) {
    auto piece = nlohmann::json(std::string(tokenizer->token_bytes(id))).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    std::printf("%8d  %s\n", id, piece.c_str());
  }
  return {};
}

Status render(const std::string& engine, const std::string& file, bool generation_prompt) {
  BRISK_ASSIGN(auto content, read_engine_metadata(engine));
  if (content->chat_template.empty()) return invalid("the engine has no chat template");
  BRISK_ASSIGN(auto source, ChatTemplate::parse(content->chat_template));
  BRISK_ASSIGN(auto text, read_file(file, 64 << 20));
  BRISK_ASSIGN(auto json, parse_json(text));
  ChatInput input;
  input.add_generation_prompt = generation_prompt;
  // Either the messages alone, or an object {"messages": ..., "tools": ..., ...} of a request.
  if (json.as_array()) {
    input.messages = json;
  } else {
    const Json* messages = json.find("messages");
    if (!messages || !messages->as_array()) return invalid(file + ": wanted an array of messages or an object with 'messages'");
    input.messages = *messages;
    if (const Json* tools = json.find("tools")) input.tools = *tools;
    if (const Json* documents = json.find("documents")) input.documents = *documents;
    if (const Json* extra = json.find("chat_template_kwargs")) input.extra = *extra;
  }
  if (!content->tokenizer.empty()) {
    BRISK_ASSIGN(auto tokenizer, open_tokenizer(*content));
    for (auto [name, id] : {std::pair{"bos_token", tokenizer->bos()}, {"eos_token", tokenizer->eos()}})
      if (id >= 0) input.special_tokens.emplace_back(name, tokenizer->token_piece(id));
  }
  BRISK_ASSIGN(auto prompt, source.render(input));
  std::fwrite(prompt.text.data(), 1, prompt.text.size(), stdout);
  return {};
}

}  // namespace

Run tokenize_command(CLI::App& app) {
  struct Options { std::string engine, text; bool json = false, no_special = false; };
  auto o = std::make_shared<Options>();
  app.add_option("ENGINE", o->engine, "an engine file")->required();
  app.add_option("TEXT", o->text, "the text")->required();
  app.add_flag("--no-special", o->no_special, "without the ids the model puts round a text");
  app.add_flag("--json", o->json, "one JSON object: ids and pieces");
  return [o] { return tokenize(o->engine, o->text, o->json, !o->no_special); };
}

Run template_command(CLI::App& app) {
  struct Options { std::string engine, file; bool no_generation = false; };
  auto o = std::make_shared<Options>();
  app.add_option("ENGINE", o->engine, "an engine file")->required();
  app.add_option("MESSAGES", o->file, "JSON file: an array of messages, or a request with 'messages' and 'tools'")->required();
  app.add_flag("--no-generation-prompt", o->no_generation, "without the header of the answer to come");
  return [o] { return render(o->engine, o->file, !o->no_generation); };
}

}  // namespace brisk::cli
