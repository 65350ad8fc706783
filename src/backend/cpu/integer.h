// Exact products of bytes: MatMulInteger and ConvInteger with constant weights. The unsigned side and the signed one are made
// by flipping top bits (u - 128 = s), zero points move along:
// sum (u - zu)(s - zs) = sum u s - zu sum s - zs sum u + k zu zs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/thread_pool.h"
#include "backend/cpu/window_space.h"

namespace brisk::cpu {

// b [k][n]: panels of 32 columns, [k / 4][32][4] signed, then the sums of all columns, padded to 32.
int64_t packed_columns_bytes(int64_t k, int64_t n);
void pack_columns(const uint8_t* b, bool is_signed, int64_t k, int64_t n, std::byte* out);

struct MatMulIntegerCall {
  int64_t m = 0, n = 0, k = 0;
  const uint8_t* a = nullptr;           // [m][k]
  bool a_signed = false, b_signed = false;
  const std::byte* b = nullptr;         // packed
  int32_t a_zero = 0;
  std::span<const int32_t> b_zeros;     // one, or one a column
  int32_t* integers = nullptr;          // the result, or floats:
  float* y = nullptr;                   // v * scale (of all, or of each column) + bias
  std::span<const float> scale;
  const float* bias = nullptr;          // [n]
};
int64_t matmul_integer_workspace(int64_t m, int64_t n, int64_t k);
void matmul_integer(const KernelTable& t, ThreadPool& pool, const MatMulIntegerCall& c, void* workspace);

// Filters [filters][channels / groups][taps]: rows of words, word [tap][channel / 4], then the sums of all filters.
int64_t integer_row(int64_t per_group, int64_t taps);  // words
int64_t packed_filters_bytes(int64_t filters, int64_t per_group, int64_t taps);
void pack_filters(const uint8_t* w, bool is_signed, int64_t filters, int64_t per_group, int64_t taps, std::byte* out);

struct ConvIntegerCall {
  WindowSpace space;
  int64_t batch = 1, channels = 0, filters = 0, groups = 1;
  const uint8_t* x = nullptr;
  bool x_signed = false, w_signed = false;
  const std::byte* w = nullptr;         // packed
  int32_t x_zero = 0;
  std::span<const int32_t> w_zeros = {};  // one, or one a filter
  int32_t* integers = nullptr;
};
int64_t conv_integer_workspace(const ConvIntegerCall& c);
void conv_integer(const KernelTable& t, ThreadPool& pool, const ConvIntegerCall& c, void* workspace);

}  // namespace brisk::cpu
