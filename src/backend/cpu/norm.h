// Rows on their way into a linear operator: normalised or not, then left as floats, rounded to bf16 or quantised.
#pragma once
#include <cstdint>

#include "backend/cpu/linear.h"

namespace brisk::cpu {

struct PrepareCall {
  const float* x = nullptr;  // [m][k], row stride ldx
  int64_t m = 0, k = 0, ldx = 0;
  const float* norm = nullptr;  // RMS norm weight [k], or null
  float epsilon = 0;
  Arithmetic arithmetic = Arithmetic::kFloat;
  ActForm form;  // kInt8
};
// Bytes that prepare_rows writes, a multiple of 64.
int64_t prepared_bytes(const PrepareCall& call);
// Fills `buffer` (64-byte aligned) and points the call's operand at it (or at x where there is nothing to do).
void prepare_rows(const KernelTable& t, const PrepareCall& call, void* buffer, ThreadPool& pool, LinearCall& out);

}  // namespace brisk::cpu
