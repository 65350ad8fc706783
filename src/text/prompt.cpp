#include "text/prompt.h"

#include <utility>

namespace brisk {

Result<std::vector<int32_t>> encode_prompt(const Tokenizer& tokenizer, const RenderedPrompt& prompt) {
  std::vector<ByteRange> data;
  for (const PromptSegment& s : prompt.segments)
    if (s.from_data) data.push_back({s.begin, s.end});
  return tokenizer.encode_guarded(prompt.text, data, {.add_special = false, .parse_special = true});
}

Detokenizer make_detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special) {
  const DecodeModel& how = tokenizer->config().decode;
  DetokenizerOptions options;
  options.drop_leading_spaces = tokenizer->leading_spaces_dropped();
  options.drop_trailing_space = how.style == DecodeStyle::kSuffix;
  // A word part without its beginning keeps its "##", as decode() has it.
  bool parts = how.style == DecodeStyle::kWordPiece && !how.space.empty();
  auto bytes = [t = std::move(tokenizer), skip_special, parts](int32_t id, bool first) -> std::string_view {
    if (skip_special && t->is_control(id)) return {};
    if (parts && first && t->token_piece(id).starts_with(t->config().decode.space)) return t->token_piece(id);
    return t->token_bytes(id);
  };
  return Detokenizer(std::move(bytes), options);
}

}  // namespace brisk
