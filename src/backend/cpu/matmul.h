// Products of two computed float operands.
#pragma once
#include "backend/cpu/kernel_table.h"
#include "backend/cpu/thread_pool.h"
#include "tensor/tensor.h"

namespace brisk::cpu {

// y[..., m, n] = act(alpha * a[..., m, k] op(b) [..., k, n] + bias), leading axes broadcast.
struct MatMulCall {
  Dims batch;                              // of the result
  Dims a_strides, b_strides;               // along batch, in elements; 0 where broadcast
  int64_t m = 1, n = 1, k = 1;
  const float* a = nullptr;                // rows of k, dense
  const float* b = nullptr;                // [k][n], or [n][k]
  bool trans_b = false;
  float alpha = 1;
  const float* row_bias = nullptr;         // [m]
  const float* column_bias = nullptr;      // [n]
  const float* residual = nullptr;         // of y's shape
  float* y = nullptr;
};
void matmul(const KernelTable& t, ThreadPool& pool, const MatMulCall& c);

}  // namespace brisk::cpu
