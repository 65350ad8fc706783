// What every `step` function has, whatever model is inside: the inputs and states of op/step_io.h, and logits, sampling
// and results at its end. Importers of decoders and the conversion of ONNX decoders put their layers between the two.
#pragma once
#include "ir/graph.h"

namespace brisk {

struct StepFrame {
  ValueId ids = kNoValue;  // i32 [T], resolved: never negative
  ValueId positions = kNoValue, seq_starts = kNoValue, context_lens = kNoValue, block_tables = kNoValue;
  ValueId logit_rows = kNoValue, sample_params = kNoValue, slots = kNoValue;
  ValueId last_ids = kNoValue, token_counts = kNoValue;
};

// Inputs and states of a model of `vocab` ids, in an empty graph that becomes "step".
Result<StepFrame> begin_step(Graph& g, int64_t vocab);
// The state of one layer's keys and values.
ValueId add_kv_state(Graph& g, int64_t layer, int64_t kv_heads, int64_t head_dim);
// Rows that need logits, Sample, and the graph's results. `logits`: f32 [T, vocab].
Status end_step(Graph& g, const StepFrame& frame, ValueId logits);

}  // namespace brisk
