// A generative engine's `step` function behind two verbs: submit a ragged batch, wait for what it sampled.
//
// Steps run in order on one device stream. A decode token whose id is not known on the host yet is given as
// -1 - slot (see op/step_io.h): the device reads the id that the earlier step sampled into that slot. So step n + 1 may
// be planned and submitted before the ids of step n have arrived. One thread at a time may call a StepRunner.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "brisk/result.h"
#include "op/step_io.h"

namespace brisk {

// One ragged batch: arrays as in op/step_io.h. `block_tables` is [sequences, table_columns] row-major, unused entries 0.
struct StepInput {
  std::vector<int32_t> ids, positions, seq_starts, context_lens, block_tables, logit_rows, slots;
  std::vector<SampleParams> params;  // one for each logit row, as slots
  int32_t table_columns = 0;
  bool want_logits = false;  // also hand back the logits of logit_rows (evaluation)

  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
  int64_t sequences() const { return static_cast<int64_t>(context_lens.size()); }
};

// Rows in the order of StepInput::logit_rows.
struct StepOutput {
  std::vector<int32_t> next_ids;
  std::vector<float> logprob;                // meaningful where params.top_logprobs >= 0
  std::vector<int32_t> top_ids;              // [L, kMaxTopLogprobs]
  std::vector<float> top_logprobs;           // [L, kMaxTopLogprobs]
  std::vector<float> logits;                 // [L, V] if wanted
  int64_t sampled_at_ns = 0;                 // CLOCK_MONOTONIC when the ids were there
};

struct StepLimits {
  int64_t max_tokens = 512;       // T of one step
  int64_t max_sequences = 64;     // S and L of one step, and the number of slots
  int64_t blocks = 0;             // state blocks of kBlockTokens tokens
  int64_t max_blocks_per_sequence = 0;
};

using Ticket = uint64_t;

// Abstract so that scheduler and loop can be tested with a model of the device.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual const StepLimits& limits() const = 0;
  virtual int64_t vocab_size() const = 0;
  virtual int64_t max_context() const = 0;

  // Checks the batch (every index against its limit; kInternal on a scheduler bug) and enqueues it. At most two tickets
  // may be outstanding.
  virtual Result<Ticket> submit(const StepInput& input) = 0;
  virtual Result<StepOutput> wait(Ticket ticket) = 0;

  // Readies a slot's token counts for a new sequence with this prompt (needed only if it uses penalties; else pass {}).
  virtual Status reset_slot(int32_t slot, std::span<const int32_t> prompt) = 0;
};

}  // namespace brisk
