// Text to token ids and back. A Tokenizer is immutable: any number of threads may use one at the same time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brisk/result.h"
#include "text/tokenizer_model.h"

namespace brisk {

struct EncodeOptions {
  bool add_special = true;    // put the model's prefix and suffix ids (bos, eos...) around the text
  bool parse_special = true;  // "<|im_end|>" in the text is that token; off for text that a stranger wrote
};

struct ByteRange {
  size_t begin = 0, end = 0;
};

class Tokenizer {
 public:
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Any bytes are accepted; ill-formed UTF-8 keeps its bytes where the vocabulary can say them, else it is unknown.
  // Fails if a pattern of the tokenizer needs too much work on this text, or if the text is over 1 GiB.
  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options = {}) const;

  // encode() of a text whose ranges `data` (in order, not overlapping) a stranger wrote: tokens that shape a prompt,
  // special ones and added ones that look like markup, are taken only where none of their bytes lies in `data`. All
  // other text is cut as encode() cuts it, across the borders of `data` too.
  Result<std::vector<int32_t>> encode_guarded(std::string_view text, std::span<const ByteRange> data,
                                              EncodeOptions options = {}) const;

  // The bytes that a token adds to the text (a part of a UTF-8 sequence possibly; " word" for a piece that starts a
  // word); the literal text of a special token. Empty for an id that is not in the vocabulary. Valid as long as *this.
  std::string_view token_bytes(int32_t id) const;
  // The token as the vocabulary spells it (byte-level vocabularies: raw bytes).
  std::string_view token_piece(int32_t id) const;
  // The id of a token by its spelling, or -1.
  int32_t find_token(std::string_view piece) const;

  // The text of ids as valid UTF-8 (what is no character becomes U+FFFD). Ids out of the vocabulary add nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;
  // decode() drops this many spaces at the beginning of a text (SentencePiece's prefix); token_bytes() has them.
  uint32_t leading_spaces_dropped() const;

  int32_t vocab_size() const;  // ids are [0, vocab_size())
  int32_t bos() const;         // -1: none, as the three below
  int32_t eos() const;
  int32_t unknown() const;
  int32_t pad() const;
  TokenType token_type(int32_t id) const;
  bool is_control(int32_t id) const;  // bos, end of turn...: never part of the visible text
  bool is_eos(int32_t id) const;      // ends a generation
  std::span<const int32_t> eos_ids() const;
  bool adds_bos() const;  // does encode() put bos in front?
  const std::string& chat_template() const;  // empty: none
  const TokenizerConfig& config() const;

  // The same tokenizer gives the same bytes, on any machine. deserialize() trusts nothing in them.
  std::string serialize() const;
  static Result<std::shared_ptr<const Tokenizer>> deserialize(std::span<const std::byte> bytes);

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  friend Result<std::shared_ptr<const Tokenizer>> make_tokenizer(TokenizerModel model);
  std::unique_ptr<State> state_;
};

// kInvalid names what is wrong with the model: an id out of range, a bad regular expression...
Result<std::shared_ptr<const Tokenizer>> make_tokenizer(TokenizerModel model);

}  // namespace brisk
