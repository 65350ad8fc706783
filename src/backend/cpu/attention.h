// Causal attention of a ragged batch over the paged cache (kv_cache.h), grouped heads, optional window and soft cap.
//
// Keys are taken in fixed blocks of 128 positions. For each row (token, head) and key block the partial result
// (max, sum, output) is computed from zero in one order, and partials are merged from left to right. So a row's bits do not
// depend on chunking, batching, tiling, thread count, or on whether the key blocks were split over threads.
#pragma once
#include <cstdint>

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/kv_cache.h"
#include "backend/cpu/thread_pool.h"

namespace brisk::cpu {

inline constexpr int kSegments = 4;  // state blocks a key block
inline constexpr int kKeyBlock = kSegments * kBlockTokens;

struct AttentionCall {
  KvLayout layout;
  int heads = 0;         // a multiple of kv_heads; head h reads kv head h / (heads / kv_heads)
  float scale = 1;       // of q.k
  int64_t window = 0;    // keys seen: position > query - window; 0: all
  float softcap = 0;
  RopeSpec rope;         // of the queries
  bool bf16_dot = false;  // bf16 cache only: queries and probabilities rounded to bf16, two products an instruction
  const void* state = nullptr;
  const float* q = nullptr;  // [tokens][heads * head_dim], row stride ld_q
  int64_t ld_q = 0;
  const int32_t* positions = nullptr;  // ascending inside a sequence
  const int32_t* seq_starts = nullptr;
  int64_t sequences = 0;
  const int32_t* block_tables = nullptr;
  int64_t table_columns = 0;
  float* out = nullptr;  // [tokens][heads * head_dim]; may be q if the strides agree
  int64_t ld_out = 0;
};

// Scratch bytes of attention(), for partials of split key blocks; depends on table_columns and head_dim only.
int64_t attention_workspace(const AttentionCall& call);
// Keys and values of the step's own tokens must have been written before.
void attention(const KernelTable& t, const AttentionCall& call, void* workspace, ThreadPool& pool);

}  // namespace brisk::cpu
