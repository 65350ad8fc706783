// Activations of the integer kernels: int8, symmetric, one scale per token and 64 along K (scale = max |x| / 127).
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/thread_pool.h"

namespace brisk::cpu {

// What a kernel wants to know about the sum of each 32 or 64 quantised activations.
enum class ActSums : int {
  kTimes128,  // int32: -128 * sum, the start of a dot product with weights stored as value + 128
  kTimes8,    // int32: -8 * sum, the same for symmetric 4-bit codes
  kPlain,     // float: sum
  kScaled     // float: scale * sum
};

// How rows must be quantised for a weight. Two weights with equal forms share one quantisation.
struct ActForm {
  int64_t k = 0, padded_k = 0;
  int sum_unit = 64;
  ActSums sums = ActSums::kTimes128;
  int terms = 1;  // 2: each row is followed by one that holds what its codes left over (LinearAttrs::act_terms)
  bool operator==(const ActForm&) const = default;

  int64_t groups() const { return padded_k / 64; }
  int64_t sums_per_row() const { return padded_k / sum_unit; }
  size_t bytes(int64_t rows) const;  // of QuantizedRows' buffer
};
ActForm act_form(const WeightLayout& layout, int terms = 1);

// A view of quantised rows inside a caller's buffer of form.bytes(rows), 64-byte aligned.
struct QuantizedRows {
  ActForm form;
  int64_t rows = 0;
  int8_t* q = nullptr;       // [rows * terms][padded_k]
  float* scale = nullptr;    // [rows * terms][padded_k / 64]
  void* sum = nullptr;       // [rows * terms][padded_k / sum_unit], int32 or float
  QuantizedRows(const ActForm& form, int64_t rows, void* buffer);
  QuantizedRows() = default;

  // Quantises x[k] as row `row`, all its terms.
  void quantize_row(const KernelTable& t, const float* x, int64_t row) const;
};

// Quantises x[rows][k] (row stride ldx floats).
void quantize_rows(const KernelTable& t, const float* x, int64_t ldx, const QuantizedRows& out, ThreadPool& pool);

}  // namespace brisk::cpu
