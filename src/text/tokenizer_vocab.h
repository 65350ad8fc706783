// Strings by id and ids by string, in flat memory: loading a vocabulary is a copy and one pass, without an allocation
// for each token.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace brisk {

inline constexpr size_t kMaxTokenBytes = 64 << 10;  // make_tokenizer() refuses longer ones

// Strings by index in one pool. offsets has size() + 1 entries.
struct StringPool {
  std::string bytes;
  std::vector<uint32_t> offsets{0};

  size_t size() const { return offsets.size() - 1; }
  std::string_view operator[](size_t i) const {
    return std::string_view(bytes).substr(offsets[i], offsets[i + 1] - offsets[i]);
  }
  void add(std::string_view s) {
    bytes += s;
    offsets.push_back(uint32_t(bytes.size()));
  }
};

// Ids by string: open addressing over a pool that outlives it. Of equal strings the one inserted first is found.
class TokenIndex {
 public:
  void reset(const StringPool& pool, size_t expected);
  void insert(uint32_t id);  // an empty string is never found
  int32_t find(std::string_view s) const;

 private:
  struct Slot {
    uint32_t hash = 0, id_plus_one = 0;
  };
  const StringPool* pool_ = nullptr;
  std::vector<Slot> slots_;
  uint32_t mask_ = 0;
};

// Merges by pair of ids.
class MergeIndex {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  struct Found {
    uint32_t rank, result;
  };
  void reset(size_t expected);
  void insert(uint32_t left, uint32_t right, uint32_t rank, uint32_t result);  // the first of a pair stays
  // rank == kNone: no such merge.
  Found find(uint32_t left, uint32_t right) const;

 private:
  struct Slot {
    uint32_t left = 0, right = 0, rank = kNone, result = 0;
  };
  static uint32_t hash(uint32_t left, uint32_t right) {
    uint64_t key = (uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15u;
    return uint32_t(key >> 32) ^ uint32_t(key >> 11);
  }
  std::vector<Slot> slots_;
  uint32_t mask_ = 0;
};

// Ids in the order of their strings, to find every token that a text begins with.
class PrefixIndex {
 public:
  // `ids` must be sorted by string (see sort_ids); strings are not empty.
  void reset(const StringPool& pool, std::vector<uint32_t> ids);
  static std::vector<uint32_t> sort_ids(const StringPool& pool, std::vector<uint32_t> ids);
  const std::vector<uint32_t>& ids() const { return ids_; }

  // found(id, length) for every token that is a prefix of text, shortest first.
  template <class Found>
  void each_prefix(std::string_view text, Found found) const {
    if (text.empty()) return;
    uint32_t low = first_[uint8_t(text[0])], high = first_[uint8_t(text[0]) + 1];
    for (size_t n = 1; low < high; ++n) {
      if ((*pool_)[ids_[low]].size() == n) {
        found(ids_[low], n);
        while (low < high && (*pool_)[ids_[low]].size() == n) ++low;
      }
      if (n == text.size()) return;
      narrow(n, uint8_t(text[n]), low, high);
    }
  }

 private:
  // Of [low, high), whose strings agree in their first n bytes and are longer, those with byte c at n.
  void narrow(size_t n, uint8_t c, uint32_t& low, uint32_t& high) const;
  const StringPool* pool_ = nullptr;
  std::vector<uint32_t> ids_;
  std::vector<uint32_t> first_ = std::vector<uint32_t>(257, 0);  // where strings beginning with a byte start
};

}  // namespace brisk
