// A tensor in host memory, as the public interface takes and gives it: dense, row-major.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace brisk {

struct Tensor {
  std::string dtype = "f32";  // f32 f16 bf16 f64 i8 u8 i16 u16 i32 u32 i64 u64 bool
  std::vector<int64_t> shape;
  std::vector<std::byte> data;

  template <class T> T* as() { return reinterpret_cast<T*>(data.data()); }
  template <class T> const T* as() const { return reinterpret_cast<const T*>(data.data()); }
};

}  // namespace brisk
