// Element types. One table (dtype.cpp) holds name, size and class of each.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace brisk {

enum class DType : uint8_t {
  kF32, kF16, kBF16, kF64,
  kI8, kU8, kI16, kU16, kI32, kU32, kI64, kU64,
  kBool,                 // one byte, 0 or 1
  kI4, kU4,              // two to a byte, low nibble first
  kF8E4M3, kF8E5M2,      // OCP FP8 (E4M3 without infinities)
  kF8E4M3Fnuz, kF8E5M2Fnuz,  // one more in the exponent's bias; no infinities, no negative zero, one NaN (0x80)
  kF8E8M0,               // 2^(code - 127), 255 is NaN: the scales of OCP MX
  kF4E2M1,               // OCP FP4, two to a byte, low nibble first
  kI2, kU2,              // four to a byte, low bits first
  kString,               // not stored in tensors; named so that errors can say so
};
inline constexpr int kDTypeCount = static_cast<int>(DType::kString) + 1;

std::string_view dtype_name(DType t);                        // "f32", "bf16", "i64", ...
std::optional<DType> dtype_from_name(std::string_view name);
int dtype_bits(DType t);                                     // 4 for i4; 0 for string
bool is_float(DType t);
bool is_integer(DType t);                                    // signed and unsigned, not bool

// Bytes that `count` elements of `t` take, dense. A count no memory could hold (dims come from files) gives kTooManyBytes
// instead of wrapping around to a small number.
inline constexpr int64_t kTooManyBytes = int64_t{1} << 60;
inline int64_t dtype_bytes(DType t, int64_t count) {
  return count < kTooManyBytes / 32 ? (count * dtype_bits(t) + 7) / 8 : kTooManyBytes;
}

}  // namespace brisk
