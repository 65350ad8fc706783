// Y[m][n] = X[m][k] * W[n][k]^T with a prologue-free, packed weight; see pack.h for weights, quantize_act.h for int8 rows.
//
// A row of the result has the same bits for every m, thread count and split (K is reduced in ascending order, one chain
// per output; groups are folded in order).
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/quantize_act.h"
#include "backend/cpu/thread_pool.h"

namespace brisk::cpu {

enum class Arithmetic : uint8_t {
  kFloat,    // float activations; bf16 and int8 weights are widened
  kBf16Dot,  // bf16 weights and activations rounded to bf16, where the level has the instruction
  kInt8      // int8 activations per token and 64 of k; int8 and int4 weights
};

// The kernel for a weight, or null if the level has none.
const TileKernel* find_tile_kernel(const KernelTable& t, const WeightLayout& w, Arithmetic arithmetic);

struct LinearCall {
  const WeightLayout* layout = nullptr;
  const std::byte* weight = nullptr;  // packed, 64-byte aligned
  Arithmetic arithmetic = Arithmetic::kFloat;
  int64_t m = 0;
  const void* x = nullptr;            // kFloat: float rows; kBf16Dot: bf16 rows padded to even k (round_rows_bf16)
  int64_t ldx = 0;                    // elements
  QuantizedRows q;                    // kInt8, instead of x; of m rows, maybe with two terms each
  const float* bias = nullptr;        // [n] in logical row order
  const float* residual = nullptr;    // [m][outputs], may be y
  int64_t ld_residual = 0;
  UnaryCall act;                      // of the gate if the layout is gated
  float out_scale = 1;
  float* y = nullptr;                 // [m][outputs]; must not overlap x
  int64_t ldy = 0;
};
// y = act(x W^T + bias) * out_scale + residual, or act(gate) * up * out_scale + residual. The combination of layout and
// arithmetic must be one that find_tile_kernel knows.
void linear(const KernelTable& t, const LinearCall& call, ThreadPool& pool);

// Whether bf16 dot products are worth having: on some processors they run at half the rate of widening to fp32, on most
// at twice. Measured once (some 50 microseconds); the bar lies between the two, far from both.
bool bf16_dot_pays(const KernelTable& t);

// Rows rounded to bf16 for kBf16Dot: out[m][k rounded up to even].
void round_rows_bf16(const KernelTable& t, const float* x, int64_t ldx, int64_t m, int64_t k, uint16_t* out,
                     ThreadPool& pool);

}  // namespace brisk::cpu
