// Bounds of this machine: operations a second of one kind of instruction, bytes read a second.
#pragma once
#include <cstddef>

#include "backend/cpu/isa.h"
#include "backend/cpu/thread_pool.h"

namespace brisk::cpu {

enum class Peak { kFma, kBf16, kInt8 };

double peak_ops(Isa isa, Peak kind, ThreadPool& pool);                      // ops/s over all threads of the pool
double read_bandwidth(ThreadPool& pool, const std::byte* p, size_t bytes);  // bytes/s, one pass, best of a few

}  // namespace brisk::cpu
