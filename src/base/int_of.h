// Numbers in floating point, from a stranger, as integers.
#pragma once
#include <cstdint>
#include <limits>

namespace brisk {

// Toward zero; beyond 64 bits the nearest end of the range, 0 for NaN (a plain cast would be undefined there).
inline int64_t int_of(double v) {
  if (v >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (v < -0x1p63) return std::numeric_limits<int64_t>::min();
  return v == v ? static_cast<int64_t>(v) : 0;
}

}  // namespace brisk
