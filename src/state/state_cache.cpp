#include "state/state_cache.h"

#include <algorithm>
#include <cassert>

#include "base/checked.h"

namespace brisk {

StateCache::StateCache(int64_t blocks, int64_t block_tokens, bool reuse_prefixes)
    : pool_(blocks), index_(blocks), block_tokens_(block_tokens), reuse_(reuse_prefixes) {
  assert(block_tokens > 0);
}

int64_t StateCache::match(BlockTable& table, const PrefixKey& root, std::span<const PrefixKey> keys,
                          std::span<const int32_t> tokens, int64_t limit) {
  assert(table.blocks.empty());
  if (!reuse_) return 0;
  const auto per_block = static_cast<size_t>(block_tokens_);
  const size_t most = std::min(keys.size(), static_cast<size_t>(std::max<int64_t>(limit, 0)) / per_block);
  for (size_t b = 0; b < most; ++b) {
    const auto block = index_.find(keys[b], b ? keys[b - 1] : root, tokens.subspan(b * per_block, per_block));
    if (!block) break;
    pool_.retain(*block);
    table.blocks.push_back(*block);
  }
  table.sealed = static_cast<int64_t>(table.blocks.size());
  return table.sealed * block_tokens_;
}

bool StateCache::reserve(BlockTable& table, int64_t tokens) {
  const int64_t missing = blocks_for(tokens) - static_cast<int64_t>(table.blocks.size());
  if (missing > pool_.available()) return false;
  for (int64_t i = 0; i < missing; ++i) {
    const auto taken = pool_.take();
    if (taken->evicted) index_.erase(taken->block);
    table.blocks.push_back(taken->block);
  }
  return true;
}

void StateCache::seal(BlockTable& table, const PrefixKey& root, std::span<const PrefixKey> keys,
                      std::span<const int32_t> tokens, int64_t computed) {
  if (!reuse_) return;
  const auto per_block = static_cast<size_t>(block_tokens_);
  const int64_t whole = std::min(computed / block_tokens_, static_cast<int64_t>(keys.size()));
  for (; table.sealed < whole; ++table.sealed) {
    const auto b = static_cast<size_t>(table.sealed);
    // Refused if an equal block is indexed already: then this one is freed with its last owner.
    index_.insert(table.blocks[b], keys[b], b ? keys[b - 1] : root, tokens.subspan(b * per_block, per_block));
  }
}

void StateCache::release(BlockTable& table) {
  for (auto it = table.blocks.rbegin(); it != table.blocks.rend(); ++it) pool_.release(*it, index_.holds(*it));
  table = {};
}

int64_t StateCache::reclaimable(const BlockTable& table) const {
  return std::ranges::count_if(table.blocks, [&](BlockId b) { return pool_.owners(b) == 1; });
}

Status StateCache::check(std::span<const BlockTable* const> tables) const {
  std::vector<int32_t> owners(static_cast<size_t>(pool_.size()), 0);
  for (const BlockTable* t : tables) {
    auto sorted = t->blocks;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end()) return internal("a block stands twice in one table");
    for (const BlockId b : t->blocks) ++owners[static_cast<size_t>(b)];
  }
  int64_t cached = 0;
  for (BlockId b = 0; b < pool_.size(); ++b) {
    const int32_t want = owners[static_cast<size_t>(b)];
    if (pool_.owners(b) != want)
      return internal("block " + std::to_string(b) + " has " + std::to_string(pool_.owners(b)) + " owners, tables name it " +
                      std::to_string(want) + " times");
    if (pool_.is_cached(b)) {
      ++cached;
      if (want || !index_.holds(b)) return internal("block " + std::to_string(b) + " is cached but owned or not indexed");
    }
  }
  if (cached != pool_.cached()) return internal("the count of cached blocks is wrong");
  if (pool_.owned() != std::ranges::count_if(owners, [](int32_t n) { return n > 0; }))
    return internal("blocks are lost: neither free, cached nor owned");
  return {};
}

Result<StateSize> size_state(const StateUnits& units, int64_t budget_bytes, int64_t sequences, int64_t max_context,
                             int64_t block_tokens) {
  if (units.block_bytes < 0 || units.slot_bytes < 0 || sequences < 1 || max_context < 1 || block_tokens < 1)
    return internal("size_state: sizes must be positive");
  const auto slots = checked_mul(units.slot_bytes, sequences);
  const auto most = checked_mul(max_context / block_tokens + (max_context % block_tokens != 0), sequences);
  if (!slots || !most) return internal("size_state: sizes overflow");
  const auto least = checked_add(*slots, units.block_bytes);
  if (!least || budget_bytes < *least)
    return invalid("memory for state: " + std::to_string(budget_bytes) + " bytes given, but " + std::to_string(sequences) +
                   " slots of " + std::to_string(units.slot_bytes) + " bytes and one block of " +
                   std::to_string(units.block_bytes) + " bytes are the least");
  int64_t blocks = std::min<int64_t>(*most, INT32_MAX - 1);
  if (units.block_bytes > 0) blocks = std::min(blocks, (budget_bytes - *slots) / units.block_bytes);
  return StateSize{blocks, *slots + blocks * units.block_bytes};
}

}  // namespace brisk
