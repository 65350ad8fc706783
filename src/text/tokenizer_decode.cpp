// From ids to text.
#include <algorithm>

#include "text/tokenizer_state.h"
#include "text/unicode.h"

namespace brisk {
namespace {

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  size_t done = 0;
  for (size_t at; !what.empty() && (at = text.find(what, done)) != std::string_view::npos; done = at + what.size()) {
    out += text.substr(done, at - done);
    out += by;
  }
  out += text.substr(done);
  return out;
}

// BERT's clean-up of spaces before punctuation and English contractions.
std::string clean_up(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},     {" ?", "?"},     {" !", "!"},     {" ,", ","},    {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (auto [what, by] : kRules) text = replaced(text, what, by);
  return text;
}

}  // namespace

std::string Tokenizer::State::shown_bytes(std::string_view piece, TokenType type) const {
  const DecodeModel& decode = config.decode;
  if (decode.byte_tokens) {
    if (int b = parse_byte_token(piece); b >= 0) return std::string(1, char(b));
  }
  bool literal = type == TokenType::kControl || type == TokenType::kUserDefined;
  switch (decode.style) {
    case DecodeStyle::kBytes: return std::string(piece);
    case DecodeStyle::kSpaces: return replaced(piece, decode.space, " ");
    case DecodeStyle::kWordPiece:
      if (!config.word_prefix.empty()) {
        return piece.starts_with(config.word_prefix) ? " " + std::string(piece.substr(config.word_prefix.size()))
                                                     : (literal ? " " : "") + std::string(piece);
      }
      if (piece.starts_with(decode.space)) return std::string(piece.substr(decode.space.size()));
      return " " + std::string(piece);
    case DecodeStyle::kSuffix:
      return literal ? std::string(piece) : replaced(piece, decode.space, " ");
    case DecodeStyle::kWords: return " " + std::string(piece);
  }
  return {};
}

void Tokenizer::State::fill_shown(const std::unordered_map<int32_t, std::string>& renamed) {
  shown_is_piece = config.decode.style == DecodeStyle::kBytes && renamed.empty();
  if (shown_is_piece) return;
  shown_pool = {};
  shown_pool.bytes.reserve(pieces.bytes.size());
  shown_pool.offsets.reserve(pieces.offsets.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    auto it = renamed.find(int32_t(i));
    shown_pool.add(shown_bytes(it == renamed.end() ? pieces[i] : std::string_view(it->second), TokenType(types[i])));
  }
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  const DecodeModel& how = state_->config.decode;
  std::string bytes;
  for (int32_t id : ids) {
    if (skip_special && is_control(id)) continue;
    std::string_view shown = token_bytes(id);
    // A word part without its beginning keeps its "##".
    bool torn = bytes.empty() && how.style == DecodeStyle::kWordPiece && !how.space.empty();
    if (torn && token_piece(id).starts_with(how.space)) shown = token_piece(id);
    bytes += how.style == DecodeStyle::kWordPiece && how.clean_up ? clean_up(std::string(shown)) : std::string(shown);
  }
  size_t drop = 0;
  while (drop < how.strip_start && drop < bytes.size() && bytes[drop] == ' ') ++drop;
  if (drop) bytes.erase(0, drop);
  if (how.style == DecodeStyle::kSuffix && bytes.ends_with(' ')) bytes.pop_back();
  return unicode::to_valid_utf8(bytes);
}

}  // namespace brisk
