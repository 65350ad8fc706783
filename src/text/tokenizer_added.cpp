#include "text/tokenizer_added.h"

#include <algorithm>

#include "text/unicode.h"

namespace brisk {
namespace {

// The code point that ends before `at`.
char32_t code_point_before(std::string_view text, size_t at) {
  size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && (uint8_t(text[begin]) & 0xC0) == 0x80) --begin;
  auto c = unicode::decode(text, begin);
  return begin + c.size == at ? c.value : 0xFFFD;
}

bool word_before(std::string_view text, size_t at) {
  return at > 0 && unicode::is(code_point_before(text, at), unicode::kWord);
}
bool word_after(std::string_view text, size_t at) {
  return at < text.size() && unicode::is(unicode::decode(text, at).value, unicode::kWord);
}

size_t skip_spaces_back(std::string_view text, size_t at, size_t limit) {
  while (at > limit) {
    char32_t c = code_point_before(text, at);
    if (!unicode::is(c, unicode::kSpace)) break;
    at -= c < 0x80 ? 1 : c < 0x800 ? 2 : 3;  // no space is beyond the basic plane
  }
  return std::max(at, limit);
}

size_t skip_spaces(std::string_view text, size_t at) {
  while (at < text.size()) {
    auto c = unicode::decode(text, at);
    if (!unicode::is(c.value, unicode::kSpace)) break;
    at += c.size;
  }
  return at;
}

}  // namespace

void AddedTokenMatcher::reset(std::vector<AddedToken> tokens, const std::vector<std::string>& patterns) {
  tokens_ = std::move(tokens);
  pool_ = {};
  std::vector<uint32_t> ids;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    pool_.add(patterns[i]);
    if (patterns[i].empty()) continue;
    ids.push_back(uint32_t(i));
    starts_[uint8_t(patterns[i][0])] = true;
  }
  index_.reset(pool_, PrefixIndex::sort_ids(pool_, std::move(ids)));
}

void AddedTokenMatcher::split(std::string_view text, bool parse_special, std::vector<TextPart>& parts,
                              const Allows& allows) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    if (!starts_[uint8_t(text[at])]) {
      ++at;
      continue;
    }
    int32_t hit = -1;
    size_t length = 0;
    index_.each_prefix(text.substr(at), [&](uint32_t i, size_t n) {
      if (n == length) return;  // of equal contents the first counts
      if (allows && !allows(tokens_[i], pool_[i], at)) return;
      hit = int32_t(i);
      length = n;
    });
    if (hit < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[size_t(hit)];
    size_t begin = at, end = at + length;
    at = end;
    if (token.special && !parse_special) continue;
    if (token.single_word && (word_before(text, begin) || word_after(text, end))) continue;
    if (token.lstrip) begin = skip_spaces_back(text, begin, done);
    if (token.rstrip) end = skip_spaces(text, end);
    if (begin > done) parts.push_back({done, begin, -1});
    parts.push_back({begin, end, token.id});
    done = at = end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), -1});
}

}  // namespace brisk
