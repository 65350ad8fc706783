// How keys and values of one layer lie in memory, and the function that writes them.
//
// State of a layer: [blocks][2: keys, values][kv_heads][kBlockTokens * head_dim] elements of fp32, bf16 or fp16.
// Inside a block a head's keys form one packed panel (pack.h) whose 32 outputs are the 32 tokens, its values head_dim / 32
// panels whose outputs are 32 elements of the head and whose K axis is the tokens; so scores and weighted sums are the
// same register tiles as linear operators. Element (token j, element i), counted in elements from the head's start:
//   keys    fp32, fp16: i * 32 + j           bf16 (pairs along i): i / 2 * 64 + j / 16 * 32 + j % 16 * 2 + i % 2
//   values  fp32, fp16: i / 32 * 1024 + j * 32 + i % 32
//           bf16 (pairs along j): i / 32 * 1024 + j / 2 * 64 + i % 32 / 16 * 32 + i % 16 * 2 + j % 2
//           head_dim not a multiple of 32: j * head_dim + i (widened to panels when read)
// bf16 needs an even head_dim. There the values of the token after a sequence's last are zero if both share a pair, since
// kernels may read pairs whole.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/thread_pool.h"
#include "op/step_io.h"

namespace brisk::cpu {

enum class CacheType : uint8_t { kF32, kBf16, kF16 };

struct KvLayout {
  CacheType type = CacheType::kF32;
  int kv_heads = 0, head_dim = 0;

  int element_bytes() const { return type == CacheType::kF32 ? 4 : 2; }
  int64_t head_bytes() const { return int64_t{kBlockTokens} * head_dim * element_bytes(); }
  int64_t block_bytes() const { return 2 * kv_heads * head_bytes(); }
  // which: 0 keys, 1 values
  int64_t head_offset(int64_t block, int which, int64_t head) const {
    return ((block * 2 + which) * kv_heads + head) * head_bytes();
  }
  bool value_panels() const { return head_dim % 32 == 0; }
  int64_t key_element(int j, int i) const {
    return type == CacheType::kBf16 ? i / 2 * 64 + j / 16 * 32 + j % 16 * 2 + i % 2 : i * 32 + j;
  }
  int64_t value_element(int j, int i) const {
    if (!value_panels()) return int64_t{j} * head_dim + i;
    int64_t panel = i / 32 * 1024;
    return type == CacheType::kBf16 ? panel + j / 2 * 64 + i % 32 / 16 * 32 + i % 16 * 2 + j % 2 : panel + j * 32 + i % 32;
  }
};

// Rotary embedding of heads, or none (dim 0). See RopeAttrs in op/attrs.h.
struct RopeSpec {
  int dim = 0;
  bool interleaved = false;
  float magnitude = 1;
  const float* frequencies = nullptr;  // [dim / 2]
};

// Rows of the step whose keys and values are written: token t goes to row position % 32 of block
// block_tables[sequence][position / 32].
struct KvWriteCall {
  KvLayout layout;
  RopeSpec rope;           // of the keys
  void* state = nullptr;   // one layer
  const float* k = nullptr;
  const float* v = nullptr;  // [tokens][kv_heads * head_dim]
  int64_t ld_k = 0, ld_v = 0;
  const int32_t* positions = nullptr;   // [tokens]
  const int32_t* seq_starts = nullptr;  // [sequences + 1]
  int64_t sequences = 0;
  const int32_t* block_tables = nullptr;  // [sequences][table_columns]
  int64_t table_columns = 0;
};
void write_kv(const KernelTable& t, const KvWriteCall& call, ThreadPool& pool);

}  // namespace brisk::cpu
