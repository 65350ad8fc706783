#include "text/tokenizer_guard.h"

#include <algorithm>

namespace brisk {

bool shapes_prompt(const AddedToken& token) {
  std::string_view s = token.content;
  bool markup =
      s.size() > 2 && ((s.front() == '<' && s.back() == '>') || (s.front() == '[' && s.back() == ']'));
  return token.special || markup;
}

bool DataGuard::touches_data(size_t begin, size_t end) const {
  auto it = std::upper_bound(data_.begin(), data_.end(), begin,
                             [](size_t at, const ByteRange& r) { return at < r.end; });
  return it != data_.end() && it->begin < end;
}

namespace {

std::vector<size_t> occurrences(std::string_view text, std::string_view what) {
  std::vector<size_t> at;
  if (what.empty()) return at;
  for (size_t i = text.find(what); i != text.npos; i = text.find(what, i + 1)) at.push_back(i);
  return at;
}

}  // namespace

bool NormalizedGuard::allows(const AddedToken& token, std::string_view pattern, size_t begin) {
  auto [it, fresh] = known_.try_emplace(token.id);
  if (fresh) {
    std::vector<size_t> there = occurrences(normal_, pattern), here = occurrences(raw_, token.content);
    for (size_t k = 0; k < there.size(); ++k) {
      size_t from = there.size() == here.size() ? offset_ + here[k] : 0;
      it->second[there[k]] =
          there.size() == here.size() && !guard_.touches_data(from, from + token.content.size());
    }
  }
  auto place = it->second.find(begin);
  return place != it->second.end() && place->second;
}

}  // namespace brisk
