#include "text/tokenizer.h"

#include <algorithm>
#include <cmath>

#include "text/tokenizer_state.h"
#include "text/unicode.h"

namespace brisk {
namespace {

constexpr size_t kMaxText = size_t{1} << 30;
constexpr size_t kMaxAddedBytes = 4096;
constexpr size_t kMaxMarkBytes = 256;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

// Work that the patterns may do on a text of n bytes; known patterns need under 20 a byte.
uint64_t text_budget(size_t n) { return 1'000'000 + 512 * uint64_t{n}; }

bool has_scores(TokenizerKind kind) { return kind == TokenizerKind::kSpm || kind == TokenizerKind::kUnigram; }
bool needs_order(TokenizerKind kind) { return kind == TokenizerKind::kWordPiece || kind == TokenizerKind::kUnigram; }

Error too_long(const char* what, size_t size) {
  return invalid("tokenizer: " + std::string(what) + " of " + std::to_string(size) + " bytes is too long");
}

std::string range(size_t n) { return "[0, " + std::to_string(n) + ")"; }

}  // namespace

int parse_byte_token(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  int value = 0;
  for (char c : piece.substr(3, 2)) {
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

Status Tokenizer::State::check() const {
  size_t n = pieces.size();
  if (n == 0) return invalid("tokenizer: the vocabulary is empty");
  auto bad_id = [&](const char* what, int64_t id, bool optional) -> Status {
    if ((optional && id == -1) || (id >= 0 && size_t(id) < n)) return {};
    return invalid("tokenizer: " + std::string(what) + " " + std::to_string(id) + " is not in " + range(n));
  };
  BRISK_TRY(bad_id("bos id", config.bos, true));
  BRISK_TRY(bad_id("eos id", config.eos, true));
  BRISK_TRY(bad_id("unknown id", config.unknown, true));
  BRISK_TRY(bad_id("padding id", config.pad, true));
  for (int32_t id : config.end_ids) BRISK_TRY(bad_id("end id", id, false));
  for (int32_t id : config.prefix_ids) BRISK_TRY(bad_id("prefix id", id, false));
  for (int32_t id : config.suffix_ids) BRISK_TRY(bad_id("suffix id", id, false));
  for (const AddedToken& t : config.added) {
    BRISK_TRY(bad_id("added token id", t.id, false));
    if (t.content.size() > kMaxAddedBytes) {
      return invalid("tokenizer: added token " + std::to_string(t.id) + " has " + std::to_string(t.content.size()) +
                     " bytes, at most " + std::to_string(kMaxAddedBytes) + " are allowed");
    }
  }
  for (size_t i = 0; i < n; ++i) {
    if (pieces[i].size() > kMaxTokenBytes) {
      return invalid("tokenizer: token " + std::to_string(i) + " has " + std::to_string(pieces[i].size()) +
                     " bytes, at most " + std::to_string(kMaxTokenBytes) + " are allowed");
    }
  }
  for (const std::string* mark : {&config.subword_prefix, &config.word_suffix, &config.word_prefix, &config.decode.space}) {
    if (mark->size() > kMaxMarkBytes) return too_long("a mark of words", mark->size());
  }
  for (const NormalizeStep& s : config.normalizers) {
    if (s.op != NormalizeOp::kPrecompiled && s.content.size() > kMaxAddedBytes) {
      return too_long("content of a normalizer step", s.content.size());
    }
  }
  for (const PretokenizeStep& s : config.pretokenizers) {
    if (s.content.size() > kMaxMarkBytes) return too_long("replacement of a pre-tokenizer step", s.content.size());
    if (s.op == PretokenizeOp::kMetaspace && s.content.empty()) return invalid("tokenizer: Metaspace without a replacement");
  }
  if (types.size() != n) return invalid("tokenizer: " + std::to_string(types.size()) + " token types for " +
                                        std::to_string(n) + " tokens");
  for (uint8_t t : types) {
    if (t < 1 || t > 6) return invalid("tokenizer: token type " + std::to_string(t) + " is not in [1, 6]");
  }
  if (scores.size() != (has_scores(config.kind) ? n : 0)) {
    return invalid("tokenizer: " + std::to_string(scores.size()) + " scores for " + std::to_string(n) + " tokens");
  }
  for (double s : scores) {
    if (std::isnan(s)) return invalid("tokenizer: a score is not a number");
  }
  for (size_t i = 0; i < merges.size(); ++i) {
    const Merge& m = merges[i];
    if (m.left >= n || m.right >= n || m.result >= n) {
      return invalid("tokenizer: merge " + std::to_string(i) + " names a token that is not in " + range(n));
    }
  }
  if (!direct.empty() && direct.size() != (n + 63) / 64) return invalid("tokenizer: direct bits of another vocabulary");
  for (uint32_t id : by_text) {
    if (id >= n || pieces[id].empty()) return invalid("tokenizer: a bad id in the ordered vocabulary");
  }
  for (size_t i = 0; i + 1 < by_text.size(); ++i) {
    if (pieces[by_text[i]] > pieces[by_text[i + 1]]) return invalid("tokenizer: the ordered vocabulary is not in order");
  }
  return {};
}

Status Tokenizer::State::finish() {
  size_t n = pieces.size();
  outside.assign(n, 0);
  for (const AddedToken& t : config.added) outside[size_t(t.id)] = !t.in_model;
  index.reset(pieces, n);
  // Where a control token and a normal one are spelled alike, text means the normal one.
  for (uint8_t pass = 0; pass < 2; ++pass) {
    for (size_t i = 0; i < n; ++i) {
      bool normal = types[i] == uint8_t(TokenType::kNormal) || types[i] == uint8_t(TokenType::kByte);
      if (normal == (pass == 0) && !outside[i]) index.insert(uint32_t(i));
    }
  }
  std::fill(std::begin(byte_tokens), std::end(byte_tokens), -1);
  if (config.byte_fallback) {
    for (size_t i = 0; i < n; ++i) {
      std::string_view piece = pieces[i];
      if (piece.size() != 6 || piece[0] != '<') continue;
      int b = parse_byte_token(piece);
      if (b >= 0 && byte_tokens[b] < 0) byte_tokens[b] = int32_t(i);
    }
  }
  merge_index.reset(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    merge_index.insert(merges[i].left, merges[i].right, uint32_t(i), merges[i].result);
  }
  if (needs_order(config.kind)) {
    if (by_text.empty()) sort_pieces();
    prefixes.reset(pieces, by_text);
  }
  if (config.kind == TokenizerKind::kUnigram) {
    double lowest = 0;
    bool any = false;
    for (size_t i = 0; i < n; ++i) {
      if (outside[i] || (types[i] != uint8_t(TokenType::kNormal) && !config.whole_vocabulary)) continue;
      lowest = any ? std::min(lowest, scores[i]) : scores[i];
      any = true;
    }
    unknown_score = lowest - 10.0;
  }
  BRISK_ASSIGN(normalizer, Normalizer::build(config.normalizers));
  BRISK_ASSIGN(pretokenizer, Pretokenizer::build(config.pretokenizers, config.byte_level, normalizer.maps_bytes()));
  std::vector<AddedToken> raw, normal;
  std::vector<std::string> raw_text, normal_text;
  std::unordered_map<int32_t, std::string> renamed;
  uint64_t budget = text_budget(config.added.size() * 64);
  for (const AddedToken& t : config.added) {
    std::string text = t.content;
    if (t.normalized) BRISK_TRY(normalizer.run(text, budget));
    if (text != t.content) renamed[t.id] = text;
    (t.normalized ? normal : raw).push_back(t);
    (t.normalized ? normal_text : raw_text).push_back(std::move(text));
  }
  raw_added.reset(std::move(raw), raw_text);
  normalized_added.reset(std::move(normal), normal_text);
  ends.assign(n, 0);
  for (int32_t id : config.end_ids) ends[size_t(id)] = 1;
  find_cuts();
  fill_shown(renamed);
  return {};
}

void Tokenizer::State::find_cuts() {
  bool merging = config.kind == TokenizerKind::kBpe || config.kind == TokenizerKind::kSpm;
  cuts_at_marks = merging && !config.byte_level && !config.ignore_merges && config.subword_prefix.empty() &&
                  config.word_suffix.empty() && index.find(kSpaceMark) >= 0;
  if (!cuts_at_marks) return;
  for (size_t i = 0; i < pieces.size(); ++i) {
    std::string_view piece = pieces[i];
    for (size_t at = piece.find(kSpaceMark, 1); at != std::string_view::npos; at = piece.find(kSpaceMark, at + 1)) {
      crosses[uint8_t(piece[at - 1])] = true;
    }
  }
}

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

void Tokenizer::State::sort_pieces() {
  for (size_t i = 0; i < pieces.size(); ++i) {
    auto type = TokenType(types[i]);
    bool usable = config.kind == TokenizerKind::kWordPiece || config.whole_vocabulary || type == TokenType::kNormal ||
                  type == TokenType::kUserDefined || type == TokenType::kUnused;
    if (usable && !outside[i] && !pieces[i].empty()) by_text.push_back(uint32_t(i));
  }
  by_text = PrefixIndex::sort_ids(pieces, std::move(by_text));
  // Of tokens spelled alike one counts: in a tokenizer.json the last, elsewhere the first.
  if (config.whole_vocabulary) std::reverse(by_text.begin(), by_text.end());
  auto alike = [&](uint32_t a, uint32_t b) { return pieces[a] == pieces[b]; };
  by_text.erase(std::unique(by_text.begin(), by_text.end(), alike), by_text.end());
  if (config.whole_vocabulary) std::reverse(by_text.begin(), by_text.end());
}

void Tokenizer::State::find_direct() {
  direct.clear();
  bool bpe_model = config.kind == TokenizerKind::kBpe;
  if ((!bpe_model && config.kind != TokenizerKind::kSpm) || config.ignore_merges) return;
  std::vector<uint64_t> bits((pieces.size() + 63) / 64);
  EncoderVocab all = vocab();
  BpeEncoder bpe(all, merge_index, nullptr);
  SpmEncoder spm(all, scores, nullptr);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < pieces.size(); ++i) {
    ids.clear();
    if (bpe_model) {
      bpe.encode(pieces[i], ids);
    } else {
      spm.encode(pieces[i], ids);
    }
    if (ids.size() == 1 && ids[0] == int32_t(i)) bits[i / 64] |= uint64_t{1} << (i % 64);
  }
  direct = std::move(bits);
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
  if (options.add_special) out = s.config.prefix_ids;
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

Result<std::shared_ptr<const Tokenizer>> make_tokenizer(TokenizerModel model) {
  auto state = std::make_unique<Tokenizer::State>();
  size_t n = model.tokens.size(), bytes = 0;
  for (const std::string& t : model.tokens) bytes += t.size();
  if (n > (size_t{1} << 28) || bytes > (size_t{1} << 31)) return invalid("tokenizer: the vocabulary is too large");
  state->pieces.bytes.reserve(bytes);
  state->pieces.offsets.reserve(n + 1);
  for (const std::string& t : model.tokens) state->pieces.add(t);
  state->types.assign(n, uint8_t(TokenType::kNormal));
  for (size_t i = 0; i < std::min(n, model.types.size()); ++i) state->types[i] = uint8_t(model.types[i]);
  state->scores = std::move(model.scores);
  state->merges = std::move(model.merges);
  state->config = std::move(static_cast<TokenizerConfig&>(model));
  BRISK_TRY(state->check());
  BRISK_TRY(state->finish());
  state->find_direct();
  return Tokenizer::State::publish(std::move(state));
}

}  // namespace brisk
