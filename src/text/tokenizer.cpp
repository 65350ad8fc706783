#include "text/tokenizer.h"

#include <algorithm>

#include "text/tokenizer_state.h"
#include "text/unicode.h"

namespace brisk {
namespace {

constexpr size_t kMaxText = size_t{1} << 30;

}  // namespace

std::string_view Tokenizer::State::take_word(std::string_view& rest) const {
  size_t end = rest.size();
  if (cuts_at_marks) {
    end = rest.find(kSpaceMark, 1);
    while (end != std::string_view::npos && crosses[uint8_t(rest[end - 1])]) end = rest.find(kSpaceMark, end + 1);
  }
  std::string_view word = rest.substr(0, end);
  rest.remove_prefix(word.size());
  return word;
}

Status Tokenizer::State::encode_pieces(std::string_view text, bool at_start, uint64_t& budget, BpeEncoder& bpe,
                                       SpmEncoder& spm, std::vector<int32_t>& out) const {
  PretokenizedText split;
  BRISK_TRY(pretokenizer.run(text, at_start, budget, split));
  EncoderVocab all = vocab();
  for (std::string_view piece : split.pieces) {
    switch (config.kind) {
      case TokenizerKind::kBpe:
        while (!piece.empty()) bpe.encode(take_word(piece), out);
        break;
      case TokenizerKind::kSpm:
        while (!piece.empty()) spm.encode(take_word(piece), out);
        break;
      case TokenizerKind::kWordPiece: encode_wordpiece(all, prefixes, piece, out); break;
      case TokenizerKind::kUnigram: encode_unigram(all, prefixes, {&scores, unknown_score}, piece, out); break;
    }
  }
  return {};
}

Status Tokenizer::State::encode_part(std::string_view text, size_t offset, bool parse_special, const DataGuard* guard,
                                     uint64_t& budget, std::vector<int32_t>& out) const {
  std::string_view raw = text;
  bool at_start = offset == 0;
  EncoderVocab all = vocab();
  const std::vector<uint64_t>* known = direct.empty() ? nullptr : &direct;
  BpeEncoder bpe(all, merge_index, known);
  SpmEncoder spm(all, scores, known);
  std::string normal;
  if (!normalizer.empty()) {
    normal = text;
    BRISK_TRY(normalizer.run(normal, budget));
    text = normal;
  }
  if (normalized_added.empty()) return encode_pieces(text, at_start, budget, bpe, spm, out);
  std::vector<TextPart> parts;
  if (guard && guard->touches_data(offset, offset + raw.size())) {
    NormalizedGuard here(*guard, raw, offset, text);
    normalized_added.split(text, parse_special, parts, [&](const AddedToken& t, std::string_view pattern, size_t begin) {
      return !shapes_prompt(t) || here.allows(t, pattern, begin);
    });
  } else {
    normalized_added.split(text, parse_special, parts);
  }
  for (const TextPart& p : parts) {
    if (p.id >= 0) {
      out.push_back(p.id);
    } else {
      BRISK_TRY(encode_pieces(text.substr(p.begin, p.end - p.begin), at_start && p.begin == 0, budget, bpe, spm, out));
    }
  }
  return {};
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::State::publish(std::unique_ptr<State> state) {
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(state)));
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  return encode_guarded(text, {}, options);
}

Result<std::vector<int32_t>> Tokenizer::encode_guarded(std::string_view text, std::span<const ByteRange> data,
                                                       EncodeOptions options) const {
  const State& s = *state_;
  if (text.size() > kMaxText) {
    return invalid("text: " + std::to_string(text.size()) + " bytes, at most " + std::to_string(kMaxText) +
                   " are allowed");
  }
  std::vector<int32_t> out;
  out.reserve(text.size() / 3 + 4);
  if (options.add_special) out.assign(s.config.prefix_ids.begin(), s.config.prefix_ids.end());
  uint64_t budget = text_budget(text.size());
  std::vector<TextPart> parts;
  DataGuard guard(data);
  AddedTokenMatcher::Allows allows;
  if (!data.empty()) {
    allows = [&](const AddedToken& t, std::string_view pattern, size_t begin) {
      return !shapes_prompt(t) || !guard.touches_data(begin, begin + pattern.size());
    };
  }
  s.raw_added.split(text, options.parse_special, parts, allows);
  for (const TextPart& p : parts) {
    if (p.id >= 0) {
      out.push_back(p.id);
    } else {
      std::string_view part = text.substr(p.begin, p.end - p.begin);
      BRISK_TRY(s.encode_part(part, p.begin, options.parse_special, data.empty() ? nullptr : &guard, budget, out));
    }
  }
  if (options.add_special) out.insert(out.end(), s.config.suffix_ids.begin(), s.config.suffix_ids.end());
  return out;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  return id >= 0 && id < vocab_size() ? state_->shown(size_t(id)) : std::string_view();
}
std::string_view Tokenizer::token_piece(int32_t id) const {
  return id >= 0 && id < vocab_size() ? state_->pieces[size_t(id)] : std::string_view();
}
int32_t Tokenizer::find_token(std::string_view piece) const {
  for (const AddedToken& t : state_->config.added) {
    if (t.content == piece) return t.id;
  }
  return state_->index.find(piece);
}
uint32_t Tokenizer::leading_spaces_dropped() const { return state_->config.decode.strip_start; }
int32_t Tokenizer::vocab_size() const { return int32_t(state_->pieces.size()); }
int32_t Tokenizer::bos() const { return state_->config.bos; }
int32_t Tokenizer::eos() const { return state_->config.eos; }
int32_t Tokenizer::unknown() const { return state_->config.unknown; }
int32_t Tokenizer::pad() const { return state_->config.pad; }
TokenType Tokenizer::token_type(int32_t id) const {
  return id >= 0 && id < vocab_size() ? TokenType(state_->types[size_t(id)]) : TokenType::kUnused;
}
bool Tokenizer::is_control(int32_t id) const { return token_type(id) == TokenType::kControl; }
bool Tokenizer::is_eos(int32_t id) const { return id >= 0 && id < vocab_size() && state_->ends[size_t(id)]; }
std::span<const int32_t> Tokenizer::eos_ids() const { return state_->config.end_ids; }
bool Tokenizer::adds_bos() const {
  const auto& prefix = state_->config.prefix_ids;
  return state_->config.bos >= 0 && std::find(prefix.begin(), prefix.end(), state_->config.bos) != prefix.end();
}
const std::string& Tokenizer::chat_template() const { return state_->config.chat_template; }
const TokenizerConfig& Tokenizer::config() const { return state_->config; }

}  // namespace brisk
