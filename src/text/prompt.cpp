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
  auto bytes = [t = std::move(tokenizer), skip_special](int32_t id, bool first) {
    return skip_special && t->is_control(id) ? std::string() : t->decoded_bytes(id, first);
  };
  return Detokenizer(std::move(bytes), options);
}

}  // namespace brisk
