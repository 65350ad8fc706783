#include "runtime/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"

namespace brisk {

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes) {
  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    const Lifetime& l = lifetimes[i];
    int64_t size = align_up(l.bytes, kArenaAlignment), at = 0;
    for (size_t j : placed) {
      const Lifetime& other = lifetimes[j];
      if (other.last < l.first || other.first > l.last) continue;
      if (plan.offsets[j] - at >= size) break;
      at = std::max(at, plan.offsets[j] + align_up(other.bytes, kArenaAlignment));
    }
    plan.offsets[i] = at;
    plan.arena_bytes = std::max(plan.arena_bytes, at + size);
    plan.sum_bytes += size;
    auto where = std::lower_bound(placed.begin(), placed.end(), i, [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; });
    placed.insert(where, i);
  }

  std::vector<std::pair<int32_t, int64_t>> events;
  for (const Lifetime& l : lifetimes) {
    events.push_back({l.first, align_up(l.bytes, kArenaAlignment)});
    events.push_back({l.last + 1, -align_up(l.bytes, kArenaAlignment)});
  }
  std::sort(events.begin(), events.end());  // at one step releases sort before new values
  int64_t live = 0;
  for (auto& [step, change] : events) plan.live_bytes = std::max(plan.live_bytes, live += change);
  return plan;
}

}  // namespace brisk
