// Decides what each step of a generative engine computes: continuous batching over paged state. Read README.md beside
// this file for the contract; in short:
//
//   admit    a request joins the waiting
//   plan     tokens of the next step: decodes first, then prefill chunks, under a token budget
//   commit   what the step sampled; tells which answers ended
//   release  a request ends from outside (cancel, stop string, fault); its blocks go back
//
// Pure: no clock (times are seconds on a scale of the caller's, handed in), no thread, no device. Not thread safe.
// Tolerates one step of lag: plan() may be called for step n + 1 while step n is not committed yet.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "brisk/result.h"
#include "state/state_cache.h"

namespace brisk {

using RequestId = uint64_t;  // chosen by the caller

struct SchedOptions {
  int64_t max_step_tokens = 512;            // of one step
  int64_t max_prefill_beside_decodes = 0;   // prompt tokens of a step that has decodes too; 0: no such limit
  int64_t max_sequences = 64;               // started requests; each has a slot [0, max_sequences)
  int64_t blocks = 0;                       // state blocks in all
  int64_t block_tokens = 32;
  int64_t max_context = 0;                  // tokens of one sequence, prompt and answer
  bool reuse_prefixes = true;
  double ageing_s = 10;                     // waiting so long makes a request one level more urgent
};

struct SchedRequest {
  RequestId id = 0;                 // never used before with this scheduler
  std::vector<int32_t> prompt;
  int64_t max_new_tokens = 0;       // 0 or too many: until the context ends
  std::vector<int32_t> stop_ids;    // sampling one of these ends the answer
  int priority = 0;                 // smaller is more urgent
  double deadline = 0;              // 0: none
  std::string key;                  // fairness between keys
  PrefixKey prefix_root{};          // prefix_root() of model and salt
  std::vector<PrefixKey> prefix_keys;  // extend_prefix_keys() of the prompt, by the caller's thread; may be empty without reuse
};

enum class SchedEnd : uint8_t { kRunning, kStopId, kLength, kFault };

// A sequence's part of one step: tokens [start, start + count) of prompt and answer.
struct PlannedSequence {
  RequestId id = 0;
  int32_t slot = 0;
  bool first = false;       // the sequence has just got its slot: ready the slot before the step
  int64_t start = 0;
  int64_t count = 0;
  bool samples = false;     // its last token goes through the head and samples the next id...
  int64_t sample_index = 0; // ...the answer's token of this index
  uint32_t epoch = 0;       // (private to the scheduler)
};

struct StepPlan {
  uint64_t number = 0;                     // steps are committed in the order of their numbers
  std::vector<PlannedSequence> sequences;  // decodes first
  int64_t tokens = 0;
  bool empty() const { return sequences.empty(); }
};

struct Committed {
  RequestId id = 0;
  int32_t token = -1;
  SchedEnd end = SchedEnd::kRunning;  // other: the request has ended and is unknown from now on
};

struct SchedStats {
  int64_t waiting = 0, running = 0;  // running: started, those preempted included
  int64_t prefix_queries_tokens = 0, prefix_hit_tokens = 0;
  int64_t preemptions = 0;
};

class Scheduler {
 public:
  explicit Scheduler(SchedOptions options);
  ~Scheduler();

  // kInvalid: an empty prompt, or one that leaves no room for an answer (message has both counts). kInternal: an id that
  // is alive.
  Status admit(SchedRequest request, double now);
  // The next step; empty if nothing can be done now. `expired` gets the requests whose deadline passed (they have ended).
  // At most one earlier plan may be uncommitted.
  StepPlan plan(double now, std::vector<RequestId>& expired);
  // ids: one for each sampling sequence of the plan, in order. An id outside [0, vocabulary) is a fault: SchedEnd::kFault
  // ends that request alone. Requests that ended since the plan was made are passed over. Returns one entry for each
  // sampled token that counts.
  std::vector<Committed> commit(const StepPlan& plan, std::span<const int32_t> ids, int64_t vocab_size);
  // Ends a request; false if it is unknown. What a step in flight still writes for it is harmless (README.md).
  bool release(RequestId id);

  // Of a living request: prompt and answer so far (without ids not committed yet), its block table, tokens of the prompt
  // found in the prefix index when it started. Spans are valid until the next call that is not const.
  bool alive(RequestId id) const { return sequences_.contains(id); }
  std::span<const int32_t> tokens(RequestId id) const;
  std::span<const BlockId> blocks(RequestId id) const;
  int64_t cached_tokens(RequestId id) const;
  bool started(RequestId id) const;

  bool idle() const { return sequences_.empty(); }  // nothing waits or runs
  int64_t max_context() const { return options_.max_context; }  // as it fits into the cache
  SchedStats stats() const;
  const BlockPool& pool() const { return cache_.pool(); }

  // All invariants of README.md; for tests and the simulator. kInternal says which is broken.
  Status check() const;

 private:
  struct Sequence;
  using SequencePtr = std::unique_ptr<Sequence>;
  using Group = std::pair<int, std::string>;  // priority, key

  // plan()'s parts, in order.
  void expire(double now, std::vector<RequestId>& expired);
  void start_urgent(double now);
  void plan_decodes(StepPlan& plan);
  void plan_prefills(StepPlan& plan, double now);

  Sequence* next_waiting(double now) const;
  Sequence* next_candidate(double now) const;
  bool start(Sequence& s);
  int64_t spare_blocks() const;
  void preempt(Sequence& s);
  bool grow(Sequence& s, int64_t tokens);
  void add(StepPlan& plan, Sequence& s, int64_t count);
  int64_t level(const Sequence& s, double now) const;
  void end(Sequence& s);
  void slot_left(int32_t slot);
  const Sequence& get(RequestId id) const;

  SchedOptions options_;
  StateCache cache_;
  std::unordered_map<RequestId, SequencePtr> sequences_;
  std::map<Group, std::deque<Sequence*>> waiting_;      // by arrival in each group
  int64_t waiting_count_ = 0;
  std::vector<Sequence*> running_;                      // most urgent first; includes the preempted
  int64_t holding_ = 0;                                 // of the running: not preempted, so they have blocks
  std::map<int, int64_t> priorities_;                   // of the living, with their number
  struct KeyUse {
    int64_t served = 0;  // tokens given to it
    int64_t alive = 0;
  };
  std::map<std::string, KeyUse> keys_;
  std::set<std::pair<double, RequestId>> deadlines_;
  std::set<int32_t> free_slots_;
  // Slots of ended sequences that a step in flight still names: with the number of such steps.
  std::map<int32_t, int> leaving_slots_;
  uint64_t next_step_ = 0, committed_steps_ = 0, admitted_ = 0;
  SchedStats stats_;
};

}  // namespace brisk
