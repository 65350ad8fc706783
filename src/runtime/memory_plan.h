// Placement of temporary buffers in one arena: values whose lifetimes do not overlap share bytes.
#pragma once
#include <cstdint>
#include <vector>

namespace brisk {

struct Lifetime {
  int64_t bytes = 0;
  int32_t first = 0, last = 0;  // steps, inclusive
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // as the lifetimes given, multiples of kArenaAlignment
  int64_t arena_bytes = 0;
  int64_t sum_bytes = 0;   // without sharing
  int64_t live_bytes = 0;  // largest sum alive at one step: no placement can do better
};
inline constexpr int64_t kArenaAlignment = 64;

// Greedy by size: each buffer, largest first, goes to the lowest offset free over its whole lifetime
// (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020).
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes);

}  // namespace brisk
