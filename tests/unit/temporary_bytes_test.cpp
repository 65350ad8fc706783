#include <gtest/gtest.h>

#include <random>

#include "engine_sample.h"
#include "runtime/temporary_memory.h"

namespace brisk {
namespace {

TEST(TemporaryBytes, ChainsNeedTwoBuffersWhateverTheirLength) {
  EngineContent c;
  test::PlanBuilder b(c);
  Dim n = Dim::symbol("n");
  int32_t v = b.input("x", DType::kF32, {n});
  for (int i = 0; i < 10; ++i) v = b.step("t.add", OpId::kAdd, NoAttrs{}, {v, v}, DType::kF32, {n});
  int32_t seen = b.view("seen", v, {n, 1});
  b.plan.outputs = {seen};
  auto at = [&](int64_t size) {
    return temporary_bytes(b.plan, [=](const std::string& s) { return s == "n" ? std::optional(size) : std::nullopt; });
  };
  EXPECT_EQ(at(16), 2 * 64);
  EXPECT_EQ(at(1000), 2 * 4032);
  EXPECT_EQ(at(int64_t{1} << 41), std::nullopt);
  EXPECT_EQ(temporary_bytes(b.plan, [](const std::string&) { return std::optional<int64_t>(); }), std::nullopt);
  auto all = temporary_memory(b.plan, [](const std::string&) { return std::optional<int64_t>(16); });
  ASSERT_TRUE(all);
  EXPECT_EQ(all->live_bytes, 2 * 64);
  EXPECT_EQ(all->sum_bytes, 10 * 64);
  ValueUse use = find_value_use(b.plan);
  EXPECT_EQ(use.first[static_cast<size_t>(v)], 9);
  EXPECT_EQ(use.last[static_cast<size_t>(v)], INT32_MAX - 1);  // through the view, an output
}

// Buffers alive at the same step never overlap, and the arena stays near the live set.
TEST(TemporaryBytes, PlacementsAreSoundAndLean) {
  std::mt19937 rng(1);
  for (int round = 0; round < 60; ++round) {
    std::vector<Lifetime> lifetimes;
    int steps = 5 + static_cast<int>(rng() % 60);
    for (int i = 0; i < steps; ++i) {
      int last = std::min<int>(steps, i + 1 + static_cast<int>(rng() % 4 == 0 ? rng() % 20 : rng() % 2));
      lifetimes.push_back({static_cast<int64_t>(rng() % 50 + 1) * 1000, i, last});
    }
    MemoryPlan plan = plan_memory(lifetimes);
    ASSERT_EQ(plan.offsets.size(), lifetimes.size());
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      EXPECT_LE(plan.offsets[i] + lifetimes[i].bytes, plan.arena_bytes);
      for (size_t j = 0; j < i; ++j) {
        bool together = lifetimes[i].first <= lifetimes[j].last && lifetimes[j].first <= lifetimes[i].last;
        bool apart = plan.offsets[i] + lifetimes[i].bytes <= plan.offsets[j] || plan.offsets[j] + lifetimes[j].bytes <= plan.offsets[i];
        EXPECT_TRUE(!together || apart) << i << " and " << j;
      }
    }
    EXPECT_GE(plan.arena_bytes, plan.live_bytes);
    EXPECT_LE(plan.arena_bytes, plan.live_bytes + plan.live_bytes / 5) << "round " << round;
  }
  EXPECT_EQ(plan_memory({}).arena_bytes, 0);
}

}  // namespace
}  // namespace brisk
