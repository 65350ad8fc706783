#include "runtime/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "runtime/temporary_memory.h"

namespace brisk {

namespace {

struct Placement {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};

Placement place(const std::vector<Lifetime>& lifetimes, const std::vector<size_t>& order, bool tightest) {
  Placement p;
  p.offsets.resize(lifetimes.size());
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    const Lifetime& l = lifetimes[i];
    int64_t size = align_up(l.bytes, kArenaAlignment), at = 0, best = -1, best_gap = INT64_MAX;
    for (size_t j : placed) {
      const Lifetime& other = lifetimes[j];
      if (other.last < l.first || other.first > l.last) continue;
      if (int64_t gap = p.offsets[j] - at; gap >= size && gap < best_gap) {
        best = at, best_gap = gap;
        if (!tightest) break;
      }
      at = std::max(at, p.offsets[j] + align_up(other.bytes, kArenaAlignment));
    }
    p.offsets[i] = best < 0 ? at : best;
    p.bytes = std::max(p.bytes, p.offsets[i] + size);
    auto where = std::lower_bound(placed.begin(), placed.end(), i, [&](size_t a, size_t b) { return p.offsets[a] < p.offsets[b]; });
    placed.insert(where, i);
  }
  return p;
}

int64_t largest_live(const std::vector<Lifetime>& lifetimes) {
  std::vector<std::pair<int32_t, int64_t>> events;
  for (const Lifetime& l : lifetimes) {
    events.push_back({l.first, align_up(l.bytes, kArenaAlignment)});
    events.push_back({l.last + 1, -align_up(l.bytes, kArenaAlignment)});
  }
  std::sort(events.begin(), events.end());  // at one step releases sort before new values
  int64_t live = 0, most = 0;
  for (auto& [step, change] : events) most = std::max(most, live += change);
  return most;
}

// Buffers by the most that is alive while they are: what meets at the fullest steps is placed first.
std::vector<int64_t> pressure(const std::vector<Lifetime>& lifetimes) {
  std::vector<int64_t> most(lifetimes.size());
  for (const Lifetime& at : lifetimes) {  // the live set grows only where a buffer begins
    int64_t live = 0;
    for (const Lifetime& l : lifetimes)
      if (l.first <= at.first && at.first <= l.last) live += l.bytes;
    for (size_t i = 0; i < lifetimes.size(); ++i)
      if (lifetimes[i].first <= at.first && at.first <= lifetimes[i].last) most[i] = std::max(most[i], live);
  }
  return most;
}

// While the arena is a tenth larger than the live set: what ends it was placed too late, and goes to the front of the order.
void promote_tops(const std::vector<Lifetime>& lifetimes, MemoryPlan& plan) {
  constexpr int kTries = 24;
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  for (int i = 0; i < kTries && plan.arena_bytes > plan.live_bytes + plan.live_bytes / 10; ++i) {
    Placement p = place(lifetimes, order, /*tightest=*/true);
    if (p.bytes < plan.arena_bytes) plan.offsets = p.offsets, plan.arena_bytes = p.bytes;
    auto end = [&](size_t k) { return p.offsets[k] + align_up(lifetimes[k].bytes, kArenaAlignment); };
    auto top = std::max_element(order.begin(), order.end(), [&](size_t a, size_t b) { return end(a) < end(b); });
    std::rotate(order.begin(), top, top + 1);
  }
}

}  // namespace

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes) {
  constexpr size_t kMostForAll = 1500;  // beyond it one order must do: each takes quadratic time
  MemoryPlan plan;
  plan.live_bytes = largest_live(lifetimes);
  for (const Lifetime& l : lifetimes) plan.sum_bytes += align_up(l.bytes, kArenaAlignment);
  std::vector<size_t> order(lifetimes.size());
  auto attempt = [&](auto&& before) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), before);
    for (bool tightest : {false, true}) {
      Placement p = place(lifetimes, order, tightest);
      if (plan.offsets.empty() || p.bytes < plan.arena_bytes) plan.offsets = std::move(p.offsets), plan.arena_bytes = p.bytes;
      if (plan.arena_bytes <= plan.live_bytes || lifetimes.size() > kMostForAll) return true;
    }
    return false;
  };
  auto by_size = [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; };
  if (attempt(by_size)) return plan;
  auto area = [&](size_t i) { return static_cast<double>(lifetimes[i].bytes) * (static_cast<double>(lifetimes[i].last) - lifetimes[i].first + 1); };
  if (attempt([&](size_t a, size_t b) { return area(a) > area(b); })) return plan;
  auto most = pressure(lifetimes);
  if (attempt([&](size_t a, size_t b) { return most[a] != most[b] ? most[a] > most[b] : by_size(a, b); })) return plan;
  if (attempt([&](size_t a, size_t b) { return lifetimes[a].first != lifetimes[b].first ? lifetimes[a].first < lifetimes[b].first : by_size(a, b); })) return plan;
  promote_tops(lifetimes, plan);
  return plan;
}

ValueUse find_value_use(const Plan& plan) {
  ValueUse use;
  use.first.assign(plan.values.size(), INT32_MAX);
  use.last.assign(plan.values.size(), -1);
  auto touch = [&](int32_t v, int32_t step) {
    if (v < 0) return;
    auto root = static_cast<size_t>(root_of(plan, v));
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

std::optional<TemporaryMemory> temporary_memory(const Plan& plan, const Dim::Lookup& symbols) {
  ValueUse use = find_value_use(plan);
  std::vector<Lifetime> lifetimes;
  std::vector<int64_t> bytes(plan.values.size());
  int64_t all = 0;
  for (size_t i = 0; i < plan.values.size(); ++i) {
    const PlanValue& v = plan.values[i];
    if (v.kind != PlanValue::Kind::kArena || use.last[i] < 0) continue;
    std::vector<int64_t> shape;
    for (const Dim& d : v.shape) shape.push_back(d.evaluate(symbols).value_or(-1));
    auto count = checked_count(shape);
    if (!count || *count > kMaxElements) return std::nullopt;
    bytes[i] = dtype_bytes(v.dtype, *count);
    auto total = checked_add(all, bytes[i]);
    if (!total || *total > kMaxArenaBytes) return std::nullopt;
    all = *total;
    lifetimes.push_back({bytes[i], use.first[i], use.last[i]});
  }
  MemoryPlan own = plan_memory(lifetimes);
  TemporaryMemory m{own.arena_bytes, own.live_bytes, own.sum_bytes};
  for (const PlanStep& s : plan.steps) {
    if (!in_place(plan, s)) continue;
    int64_t own_bytes = bytes[static_cast<size_t>(root_of(plan, s.outputs[0]))];  // it is of its operand's size
    if (own_bytes > kMaxArenaBytes - m.sum_bytes) return std::nullopt;
    m.sum_bytes += align_up(own_bytes, kArenaAlignment);
    ++m.in_place;
  }
  for (const PlanStep& s : plan.steps)
    for (const Plan& b : s.blocks) {
      auto inner = temporary_memory(b, symbols);
      if (!inner || inner->sum_bytes > kMaxArenaBytes - m.sum_bytes) return std::nullopt;
      m.arena_bytes += inner->arena_bytes, m.live_bytes += inner->live_bytes, m.sum_bytes += inner->sum_bytes, m.in_place += inner->in_place;
    }
  return m;
}

std::optional<int64_t> temporary_bytes(const Plan& plan, const Dim::Lookup& symbols) {
  auto m = temporary_memory(plan, symbols);
  return m ? std::optional(m->arena_bytes) : std::nullopt;
}

}  // namespace brisk
