#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "backend/cpu/thread_pool.h"

namespace brisk::cpu {
namespace {

TEST(CpuPool, EveryChunkOnce) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int64_t n : {0, 1, 2, 3, 17, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
      pool.parallel_for(n, [&](int64_t i, int worker) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, threads);
        hits[static_cast<size_t>(i)]++;
      });
      for (auto& h : hits) EXPECT_EQ(h.load(), 1);
    }
  }
}

// Many short jobs back to back: late workers meet jobs that are over, and results must be visible to the caller.
TEST(CpuPool, ShortJobs) {
  ThreadPool pool(3);
  std::vector<int64_t> out(8);
  for (int64_t job = 0; job < 20000; job++) {
    int64_t n = job % 8 + 1;
    pool.parallel_for(n, [&](int64_t i, int) { out[static_cast<size_t>(i)] = job * 8 + i; });
    for (int64_t i = 0; i < n; i++) ASSERT_EQ(out[static_cast<size_t>(i)], job * 8 + i);
  }
}

TEST(CpuPool, WakesAfterSleep) {
  ThreadPool pool(2);
  for (int round = 0; round < 5; round++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // workers have parked
    std::atomic<int> sum{0};
    pool.parallel_for(4, [&](int64_t i, int) {
      std::this_thread::sleep_for(std::chrono::microseconds(300));
      sum += static_cast<int>(i);
    });
    EXPECT_EQ(sum.load(), 6);
  }
}

TEST(CpuPool, NestedAndConcurrentCallsRunInline) {
  ThreadPool pool(3);
  std::atomic<int> inner{0};
  pool.parallel_for(6, [&](int64_t, int) {
    auto self = std::this_thread::get_id();
    pool.parallel_for(5, [&](int64_t, int worker) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      EXPECT_EQ(worker, 0);
      inner++;
    });
  });
  EXPECT_EQ(inner.load(), 30);
  std::atomic<int> total{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; c++)
    callers.emplace_back([&] {
      for (int j = 0; j < 200; j++) pool.parallel_for(7, [&](int64_t, int) { total++; });
    });
  for (auto& t : callers) t.join();
  EXPECT_EQ(total.load(), 3 * 200 * 7);
}

TEST(CpuPool, AvailableThreads) { EXPECT_GE(available_threads(), 1); }

}  // namespace
}  // namespace brisk::cpu
