// What a generative engine's `step` function takes and gives: one ragged batch of T tokens of S sequences.
//
// Names below are the graph's input and output names. Symbols: T tokens, S sequences, L rows that need logits,
// B block-table columns, V vocabulary. Token t belongs to the sequence s with seq_starts[s] <= t < seq_starts[s + 1];
// its key and value go to state block block_tables[s, position / kBlockTokens], row position % kBlockTokens.
#pragma once
#include <cstdint>

namespace brisk {

namespace step_io {
inline constexpr const char* kIds = "ids";                    // i32 [T]; -1 - slot: the id last sampled in that slot
inline constexpr const char* kPositions = "positions";        // i32 [T]
inline constexpr const char* kSeqStarts = "seq_starts";       // i32 [S + 1], ascending, first 0, last T
inline constexpr const char* kContextLens = "context_lens";   // i32 [S]: keys of the sequence after this step
inline constexpr const char* kBlockTables = "block_tables";   // i32 [S, B]
inline constexpr const char* kLogitRows = "logit_rows";       // i32 [L]: token rows that go through the head
inline constexpr const char* kSampleParams = "sample_params"; // u8 [L, sizeof(SampleParams)]
inline constexpr const char* kSlots = "slots";                // i32 [L]: state slot of each sampled row
inline constexpr const char* kLogits = "logits";              // f32 [L, V]
inline constexpr const char* kNextIds = "next_ids";           // i32 [L]
inline constexpr const char* kLogprob = "logprob";            // f32 [L]: of next_ids, natural logarithm
inline constexpr const char* kTopIds = "top_ids";             // i32 [L, kMaxTopLogprobs]
inline constexpr const char* kTopLogprobs = "top_logprobs";   // f32 [L, kMaxTopLogprobs]
inline constexpr const char* kLastIds = "last_ids";           // state, i32 [slots]
inline constexpr const char* kTokenCounts = "token_counts";   // state, u16 [slots, V]: saturating; see SampleParams
}  // namespace step_io

inline constexpr int kBlockTokens = 32;     // tokens of one state block; also the fixed key block of attention
inline constexpr int kMaxTopLogprobs = 20;

// Parameters of one sampled row, read by the Sample operator. Order of application: penalties on the logits of tokens
// counted in the slot's token_counts (low 15 bits: times generated; top bit: occurs in the prompt), temperature, top-k,
// top-p (smallest set of most likely tokens with cumulative probability >= top_p), min-p (tokens with probability
// < min_p * largest removed), then one draw by the uniform number of Philox4x32-10(key seed, counter draw).
// Ties are broken toward the smaller id everywhere.
struct SampleParams {
  float temperature = 0;         // 0: greedy (the largest penalised logit)
  float top_p = 1;
  float min_p = 0;
  int32_t top_k = 0;             // 0: all
  float repetition_penalty = 1;  // logit > 0 ? logit / r : logit * r, for tokens of prompt and answer (Keskar et al., CTRL, 2019)
  float presence_penalty = 0;    // subtracted once for tokens of the answer
  float frequency_penalty = 0;   // subtracted times the count in the answer
  int32_t top_logprobs = -1;     // -1: no logprobs wanted; 0..20: alternatives wanted (of the unmodified logits)
  uint64_t seed = 0;
  uint64_t draw = 0;             // index of the generated token in its sequence
};
static_assert(sizeof(SampleParams) == 48);

}  // namespace brisk
