// Copies that rearrange: the engine behind Transpose, Slice, Expand, Concat, Split and others.
#pragma once
#include "backend/cpu/light_table.h"
#include "backend/cpu/thread_pool.h"
#include "tensor/tensor.h"

namespace brisk::cpu {

// dst[sum i_d * to_d] = src[sum i_d * from_d] for every index of `shape`; strides in elements of `bytes` (1, 2, 4, 8, 16).
// Strides of src may be 0 or negative, those of dst name each element once.
struct StridedCopy {
  const char* src = nullptr;
  char* dst = nullptr;
  int bytes = 4;
  Dims shape, from, to;
};
void strided_copy(const LightTable& table, const StridedCopy& copy, ThreadPool& pool);

// `rows` rows of `bytes`, their beginnings ld_src and ld_dst bytes apart.
void copy_rows(const char* src, int64_t ld_src, char* dst, int64_t ld_dst, int64_t bytes, int64_t rows, ThreadPool& pool);

// Row-major strides in elements.
Dims dense_strides(const Dims& shape);

}  // namespace brisk::cpu
