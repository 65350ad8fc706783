// The arithmetic of the Sample operator for one row, shared by every CPU-side backend so that all give the same draw.
// Semantics: SampleParams in op/step_io.h.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "op/step_io.h"

namespace brisk {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011); the first 24 bits as [0, 1).
float philox_uniform(uint64_t seed, uint64_t draw);

struct SampledRow {
  int32_t id = 0;
  float logprob = 0;  // of id under the unmodified logits; 0 unless asked for
};

// Picks a token from `logits` (length V). `counts` (length V, may be empty) is the slot's token_counts row.
// `scratch` is reused between calls. top_ids/top_logprobs have room for kMaxTopLogprobs; unused entries are -1 / -inf.
// Logits that are NaN are never picked. Where none is above -inf there is no token: id is -1, which ends the sequence with an
// error and leaves the others of the step alone.
SampledRow sample_row(std::span<const float> logits, std::span<const uint16_t> counts, const SampleParams& p,
                      std::vector<float>& scratch, int32_t* top_ids, float* top_logprobs);

// Marks `id` as generated once more in a token_counts row; nothing for "no token".
inline void count_token(std::span<uint16_t> counts, int32_t id) {
  if (id < 0) return;
  auto& c = counts[static_cast<size_t>(id)];
  if ((c & 0x7fff) != 0x7fff) ++c;
}
inline constexpr uint16_t kInPrompt = 0x8000;

}  // namespace brisk
