// The inside of a Tokenizer; only tokenizer*.cpp include it.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "text/bpe.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"
#include "text/tokenizer_added.h"
#include "text/tokenizer_guard.h"
#include "text/tokenizer_normalize.h"
#include "text/tokenizer_vocab.h"
#include "text/wordpiece.h"

namespace brisk {

struct Tokenizer::State {
  // What serialize() keeps.
  TokenizerConfig config;
  StringPool pieces;                 // as the vocabulary spells them
  std::vector<uint8_t> types;        // TokenType by id
  std::vector<double> scores;        // kSpm, kUnigram
  std::vector<Merge> merges;         // by rank
  std::vector<uint64_t> direct;      // bit by id: a piece that is this token needs no merging
  std::vector<uint32_t> by_text;     // kWordPiece, kUnigram: ids in the order of their pieces

  // What finish() makes of it.
  StringPool shown_pool;             // what each token adds to the text, where that is not the piece itself
  bool shown_is_piece = false;
  TokenIndex index;
  MergeIndex merge_index;
  PrefixIndex prefixes;
  int32_t byte_tokens[256];
  double unknown_score = 0;
  Normalizer normalizer;
  Pretokenizer pretokenizer;
  AddedTokenMatcher raw_added, normalized_added;
  std::vector<uint8_t> ends;         // by id: ends a generation
  std::vector<uint8_t> outside;      // by id: an added token that the model does not know
  // Models of whole texts (SentencePiece): a text may be cut before a space mark wherever no token holds the byte in
  // front of it together with the mark. Words are then found in the vocabulary at once, and merging stays short.
  bool cuts_at_marks = false;
  bool crosses[256] = {};

  EncoderVocab vocab() const { return {&config, &pieces, &index, byte_tokens}; }
  std::string_view shown(size_t id) const { return shown_is_piece ? pieces[id] : shown_pool[id]; }

  Status check() const;       // every id and size that the rest relies on
  Status check_config() const;
  Status finish();            // builds the second half; check() first
  void build_lookups();
  Status build_added();
  void find_direct();         // fills `direct`
  void sort_pieces();         // fills `by_text`
  // `renamed`: added tokens that normalization changes, in their normalized form; they are shown so.
  void fill_shown(const std::unordered_map<int32_t, std::string>& renamed);
  void find_cuts();
  std::string_view take_word(std::string_view& rest) const;  // up to the next cut
  std::string shown_bytes(std::string_view piece, TokenType type) const;
  // guard: knows the whole text, of which this part begins at byte `offset`; may be null.
  Status encode_part(std::string_view text, size_t offset, bool parse_special, const DataGuard* guard, uint64_t& budget,
                     std::vector<int32_t>& out) const;
  Status encode_pieces(std::string_view text, bool at_start, uint64_t& budget, BpeEncoder& bpe, SpmEncoder& spm,
                       std::vector<int32_t>& out) const;
  static Result<std::shared_ptr<const Tokenizer>> publish(std::unique_ptr<State> state);
};

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

// Work that the patterns may do on a text of n bytes; known patterns need under 20 a byte.
inline uint64_t text_budget(size_t n) { return 1'000'000 + 512 * uint64_t{n}; }

// The value of a "<0xAB>" token, or -1.
int parse_byte_token(std::string_view piece);

}  // namespace brisk
