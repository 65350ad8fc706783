// Linear quantisation. Scales are one number, one for each place of an axis, or one for each block along it.
#include <algorithm>
#include <cmath>

#include "backend/ref/util.h"
#include "op/byte_levels.h"

namespace brisk::ref {
namespace {

struct Range {
  double low, high;
};
Range range_of(DType t) {
  switch (t) {
    case DType::kI2: return {-2, 1};
    case DType::kU2: return {0, 3};
    case DType::kI4: return {-8, 7};
    case DType::kU4: return {0, 15};
    case DType::kI8: return {-128, 127};
    case DType::kU8: return {0, 255};
    case DType::kI16: return {-32768, 32767};
    case DType::kU16: return {0, 65535};
    default: return {-2147483648.0, 2147483647.0};
  }
}

// Where the scale of element i of x lies.
class ScaleIndex {
 public:
  ScaleIndex(const KernelArgs& k, const QuantAttrs& a) : block_(a.block) {
    const Dims& x = k.in[0].shape;
    one_ = k.in[1].count() == 1 && (block_ == 0 || x.rank == 0);
    axis_ = x.rank ? std::clamp(axis_of(a.axis, x.rank), 0, x.rank - 1) : 0;
    if (x.rank) n_ = x[axis_], inner_ = x.count(axis_ + 1, x.rank);
  }
  Status check(const KernelArgs& k) const {
    if (one_) return {};
    int64_t want = block_ > 0 ? k.in[0].shape.count(0, axis_) * ((n_ + block_ - 1) / block_) * inner_ : n_;
    if (k.in[1].count() == want && (!k.has(2) || k.in[2].count() == want)) return {};
    return invalid("scale or zero point do not fit axis " + std::to_string(axis_) + ": " + std::to_string(want) + " elements wanted");
  }
  int64_t operator()(int64_t i) const {
    if (one_) return 0;
    int64_t place = i / inner_ % n_;
    if (block_ <= 0) return place;
    int64_t blocks = (n_ + block_ - 1) / block_;
    return (i / (inner_ * n_) * blocks + place / block_) * inner_ + i % inner_;
  }

 private:
  int64_t block_, n_ = 1, inner_ = 1;
  int axis_ = 0;
  bool one_ = true;
};

Status run_quantize(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<QuantAttrs>();
  const TensorView &x = k.in[0], &y = k.out[0];
  ScaleIndex at(k, a);
  BRISK_TRY(at.check(k));
  Range range = range_of(y.dtype);
  const bool narrow = is_float(y.dtype), e4m3 = y.dtype == DType::kF8E4M3 || y.dtype == DType::kF8E4M3Fnuz;
  const float top = y.dtype == DType::kF4E2M1 ? 6.0f : y.dtype == DType::kF8E4M3Fnuz ? 240.0f : e4m3 ? 448.0f : 57344.0f;
  for (int64_t i = 0, n = x.count(); i < n; ++i) {
    int64_t s = at(i);
    float scale = load_float(k.in[1].data, k.in[1].dtype, s), v = load_float(x.data, x.dtype, i) / scale;
    // f16 data is divided in f16.
    if (x.dtype == DType::kF16) v = f16(v);
    if (narrow) {
      if (k.has(2)) v += load_float(k.in[2].data, k.in[2].dtype, s);
      bool over = std::fabs(v) > top;
      if (over && (a.saturate || y.dtype == DType::kF4E2M1)) v = std::copysign(top, v);
      else if (over) v = y.dtype == DType::kF8E5M2 ? std::copysign(INFINITY, v) : NAN;
      store_float(y.data, y.dtype, i, v);
      continue;
    }
    double zero = k.has(2) ? static_cast<double>(load_int(k.in[2].data, k.in[2].dtype, s)) : 0;
    store_float(y.data, y.dtype, i, static_cast<float>(std::clamp(std::nearbyint(static_cast<double>(v)) + zero, range.low, range.high)));
  }
  return {};
}

Status run_dequantize(KernelContext&, const KernelArgs& k) {
  const TensorView &x = k.in[0], &y = k.out[0];
  ScaleIndex at(k, k.get<QuantAttrs>());
  BRISK_TRY(at.check(k));
  for (int64_t i = 0, n = x.count(); i < n; ++i) {
    int64_t s = at(i);
    float scale = load_float(k.in[1].data, k.in[1].dtype, s);
    if (is_float(x.dtype)) {
      float zero = k.has(2) ? load_float(k.in[2].data, k.in[2].dtype, s) : 0.0f;
      store_float(y.data, y.dtype, i, (load_float(x.data, x.dtype, i) - zero) * scale);
    } else {
      int64_t zero = k.has(2) ? load_int(k.in[2].data, k.in[2].dtype, s) : 0;
      store_float(y.data, y.dtype, i, static_cast<float>(load_int(x.data, x.dtype, i) - zero) * scale);
    }
  }
  return {};
}

Status run_dynamic_quantize(KernelContext&, const KernelArgs& k) {
  const TensorView& x = k.in[0];
  if (x.dtype != DType::kF32) return no_dtype(x.dtype);
  float low = 0, high = 0;
  for (int64_t i = 0; i < x.count(); ++i) low = std::min(low, x.as<float>()[i]), high = std::max(high, x.as<float>()[i]);
  ByteLevels levels(low, high);
  k.out[1].as<float>()[0] = levels.scale;
  k.out[2].as<uint8_t>()[0] = static_cast<uint8_t>(levels.zero);
  for (int64_t i = 0; i < x.count(); ++i) k.out[0].as<uint8_t>()[i] = static_cast<uint8_t>(levels.code(x.as<float>()[i]));
  return {};
}

}  // namespace

void add_quantization(Registry& r) {
  add_plain(r, OpId::kQuantizeLinear, run_quantize);
  add_plain(r, OpId::kDequantizeLinear, run_dequantize);
  add_plain(r, OpId::kDynamicQuantizeLinear, run_dynamic_quantize);
}

}  // namespace brisk::ref
