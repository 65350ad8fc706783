// 16-bit floats as storage types: bits plus conversions (round to nearest even), no arithmetic.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

namespace brisk {

struct bf16 {
  uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float f) {
    uint32_t u = std::bit_cast<uint32_t>(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) bits = uint16_t((u >> 16) | 0x40);  // keep NaN a quiet NaN
    else bits = uint16_t((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

struct f16 {
  uint16_t bits = 0;
  f16() = default;
  explicit f16(float f) { _Float16 h = static_cast<_Float16>(f); std::memcpy(&bits, &h, 2); }
  operator float() const { _Float16 h; std::memcpy(&h, &bits, 2); return static_cast<float>(h); }
};

}  // namespace brisk
