// WordPiece (greedy longest match) and Unigram (best sum of scores) over one piece of text.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/bpe.h"

namespace brisk {

// Appends the tokens of one word; a word that cannot be made of tokens is one unknown token.
// `prefixes`: all tokens, ordered.
void encode_wordpiece(const EncoderVocab& vocab, const PrefixIndex& prefixes, std::string_view word,
                      std::vector<int32_t>& out);

// `scores` by id; `unknown_score`: of a character that is no token.
struct UnigramScores {
  const std::vector<double>* scores;
  double unknown_score;
};
void encode_unigram(const EncoderVocab& vocab, const PrefixIndex& prefixes, const UnigramScores& scores,
                    std::string_view text, std::vector<int32_t>& out);

}  // namespace brisk
