// Placement of temporary buffers in one arena: values whose lifetimes do not overlap share bytes.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/plan.h"

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
inline constexpr int64_t kMaxElements = int64_t{1} << 40;  // of one value: what follows may multiply it by element sizes

inline constexpr int64_t kMaxArenaBytes = int64_t{1} << 50;  // of all values together, so that sums of sizes cannot overflow

// Greedy: each buffer in turn goes to the lowest offset, or the tightest gap, that is free over its whole lifetime
// (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020). Several orders are tried, until
// one needs no more than the live set: largest first, largest area first, in order of the steps where most is alive.
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes);

// First and last step that touches each value's bytes (its own or, for views, its root's, where they are kept);
// last is -1 where none does and beyond all steps for the plan's outputs.
struct ValueUse {
  std::vector<int32_t> first, last;
};
ValueUse find_value_use(const Plan& plan);

// Bytes of the arenas of a plan and its blocks for these sizes, without allocating any; nullopt where a size is unknown
// or cannot be counted.
std::optional<int64_t> temporary_bytes(const Plan& plan, const Dim::Lookup& symbols);

}  // namespace brisk
