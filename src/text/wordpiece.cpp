#include "text/wordpiece.h"

#include <algorithm>
#include <string>

#include "text/unicode.h"

namespace brisk {

void encode_wordpiece(const EncoderVocab& vocab, const PrefixIndex& prefixes, std::string_view word,
                      std::vector<int32_t>& out) {
  const TokenizerConfig& config = *vocab.config;
  size_t before = out.size();
  auto unknown = [&] {
    out.resize(before);
    if (config.unknown >= 0) out.push_back(config.unknown);
  };
  if (config.max_word_chars) {
    size_t chars = 0;
    for (size_t i = 0; i < word.size(); ++chars) i += unicode::decode(word, i).size;
    if (chars > config.max_word_chars) return unknown();
  }
  std::string whole = config.word_prefix, dressed;
  whole += word;
  for (size_t at = 0; at < whole.size();) {
    std::string_view rest = std::string_view(whole).substr(at);
    size_t prefix = at == 0 ? 0 : config.subword_prefix.size();
    if (prefix) {
      // No token is longer, so that a long word is not copied for each of its parts.
      dressed.assign(config.subword_prefix).append(rest.substr(0, kMaxTokenBytes));
      rest = dressed;
    }
    int32_t best = -1;
    size_t length = 0;
    prefixes.each_prefix(rest, [&](uint32_t id, size_t n) {
      bool inside_character = n < rest.size() && (uint8_t(rest[n]) & 0xC0) == 0x80;
      if (inside_character || n <= prefix) return;
      best = int32_t(id);
      length = n;
    });
    if (best < 0) return unknown();
    out.push_back(best);
    at += length - prefix;
  }
}

void encode_unigram(const EncoderVocab& vocab, const PrefixIndex& prefixes, const UnigramScores& scores,
                    std::string_view text, std::vector<int32_t>& out) {
  struct Best {
    double score = 0;
    int32_t id = -1;
    uint32_t begin = 0;
    bool reached = false;
  };
  const TokenizerConfig& config = *vocab.config;
  std::vector<Best> best(text.size() + 1);
  best[0].reached = true;
  auto offer = [&](size_t begin, size_t end, int32_t id, double score) {
    score += best[begin].score;
    Best& to = best[end];
    if (!to.reached || score > to.score) to = {score, id, uint32_t(begin), true};
  };
  for (size_t at = 0; at < text.size();) {
    size_t size = unicode::decode(text, at).size;
    bool single = false;
    prefixes.each_prefix(text.substr(at), [&](uint32_t id, size_t n) {
      offer(at, at + n, int32_t(id), (*scores.scores)[id]);
      single |= n == size;
    });
    if (!single) offer(at, at + size, config.unknown, scores.unknown_score);
    at += size;
  }
  // Back from the end. A run of unknown characters is one unknown token, or its bytes.
  size_t first = out.size();
  for (size_t end = text.size(); end > 0;) {
    const Best& b = best[end];
    size_t begin = b.begin;
    if (b.id == config.unknown || b.id < 0) {
      if (config.fuse_unknown) {
        while (begin > 0 && best[begin].id == b.id) begin = best[begin].begin;
      }
      std::string_view piece = text.substr(begin, end - begin);
      // The text of the unknown token, and (if a run was joined) of any other, is that token again.
      int32_t spelled = config.whole_vocabulary ? vocab.index->find(piece) : -1;
      bool bytes = config.byte_fallback && spelled < 0;
      for (size_t i = 0; bytes && i < piece.size(); ++i) bytes = vocab.byte_tokens[uint8_t(piece[i])] >= 0;
      if (bytes) {
        for (size_t i = piece.size(); i-- > 0;) out.push_back(vocab.byte_tokens[uint8_t(piece[i])]);
      } else if (spelled >= 0 || config.unknown >= 0) {
        out.push_back(spelled >= 0 ? spelled : config.unknown);
      }
    } else {
      out.push_back(b.id);
    }
    end = begin;
  }
  std::reverse(out.begin() + std::ptrdiff_t(first), out.end());
}

}  // namespace brisk
