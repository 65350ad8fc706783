#include "text/bpe.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "text/unicode.h"

namespace brisk {

void UnknownRun::missing(std::string_view character) {
  const TokenizerConfig& config = *vocab_.config;
  if (config.byte_fallback) {
    bool all = true;
    for (char c : character) all &= vocab_.byte_tokens[uint8_t(c)] >= 0;
    if (all) {
      // A pending unknown token is not flushed here: this is the order of the oracle.
      for (char c : character) out_.push_back(vocab_.byte_tokens[uint8_t(c)]);
      return;
    }
  }
  if (config.unknown < 0) return;
  if (pending_ && !config.fuse_unknown) out_.push_back(config.unknown);
  pending_ = true;
}

void UnknownRun::flush() {
  if (pending_) out_.push_back(vocab_.config->unknown);
  pending_ = false;
}

// The first symbols: bytes or characters, with what the model puts before or after them.
void BpeEncoder::split(std::string_view word) {
  const TokenizerConfig& config = *vocab_.config;
  ids_.clear();
  UnknownRun run(vocab_, ids_);
  std::string dressed;
  for (size_t i = 0; i < word.size();) {
    size_t size = config.byte_level ? 1 : unicode::decode(word, i).size;
    std::string_view symbol = word.substr(i, size);
    if (!config.subword_prefix.empty() || !config.word_suffix.empty()) {
      dressed.clear();
      if (i > 0) dressed += config.subword_prefix;
      dressed += symbol;
      if (i + size == word.size()) dressed += config.word_suffix;
      symbol = dressed;
    }
    i += size;
    int32_t id = vocab_.index->find(symbol);
    if (id >= 0) {
      run.known(id);
    } else {
      run.missing(symbol);
    }
  }
  run.flush();
}

// Few symbols: look at all pairs before each merge.
void BpeEncoder::merge_few() {
  pairs_.clear();
  for (size_t i = 0; i + 1 < ids_.size(); ++i) pairs_.push_back(merges_.find(uint32_t(ids_[i]), uint32_t(ids_[i + 1])));
  while (!pairs_.empty()) {
    size_t best = 0;
    for (size_t i = 1; i < pairs_.size(); ++i) {
      if (pairs_[i].rank < pairs_[best].rank) best = i;
    }
    if (pairs_[best].rank == MergeIndex::kNone) return;
    ids_[best] = int32_t(pairs_[best].result);
    ids_.erase(ids_.begin() + std::ptrdiff_t(best) + 1);
    pairs_.erase(pairs_.begin() + std::ptrdiff_t(best));
    auto again = [&](size_t i) { pairs_[i] = merges_.find(uint32_t(ids_[i]), uint32_t(ids_[i + 1])); };
    if (best > 0) again(best - 1);
    if (best < pairs_.size()) again(best);
  }
}

void BpeEncoder::push(int32_t left, int32_t right) {
  if (left < 0 || right < 0) return;
  auto found = merges_.find(symbols_[size_t(left)].id, symbols_[size_t(right)].id);
  if (found.rank == MergeIndex::kNone) return;
  heap_.push_back({found.rank, uint32_t(left), found.result});
  std::push_heap(heap_.begin(), heap_.end());
}

// Many symbols: a linked list and a heap of possible merges; an entry whose pair has changed is passed over.
void BpeEncoder::merge_many(std::vector<int32_t>& out) {
  symbols_.clear(), heap_.clear();
  int32_t n = int32_t(ids_.size());
  for (int32_t i = 0; i < n; ++i) symbols_.push_back({uint32_t(ids_[size_t(i)]), i - 1, i + 1 < n ? i + 1 : kEnd});
  for (int32_t i = 0; i + 1 < n; ++i) {
    auto found = merges_.find(symbols_[size_t(i)].id, symbols_[size_t(i) + 1].id);
    if (found.rank != MergeIndex::kNone) heap_.push_back({found.rank, uint32_t(i), found.result});
  }
  std::make_heap(heap_.begin(), heap_.end());
  while (!heap_.empty()) {
    Candidate top = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
    Symbol& left = symbols_[top.left];
    if (left.next < 0) continue;
    Symbol& right = symbols_[size_t(left.next)];
    auto now = merges_.find(left.id, right.id);
    if (now.rank != top.rank || now.result != top.result) continue;
    left.id = top.result;
    left.next = right.next;
    right.next = kDead;
    if (left.next >= 0) symbols_[size_t(left.next)].prev = int32_t(top.left);
    push(left.prev, int32_t(top.left));
    push(int32_t(top.left), left.next);
  }
  for (int32_t i = n ? 0 : kEnd; i >= 0; i = symbols_[size_t(i)].next) out.push_back(int32_t(symbols_[size_t(i)].id));
}

void BpeEncoder::encode(std::string_view word, std::vector<int32_t>& out) {
  constexpr size_t kFew = 48;
  if (word.empty()) return;
  if (direct_ || vocab_.config->ignore_merges) {
    int32_t id = vocab_.index->find(word);
    if (id >= 0 && (vocab_.config->ignore_merges || has_bit(*direct_, id))) {
      out.push_back(id);
      return;
    }
  }
  split(word);
  if (ids_.size() <= kFew) {
    merge_few();
    out.insert(out.end(), ids_.begin(), ids_.end());
  } else {
    merge_many(out);
  }
}

void SpmEncoder::push(std::string_view text, int32_t left, int32_t right) {
  if (left < 0 || right < 0) return;
  const Symbol &a = symbols_[size_t(left)], &b = symbols_[size_t(right)];
  int32_t id = vocab_.index->find(text.substr(a.begin, a.size + b.size));
  if (id < 0) return;
  heap_.push_back({scores_[size_t(id)], uint32_t(left), uint32_t(right), a.size + b.size});
  std::push_heap(heap_.begin(), heap_.end());
}

void SpmEncoder::encode(std::string_view text, std::vector<int32_t>& out) {
  if (int32_t id = direct_ ? vocab_.index->find(text) : -1; id >= 0 && has_bit(*direct_, id)) {
    out.push_back(id);
    return;
  }
  symbols_.clear(), heap_.clear();
  for (size_t i = 0; i < text.size();) {
    uint32_t size = vocab_.config->byte_level ? 1 : unicode::decode(text, i).size;
    int32_t index = int32_t(symbols_.size());
    symbols_.push_back({uint32_t(i), size, index - 1, i + size < text.size() ? index + 1 : -1});
    i += size;
  }
  for (size_t i = 1; i < symbols_.size(); ++i) push(text, int32_t(i) - 1, int32_t(i));
  while (!heap_.empty()) {
    Candidate top = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
    Symbol &left = symbols_[top.left], &right = symbols_[top.right];
    if (left.size == 0 || right.size == 0 || left.size + right.size != top.size) continue;
    left.size = top.size;
    right.size = 0;
    left.next = right.next;
    if (left.next >= 0) symbols_[size_t(left.next)].prev = int32_t(top.left);
    push(text, left.prev, int32_t(top.left));
    push(text, int32_t(top.left), left.next);
  }
  UnknownRun run(vocab_, out);
  for (const Symbol& s : symbols_) {
    if (s.size == 0) continue;
    std::string_view piece = text.substr(s.begin, s.size);
    int32_t id = vocab_.index->find(piece);
    if (id >= 0) {
      run.known(id);
    } else {
      run.missing(piece);
    }
  }
  run.flush();
}

}  // namespace brisk
