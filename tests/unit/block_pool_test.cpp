#include "state/block_pool.h"

#include <gtest/gtest.h>

#include "state/state_cache.h"

namespace brisk {
namespace {

TEST(BlockPool, TakesFreeBlocksThenTheOldestCached) {
  BlockPool pool(3);
  for (BlockId want = 0; want < 3; ++want) {
    const auto t = pool.take();
    ASSERT_TRUE(t);
    EXPECT_EQ(t->block, want);
    EXPECT_FALSE(t->evicted);
  }
  EXPECT_FALSE(pool.take());
  pool.release(1, true);
  pool.release(0, true);
  pool.release(2, false);
  EXPECT_EQ(pool.available(), 3);
  EXPECT_EQ(pool.cached(), 2);
  EXPECT_EQ(pool.take()->block, 2);
  const auto oldest = pool.take();
  EXPECT_EQ(oldest->block, 1);
  EXPECT_TRUE(oldest->evicted);
  EXPECT_EQ(pool.take()->block, 0);
  EXPECT_FALSE(pool.take());
}

TEST(BlockPool, TouchesNewBlocksOnlyWhenMoreAreInUse) {
  BlockPool pool(8);
  for (int round = 0; round < 3; ++round) {
    const BlockId a = pool.take()->block, b = pool.take()->block;
    pool.release(a, false);
    pool.release(b, false);
    EXPECT_EQ(pool.touched(), 2);
  }
  pool.release(pool.take()->block, true);  // cached: still holds something
  EXPECT_EQ(pool.take()->block, 0);
  EXPECT_EQ(pool.take()->block, 2);
  EXPECT_EQ(pool.touched(), 3);
}

TEST(BlockPool, SharedBlocksStayUntilTheLastOwner) {
  BlockPool pool(2);
  const BlockId b = pool.take()->block;
  pool.retain(b);
  EXPECT_EQ(pool.owners(b), 2);
  pool.release(b, true);
  EXPECT_EQ(pool.owned(), 1);
  pool.release(b, true);
  EXPECT_EQ(pool.owned(), 0);
  EXPECT_TRUE(pool.is_cached(b));
  pool.retain(b);  // a prefix hit revives it
  EXPECT_FALSE(pool.is_cached(b));
  EXPECT_EQ(pool.owned(), 1);
  pool.release(b, true);
  pool.forget(b);
  EXPECT_EQ(pool.free(), 2);
}

TEST(BlockPool, UsingACachedBlockMakesItTheYoungest) {
  BlockPool pool(3);
  for (int i = 0; i < 3; ++i) pool.take();
  for (BlockId b = 0; b < 3; ++b) pool.release(b, true);
  pool.retain(0);
  pool.release(0, true);
  EXPECT_EQ(pool.take()->block, 1);
  EXPECT_EQ(pool.take()->block, 2);
  EXPECT_EQ(pool.take()->block, 0);
}

TEST(StateSize, FillsTheBudgetAndNoMoreThanSequencesCanUse) {
  const StateUnits units{.block_bytes = 1000, .slot_bytes = 10};
  const auto small = size_state(units, 5'500, 4, 4096, 32);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small->blocks, 5);
  EXPECT_EQ(small->bytes, 5'040);
  EXPECT_EQ(size_state(units, 1ll << 40, 4, 100, 32)->blocks, 16);
  EXPECT_EQ(size_state({0, 10}, 100, 4, 100, 32)->blocks, 16);  // no paged state: blocks cost nothing
  const auto none = size_state(units, 1'039, 4, 4096, 32);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::kInvalid);
  EXPECT_FALSE(size_state(units, INT64_MAX, INT64_MAX, INT64_MAX, 32).ok());
}

}  // namespace
}  // namespace brisk
