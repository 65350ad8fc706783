// Making the inside of a Tokenizer: checks, lookups, and what can be worked out ahead.
#include <algorithm>
#include <cmath>

#include "text/tokenizer_state.h"

namespace brisk {
namespace {

constexpr size_t kMaxAddedBytes = 4096;
constexpr size_t kMaxMarkBytes = 256;

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

Status Tokenizer::State::check_config() const {
  size_t n = pieces.size();
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
  return {};
}

Status Tokenizer::State::check() const {
  size_t n = pieces.size();
  if (n == 0) return invalid("tokenizer: the vocabulary is empty");
  BRISK_TRY(check_config());
  for (size_t i = 0; i < n; ++i) {
    if (pieces[i].size() > kMaxTokenBytes) {
      return invalid("tokenizer: token " + std::to_string(i) + " has " + std::to_string(pieces[i].size()) +
                     " bytes, at most " + std::to_string(kMaxTokenBytes) + " are allowed");
    }
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

void Tokenizer::State::build_lookups() {
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
}

Status Tokenizer::State::build_added() {
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
  fill_shown(renamed);
  return {};
}

Status Tokenizer::State::finish() {
  build_lookups();
  BRISK_ASSIGN(normalizer, Normalizer::build(config.normalizers));
  BRISK_ASSIGN(pretokenizer, Pretokenizer::build(config.pretokenizers, config.byte_level, normalizer.maps_bytes()));
  BRISK_TRY(build_added());
  ends.assign(pieces.size(), 0);
  for (int32_t id : config.end_ids) ends[size_t(id)] = 1;
  find_cuts();
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
