#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/half.h"
#include "quantize/quantize.h"

namespace brisk {
namespace {

// To the nearest whole number in a range; where x is not a number, as a stranger's weight may be, its lowest (max gives its
// first operand then), since a NaN cast to an integer is undefined.
float code_of(float x, float lowest, float highest) { return std::min(std::max(lowest, std::nearbyint(x)), highest); }

// Works on a few rows at a time, so that a big embedding is never held in f32 whole.
template <class F> void for_rows(const Constant& c, F&& f) {
  int64_t k = c.shape[c.shape.rank - 1], n = k ? c.count() / k : 0;
  std::vector<float> row(static_cast<size_t>(k));
  for (int64_t r = 0; r < n; ++r) {
    dequantize_rows(c, r, 1, row.data());
    f(r, row.data(), k);
  }
}

template <class T> Buffer buffer_of(const std::vector<T>& v) {
  std::vector<std::byte> bytes(v.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), v.data(), bytes.size());
  return Buffer::of(std::move(bytes));
}

struct Affine {
  float scale, minimum;
};

// Scale and minimum of one group of 4-bit codes. Starting from the full range, the range is shrunk in small steps and
// the scale and minimum refitted by least squares to the codes; the best of all by squared error is kept.
Affine fit_int4(const float* w, int64_t n) {
  auto [lo, hi] = std::minmax_element(w, w + n);
  float low = *lo, high = *hi;
  if (high == low) return {0, low};
  Affine best{(high - low) / 15, low};
  double best_error = INFINITY;
  for (int step = 0; step <= 12; ++step) {
    float shrink = 1.0f - 0.02f * static_cast<float>(step), centre = (low + high) / 2;
    Affine a{(high - low) * shrink / 15, centre - (high - low) * shrink / 2};
    double sw = 0, sq = 0, sqq = 0, swq = 0;
    for (int64_t i = 0; i < n; ++i) {
      double q = std::clamp(std::nearbyint((w[i] - a.minimum) / a.scale), 0.0f, 15.0f);
      sw += w[i], sq += q, sqq += q * q, swq += q * w[i];
    }
    double d = static_cast<double>(n) * sqq - sq * sq;
    if (d > 0) {
      double s = (static_cast<double>(n) * swq - sq * sw) / d;
      if (s > 0) a = {static_cast<float>(s), static_cast<float>((sw - s * sq) / static_cast<double>(n))};
    }
    a = {static_cast<float>(f16(a.scale)), static_cast<float>(f16(a.minimum))};
    if (!(a.scale > 0)) continue;
    double error = 0;
    for (int64_t i = 0; i < n; ++i) {
      float q = std::clamp(std::nearbyint((w[i] - a.minimum) / a.scale), 0.0f, 15.0f);
      double e = static_cast<double>(w[i]) - (static_cast<double>(q) * a.scale + a.minimum);
      error += e * e;
    }
    if (error < best_error) best_error = error, best = a;
  }
  return best;
}

}  // namespace

ConstantPtr quantize_int8(const Constant& c, int64_t group) {
  int64_t k = c.shape[c.shape.rank - 1], n = k ? c.count() / k : 0, g = group ? group : std::max<int64_t>(k, 1), groups = ceil_div(k, g);
  std::vector<int8_t> codes(static_cast<size_t>(n * k));
  std::vector<float> scales(static_cast<size_t>(n * groups));
  for_rows(c, [&](int64_t r, const float* w, int64_t) {
    for (int64_t j = 0; j < groups; ++j) {
      int64_t from = j * g, to = std::min(from + g, k);
      float largest = 0;
      for (int64_t i = from; i < to; ++i) largest = std::max(largest, std::fabs(w[i]));
      float scale = largest / 127;
      if (group) scale = static_cast<float>(f16(scale));  // a scale per group is stored in 16 bits; codes clamp what that costs
      scales[static_cast<size_t>(r * groups + j)] = scale;
      for (int64_t i = from; i < to; ++i)
        codes[static_cast<size_t>(r * k + i)] = scale > 0 ? static_cast<int8_t>(code_of(w[i] / scale, -127, 127)) : 0;
    }
  });
  auto out = std::make_shared<Constant>();
  out->dtype = DType::kF32;
  out->shape = c.shape;
  out->encoding = {8, DType::kI8, group ? DType::kF16 : DType::kF32, Encoding::Offset::kNone, -1, static_cast<int32_t>(group)};
  out->data = buffer_of(codes);
  out->scales = buffer_of(scales);
  if (group) {
    std::vector<f16> narrow;
    for (float v : scales) narrow.emplace_back(v);
    out->scales = buffer_of(narrow);
  }
  return out;
}

ConstantPtr quantize_int4(const Constant& c, int64_t group) {
  int64_t k = c.shape[c.shape.rank - 1], n = k ? c.count() / k : 0, groups = ceil_div(k, group);
  std::vector<uint8_t> codes(static_cast<size_t>(n * k / 2));
  std::vector<f16> scales(static_cast<size_t>(n * groups)), minimums(scales.size());
  for_rows(c, [&](int64_t r, const float* w, int64_t) {
    for (int64_t j = 0; j < groups; ++j) {
      int64_t from = j * group, to = std::min(from + group, k);
      Affine a = fit_int4(w + from, to - from);
      f16 scale(a.scale), minimum(a.minimum);
      scales[static_cast<size_t>(r * groups + j)] = scale;
      minimums[static_cast<size_t>(r * groups + j)] = minimum;
      for (int64_t i = from; i < to; ++i) {
        float s = scale, q = s > 0 ? code_of((w[i] - minimum) / s, 0, 15) : 0.0f;
        int64_t at = r * k + i;
        codes[static_cast<size_t>(at / 2)] |= static_cast<uint8_t>(static_cast<int>(q) << (at % 2 * 4));
      }
    }
  });
  auto out = std::make_shared<Constant>();
  out->dtype = DType::kF32;
  out->shape = c.shape;
  out->encoding = {4, DType::kU4, DType::kF16, Encoding::Offset::kMinimum, -1, static_cast<int32_t>(group)};
  out->data = buffer_of(codes);
  out->scales = buffer_of(scales);
  out->offsets = buffer_of(minimums);
  return out;
}

ConstantPtr half_scales(const Constant& c) {
  constexpr float kTolerance = 1.0f / 1024;  // of a scale; below f16's normal range it would be exceeded
  auto narrow = [&](const Buffer& plane, bool relative, Buffer& to) {
    auto n = static_cast<int64_t>(plane.bytes.size()) * 8 / dtype_bits(c.encoding.scale_dtype);
    std::vector<f16> out;
    out.reserve(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      float v = load_float(plane.bytes.data(), c.encoding.scale_dtype, i), h = out.emplace_back(v);
      if (!std::isfinite(h) || (relative && std::fabs(h - v) > std::fabs(v) * kTolerance)) return false;
    }
    to = buffer_of(out);
    return true;
  };
  auto out = std::make_shared<Constant>(c);
  if (!narrow(c.scales, true, out->scales)) return nullptr;
  if (c.encoding.offset == Encoding::Offset::kMinimum && !narrow(c.offsets, false, out->offsets)) return nullptr;
  out->encoding.scale_dtype = DType::kF16;
  return out;
}

ConstantPtr convert_float(const Constant& c, DType to) {
  auto out = std::make_shared<Constant>();
  out->dtype = to;
  out->shape = c.shape;
  if (c.encoding.plain() && c.dtype == to) {
    out->data = c.data;
    return out;
  }
  std::vector<std::byte> bytes(static_cast<size_t>(dtype_bytes(to, c.count())));
  for_rows(c, [&](int64_t r, const float* w, int64_t k) {
    for (int64_t i = 0; i < k; ++i) store_float(bytes.data(), to, r * k + i, w[i]);
  });
  out->data = Buffer::of(std::move(bytes));
  return out;
}

}  // namespace brisk
