// Largest or mean of windows over float planes.
#pragma once
#include "backend/cpu/kernel_table.h"
#include "backend/cpu/thread_pool.h"
#include "backend/cpu/window_space.h"

namespace brisk::cpu {

struct PoolCall {
  WindowSpace space;
  int64_t planes = 0;
  bool largest = true;            // else the mean
  bool count_include_pad = false;
  const float* x = nullptr;
  float* y = nullptr;
};
void pool_planes(const KernelTable& t, ThreadPool& pool, const PoolCall& c);

}  // namespace brisk::cpu
