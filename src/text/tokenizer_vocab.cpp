#include "text/tokenizer_vocab.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace brisk {
namespace {

uint32_t hash_bytes(std::string_view s) {
  uint64_t h = s.size() * 0x9E3779B97F4A7C15u;
  const char* p = s.data();
  size_t n = s.size();
  auto mix = [&h](uint64_t word) {
    h = (h ^ word) * 0xD6E8FEB86659FD93u;
    h ^= h >> 32;
  };
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    mix(word);
  }
  uint64_t tail = 0;
  if (n) std::memcpy(&tail, p, n);
  mix(tail);
  return uint32_t(h ^ h >> 29);
}

uint32_t capacity(size_t expected) { return uint32_t(std::bit_ceil(expected * 2 + 16)); }

}  // namespace

void TokenIndex::reset(const StringPool& pool, size_t expected) {
  pool_ = &pool;
  slots_.assign(capacity(expected), {});
  mask_ = uint32_t(slots_.size()) - 1;
}

void TokenIndex::insert(uint32_t id) {
  std::string_view s = (*pool_)[id];
  if (s.empty()) return;
  uint32_t h = hash_bytes(s);
  for (uint32_t i = h & mask_;; i = (i + 1) & mask_) {
    Slot& slot = slots_[i];
    if (!slot.id_plus_one) {
      slot = {h, id + 1};
      return;
    }
    if (slot.hash == h && (*pool_)[slot.id_plus_one - 1] == s) return;
  }
}

int32_t TokenIndex::find(std::string_view s) const {
  if (slots_.empty()) return -1;
  uint32_t h = hash_bytes(s);
  for (uint32_t i = h & mask_; slots_[i].id_plus_one; i = (i + 1) & mask_) {
    const Slot& slot = slots_[i];
    if (slot.hash == h && (*pool_)[slot.id_plus_one - 1] == s) return int32_t(slot.id_plus_one - 1);
  }
  return -1;
}

void MergeIndex::reset(size_t expected) {
  slots_.assign(capacity(expected), {});
  mask_ = uint32_t(slots_.size()) - 1;
}

void MergeIndex::insert(uint32_t left, uint32_t right, uint32_t rank, uint32_t result) {
  for (uint32_t i = hash(left, right) & mask_;; i = (i + 1) & mask_) {
    Slot& slot = slots_[i];
    if (slot.rank == kNone) {
      slot = {left, right, rank, result};
      return;
    }
    if (slot.left == left && slot.right == right) return;
  }
}

MergeIndex::Found MergeIndex::find(uint32_t left, uint32_t right) const {
  for (uint32_t i = hash(left, right) & mask_;; i = (i + 1) & mask_) {
    const Slot& slot = slots_[i];
    if (slot.rank == kNone) return {kNone, 0};
    if (slot.left == left && slot.right == right) return {slot.rank, slot.result};
  }
}

std::vector<uint32_t> PrefixIndex::sort_ids(const StringPool& pool, std::vector<uint32_t> ids) {
  std::stable_sort(ids.begin(), ids.end(), [&](uint32_t a, uint32_t b) { return pool[a] < pool[b]; });
  return ids;
}

void PrefixIndex::reset(const StringPool& pool, std::vector<uint32_t> ids) {
  pool_ = &pool;
  ids_ = std::move(ids);
  std::fill(first_.begin(), first_.end(), 0);
  for (uint32_t id : ids_) ++first_[size_t(uint8_t(pool[id][0])) + 1];
  for (size_t b = 1; b < first_.size(); ++b) first_[b] += first_[b - 1];
}

void PrefixIndex::narrow(size_t n, uint8_t c, uint32_t& low, uint32_t& high) const {
  auto byte = [&](uint32_t i) { return uint8_t((*pool_)[ids_[i]][n]); };
  auto bound = [&](uint32_t from, uint32_t to, uint32_t wanted) {
    while (from < to) {
      uint32_t middle = from + (to - from) / 2;
      if (byte(middle) < wanted) {
        from = middle + 1;
      } else {
        to = middle;
      }
    }
    return from;
  };
  low = bound(low, high, c);
  high = bound(low, high, uint32_t(c) + 1);
}

}  // namespace brisk
