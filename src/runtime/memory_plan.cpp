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

ValueUse find_value_use(const Plan& plan) {
  ValueUse use;
  use.first.assign(plan.values.size(), INT32_MAX);
  use.last.assign(plan.values.size(), -1);
  auto touch = [&](int32_t v, int32_t step) {
    if (v < 0) return;
    while (plan.values[static_cast<size_t>(v)].kind == PlanValue::Kind::kView) v = plan.values[static_cast<size_t>(v)].view_of;
    auto root = static_cast<size_t>(v);
    use.first[root] = std::min(use.first[root], step);
    use.last[root] = std::max(use.last[root], step);
  };
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (int32_t v : plan.steps[i].inputs) touch(v, static_cast<int32_t>(i));
    for (int32_t v : plan.steps[i].outputs) touch(v, static_cast<int32_t>(i));
  }
  for (int32_t v : plan.outputs) touch(v, INT32_MAX - 1);
  return use;
}

std::optional<int64_t> temporary_bytes(const Plan& plan, const Dim::Lookup& symbols) {
  ValueUse use = find_value_use(plan);
  std::vector<Lifetime> lifetimes;
  int64_t all = 0;
  for (size_t i = 0; i < plan.values.size(); ++i) {
    const PlanValue& v = plan.values[i];
    if (v.kind != PlanValue::Kind::kArena || use.last[i] < 0) continue;
    std::vector<int64_t> shape;
    for (const Dim& d : v.shape) shape.push_back(d.evaluate(symbols).value_or(-1));
    auto count = checked_count(shape);
    if (!count || *count > kMaxElements) return std::nullopt;
    auto total = checked_add(all, dtype_bytes(v.dtype, *count));
    if (!total || *total > kMaxArenaBytes) return std::nullopt;
    all = *total;
    lifetimes.push_back({dtype_bytes(v.dtype, *count), use.first[i], use.last[i]});
  }
  int64_t sum = plan_memory(lifetimes).arena_bytes;
  for (const PlanStep& s : plan.steps)
    for (const Plan& b : s.blocks) {
      auto inner = temporary_bytes(b, symbols);
      if (!inner || *inner > kMaxArenaBytes - sum) return std::nullopt;
      sum += *inner;
    }
  return sum;
}

}  // namespace brisk
