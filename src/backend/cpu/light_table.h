// Functions of the memory-bound operators that exist once per instruction set: light_avx2.cpp and light_avx512.cpp fill
// one table each (the dense kernels' table is kernel_table.h).
#pragma once
#include <cstdint>

#include "backend/cpu/isa.h"
#include "op/op.h"
#include "tensor/dtype.h"

namespace brisk::cpu {

// One pointwise instruction on up to kTile elements that lie densely. `out` may be one of the operands (element by
// element), if their elements have the same size.
inline constexpr int64_t kTile = 1024;
struct TileArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* out = nullptr;
  int64_t n = 0;
  float alpha = 0, beta = 0;
};
using TileFn = void (*)(const TileArgs&);

// What a reduction accumulates. kSumExp adds e^(x - shift).
enum class Fold : uint8_t { kSum, kMax, kMin, kProd, kAbsSum, kSquares, kSumExp };
inline float fold_start(Fold f) {
  return f == Fold::kMax ? -__builtin_inff() : f == Fold::kMin ? __builtin_inff() : f == Fold::kProd ? 1.0f : 0.0f;
}

struct LightTable {
  // The function of a pointwise operator whose (value) operands are of type t; null: none. Comparisons give bool.
  TileFn (*pointwise)(OpId op, DType t, int64_t flag);
  // Conversion, as Cast defines it, between f32, i64, i32, i8, u8, bool, and of f16, bf16 and f64 from and to f32; null: none.
  TileFn (*convert)(DType from, DType to);
  void (*softmax)(const float* x, int64_t n, float* out);
  void (*log_softmax)(const float* x, int64_t n, float* out);
  // Down each of `width` (at most kTile) columns of n rows, `ld` elements apart in both.
  void (*softmax_columns)(const float* x, int64_t n, int64_t ld, int64_t width, bool log_form, float* out);
  void (*layer_norm)(const float* x, const float* w, const float* b, int64_t k, float epsilon, float* out);  // w, b may be null
  // x[n] folded into one number. NaN wins over everything in kMax and kMin.
  float (*fold_row)(Fold f, const float* x, int64_t n, float shift);
  // acc[i] folded with x[i]; shift[i] for kSumExp.
  void (*fold_columns)(Fold f, const float* x, int64_t n, const float* shift, float* acc);
  void (*scale_shift)(const float* x, int64_t n, float scale, float shift, float* out);  // x * scale + shift
  float (*squares_about)(const float* x, int64_t n, float mean);                         // sum of (x - mean)^2
  // y[i] = sum over taps of weight[t] * x[t][i]
  void (*weighted_rows)(const float* const* x, const float* weight, int taps, int64_t n, float* y);
  // dst[c][r] = src[r][c] of 4-byte elements, leading dimensions in elements
  void (*transpose32)(const uint32_t* src, int64_t ld_src, uint32_t* dst, int64_t ld_dst, int64_t rows, int64_t cols);
  // Pairs (x[i], x[i + half]) turned by the angles of cos and sin; may be in place.
  void (*rotate_halves)(const float* x, int64_t half, const float* cos, const float* sin, float* out);
  // clamp(round(x / scale) + zero, low, high) as bytes
  void (*quantize_bytes)(const float* x, int64_t n, float scale, float zero, float low, float high, uint8_t* out);
  void (*dequantize)(const void* x, int64_t n, DType t, int32_t zero, float scale, float* out);  // i8, u8, i32
};

const LightTable& light_table_avx2();
const LightTable& light_table_avx512();
inline const LightTable& light_table(Isa isa) { return isa >= Isa::kAvx512 ? light_table_avx512() : light_table_avx2(); }

}  // namespace brisk::cpu
