// Concrete tensors: dense, row-major. A view borrows memory; a Constant owns or keeps alive what it points to.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brisk/result.h"
#include "tensor/dtype.h"
#include "tensor/encoding.h"

namespace brisk {

inline constexpr int kMaxRank = 8;  // importers refuse more

// A concrete shape, without allocation.
struct Dims {
  int rank = 0;
  int64_t d[kMaxRank] = {};

  Dims() = default;
  Dims(std::initializer_list<int64_t> list) { for (int64_t v : list) push(v); }
  explicit Dims(std::span<const int64_t> list) { for (int64_t v : list) push(v); }
  void push(int64_t v) { assert(rank < kMaxRank); d[rank++] = v; }
  int64_t operator[](int i) const { return d[i]; }
  int64_t& operator[](int i) { return d[i]; }
  const int64_t* begin() const { return d; }
  const int64_t* end() const { return d + rank; }
  int64_t count() const {  // elements; callers have validated that it does not overflow
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= d[i];
    return n;
  }
  // Product of dims [from, to).
  int64_t count(int from, int to) const {
    int64_t n = 1;
    for (int i = from; i < to; ++i) n *= d[i];
    return n;
  }
  friend bool operator==(const Dims& a, const Dims& b) {
    return a.rank == b.rank && std::memcmp(a.d, b.d, sizeof(int64_t) * static_cast<size_t>(a.rank)) == 0;
  }
};
std::string to_string(const Dims& dims);

// Elements of a shape, or nullopt on overflow or a negative dim. Use on anything a stranger wrote.
std::optional<int64_t> checked_count(std::span<const int64_t> dims);

// Borrowed memory of an element type and shape. `data` is a device address: host code may touch it only if the device
// says so (Device::host_accessible), kernels always may. An absent optional operand has data == nullptr && !present.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  bool present = false;
  Dims shape;

  TensorView() = default;
  TensorView(void* p, DType t, Dims s) : data(p), dtype(t), present(true), shape(s) {}
  template <class T> T* as() const { return static_cast<T*>(data); }
  int64_t count() const { return shape.count(); }
  int64_t bytes() const { return dtype_bytes(dtype, count()); }
};

// Bytes with something that keeps them alive (a vector, a mapped file).
struct Buffer {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;

  static Buffer of(std::vector<std::byte> v) {
    auto p = std::make_shared<const std::vector<std::byte>>(std::move(v));
    return {std::span<const std::byte>(*p), p};
  }
};

// A weight or folded value, immutable once made. With a plain encoding `data` holds the elements dense in row-major
// order. With a quantised one the logical dtype is what dequantisation gives (f32 unless the file says otherwise) and
// the planes hold, for a logical shape [..., N, K] quantised along `encoding.axis` (the last, K) in groups of G:
//   data    codes, [..., N, K], encoding.code_dtype (i8, u8, i4, u4; 4-bit: two to a byte, low nibble first, K even)
//   scales  [..., N, ceil(K/G)], encoding.scale_dtype
//   offsets [..., N, ceil(K/G)]: zero points (code_dtype widened to i8/u8) or float minimums (scale_dtype), or empty
struct Constant {
  DType dtype = DType::kF32;
  Dims shape;
  Encoding encoding;  // plain by default
  Buffer data, scales, offsets;

  int64_t count() const { return shape.count(); }
  template <class T> const T* as() const { return reinterpret_cast<const T*>(data.bytes.data()); }
  TensorView view() const {  // plain constants only; kernels do not write to it
    return {const_cast<std::byte*>(data.bytes.data()), dtype, shape};
  }
  int64_t stored_bytes() const {
    return static_cast<int64_t>(data.bytes.size() + scales.bytes.size() + offsets.bytes.size());
  }
};
using ConstantPtr = std::shared_ptr<const Constant>;

template <class T>
ConstantPtr make_constant(DType t, const Dims& shape, const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  auto c = std::make_shared<Constant>();
  c->dtype = t;
  c->shape = shape;
  c->data = Buffer::of(std::move(bytes));
  return c;
}

// All elements as f32, dequantised: w = (code - zero point) * scale, or code * scale + minimum. The oracle of every packing.
std::vector<float> to_floats(const Constant& c);
// Rows [row, row + rows) of the constant seen as [count / K, K], into out[rows * K].
void dequantize_rows(const Constant& c, int64_t row, int64_t rows, float* out);
// Integer elements (any integer dtype or bool) widened; empty if dtype is not integral.
std::vector<int64_t> to_ints(const TensorView& host_view);

// One element converted between storage types (float or integer; round to nearest even, no saturation).
float load_float(const void* data, DType t, int64_t index);
void store_float(void* data, DType t, int64_t index, float v);
int64_t load_int(const void* data, DType t, int64_t index);

}  // namespace brisk
