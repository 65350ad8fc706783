// Byte pair encoding by ranked merges, and SentencePiece's BPE by scores. Both merge in O(n log n).
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer_model.h"
#include "text/tokenizer_vocab.h"

namespace brisk {

// What both need of the vocabulary; all of it outlives the encoder.
struct EncoderVocab {
  const TokenizerConfig* config;
  const StringPool* pieces;
  const TokenIndex* index;
  const int32_t* byte_tokens;  // [256], -1 where there is none
};

// Appends the tokens of one character that is no token: its bytes' tokens if all exist, else the unknown token (at
// most one for a run if `fuse`), else nothing.
class UnknownRun {
 public:
  UnknownRun(const EncoderVocab& vocab, std::vector<int32_t>& out) : vocab_(vocab), out_(out) {}
  void known(int32_t id) {
    flush();
    out_.push_back(id);
  }
  void missing(std::string_view character);
  void flush();

 private:
  const EncoderVocab& vocab_;
  std::vector<int32_t>& out_;
  bool pending_ = false;
};

inline bool has_bit(const std::vector<uint64_t>& bits, int32_t i) { return bits[size_t(i) / 64] >> (i % 64) & 1; }

// Scratch space of one thread's encoder; kept over many words.
class BpeEncoder {
 public:
  // `direct`: bit by id, "the merges make this token out of its own text"; may be null.
  BpeEncoder(const EncoderVocab& vocab, const MergeIndex& merges, const std::vector<uint64_t>* direct)
      : vocab_(vocab), merges_(merges), direct_(direct) {}
  void encode(std::string_view word, std::vector<int32_t>& out);

 private:
  struct Symbol {
    uint32_t id;
    int32_t prev, next;  // next == kDead: merged away
  };
  struct Candidate {
    uint32_t rank, left, result;
    bool operator<(const Candidate& o) const { return rank != o.rank ? rank > o.rank : left > o.left; }
  };
  static constexpr int32_t kEnd = -1, kDead = -2;

  void split(std::string_view word);
  void merge_few();
  void merge_many(std::vector<int32_t>& out);
  void push(int32_t left, int32_t right);

  const EncoderVocab& vocab_;
  const MergeIndex& merges_;
  const std::vector<uint64_t>* direct_;
  std::vector<int32_t> ids_;
  std::vector<MergeIndex::Found> pairs_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

// `scores` by id; `direct` as above.
class SpmEncoder {
 public:
  SpmEncoder(const EncoderVocab& vocab, const std::vector<double>& scores, const std::vector<uint64_t>* direct)
      : vocab_(vocab), scores_(scores), direct_(direct) {}
  void encode(std::string_view text, std::vector<int32_t>& out);

 private:
  struct Symbol {
    uint32_t begin, size;  // bytes; size 0: merged away
    int32_t prev, next;
  };
  struct Candidate {
    double score;
    uint32_t left, right, size;
    bool operator<(const Candidate& o) const { return score != o.score ? score < o.score : left > o.left; }
  };
  void push(std::string_view text, int32_t left, int32_t right);

  const EncoderVocab& vocab_;
  const std::vector<double>& scores_;
  const std::vector<uint64_t>* direct_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace brisk
