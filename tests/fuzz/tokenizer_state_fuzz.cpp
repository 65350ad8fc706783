// The serialized tokenizer inside an engine file: what is accepted must also encode and decode without harm.
#include <algorithm>

#include "fuzz/fuzz.h"
#include "text/tokenizer.h"

namespace brisk::fuzz {
namespace {

std::string serialized(TokenizerModel model) {
  auto tokenizer = make_tokenizer(std::move(model));
  return tokenizer.ok() ? (*tokenizer)->serialize() : std::string();
}

TokenizerModel byte_level_model() {
  TokenizerModel m;
  m.byte_level = true;
  for (int b = 0; b < 256; ++b) m.tokens.push_back(std::string(1, static_cast<char>(b)));
  for (const auto& [left, right] : {std::pair{"l", "o"}, std::pair{"lo", "w"}, std::pair{"\xc3", "\xa9"}}) {
    auto id = [&](const char* s) { return static_cast<uint32_t>(std::find(m.tokens.begin(), m.tokens.end(), s) - m.tokens.begin()); };
    m.merges.push_back({id(left), id(right), static_cast<uint32_t>(m.tokens.size())});
    m.tokens.push_back(std::string(left) + right);
  }
  m.added.push_back({.id = static_cast<int32_t>(m.tokens.size()), .content = "<end>", .lstrip = true, .special = true});
  m.tokens.push_back("<end>");
  m.types.assign(m.tokens.size(), TokenType::kNormal);
  m.types.back() = TokenType::kControl;
  m.eos = m.added[0].id;
  m.end_ids = m.suffix_ids = {m.eos};
  m.pretokenizers.push_back({.op = PretokenizeOp::kByteLevel, .flags = 2});
  m.normalizers.push_back({.op = NormalizeOp::kNfc});
  m.chat_template = "{{ messages[0].content }}";
  return m;
}

TokenizerModel scored_model(TokenizerKind kind) {
  TokenizerModel m;
  m.kind = kind;
  m.tokens = {"<unk>", "\u2581", "l", "o", "w", "lo", "low", "\u2581low", "e"};
  for (size_t i = 0; i < m.tokens.size(); ++i) m.scores.push_back(-static_cast<double>(i));
  m.types.assign(m.tokens.size(), TokenType::kNormal);
  m.types[0] = TokenType::kUnknown;
  m.unknown = 0;
  m.decode = {.style = DecodeStyle::kSpaces, .space = "\u2581", .strip_start = 1};
  m.normalizers.push_back({.op = NormalizeOp::kReplace, .pattern = {" +", true}, .content = "\u2581"});
  return m;
}

TokenizerModel word_piece_model() {
  TokenizerModel m;
  m.kind = TokenizerKind::kWordPiece;
  m.tokens = {"[UNK]", "low", "##er", "l", "##o", "##w"};
  m.unknown = 0;
  m.subword_prefix = "##";
  m.max_word_chars = 100;
  m.decode = {.style = DecodeStyle::kWordPiece, .space = "##", .clean_up = true};
  m.normalizers.push_back({.op = NormalizeOp::kBert, .flags = 15});
  m.pretokenizers.push_back({.op = PretokenizeOp::kBert});
  return m;
}

}  // namespace

std::vector<std::string> seeds() {
  return {serialized(byte_level_model()), serialized(scored_model(TokenizerKind::kSpm)),
          serialized(scored_model(TokenizerKind::kUnigram)), serialized(word_piece_model())};
}

bool parse(const uint8_t* data, size_t size) {
  auto tokenizer = Tokenizer::deserialize({reinterpret_cast<const std::byte*>(data), size});
  if (!tokenizer.ok()) return false;
  for (const char* text : {"", "low lower <end> l", "caf\u00e9  e\u0301 \u4f60\u597d 123\n", "\xff\xf0\x9f broken"}) {
    auto ids = (*tokenizer)->encode(text);
    if (ids.ok()) (*tokenizer)->decode(*ids, false);
  }
  return true;
}

}  // namespace brisk::fuzz
