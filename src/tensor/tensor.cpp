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

// Floats of a byte and less (OCP 8-bit floating point, 2023; OCP microscaling formats, 2023; the Fnuz forms are those of
// Noune et al., 8-bit numerical formats for deep neural networks, 2022).
struct SmallFloat {
  int exponent_bits, mantissa_bits, bias;
  enum Special { kInfinities, kTopNan, kZeroNan, kNothing } special;  // kZeroNan: what would be -0 is the NaN
};
constexpr SmallFloat kE4M3{4, 3, 7, SmallFloat::kTopNan}, kE5M2{5, 2, 15, SmallFloat::kInfinities}, kE2M1{2, 1, 1, SmallFloat::kNothing},
    kE4M3Fnuz{4, 3, 8, SmallFloat::kZeroNan}, kE5M2Fnuz{5, 2, 16, SmallFloat::kZeroNan};

float from_small(uint8_t v, const SmallFloat& t) {
  int exponent = (v >> t.mantissa_bits) & ((1 << t.exponent_bits) - 1), mantissa = v & ((1 << t.mantissa_bits) - 1);
  bool negative = v >> (t.exponent_bits + t.mantissa_bits) & 1;
  float sign = negative ? -1.0f : 1.0f;
  int top = (1 << t.exponent_bits) - 1;
  if (exponent == top && t.special == SmallFloat::kInfinities) return mantissa ? NAN : sign * INFINITY;
  if (exponent == top && t.special == SmallFloat::kTopNan && mantissa == (1 << t.mantissa_bits) - 1) return NAN;
  if (negative && exponent == 0 && mantissa == 0 && t.special == SmallFloat::kZeroNan) return NAN;
  float m = static_cast<float>(mantissa) / static_cast<float>(1 << t.mantissa_bits);
  return exponent == 0 ? sign * std::ldexp(m, 1 - t.bias) : sign * std::ldexp(1.0f + m, exponent - t.bias);
}

// Rounds to nearest even; what is too large becomes the largest finite number, an infinity stays one where there are any.
uint8_t to_small(float f, const SmallFloat& t) {
  int sign_bit = 1 << (t.exponent_bits + t.mantissa_bits), sign = std::signbit(f) ? sign_bit : 0;
  int top = (1 << t.exponent_bits) - 1, infinity = top << t.mantissa_bits, most = sign_bit - 1;
  if (t.special == SmallFloat::kInfinities) most = infinity - 1;
  if (t.special == SmallFloat::kTopNan) most = sign_bit - 2;
  if (std::isnan(f)) return static_cast<uint8_t>(t.special == SmallFloat::kNothing || t.special == SmallFloat::kZeroNan ? sign_bit : sign | (sign_bit - 1));
  if (std::isinf(f)) return static_cast<uint8_t>(sign | (t.special == SmallFloat::kInfinities ? infinity : most));
  float a = std::fabs(f);
  int exponent = a == 0 ? 1 - t.bias : std::max(std::ilogb(a), 1 - t.bias);
  int code = static_cast<int>(std::nearbyint(std::ldexp(a, t.mantissa_bits - exponent)));
  code += (exponent + t.bias - 1) << t.mantissa_bits;  // the leading one carries into the exponent field
  if (code == 0 && t.special == SmallFloat::kZeroNan) sign = 0;
  return static_cast<uint8_t>(sign | std::min(code, most));
}

// 2^(code - 127), to the nearest (halves to the even code); what is not positive gives the smallest.
uint8_t to_e8m0(float f) {
  if (!std::isfinite(f)) return 255;
  if (!(f > 0)) return 0;
  int exponent = std::ilogb(f);
  float part = std::ldexp(f, -exponent);  // [1, 2)
  bool up = part > 1.5f || (part == 1.5f && (exponent + 127) % 2 != 0);
  return static_cast<uint8_t>(std::clamp(exponent + 127 + up, 0, 254));
}

// Element i of `bits` (2 or 4), low bits first.
int part_of_byte(const void* data, int64_t i, int bits, bool is_signed) {
  int per = 8 / bits, mask = (1 << bits) - 1;
  int v = static_cast<const uint8_t*>(data)[i / per] >> (i % per * bits) & mask;
  return is_signed && v > mask / 2 ? v - mask - 1 : v;
}
void put_part(void* data, int64_t i, int bits, int code) {
  int per = 8 / bits, shift = static_cast<int>(i % per) * bits, mask = ((1 << bits) - 1) << shift;
  auto& byte = static_cast<uint8_t*>(data)[i / per];
  byte = static_cast<uint8_t>((byte & ~mask) | (code << shift & mask));
}

}  // namespace

float load_float(const void* data, DType t, int64_t i) {
  switch (t) {
    case DType::kF32: return load_as<float>(data, i);
    case DType::kF16: return load_as<f16>(data, i);
    case DType::kBF16: return load_as<bf16>(data, i);
    case DType::kF64: return static_cast<float>(load_as<double>(data, i));
    case DType::kF8E4M3: return from_small(load_as<uint8_t>(data, i), kE4M3);
    case DType::kF8E5M2: return from_small(load_as<uint8_t>(data, i), kE5M2);
    case DType::kF8E4M3Fnuz: return from_small(load_as<uint8_t>(data, i), kE4M3Fnuz);
    case DType::kF8E5M2Fnuz: return from_small(load_as<uint8_t>(data, i), kE5M2Fnuz);
    case DType::kF4E2M1: return from_small(static_cast<uint8_t>(part_of_byte(data, i, 4, false)), kE2M1);
    case DType::kF8E8M0: {
      uint8_t code = load_as<uint8_t>(data, i);
      return code == 255 ? NAN : std::ldexp(1.0f, code - 127);
    }
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
    case DType::kI4: return part_of_byte(data, i, 4, true);
    case DType::kU4: return part_of_byte(data, i, 4, false);
    case DType::kI2: return part_of_byte(data, i, 2, true);
    case DType::kU2: return part_of_byte(data, i, 2, false);
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
    case DType::kF8E4M3: return put(to_small(v, kE4M3));
    case DType::kF8E5M2: return put(to_small(v, kE5M2));
    case DType::kF8E4M3Fnuz: return put(to_small(v, kE4M3Fnuz));
    case DType::kF8E5M2Fnuz: return put(to_small(v, kE5M2Fnuz));
    case DType::kF8E8M0: return put(to_e8m0(v));
    case DType::kF4E2M1: return put_part(data, i, 4, to_small(v, kE2M1));
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
    case DType::kU4: return put_part(data, i, 4, static_cast<int>(int_of(static_cast<double>(v)) & 15));
    case DType::kI2:
    case DType::kU2: return put_part(data, i, 2, static_cast<int>(int_of(static_cast<double>(v)) & 3));
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
