// brisk generate F.engine -p TEXT, and brisk chat F.engine
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "api/generator.h"
#include "command.h"
#include "loop/generate.h"
#include "text/utf8.h"

namespace brisk::cli {
namespace {

struct Options {
  std::string engine, prompt, ids, system;
  bool chat = false, json = false;
  int logprobs = -1;
  LLMOptions llm;
  GenerateOptions generate;
};

std::atomic<bool> g_interrupted{false};
extern "C" void interrupt(int) { g_interrupted = true; }

// Reads are not taken up again after the signal, so that it ends a chat that waits for a line.
void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = interrupt;
  ::sigaction(SIGINT, &action, nullptr);
}

// Text goes to stdout as it comes unless `quiet`; Ctrl-C ends the answer.
Result<GenerationOutcome> answer(Generator& g, std::vector<int32_t> prompt, const Options& o, bool quiet) {
  GenerationRequest request = make_request(std::move(prompt), o.generate);
  request.sampling.top_logprobs = o.logprobs;
  return brisk::generate(*g.loop, std::move(request), [&](const GenerationEvent& e) {
    if (!quiet && !e.text.empty()) {
      std::fwrite(e.text.data(), 1, e.text.size(), stdout);
      std::fflush(stdout);
    }
    return !g_interrupted.exchange(false);
  });
}

Result<std::vector<int32_t>> parse_ids(const std::string& text) {
  std::vector<int32_t> ids;
  size_t at = 0;
  while (at <= text.size()) {
    size_t comma = std::min(text.find(',', at), text.size());
    int32_t id = 0;
    auto [end, ec] = std::from_chars(text.data() + at, text.data() + comma, id);
    if (ec != std::errc() || end != text.data() + comma) return invalid("--ids: '" + text.substr(at, comma - at) + "' is not a token id");
    ids.push_back(id);
    at = comma + 1;
  }
  return ids;
}

Json message(const std::string& role, const std::string& content) {
  Json m;
  m.set("role", role);
  m.set("content", content);
  return m;
}

Result<std::vector<int32_t>> make_prompt(Generator& g, const Options& o) {
  for (auto& [name, text] : {std::pair{"--prompt", &o.prompt}, {"--system", &o.system}})
    if (!utf8_valid(*text)) return invalid(std::string(name) + " is not UTF-8");
  if (!o.ids.empty()) return parse_ids(o.ids);
  if (!o.chat) {
    if (!g.tokenizer) return invalid("the engine has no tokenizer; give --ids");
    return g.tokenizer->encode(o.prompt);
  }
  ChatInput input;
  Json::Array messages;
  if (!o.system.empty()) messages.push_back(message("system", o.system));
  messages.push_back(message("user", o.prompt));
  input.messages = Json(std::move(messages));
  return g.encode_chat(std::move(input));
}

nlohmann::json logprobs_json(const GenerationOutcome& a) {
  auto one = [](const TokenLogprob& t) {
    auto* b = reinterpret_cast<const unsigned char*>(t.bytes.data());
    return nlohmann::json{{"id", t.id}, {"bytes", std::vector<int>(b, b + t.bytes.size())}, {"logprob", t.logprob}};
  };
  auto list = nlohmann::json::array();
  for (const SampledToken& t : a.logprobs) {
    auto entry = one(t.chosen);
    entry["top"] = nlohmann::json::array();
    for (auto& x : t.top) entry["top"].push_back(one(x));
    list.push_back(std::move(entry));
  }
  return list;
}

Status generate(const Options& o) {
  catch_interrupts();
  BRISK_ASSIGN(auto g, open_generator(o.engine, o.llm));
  BRISK_ASSIGN(auto prompt, make_prompt(*g, o));
  BRISK_ASSIGN(auto a, answer(*g, std::move(prompt), o, o.json));
  if (o.json) {
    nlohmann::json j = {{"ids", a.ids}, {"text", a.text}, {"finish_reason", finish_reason_name(a.finish)}, {"prompt_tokens", a.usage.prompt_tokens},
                        {"ttft_ms", a.ttft_ms}, {"tpot_ms", a.tpot_ms}};
    if (o.logprobs >= 0) j["logprobs"] = logprobs_json(a);
    std::printf("%s\n", j.dump().c_str());
    return {};
  }
  std::printf("\n");
  std::fprintf(stderr, "%lld prompt + %zu new tokens; first token %.1f ms, then %.2f ms a token; load %.1f ms; peak memory %.0f MB\n",
               static_cast<long long>(a.usage.prompt_tokens), a.ids.size(), a.ttft_ms, a.tpot_ms, g->load_ms,
               static_cast<double>(peak_rss_bytes()) / 1e6);
  return {};
}

Status chat(const Options& o) {
  catch_interrupts();
  BRISK_ASSIGN(auto g, open_generator(o.engine, o.llm));
  if (!g->chat_template) return invalid("the model has no chat template; give one with --chat-template");
  std::fprintf(stderr, "chat with %s; an empty line, Ctrl-D or Ctrl-C ends it; Ctrl-C inside an answer stops that\n", o.engine.c_str());
  Json::Array messages;
  if (!o.system.empty()) messages.push_back(message("system", o.system));
  for (std::string line;;) {
    std::fprintf(stderr, "> ");
    if (!std::getline(std::cin, line) || line.empty()) return {};
    if (!utf8_valid(line)) {
      std::fprintf(stderr, "brisk: the line is not UTF-8\n");
      continue;
    }
    messages.push_back(message("user", line));
    ChatInput input;
    input.messages = Json(messages);
    BRISK_ASSIGN(auto ids, g->encode_chat(std::move(input)));
    auto a = answer(*g, std::move(ids), o, false);
    if (!a.ok()) {
      std::fprintf(stderr, "brisk: %s\n", a.error().message.c_str());
      messages.pop_back();
      continue;
    }
    std::printf("\n");
    messages.push_back(message("assistant", a->text));
  }
}

}  // namespace

Run generate_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("ENGINE", o->engine, "an engine file")->required();
  auto* prompt = app.add_option("-p,--prompt", o->prompt, "the text to go on from");
  auto* ids = app.add_option("--ids", o->ids, "token ids instead of a text: 1,2,3")->excludes(prompt);
  app.add_flag("--chat", o->chat, "the prompt is a user's message: apply the chat template")->excludes(ids);
  app.add_option("--system", o->system, "system message before it, with --chat")->needs("--chat");
  auto* json = app.add_flag("--json", o->json, "one JSON object instead of streamed text");
  app.add_option("--logprobs", o->logprobs, "with --json: log probabilities and this many alternatives")
      ->check(CLI::Range(0, kMaxTopLogprobs))
      ->needs(json);
  add_sampling_flags(app, o->generate);
  add_runtime_flags(app, o->llm);
  return [o, prompt, ids]() -> Status {
    if (prompt->count() + ids->count() == 0) return invalid("give a prompt with -p, or token ids with --ids");
    if (o->prompt.empty() && o->ids.empty()) return invalid("the prompt is empty");
    return generate(*o);
  };
}

Run chat_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("ENGINE", o->engine, "an engine file")->required();
  app.add_option("--system", o->system, "system message");
  add_sampling_flags(app, o->generate);
  add_runtime_flags(app, o->llm);
  return [o] { return chat(*o); };
}

}  // namespace brisk::cli
