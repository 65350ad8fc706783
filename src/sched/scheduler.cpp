#include "sched/scheduler.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <tuple>

namespace brisk {

struct Scheduler::Sequence {
  SchedRequest request;         // its prompt has moved into `tokens`
  double arrival = 0;
  std::pair<int, double> rank;  // order among the running; never changes, so that two can not preempt each other in turn
  uint64_t serial = 0;          // order of admission
  std::vector<int32_t> tokens;  // prompt, then committed ids
  int64_t prompt = 0;           // tokens of the prompt
  int64_t limit = 0;            // prompt and answer end here
  std::vector<PrefixKey> keys;  // of the whole blocks of `tokens`
  BlockTable table;
  bool holding = false;         // started and not preempted
  bool fresh = true;            // no step has named it yet
  int32_t slot = -1;            // from its start to its end
  int64_t computed = 0;         // positions that plans so far write
  int64_t written = 0;          // of them, those of committed steps
  int64_t pending = 0;          // ids that uncommitted plans sample
  int in_flight = 0;            // uncommitted plans that name it
  uint32_t epoch = 0;           // times preempted: what a plan of an earlier epoch wrote is lost
  uint64_t last_plan = UINT64_MAX;
  int64_t cached = 0;

  int64_t total() const { return static_cast<int64_t>(tokens.size()) + pending; }
  bool wants_more() const { return total() < limit; }  // false: all its ids are sampled, only their commit is awaited
};

Scheduler::Scheduler(SchedOptions options)
    : options_(options), cache_(options.blocks, options.block_tokens, options.reuse_prefixes) {
  options_.max_sequences = std::min(options_.max_sequences, options_.max_step_tokens);  // all may decode in one step
  options_.max_context = std::min(options_.max_context, options_.blocks * options_.block_tokens);
  for (int32_t s = 0; s < options_.max_sequences; ++s) free_slots_.insert(s);
}

Scheduler::~Scheduler() = default;

const Scheduler::Sequence& Scheduler::get(RequestId id) const {
  const auto it = sequences_.find(id);
  assert(it != sequences_.end());
  return *it->second;
}
std::span<const int32_t> Scheduler::tokens(RequestId id) const { return get(id).tokens; }
std::span<const BlockId> Scheduler::blocks(RequestId id) const { return get(id).table.blocks; }
int64_t Scheduler::cached_tokens(RequestId id) const { return get(id).cached; }
bool Scheduler::started(RequestId id) const { return get(id).slot >= 0; }

SchedStats Scheduler::stats() const {
  SchedStats s = stats_;
  s.waiting = waiting_count_;
  s.running = static_cast<int64_t>(running_.size());
  return s;
}

// ---- admit ----

Status Scheduler::admit(SchedRequest request, double now) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt < 1) return invalid("the prompt is empty");
  if (prompt >= options_.max_context)
    return invalid("the prompt has " + std::to_string(prompt) + " tokens, but prompt and answer together may have " +
                   std::to_string(options_.max_context));
  if (sequences_.contains(request.id)) return internal("request " + std::to_string(request.id) + " is admitted already");

  auto owned = std::make_unique<Sequence>();
  Sequence& s = *owned;
  s.arrival = now;
  s.serial = admitted_++;
  s.tokens = std::move(request.prompt);
  s.prompt = prompt;
  const int64_t room = options_.max_context - prompt;
  s.limit = prompt + (request.max_new_tokens > 0 ? std::min(request.max_new_tokens, room) : room);
  if (options_.reuse_prefixes) s.keys = std::move(request.prefix_keys);
  s.request = std::move(request);
  const int priority = s.request.priority;
  s.rank = options_.ageing_s > 0 ? std::pair(0, now + priority * options_.ageing_s) : std::pair(priority, now);

  auto [key, is_new] = keys_.try_emplace(s.request.key);
  if (is_new) {  // joins level with the least served one: no claim on the past
    int64_t least = INT64_MAX;
    for (const auto& [name, use] : keys_)
      if (use.alive) least = std::min(least, use.served);
    key->second.served = least == INT64_MAX ? 0 : least;
  }
  ++key->second.alive;
  ++priorities_[priority];
  if (s.request.deadline > 0) deadlines_.emplace(s.request.deadline, s.request.id);
  waiting_[{priority, s.request.key}].push_back(&s);
  ++waiting_count_;
  sequences_.emplace(s.request.id, std::move(owned));
  return {};
}

// ---- plan ----

StepPlan Scheduler::plan(double now, std::vector<RequestId>& expired) {
  assert(next_step_ - committed_steps_ <= 1);
  StepPlan plan;
  plan.number = next_step_;
  expire(now, expired);
  start_urgent(now);
  plan_decodes(plan);
  plan_prefills(plan, now);
  if (!plan.empty()) ++next_step_;
  return plan;
}

void Scheduler::expire(double now, std::vector<RequestId>& expired) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    expired.push_back(deadlines_.begin()->second);
    end(*sequences_.at(expired.back()));
  }
}

// Waiting lowers a request's number down to that of the most urgent one alive: it can catch up, never overtake, so that
// among the equally urgent the fair order stands.
int64_t Scheduler::level(const Sequence& s, double now) const {
  const int64_t base = s.request.priority;
  if (options_.ageing_s <= 0) return base;
  const double gained = std::min(std::floor((now - s.arrival) / options_.ageing_s), 1e9);
  return std::max<int64_t>(priorities_.begin()->first, base - static_cast<int64_t>(gained));
}

Scheduler::Sequence* Scheduler::next_waiting(double now) const {
  Sequence* best = nullptr;
  std::tuple<int64_t, int64_t, double, uint64_t> best_order;
  for (const auto& [group, queue] : waiting_) {
    Sequence* s = queue.front();
    const std::tuple order(level(*s, now), keys_.at(group.second).served, s->arrival, s->serial);
    if (!best || order < best_order) {
      best = s;
      best_order = order;
    }
  }
  return best;
}

// Who gets blocks next: those preempted before those never started, unless these are strictly more urgent.
Scheduler::Sequence* Scheduler::next_candidate(double now) const {
  const auto preempted = std::ranges::find_if(running_, [](const Sequence* s) { return !s->holding && s->wants_more(); });
  Sequence* back = preempted == running_.end() ? nullptr : *preempted;
  Sequence* fresh = free_slots_.empty() ? nullptr : next_waiting(now);
  if (!back || !fresh) return back ? back : fresh;
  return level(*fresh, now) < level(*back, now) ? fresh : back;
}

// Blocks that a start must leave for the decodes of others, else they would preempt the newcomer soon after.
int64_t Scheduler::spare_blocks() const { return std::min(holding_, pool().size() / 16); }

// Gives a candidate the blocks of all its tokens, and a slot if it has none.
bool Scheduler::start(Sequence& s) {
  const int64_t spare = spare_blocks();
  // The last token is always computed: its logits are wanted.
  const int64_t matched = cache_.match(s.table, s.request.prefix_root, s.keys, s.tokens, s.total() - 1);
  if (!cache_.reserve(s.table, s.total()) || pool().available() < spare) {
    cache_.release(s.table);
    return false;
  }
  s.holding = true;
  ++holding_;
  s.computed = s.written = matched;
  if (s.slot >= 0) return true;

  s.slot = *free_slots_.begin();
  free_slots_.erase(free_slots_.begin());
  s.cached = matched;
  stats_.prefix_queries_tokens += s.prompt;
  stats_.prefix_hit_tokens += matched;
  const auto group = waiting_.find({s.request.priority, s.request.key});
  assert(group != waiting_.end() && group->second.front() == &s);
  group->second.pop_front();
  if (group->second.empty()) waiting_.erase(group);
  --waiting_count_;
  const auto order = [](const Sequence* a, const Sequence* b) {
    return std::tie(a->rank, a->serial) < std::tie(b->rank, b->serial);
  };
  running_.insert(std::ranges::upper_bound(running_, &s, order), &s);
  return true;
}

// Starts candidates that blocks are missing for at the cost of strictly less urgent ones.
void Scheduler::start_urgent(double now) {
  while (Sequence* s = next_candidate(now)) {
    const int64_t mine = level(*s, now);
    std::vector<Sequence*> victims;  // least urgent last
    int64_t gain = pool().available() - spare_blocks();
    for (Sequence* v : running_)
      if (v->holding && level(*v, now) > mine) {
        victims.push_back(v);
        gain += cache_.reclaimable(v->table);
      }
    if (victims.empty() || gain < cache_.blocks_for(s->total())) return;
    bool started = start(*s);
    while (!started && !victims.empty()) {
      preempt(*victims.back());
      victims.pop_back();
      started = start(*s);
    }
    if (!started) return;
  }
}

void Scheduler::preempt(Sequence& s) {
  cache_.release(s.table);
  s.holding = false;
  --holding_;
  s.computed = s.written = 0;
  ++s.epoch;
  ++stats_.preemptions;
}

// Room for `tokens` tokens, at the cost of the least urgent ones. False: that was `s` itself.
bool Scheduler::grow(Sequence& s, int64_t tokens) {
  while (!cache_.reserve(s.table, tokens)) {
    Sequence* victim = *std::find_if(running_.rbegin(), running_.rend(), [](const Sequence* v) { return v->holding; });
    preempt(*victim);
    if (victim == &s) return false;
  }
  return true;
}

void Scheduler::plan_decodes(StepPlan& plan) {
  // Most urgent first, so that whom grow() preempts is not in the plan yet.
  for (Sequence* s : running_) {
    if (!s->holding || !s->wants_more() || s->computed + 1 != s->total()) continue;
    if (grow(*s, s->total())) add(plan, *s, 1);
  }
}

void Scheduler::plan_prefills(StepPlan& plan, double now) {
  int64_t budget = options_.max_step_tokens - plan.tokens;
  if (!plan.empty() && options_.max_prefill_beside_decodes > 0)
    budget = std::min(budget, options_.max_prefill_beside_decodes);
  bool blocked = false;  // the next candidate could not start; none behind it may, or it would starve
  while (budget > 0) {
    const auto next = std::ranges::find_if(running_, [&](const Sequence* s) {
      return s->holding && s->wants_more() && s->computed < s->total() && s->last_plan != plan.number;
    });
    Sequence* s = next == running_.end() ? nullptr : *next;
    Sequence* newcomer = blocked ? nullptr : next_candidate(now);
    if (newcomer && (!s || level(*newcomer, now) < level(*s, now))) {
      blocked = !start(*newcomer);
      if (blocked) continue;
      s = newcomer;
    }
    if (!s) return;
    const int64_t count = std::min(budget, s->total() - s->computed);
    add(plan, *s, count);
    budget -= count;
  }
}

void Scheduler::add(StepPlan& plan, Sequence& s, int64_t count) {
  const bool samples = s.computed + count == s.total();
  plan.sequences.push_back({.id = s.request.id, .slot = s.slot, .first = s.fresh, .start = s.computed, .count = count,
                            .samples = samples, .sample_index = samples ? s.total() - s.prompt : 0, .epoch = s.epoch});
  plan.tokens += count;
  s.fresh = false;
  s.computed += count;
  s.pending += samples;
  ++s.in_flight;
  s.last_plan = plan.number;
  keys_.at(s.request.key).served += count;
}

// ---- commit ----

std::vector<Committed> Scheduler::commit(const StepPlan& plan, std::span<const int32_t> ids, int64_t vocab_size) {
  assert(plan.number == committed_steps_ && committed_steps_ < next_step_);
  ++committed_steps_;
  std::vector<Committed> out;
  out.reserve(ids.size());
  size_t row = 0;
  for (const PlannedSequence& p : plan.sequences) {
    const int32_t id = p.samples ? ids[row++] : -1;
    const auto it = sequences_.find(p.id);
    if (it == sequences_.end()) {
      slot_left(p.slot);
      continue;
    }
    Sequence& s = *it->second;
    --s.in_flight;
    if (s.epoch == p.epoch) s.written = p.start + p.count;
    Committed c{p.id, id, SchedEnd::kRunning};
    if (p.samples) {
      --s.pending;
      if (id < 0 || id >= vocab_size) {
        c.end = SchedEnd::kFault;
      } else {
        s.tokens.push_back(id);
        if (std::ranges::find(s.request.stop_ids, id) != s.request.stop_ids.end()) c.end = SchedEnd::kStopId;
        else if (static_cast<int64_t>(s.tokens.size()) == s.limit) c.end = SchedEnd::kLength;
      }
      out.push_back(c);
    }
    // What a faulty sequence wrote is not handed to others.
    if (options_.reuse_prefixes && s.holding && c.end != SchedEnd::kFault) {
      extend_prefix_keys(s.request.prefix_root, s.tokens, options_.block_tokens, s.keys);
      cache_.seal(s.table, s.request.prefix_root, s.keys, s.tokens, s.written);
    }
    if (c.end != SchedEnd::kRunning) end(s);
  }
  assert(row == ids.size());
  return out;
}

// ---- release ----

bool Scheduler::release(RequestId id) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return false;
  end(*it->second);
  return true;
}

void Scheduler::end(Sequence& s) {
  if (s.slot < 0) {
    const auto group = waiting_.find({s.request.priority, s.request.key});
    std::erase(group->second, &s);
    if (group->second.empty()) waiting_.erase(group);
    --waiting_count_;
  } else {
    std::erase(running_, &s);
    if (s.holding) {
      cache_.release(s.table);
      --holding_;
    }
    if (s.in_flight) leaving_slots_[s.slot] = s.in_flight;
    else free_slots_.insert(s.slot);
  }
  if (const auto p = priorities_.find(s.request.priority); --p->second == 0) priorities_.erase(p);
  if (const auto k = keys_.find(s.request.key); --k->second.alive == 0) keys_.erase(k);
  if (s.request.deadline > 0) deadlines_.erase({s.request.deadline, s.request.id});
  sequences_.erase(s.request.id);
}

void Scheduler::slot_left(int32_t slot) {
  const auto it = leaving_slots_.find(slot);
  assert(it != leaving_slots_.end());
  if (--it->second) return;
  leaving_slots_.erase(it);
  free_slots_.insert(slot);
}

// ---- invariants ----

Status Scheduler::check() const {
  std::vector<const BlockTable*> tables;
  std::set<int32_t> slots = free_slots_;
  size_t slot_count = free_slots_.size() + leaving_slots_.size();
  for (const auto& [slot, steps] : leaving_slots_) slots.insert(slot);
  int64_t started = 0, holding = 0;
  for (const auto& [id, s] : sequences_) {
    const std::string who = "request " + std::to_string(id) + " ";
    tables.push_back(&s->table);
    if (s->holding != !s->table.blocks.empty()) return internal(who + "has blocks without holding, or the reverse");
    if (s->computed > static_cast<int64_t>(s->table.blocks.size()) * options_.block_tokens)
      return internal(who + "computes beyond its blocks");
    if (s->computed > s->total() || s->written > s->computed || s->total() > s->limit)
      return internal(who + "has counts out of order");
    if (s->pending < 0 || s->pending > s->in_flight || s->in_flight > 2) return internal(who + "has wrong pending counts");
    if (s->slot < 0) continue;
    ++started;
    holding += s->holding;
    slots.insert(s->slot);
    ++slot_count;
  }
  if (slots.size() != slot_count || slot_count != static_cast<size_t>(options_.max_sequences))
    return internal("a slot is lost or has two owners");
  if (started != static_cast<int64_t>(running_.size()) || holding != holding_)
    return internal("the running are counted wrongly");
  if (started + waiting_count_ != static_cast<int64_t>(sequences_.size())) return internal("the waiting are counted wrongly");
  return cache_.check(tables);
}

}  // namespace brisk
