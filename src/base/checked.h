// Integer maths on numbers that came from a file or a socket: overflow is an answer, not a wrap.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>

namespace brisk {

inline std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}
inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}
// Is [offset, offset + size) inside [0, limit)? Safe for any inputs.
inline bool inside(uint64_t offset, uint64_t size, uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}
inline constexpr int64_t align_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
inline constexpr int64_t ceil_div(int64_t n, int64_t d) { return (n + d - 1) / d; }

}  // namespace brisk
