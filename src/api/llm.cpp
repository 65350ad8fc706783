#include "brisk/llm.h"

#include "api/generator.h"
#include "loop/generate.h"

namespace brisk {

struct LLM::State {
  std::unique_ptr<Generator> generator;
};

LLM::LLM(std::unique_ptr<State> state) : state_(std::move(state)) {}
LLM::~LLM() = default;

Result<std::unique_ptr<LLM>> LLM::open(const std::string& path, const LLMOptions& options) {
  auto s = std::make_unique<State>();
  BRISK_ASSIGN(s->generator, open_generator(path, options));
  return std::unique_ptr<LLM>(new LLM(std::move(s)));
}

namespace {

Result<Completion> complete(Generator& g, std::vector<int32_t> prompt, const GenerateOptions& o, const LLM::OnText& on_text) {
  BRISK_ASSIGN(auto outcome, brisk::generate(*g.loop, make_request(std::move(prompt), o), [&](const GenerationEvent& e) {
    if (on_text && !e.text.empty()) on_text(e.text);
    return true;
  }));
  return Completion{std::move(outcome.ids), std::move(outcome.text), std::string(finish_reason_name(outcome.finish)),
                    outcome.usage.prompt_tokens, outcome.ttft_ms, outcome.tpot_ms};
}

}  // namespace

Result<Completion> LLM::generate(const std::string& prompt, const GenerateOptions& o, const OnText& on_text) {
  BRISK_ASSIGN(auto ids, tokenize(prompt));
  return complete(*state_->generator, std::move(ids), o, on_text);
}

Result<Completion> LLM::chat(const std::string& message, const GenerateOptions& o, const OnText& on_text) {
  ChatInput input;
  Json::Object turn;
  turn.emplace_back("role", Json("user"));
  turn.emplace_back("content", Json(message));
  input.messages = Json(Json::Array{Json(std::move(turn))});
  BRISK_ASSIGN(auto ids, state_->generator->encode_chat(std::move(input)));
  return complete(*state_->generator, std::move(ids), o, on_text);
}

Result<std::vector<int32_t>> LLM::tokenize(const std::string& text) const {
  if (!state_->generator->tokenizer) return invalid("the engine has no tokenizer");
  return state_->generator->tokenizer->encode(text);
}

std::string LLM::detokenize(const std::vector<int32_t>& ids) const {
  return state_->generator->tokenizer ? state_->generator->tokenizer->decode(ids) : std::string();
}

int64_t LLM::max_context() const { return state_->generator->loop->max_context(); }

}  // namespace brisk
