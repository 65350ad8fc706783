#include "state/block_pool.h"

#include <algorithm>
#include <cassert>

namespace brisk {

BlockPool::BlockPool(int64_t blocks) {
  assert(blocks >= 0 && blocks < INT32_MAX);
  owners_.assign(static_cast<size_t>(blocks), 0);
  cached_.resize(static_cast<size_t>(blocks) + 1);
  const auto head = static_cast<int32_t>(blocks);
  cached_[static_cast<size_t>(head)] = {head, head, true};
  free_.reserve(static_cast<size_t>(blocks));
  for (int64_t b = blocks; b-- > 0;) free_.push_back(static_cast<BlockId>(b));  // low ids are taken first
}

std::optional<BlockPool::Taken> BlockPool::take() {
  if (!free_.empty()) {
    const BlockId block = free_.back();
    free_.pop_back();
    owners_[static_cast<size_t>(block)] = 1;
    touched_ = std::max(touched_, size() - free());  // the block freed last is taken first
    return Taken{block, false};
  }
  if (!cached_count_) return std::nullopt;
  const BlockId oldest = cached_.back().newer;  // the head's neighbour on the far side of "newest"
  unlink(oldest);
  owners_[static_cast<size_t>(oldest)] = 1;
  return Taken{oldest, true};
}

void BlockPool::retain(BlockId block) {
  assert(block >= 0 && block < size());
  assert(owners(block) > 0 || is_cached(block));
  if (is_cached(block)) unlink(block);
  ++owners_[static_cast<size_t>(block)];
}

void BlockPool::release(BlockId block, bool keep) {
  assert(block >= 0 && block < size() && owners(block) > 0);
  if (--owners_[static_cast<size_t>(block)] > 0) return;
  if (keep) {
    link_newest(block);
  } else {
    free_.push_back(block);
  }
}

void BlockPool::forget(BlockId block) {
  assert(block >= 0 && block < size() && is_cached(block));
  unlink(block);
  free_.push_back(block);
}

void BlockPool::link_newest(BlockId block) {
  const auto head = static_cast<int32_t>(size());
  Link& h = cached_[static_cast<size_t>(head)];
  Link& b = cached_[static_cast<size_t>(block)];
  b = {h.older, head, true};
  cached_[static_cast<size_t>(h.older)].newer = block;
  h.older = block;
  ++cached_count_;
}

void BlockPool::unlink(BlockId block) {
  Link& b = cached_[static_cast<size_t>(block)];
  cached_[static_cast<size_t>(b.older)].newer = b.newer;
  cached_[static_cast<size_t>(b.newer)].older = b.older;
  b = {};
  --cached_count_;
}

}  // namespace brisk
