// A model of the device for tests of scheduler and loop. Its "keys and values" are the token ids themselves, kept in paged
// blocks; the next id is a hash of all ids read back through the block table, of the sampling parameters and of the slot's
// counts. So a wrong block, position, slot or id anywhere changes an answer, and fake_answer() says what is right.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/step_runner.h"

namespace brisk {

struct FakeOptions {
  StepLimits limits{.max_tokens = 64, .max_sequences = 8, .blocks = 64, .max_blocks_per_sequence = 64};
  int64_t vocab = 50;
  int64_t max_context = 512;
  int32_t poison = -1;         // a sequence that contains this id samples -1
  int64_t fail_after = -1;     // wait() fails from this step on
  std::chrono::microseconds step_time{0};
};

inline uint64_t fake_mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdull;
  return h ^ (h >> 32);
}
struct FakeSlot {
  uint64_t prompt = 0, generated = 0;  // order-free sums, as counts are
  int32_t last = -1;
};
inline uint64_t fake_prompt_sum(std::span<const int32_t> prompt) {
  uint64_t sum = 0;
  for (const int32_t id : prompt) sum += static_cast<uint64_t>(id) * 31 + 7;
  return sum;
}
inline bool fake_penalties(const SampleParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
}
inline int32_t fake_next(std::span<const int32_t> history, const SampleParams& p, FakeSlot& slot, int64_t vocab, int32_t poison) {
  if (poison >= 0 && std::ranges::find(history, poison) != history.end()) return -1;
  uint64_t h = 1;
  for (const int32_t id : history) h = fake_mix(h, static_cast<uint64_t>(id));
  if (p.temperature > 0) h = fake_mix(fake_mix(h, p.seed), p.draw);
  if (fake_penalties(p)) h = fake_mix(fake_mix(h, slot.prompt), slot.generated);
  slot.last = static_cast<int32_t>(h % static_cast<uint64_t>(vocab));
  slot.generated += static_cast<uint64_t>(slot.last) * 13 + 1;
  return slot.last;
}
// The answer of a request that is alone, at most `limit` tokens of prompt and answer; ends after a stop id.
inline std::vector<int32_t> fake_answer(std::vector<int32_t> prompt, SampleParams p, size_t limit,
                                        const std::vector<int32_t>& stop, const FakeOptions& o) {
  FakeSlot slot{.prompt = fake_prompt_sum(prompt)};
  std::vector<int32_t> answer;
  while (prompt.size() < limit) {
    p.draw = answer.size();
    const int32_t id = fake_next(prompt, p, slot, o.vocab, o.poison);
    if (id < 0) return answer;
    answer.push_back(id);
    prompt.push_back(id);
    if (std::ranges::find(stop, id) != stop.end()) break;
  }
  return answer;
}

class FakeRunner : public StepRunner {
 public:
  explicit FakeRunner(FakeOptions o) : o_(o) {
    store_.assign(static_cast<size_t>(o.limits.blocks * kBlockTokens), -7);
    slots_.resize(static_cast<size_t>(o.limits.max_sequences));
  }
  const StepLimits& limits() const override { return o_.limits; }
  int64_t vocab_size() const override { return o_.vocab; }
  int64_t max_context() const override { return o_.max_context; }

  Result<Ticket> submit(const StepInput& in) override {
    if (outstanding_.size() >= 2) return internal("fake: a third ticket");
    BRISK_TRY(check(in));
    StepOutput out;
    std::vector<int32_t> ids = in.ids;
    for (int32_t& id : ids)
      if (id < 0) id = slots_[static_cast<size_t>(-1 - id)].last;
    std::set<std::pair<int32_t, int32_t>> rows;  // written in this step
    for (int64_t s = 0; s < in.sequences(); ++s)
      for (int32_t t = in.seq_starts[s]; t < in.seq_starts[s + 1]; ++t) {
        const int32_t block = in.block_tables[s * in.table_columns + in.positions[t] / kBlockTokens];
        if (!rows.emplace(block, in.positions[t] % kBlockTokens).second) return internal("fake: two tokens in one row");
        store_[static_cast<size_t>(block * kBlockTokens + in.positions[t] % kBlockTokens)] = ids[static_cast<size_t>(t)];
      }
    for (size_t r = 0; r < in.logit_rows.size(); ++r) {
      const auto s = std::ranges::upper_bound(in.seq_starts, in.logit_rows[r]) - in.seq_starts.begin() - 1;
      std::vector<int32_t> history;
      for (int32_t p = 0; p < in.context_lens[s]; ++p)
        history.push_back(store_[static_cast<size_t>(
            in.block_tables[s * in.table_columns + p / kBlockTokens] * kBlockTokens + p % kBlockTokens)]);
      const int32_t id = fake_next(history, in.params[r], slots_[static_cast<size_t>(in.slots[r])], o_.vocab, o_.poison);
      out.next_ids.push_back(id);
      out.logprob.push_back(-0.5f);
      for (int k = 0; k < kMaxTopLogprobs; ++k) {
        out.top_ids.push_back(static_cast<int32_t>((id + k) % o_.vocab));
        out.top_logprobs.push_back(-0.5f - static_cast<float>(k));
      }
    }
    ++steps;
    max_batch = std::max(max_batch.load(), in.sequences());
    outstanding_.emplace_back(++ticket_, std::move(out));
    return ticket_;
  }
  Result<StepOutput> wait(Ticket ticket) override {
    if (outstanding_.empty() || outstanding_.front().first != ticket) return internal("fake: not the oldest ticket");
    if (o_.step_time.count()) std::this_thread::sleep_for(o_.step_time);
    StepOutput out = std::move(outstanding_.front().second);
    outstanding_.pop_front();
    if (o_.fail_after >= 0 && steps > o_.fail_after) return environment("fake: the device is gone");
    out.sampled_at_ns = std::chrono::steady_clock::now().time_since_epoch().count();
    return out;
  }
  Status reset_slot(int32_t slot, std::span<const int32_t> prompt) override {
    if (slot < 0 || slot >= o_.limits.max_sequences) return internal("fake: slot out of range");
    slots_[static_cast<size_t>(slot)] = {.prompt = fake_prompt_sum(prompt)};
    return {};
  }

  std::atomic<int64_t> steps = 0, max_batch = 0;

 private:
  Status check(const StepInput& in) const {
    const auto S = static_cast<size_t>(in.sequences());
    if (in.tokens() < 1 || in.tokens() > o_.limits.max_tokens) return internal("fake: too many tokens, or none");
    if (in.sequences() > o_.limits.max_sequences) return internal("fake: too many sequences");
    if (in.positions.size() != in.ids.size() || in.seq_starts.size() != S + 1 ||
        in.block_tables.size() != S * static_cast<size_t>(in.table_columns) || in.seq_starts.back() != in.tokens() ||
        in.logit_rows.size() != in.slots.size() || in.params.size() != in.slots.size())
      return internal("fake: sizes do not agree");
    for (const int32_t id : in.ids)
      if (id >= o_.vocab || id < -o_.limits.max_sequences) return internal("fake: id out of range");
    for (const int32_t b : in.block_tables)
      if (b < 0 || b >= o_.limits.blocks) return internal("fake: block out of range");
    for (size_t s = 0; s < S; ++s) {
      const auto last = static_cast<size_t>(in.seq_starts[s + 1]) - 1;
      if (in.positions[last] + 1 != in.context_lens[s] || in.context_lens[s] > o_.max_context ||
          in.context_lens[s] > in.table_columns * kBlockTokens)
        return internal("fake: context length");
      for (size_t t = static_cast<size_t>(in.seq_starts[s]); t < last; ++t)
        if (in.positions[t] + 1 != in.positions[t + 1]) return internal("fake: positions do not follow each other");
    }
    std::set<int32_t> slots(in.slots.begin(), in.slots.end());
    if (slots.size() != in.slots.size()) return internal("fake: one slot twice");
    return {};
  }

  FakeOptions o_;
  std::vector<int32_t> store_;  // [blocks, kBlockTokens]
  std::vector<FakeSlot> slots_;
  std::deque<std::pair<Ticket, StepOutput>> outstanding_;
  Ticket ticket_ = 0;
};

}  // namespace brisk
