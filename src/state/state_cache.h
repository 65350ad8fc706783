// The paged state of all sequences of one engine: block tables, sharing of equal prefixes, and how many blocks a memory
// budget holds. Accounting only; the bytes belong to the runtime, which finds them by block id.
// Not thread safe.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "brisk/result.h"
#include "state/block_pool.h"
#include "state/prefix_index.h"

namespace brisk {

// One sequence's part. Token i lives in blocks[i / block_tokens], row i % block_tokens.
struct BlockTable {
  std::vector<BlockId> blocks;  // owned (each once by this table)
  int64_t sealed = 0;           // so many leading blocks are whole, computed, and were offered to the prefix index
};

class StateCache {
 public:
  StateCache(int64_t blocks, int64_t block_tokens, bool reuse_prefixes);

  // Puts the longest indexed prefix into an empty table: at most `limit` tokens, whole blocks. Returns its tokens.
  // keys: of the whole blocks of `tokens` (extend_prefix_keys).
  int64_t match(BlockTable& table, const PrefixKey& root, std::span<const PrefixKey> keys,
                std::span<const int32_t> tokens, int64_t limit);
  // Makes the table hold `tokens` tokens: all blocks or none. False: too few blocks available, nothing changed.
  bool reserve(BlockTable& table, int64_t tokens);
  // The first `computed` tokens are in the blocks: offers whole new ones to the index.
  void seal(BlockTable& table, const PrefixKey& root, std::span<const PrefixKey> keys, std::span<const int32_t> tokens,
            int64_t computed);
  // Gives all blocks back. Indexed ones stay cached, the tail the first to be evicted.
  void release(BlockTable& table);
  // Blocks that release() would make available: those that only this table owns.
  int64_t reclaimable(const BlockTable& table) const;

  int64_t block_tokens() const { return block_tokens_; }
  int64_t blocks_for(int64_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }
  const BlockPool& pool() const { return pool_; }

  // For tests: every block of the pool is owned exactly as often as it stands in `tables`, no table names one twice, and
  // only indexed blocks are cached. kInternal says what is wrong.
  Status check(std::span<const BlockTable* const> tables) const;

 private:
  BlockPool pool_;
  PrefixIndex index_;
  int64_t block_tokens_;
  bool reuse_;
};

// What one block and one slot of an engine's state take, and how many blocks fit beside the slots.
struct StateUnits {
  int64_t block_bytes = 0;  // sum over all paged states, of one block
  int64_t slot_bytes = 0;   // sum over all per-slot states
};
struct StateSize {
  int64_t blocks = 0;
  int64_t bytes = 0;        // blocks and slots
};
// The most blocks within `budget_bytes`, and no more than `sequences` sequences of `max_context` tokens could ever fill.
// kInvalid if not even one sequence of one block fits; the message says what would be needed.
Result<StateSize> size_state(const StateUnits& units, int64_t budget_bytes, int64_t sequences, int64_t max_context,
                             int64_t block_tokens);

}  // namespace brisk
