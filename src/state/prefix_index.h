// Finds state blocks by what they hold: the keys and values of one whole block of tokens after a known prefix.
//
// A block's key is SHA-256 over its parent's key and its token ids (little-endian int32); the first block's parent is
// the root, SHA-256 over all else that determines the content: model, KV dtype, block size, salt. So a key stands for
// the whole prefix up to the block's end. A hit also compares the parent's key and the token ids themselves.
// The key functions are pure and may run on any thread; PrefixIndex is not thread safe.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "state/block_pool.h"

namespace brisk {

using PrefixKey = std::array<uint8_t, 32>;

// `model_key`: all that determines cached content besides tokens and salt. Lengths are hashed too, so that no two pairs
// of strings run together.
PrefixKey prefix_root(std::string_view model_key, std::string_view salt, int64_t block_tokens);
// Appends the keys of those whole blocks of `tokens` that `keys` does not have yet (keys[i] belongs to block i).
void extend_prefix_keys(const PrefixKey& root, std::span<const int32_t> tokens, int64_t block_tokens,
                        std::vector<PrefixKey>& keys);

class PrefixIndex {
 public:
  explicit PrefixIndex(int64_t blocks) : key_of_(static_cast<size_t>(blocks)) {}

  std::optional<BlockId> find(const PrefixKey& key, const PrefixKey& parent, std::span<const int32_t> tokens) const;
  // Remembers what `block` holds. False, and nothing changes, if another block already stands for this key or this block
  // already has one.
  bool insert(BlockId block, const PrefixKey& key, const PrefixKey& parent, std::span<const int32_t> tokens);
  void erase(BlockId block);  // nothing if it is not indexed
  bool holds(BlockId block) const { return key_of_[static_cast<size_t>(block)].has_value(); }
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }

 private:
  struct Entry {
    BlockId block;
    PrefixKey parent;
    std::vector<int32_t> tokens;
  };
  struct Hash {  // the key is a hash already
    size_t operator()(const PrefixKey& k) const {
      size_t h;
      std::memcpy(&h, k.data(), sizeof h);
      return h;
    }
  };
  std::unordered_map<PrefixKey, Entry, Hash> entries_;
  std::vector<std::optional<PrefixKey>> key_of_;  // by block
};

}  // namespace brisk
