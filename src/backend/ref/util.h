// What the reference kernels share: element types by dtype, arithmetic types, odometers over shapes.
#pragma once
#include <cmath>
#include <type_traits>

#include "backend/ref/groups.h"
#include "base/half.h"
#include "base/int_of.h"

namespace brisk::ref {

// The type in which elements of T are computed: f16 and bf16 in float, others in themselves.
template <class T> struct AccOf { using type = T; };
template <> struct AccOf<f16> { using type = float; };
template <> struct AccOf<bf16> { using type = float; };
template <class T> using Acc = typename AccOf<T>::type;

// bool as a storage type: one byte, 0 or 1.
struct boolean {
  uint8_t v = 0;
  boolean() = default;
  explicit boolean(bool b) : v(b) {}
  operator bool() const { return v != 0; }
};
template <> struct AccOf<boolean> { using type = bool; };

template <class T> struct Tag { using type = T; };

inline Status no_dtype(DType t) { return unsupported("no reference kernel for elements of type " + std::string(dtype_name(t))); }

// f(Tag<T>) with the element type; other types are an error.
template <class F> Status dispatch_float(DType t, F&& f) {
  switch (t) {
    case DType::kF32: return f(Tag<float>{});
    case DType::kF64: return f(Tag<double>{});
    case DType::kF16: return f(Tag<f16>{});
    case DType::kBF16: return f(Tag<bf16>{});
    default: return no_dtype(t);
  }
}
template <class F> Status dispatch_int(DType t, F&& f) {
  switch (t) {
    case DType::kI8: return f(Tag<int8_t>{});
    case DType::kU8: return f(Tag<uint8_t>{});
    case DType::kI16: return f(Tag<int16_t>{});
    case DType::kU16: return f(Tag<uint16_t>{});
    case DType::kI32: return f(Tag<int32_t>{});
    case DType::kU32: return f(Tag<uint32_t>{});
    case DType::kI64: return f(Tag<int64_t>{});
    case DType::kU64: return f(Tag<uint64_t>{});
    default: return no_dtype(t);
  }
}
template <class F> Status dispatch_number(DType t, F&& f) { return is_float(t) ? dispatch_float(t, f) : dispatch_int(t, f); }

// f(Tag<T>) with an unsigned type of the element's width, for kernels that move elements and never look at them.
template <class F> Status dispatch_width(DType t, F&& f) {
  switch (dtype_bits(t)) {
    case 8: return f(Tag<uint8_t>{});
    case 16: return f(Tag<uint16_t>{});
    case 32: return f(Tag<uint32_t>{});
    case 64: return f(Tag<uint64_t>{});
    default: return no_dtype(t);
  }
}

// One element of any number type or bool, widened; and back, integers cut toward zero.
inline double load_number(const TensorView& v, int64_t i) {
  if (v.dtype == DType::kF64) return v.as<double>()[i];
  return is_float(v.dtype) ? static_cast<double>(load_float(v.data, v.dtype, i)) : static_cast<double>(load_int(v.data, v.dtype, i));
}
inline void store_number(const TensorView& v, int64_t i, double x) {
  if (v.dtype == DType::kF64) v.as<double>()[i] = x;
  else if (v.dtype == DType::kI64 || v.dtype == DType::kU64) v.as<int64_t>()[i] = int_of(x);
  else if (v.dtype == DType::kI32 || v.dtype == DType::kU32) v.as<int32_t>()[i] = static_cast<int32_t>(int_of(x));
  else store_float(v.data, v.dtype, i, static_cast<float>(is_float(v.dtype) ? x : std::trunc(x)));
}

// Row-major element strides of a shape.
inline Dims strides_of(const Dims& s) {
  Dims out;
  out.rank = s.rank;
  int64_t n = 1;
  for (int i = s.rank - 1; i >= 0; --i) {
    out[i] = n;
    n *= s[i];
  }
  return out;
}

// Strides with which an operand is read along the axes of `out` (0 where it is broadcast).
inline Dims broadcast_strides(const Dims& operand, const Dims& out) {
  Dims own = strides_of(operand), r;
  r.rank = out.rank;
  int lead = out.rank - operand.rank;
  for (int i = 0; i < out.rank; ++i) r[i] = i < lead || operand[i - lead] == 1 ? 0 : own[i - lead];
  return r;
}

// Calls f(offset_0, ..., offset_{N-1}) for each index of `shape` in row-major order; offsets go by the given strides.
template <size_t N, class F> void walk(const Dims& shape, const Dims (&strides)[N], F&& f) {
  if (shape.count() == 0) return;
  int64_t at[N] = {}, index[kMaxRank] = {};
  auto call = [&]<size_t... I>(std::index_sequence<I...>) { f(at[I]...); };
  for (;;) {
    call(std::make_index_sequence<N>{});
    int axis = shape.rank - 1;
    for (; axis >= 0; --axis) {
      for (size_t k = 0; k < N; ++k) at[k] += strides[k][axis];
      if (++index[axis] < shape[axis]) break;
      for (size_t k = 0; k < N; ++k) at[k] -= strides[k][axis] * shape[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

// Operands that a kernel reads through one element type must have it (absent ones aside).
inline Status same_dtype(const KernelArgs& k, std::initializer_list<size_t> operands) {
  const TensorView* first = nullptr;
  for (size_t i : operands) {
    if (!k.has(i)) continue;
    if (!first) first = &k.in[i];
    if (k.in[i].dtype != first->dtype)
      return invalid("operands of types " + std::string(dtype_name(first->dtype)) + " and " + std::string(dtype_name(k.in[i].dtype)));
  }
  return {};
}

inline bool accept_plain(const ProblemDesc& p) {
  for (const OperandDesc& o : p.inputs)
    if (!o.encoding.plain()) return false;
  return true;
}

inline void add_plain(Registry& r, OpId op, KernelFn run, uint32_t in_place = 0) {
  add(r, op, run, accept_plain, in_place);
}

// Axis in [-rank, rank) -> [0, rank); the shape rule has refused others.
inline int axis_of(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

}  // namespace brisk::ref
