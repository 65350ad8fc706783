// Which blocks of paged state are owned, and by how many: the accounting only, no memory.
//
// A block is in one of three conditions:
//   free    nobody owns it, its content means nothing
//   owned   one owner or more (a shared prefix has several)
//   cached  no owner, but its content may still be wanted: it is on the list of least recently used blocks
// take() prefers free blocks and then evicts the least recently used cached one.
// Not thread safe. Ids outside [0, size()) and releases without an owner are bugs (asserted).
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace brisk {

using BlockId = int32_t;

class BlockPool {
 public:
  explicit BlockPool(int64_t blocks);

  struct Taken {
    BlockId block;
    bool evicted;  // was cached: whoever indexed its content must forget it
  };
  // A block with one owner; nothing if all are owned.
  std::optional<Taken> take();
  // One owner more. A cached block becomes owned again.
  void retain(BlockId block);
  // One owner less. Without owners it becomes cached (as the most recently used) if `keep`, else free.
  void release(BlockId block, bool keep);
  // Cached to free.
  void forget(BlockId block);

  int64_t size() const { return static_cast<int64_t>(owners_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int64_t cached() const { return cached_count_; }
  int64_t owned() const { return size() - free() - cached(); }
  int64_t available() const { return free() + cached(); }  // what take() can give
  int64_t touched() const { return touched_; }  // most blocks that were not free at one time: so much state has memory behind it
  int32_t owners(BlockId block) const { return owners_[static_cast<size_t>(block)]; }
  bool is_cached(BlockId block) const { return cached_[static_cast<size_t>(block)].linked; }

 private:
  // The cached blocks as a doubly linked list through an array; index size() is the head of both ends.
  struct Link {
    int32_t older = -1, newer = -1;
    bool linked = false;
  };
  void link_newest(BlockId block);
  void unlink(BlockId block);

  std::vector<int32_t> owners_;
  std::vector<BlockId> free_;
  std::vector<Link> cached_;
  int64_t cached_count_ = 0, touched_ = 0;
};

}  // namespace brisk
