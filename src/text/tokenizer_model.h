// What a tokenizer is, as plain data: the importers (tokenizer_json.h, tokenizer_gguf.h) fill a TokenizerModel and
// make_tokenizer() (tokenizer.h) turns it into something that runs. Nothing here is checked; make_tokenizer() checks.
//
// A text goes through: added tokens that see the raw text -> normalizer steps -> added tokens that see the normalized
// text -> pre-tokenizer steps (each splits or rewrites pieces) -> the model on every piece -> prefix and suffix ids.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace brisk {

enum class TokenizerKind : uint8_t {
  kBpe,        // ranked merges
  kSpm,        // SentencePiece BPE: the neighbours whose union has the best score merge first
  kWordPiece,  // greedy longest match
  kUnigram,    // best sum of scores (Viterbi)
};

enum class TokenType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// A token found in the text before the model sees it.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool lstrip = false, rstrip = false;  // also takes the white space on that side
  bool single_word = false;             // only between non-word characters
  bool normalized = false;              // is looked for in the normalized text
  bool special = false;                 // not looked for when EncodeOptions::parse_special is off
  bool in_model = true;                 // is also a token that the model itself may give
};

enum class NormalizeOp : uint8_t {
  kNfc, kNfd, kNfkc, kNfkd, kLowercase, kStripAccents,
  kStrip,        // white space; flags: 1 left, 2 right
  kReplace,      // every match of `pattern` by `content`
  kPrepend,      // `content` before a text that is not empty
  kBert,         // flags: 1 clean text, 2 spaces around CJK, 4 strip accents, 8 lower case
  kPrecompiled,  // `content`: SentencePiece's character map
  kNmt,          // removes control characters, odd spaces become spaces
  kByteLevel,    // bytes as GPT-2's printable characters
  kSqueezeSpaces,  // SentencePiece's remove_extra_whitespaces: no space at the ends, runs become one
};

// What is looked for: a literal string or a regular expression (Oniguruma's syntax).
struct Pattern {
  std::string text;
  bool regex = false;
};

struct NormalizeStep {
  NormalizeOp op = NormalizeOp::kNfc;
  Pattern pattern;
  std::string content;
  uint32_t flags = 0;
};

enum class PretokenizeOp : uint8_t {
  kSplit,       // at matches of `pattern`
  kByteLevel,   // flags: 1 space before each piece that has none, 2 GPT-2's regex; then bytes become GPT-2's characters
  kDigits,      // flags: 1 each digit alone
  kWhitespace,  // words and runs of other characters, white space dropped
  kWhitespaceSplit,
  kPunctuation,
  kMetaspace,  // `content` replaces spaces; flags: 1 split; prefix
  kBert,       // white space dropped, punctuation alone
};

enum class SplitBehavior : uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
enum class PrefixScheme : uint8_t { kAlways, kFirst, kNever };

struct PretokenizeStep {
  PretokenizeOp op = PretokenizeOp::kSplit;
  Pattern pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
  std::string content;
  PrefixScheme prefix = PrefixScheme::kAlways;
  uint32_t flags = 0;
};

// How ids become text again.
enum class DecodeStyle : uint8_t {
  kBytes,      // pieces are bytes
  kSpaces,     // `space` in a piece is a space
  kWordPiece,  // a piece starts a word unless it begins with `space` (the "##"); clean_up removes " ." and the like
  kSuffix,     // a piece ending in `space` ("</w>") ends a word
  kWords,      // pieces are words
};

struct DecodeModel {
  DecodeStyle style = DecodeStyle::kBytes;
  std::string space;
  bool byte_tokens = false;  // <0xXX> is a byte
  bool clean_up = false;
  uint32_t strip_start = 0;  // spaces removed from the beginning of the whole text
};

struct Merge {
  uint32_t left = 0, right = 0, result = 0;  // token ids
};

// The part that is small whatever the vocabulary.
struct TokenizerConfig {
  TokenizerKind kind = TokenizerKind::kBpe;
  bool byte_level = false;     // tokens are raw bytes, and so are BPE's first symbols; otherwise UTF-8
  bool byte_fallback = false;  // what is not in the vocabulary becomes <0xXX> tokens
  bool ignore_merges = false;  // a piece that is a token is that token
  bool fuse_unknown = false;   // neighbouring unknown symbols give one unknown token
  bool whole_vocabulary = false;  // kUnigram: special tokens too are pieces of the model
  // BPE: what a symbol has before (not the first) or after it (the last). WordPiece: prefix of all but the first part.
  std::string subword_prefix, word_suffix;
  std::string word_prefix;       // WordPiece: prefix of the first part
  uint32_t max_word_chars = 0;   // WordPiece: a longer word is unknown; 0 = no limit
  std::vector<NormalizeStep> normalizers;
  std::vector<PretokenizeStep> pretokenizers;
  DecodeModel decode;
  std::vector<AddedToken> added;
  std::vector<int32_t> prefix_ids, suffix_ids;  // put around the text when EncodeOptions::add_special is on
  int32_t bos = -1, eos = -1, unknown = -1, pad = -1;  // -1: none
  std::vector<int32_t> end_ids;  // all ids that end a generation: eos, end of turn...
  std::string chat_template;     // Jinja; empty: none
};

struct TokenizerModel : TokenizerConfig {
  std::vector<std::string> tokens;  // by id; an empty one is a hole
  std::vector<TokenType> types;     // by id; empty: all normal
  std::vector<double> scores;       // by id (kSpm, kUnigram); empty otherwise
  std::vector<Merge> merges;        // by rank (kBpe); of two with the same pair the first counts
};

}  // namespace brisk
