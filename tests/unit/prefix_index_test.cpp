#include "state/prefix_index.h"

#include <numeric>

#include <gtest/gtest.h>

#include "state/state_cache.h"

namespace brisk {
namespace {

std::vector<int32_t> ids(int n, int from = 0) {
  std::vector<int32_t> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), from);
  return v;
}
std::vector<PrefixKey> keys_of(const PrefixKey& root, const std::vector<int32_t>& tokens, int64_t block = 4) {
  std::vector<PrefixKey> keys;
  extend_prefix_keys(root, tokens, block, keys);
  return keys;
}

TEST(PrefixKeys, DependOnEverythingBefore) {
  const PrefixKey root = prefix_root("model", "", 4);
  const auto a = keys_of(root, ids(11));
  ASSERT_EQ(a.size(), 2u);  // whole blocks only
  auto changed = ids(11);
  changed[0] = 99;
  const auto b = keys_of(root, changed);
  EXPECT_NE(a[0], b[0]);
  EXPECT_NE(a[1], b[1]);  // same tokens in the block, another prefix
  EXPECT_EQ(keys_of(root, ids(8)), a);
  EXPECT_NE(prefix_root("model", "salt", 4), root);
  EXPECT_NE(prefix_root("mode", "lsalt", 4), prefix_root("model", "salt", 4));
  EXPECT_NE(prefix_root("model", "", 8), root);
  std::vector<PrefixKey> grown = keys_of(root, ids(5));
  extend_prefix_keys(root, ids(9), 4, grown);
  EXPECT_EQ(grown, a);
}

TEST(PrefixKeys, AreSha256OfParentAndLittleEndianIds) {
  // hashlib: root = sha256(le64(1) + b"m" + le64(0) + le64(2)); key = sha256(root + le32(1) + le32(-1))
  const PrefixKey root = prefix_root("m", "", 2);
  const auto key = keys_of(root, {1, -1}, 2).at(0);
  const auto hex = [](const PrefixKey& k) {
    std::string s;
    for (const uint8_t b : k) {
      s += "0123456789abcdef"[b >> 4];
      s += "0123456789abcdef"[b & 15];
    }
    return s;
  };
  EXPECT_EQ(hex(root), "e76eae64ff6d27c4d652bfb7b0e6ccba41802861b2d878e2ff2d0f3be3869b9e");
  EXPECT_EQ(hex(key), "29ec863f3845073f5dfe356c7cdd89d34c4abba8157e24561d28ff9b976bd1df");
}

TEST(PrefixIndex, HitsCompareParentAndTokens) {
  PrefixIndex index(4);
  const PrefixKey root = prefix_root("m", "", 4);
  const auto tokens = ids(4);
  const auto keys = keys_of(root, tokens);
  EXPECT_TRUE(index.insert(2, keys[0], root, tokens));
  EXPECT_FALSE(index.insert(3, keys[0], root, tokens));  // an equal block is there
  EXPECT_FALSE(index.holds(3));
  EXPECT_EQ(index.find(keys[0], root, tokens), 2);
  EXPECT_FALSE(index.find(keys[0], root, ids(4, 1)));  // as if two token lists had one hash
  EXPECT_FALSE(index.find(keys[0], keys[0], tokens));
  index.erase(2);
  EXPECT_FALSE(index.find(keys[0], root, tokens));
  EXPECT_EQ(index.size(), 0);
}

class StateCacheTest : public testing::Test {
 protected:
  void fill(BlockTable& t, const std::vector<int32_t>& tokens) {
    ASSERT_TRUE(cache.reserve(t, static_cast<int64_t>(tokens.size())));
    cache.seal(t, root, keys_of(root, tokens), tokens, static_cast<int64_t>(tokens.size()));
  }
  int64_t match(BlockTable& t, const std::vector<int32_t>& tokens, int64_t limit = 1000) {
    return cache.match(t, root, keys_of(root, tokens), tokens, limit);
  }
  PrefixKey root = prefix_root("m", "", 4);
  StateCache cache{4, 4, true};
};

TEST_F(StateCacheTest, SharesWholeBlocksOfLivingAndEndedSequences) {
  BlockTable a, b;
  fill(a, ids(10));
  EXPECT_EQ(match(b, ids(10)), 8);
  EXPECT_EQ(b.blocks, std::vector<BlockId>(a.blocks.begin(), a.blocks.begin() + 2));
  EXPECT_EQ(cache.reclaimable(a), 1);
  const BlockTable* tables[] = {&a, &b};
  EXPECT_TRUE(cache.check(tables).ok());
  cache.release(a);
  cache.release(b);
  EXPECT_EQ(cache.pool().cached(), 2);
  EXPECT_EQ(match(a, ids(10), 7), 4);  // never more than the limit
  cache.release(a);
  EXPECT_TRUE(cache.check({}).ok());
}

TEST_F(StateCacheTest, ReservesAllOrNothing) {
  BlockTable a, b;
  ASSERT_TRUE(cache.reserve(a, 9));
  EXPECT_EQ(a.blocks.size(), 3u);
  EXPECT_FALSE(cache.reserve(b, 5));
  EXPECT_TRUE(b.blocks.empty());
  EXPECT_TRUE(cache.reserve(b, 4));
  EXPECT_TRUE(cache.reserve(b, 3));  // has them already
}

TEST_F(StateCacheTest, EvictsTailsBeforeHeads) {
  BlockTable a, b;
  fill(a, ids(16));
  cache.release(a);
  ASSERT_TRUE(cache.reserve(b, 8));  // two blocks of the chain must go
  EXPECT_EQ(match(a, ids(16)), 8);   // its beginning is still there
  const BlockTable* tables[] = {&a, &b};
  EXPECT_TRUE(cache.check(tables).ok());
}

TEST_F(StateCacheTest, CheckFindsALostBlock) {
  BlockTable a;
  ASSERT_TRUE(cache.reserve(a, 4));
  EXPECT_FALSE(cache.check({}).ok());
}

}  // namespace
}  // namespace brisk
