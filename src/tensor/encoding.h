// How a weight's numbers are stored: plain elements, or codes with scales (and offsets) per group.
#pragma once
#include <cstdint>
#include <string>

#include "tensor/dtype.h"

namespace brisk {

struct Encoding {
  enum class Offset : uint8_t {
    kNone,       // symmetric: w = code * scale
    kZeroPoint,  // w = (code - zero_point) * scale
    kMinimum,    // w = code * scale + minimum
  };

  uint8_t bits = 0;                 // 0: plain; else 4 or 8
  DType code_dtype = DType::kI8;    // i8, u8, i4, u4
  DType scale_dtype = DType::kF32;  // f32, f16 or bf16
  Offset offset = Offset::kNone;
  int32_t axis = -1;                // quantised axis; only the last is used so far
  int32_t group = 0;                // elements of that axis that share a scale; 0: all of them

  bool plain() const { return bits == 0; }
  int64_t group_or(int64_t k) const { return group == 0 ? k : group; }
  friend bool operator==(const Encoding&, const Encoding&) = default;
};
std::string to_string(const Encoding& e);  // "plain", "i8/g32/f16", "u4/g32/f16+min"

}  // namespace brisk
