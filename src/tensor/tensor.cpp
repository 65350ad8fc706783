#include "tensor/tensor.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/checked.h"
#include "base/half.h"
#include "base/int_of.h"

namespace brisk {

std::string to_string(const Dims& dims) {
  std::string s = "[";
  for (int i = 0; i < dims.rank; ++i) s += (i ? ", " : "") + std::to_string(dims[i]);
  return s + "]";
}

std::string to_string(const Encoding& e) {
  if (e.plain()) return "plain";
  std::string s(dtype_name(e.code_dtype));
  s += e.group ? "/g" + std::to_string(e.group) : std::string("/row");
  s += "/" + std::string(dtype_name(e.scale_dtype));
  if (e.offset == Encoding::Offset::kZeroPoint) s += "+zp";
  if (e.offset == Encoding::Offset::kMinimum) s += "+min";
  return s;
}

std::optional<int64_t> checked_count(std::span<const int64_t> dims) {
  int64_t n = 1;
  bool zero = false;
  for (int64_t d : dims) {
    if (d < 0) return std::nullopt;
    if (d == 0) zero = true;
    auto m = checked_mul(n, std::max<int64_t>(d, 1));
    if (!m) return std::nullopt;
    n = *m;
  }
  return zero ? 0 : n;
}

namespace {

template <class T> T load_as(const void* data, int64_t i) {
  T v;
  std::memcpy(&v, static_cast<const char*>(data) + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return v;
}

// OCP FP8 (Open Compute Project 8-bit floating point specification, 2023).
float f8_to_float(uint8_t v, int exponent_bits, bool infinities) {
  int mantissa_bits = 7 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = (v >> mantissa_bits) & ((1 << exponent_bits) - 1), mantissa = v & ((1 << mantissa_bits) - 1);
  float sign = (v & 0x80) ? -1.0f : 1.0f;
  int top = (1 << exponent_bits) - 1;
  if (exponent == top && infinities) return mantissa ? NAN : sign * INFINITY;
  if (exponent == top && mantissa == (1 << mantissa_bits) - 1) return NAN;
  float m = static_cast<float>(mantissa) / static_cast<float>(1 << mantissa_bits);
  return exponent == 0 ? sign * std::ldexp(m, 1 - bias) : sign * std::ldexp(1.0f + m, exponent - bias);
}

uint8_t float_to_f8(float f, int exponent_bits, bool infinities) {
  int mantissa_bits = 7 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  uint8_t sign = std::signbit(f) ? 0x80 : 0;
  if (std::isnan(f)) return sign | 0x7f;
  float a = std::fabs(f);
  int top = (1 << exponent_bits) - 1;
  int max_code = infinities ? (top << mantissa_bits) - 1 : 0x7e;
  if (std::isinf(f)) return sign | static_cast<uint8_t>(infinities ? top << mantissa_bits : max_code);
  int exponent = a == 0 ? 1 - bias : std::max(std::ilogb(a), 1 - bias);
  int code = static_cast<int>(std::nearbyint(std::ldexp(a, mantissa_bits - exponent)));
  code += (exponent + bias - 1) << mantissa_bits;  // the leading one carries into the exponent field
  return sign | static_cast<uint8_t>(std::min(code, max_code));
}

int nibble(const void* data, int64_t i, bool is_signed) {
  uint8_t byte = static_cast<const uint8_t*>(data)[i / 2];
  int v = i % 2 ? byte >> 4 : byte & 15;
  return is_signed && v >= 8 ? v - 16 : v;
}

}  // namespace

float load_float(const void* data, DType t, int64_t i) {
  switch (t) {
    case DType::kF32: return load_as<float>(data, i);
    case DType::kF16: return load_as<f16>(data, i);
    case DType::kBF16: return load_as<bf16>(data, i);
    case DType::kF64: return static_cast<float>(load_as<double>(data, i));
    case DType::kF8E4M3: return f8_to_float(load_as<uint8_t>(data, i), 4, false);
    case DType::kF8E5M2: return f8_to_float(load_as<uint8_t>(data, i), 5, true);
    default: return static_cast<float>(load_int(data, t, i));
  }
}

int64_t load_int(const void* data, DType t, int64_t i) {
  switch (t) {
    case DType::kI8: return load_as<int8_t>(data, i);
    case DType::kU8: return load_as<uint8_t>(data, i);
    case DType::kBool: return load_as<uint8_t>(data, i) != 0;
    case DType::kI16: return load_as<int16_t>(data, i);
    case DType::kU16: return load_as<uint16_t>(data, i);
    case DType::kI32: return load_as<int32_t>(data, i);
    case DType::kU32: return load_as<uint32_t>(data, i);
    case DType::kI64: return load_as<int64_t>(data, i);
    case DType::kU64: return static_cast<int64_t>(load_as<uint64_t>(data, i));
    case DType::kI4: return nibble(data, i, true);
    case DType::kU4: return nibble(data, i, false);
    default: return int_of(static_cast<double>(load_float(data, t, i)));
  }
}

void store_float(void* data, DType t, int64_t i, float v) {
  auto put = [&](auto x) { std::memcpy(static_cast<char*>(data) + i * static_cast<int64_t>(sizeof x), &x, sizeof x); };
  switch (t) {
    case DType::kF32: return put(v);
    case DType::kF16: return put(f16(v));
    case DType::kBF16: return put(bf16(v));
    case DType::kF64: return put(static_cast<double>(v));
    case DType::kF8E4M3: return put(float_to_f8(v, 4, false));
    case DType::kF8E5M2: return put(float_to_f8(v, 5, true));
    case DType::kBool: return put(static_cast<uint8_t>(v != 0));
    case DType::kI8: return put(static_cast<int8_t>(int_of(static_cast<double>(v))));
    case DType::kU8: return put(static_cast<uint8_t>(int_of(static_cast<double>(v))));
    case DType::kI16: return put(static_cast<int16_t>(int_of(static_cast<double>(v))));
    case DType::kU16: return put(static_cast<uint16_t>(int_of(static_cast<double>(v))));
    case DType::kI32: return put(static_cast<int32_t>(int_of(static_cast<double>(v))));
    case DType::kU32: return put(static_cast<uint32_t>(int_of(static_cast<double>(v))));
    case DType::kI64: return put(int_of(static_cast<double>(v)));
    case DType::kU64: return put(v >= 0x1p63f && v < 0x1p64f ? static_cast<uint64_t>(v) : static_cast<uint64_t>(int_of(static_cast<double>(v))));
    case DType::kI4:
    case DType::kU4: {
      auto& byte = static_cast<uint8_t*>(data)[i / 2];
      auto code = static_cast<uint8_t>(int_of(static_cast<double>(v)) & 15);
      byte = static_cast<uint8_t>(i % 2 ? (byte & 15) | (code << 4) : (byte & 0xf0) | code);
      return;
    }
    case DType::kString: return;
  }
}

void dequantize_rows(const Constant& c, int64_t row, int64_t rows, float* out) {
  int64_t k = c.shape.rank ? c.shape[c.shape.rank - 1] : 1;
  const Encoding& e = c.encoding;
  if (e.plain()) {
    for (int64_t i = 0; i < rows * k; ++i) out[i] = load_float(c.data.bytes.data(), c.dtype, row * k + i);
    return;
  }
  int64_t group = e.group_or(k), groups = ceil_div(k, group);
  bool minimum = e.offset == Encoding::Offset::kMinimum, zero_point = e.offset == Encoding::Offset::kZeroPoint;
  DType zp_dtype = is_integer(e.code_dtype) && (e.code_dtype == DType::kI8 || e.code_dtype == DType::kI4) ? DType::kI8
                                                                                                          : DType::kU8;
  for (int64_t r = row; r < row + rows; ++r)
    for (int64_t j = 0; j < k; ++j) {
      int64_t g = r * groups + j / group;
      auto code = static_cast<float>(load_int(c.data.bytes.data(), e.code_dtype, r * k + j));
      float scale = load_float(c.scales.bytes.data(), e.scale_dtype, g);
      if (zero_point) code -= static_cast<float>(load_int(c.offsets.bytes.data(), zp_dtype, g));
      *out++ = code * scale + (minimum ? load_float(c.offsets.bytes.data(), e.scale_dtype, g) : 0.0f);
    }
}

std::vector<float> to_floats(const Constant& c) {
  std::vector<float> out(static_cast<size_t>(c.count()));
  int64_t k = c.shape.rank ? c.shape[c.shape.rank - 1] : 1;
  if (!out.empty()) dequantize_rows(c, 0, c.count() / k, out.data());
  return out;
}

std::vector<int64_t> to_ints(const TensorView& v) {
  std::vector<int64_t> out;
  if (!is_integer(v.dtype) && v.dtype != DType::kBool) return out;
  for (int64_t i = 0; i < v.count(); ++i) out.push_back(load_int(v.data, v.dtype, i));
  return out;
}

}  // namespace brisk
