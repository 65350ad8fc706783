#include "state/prefix_index.h"

#include <algorithm>
#include <cassert>

#include "base/sha256.h"

namespace brisk {
namespace {

void add_u64(Sha256& sha, uint64_t v) {
  std::array<uint8_t, 8> le;
  for (size_t i = 0; i < 8; ++i) le[i] = static_cast<uint8_t>(v >> (8 * i));
  sha.add(std::as_bytes(std::span(le)));
}

}  // namespace

PrefixKey prefix_root(std::string_view model_key, std::string_view salt, int64_t block_tokens) {
  Sha256 sha;
  add_u64(sha, model_key.size());
  sha.add(model_key);
  add_u64(sha, salt.size());
  sha.add(salt);
  add_u64(sha, static_cast<uint64_t>(block_tokens));
  return sha.finish();
}

void extend_prefix_keys(const PrefixKey& root, std::span<const int32_t> tokens, int64_t block_tokens,
                        std::vector<PrefixKey>& keys) {
  const size_t per_block = static_cast<size_t>(block_tokens);
  const size_t whole = tokens.size() / per_block;
  if (keys.size() >= whole) return;
  Sha256 sha;
  std::vector<uint8_t> bytes(per_block * 4);
  for (size_t b = keys.size(); b < whole; ++b) {
    const PrefixKey& parent = b ? keys[b - 1] : root;
    sha.add(std::as_bytes(std::span(parent)));
    for (size_t i = 0; i < per_block; ++i) {
      const auto v = static_cast<uint32_t>(tokens[b * per_block + i]);
      for (size_t k = 0; k < 4; ++k) bytes[i * 4 + k] = static_cast<uint8_t>(v >> (8 * k));
    }
    sha.add(std::as_bytes(std::span(bytes)));
    keys.push_back(sha.finish());
  }
}

std::optional<BlockId> PrefixIndex::find(const PrefixKey& key, const PrefixKey& parent,
                                         std::span<const int32_t> tokens) const {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return std::nullopt;
  const Entry& e = it->second;
  if (e.parent != parent || !std::equal(tokens.begin(), tokens.end(), e.tokens.begin(), e.tokens.end())) return std::nullopt;
  return e.block;
}

bool PrefixIndex::insert(BlockId block, const PrefixKey& key, const PrefixKey& parent, std::span<const int32_t> tokens) {
  auto& mine = key_of_[static_cast<size_t>(block)];
  if (mine || entries_.contains(key)) return false;
  entries_.emplace(key, Entry{block, parent, {tokens.begin(), tokens.end()}});
  mine = key;
  return true;
}

void PrefixIndex::erase(BlockId block) {
  auto& mine = key_of_[static_cast<size_t>(block)];
  if (!mine) return;
  entries_.erase(*mine);
  mine.reset();
}

}  // namespace brisk
