#include "op/resize.h"

#include <algorithm>
#include <cmath>

#include "base/int_of.h"

namespace brisk {
namespace {

double cubic(double x, double a) {  // Keys 1981, with free parameter a
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// Place in x of result i. The width that formulas call output_width is scale * in, not rounded.
double source(const ResizeAttrs& a, const ResizeAxis& x, int64_t i) {
  auto n = static_cast<double>(x.in), at = static_cast<double>(i);
  double width = x.scale * n;
  if (a.coordinates == "asymmetric") return at / x.scale;
  if (a.coordinates == "align_corners") return width == 1 ? 0 : at * (n - 1) / (width - 1);
  if (a.coordinates == "pytorch_half_pixel" && width == 1) return -0.5;
  if (a.coordinates == "tf_crop_and_resize") {
    double span = (x.roi_end - x.roi_begin) * (n - 1);
    return (width == 1 ? span / 2 : at * span / (width - 1)) + x.roi_begin * (n - 1);
  }
  double half = (at + 0.5) / x.scale - 0.5;
  if (a.coordinates == "half_pixel_symmetric") return n / 2 * (1 - static_cast<double>(x.out) / width) + half;
  return half;
}

}  // namespace

ResizeTaps resize_taps(const ResizeAttrs& a, const ResizeAxis& x, int64_t i) {
  double p = source(a, x, i);
  if (a.coordinates == "tf_crop_and_resize" && (p < 0 || p > static_cast<double>(x.in - 1))) return {};
  // The neighbour on the left is strictly to the left: ratio in (0, 1].
  double whole = std::floor(p), ratio = p == whole ? 1 : p - whole;
  int64_t left = int_of(p == whole ? whole - 1 : whole);
  ResizeTaps taps;
  if (a.mode == "nearest") {
    bool right = p == whole || (a.nearest == "ceil") || (a.nearest == "round_prefer_floor" && ratio > 0.5) || (a.nearest == "round_prefer_ceil" && ratio >= 0.5);
    taps.push_back({left + (right ? 1 : 0), 1});
  } else {
    int reach = a.mode == "cubic" ? 2 : 1;
    double scale = a.antialias ? std::min(x.scale, 1.0) : 1.0;
    int64_t begin = int_of(std::floor(-reach / scale)) + 1;
    for (int64_t j = begin; j < 2 - begin; ++j) {
      double d = scale * (static_cast<double>(j) - ratio);
      taps.push_back({left + j, reach == 2 ? cubic(d, static_cast<double>(a.cubic_a)) : std::max(0.0, 1 - std::fabs(d))});
    }
  }
  double sum = 0;
  for (ResizeTap& t : taps) {
    if (a.exclude_outside && (t.index < 0 || t.index >= x.in)) t.weight = 0;
    t.index = std::clamp<int64_t>(t.index, 0, x.in - 1);
    sum += t.weight;
  }
  if ((a.antialias || a.exclude_outside) && sum != 0)
    for (ResizeTap& t : taps) t.weight /= sum;
  return taps;
}

std::vector<ResizeAxis> resize_axes(const ResizeAttrs& a, const Dims& in, const Dims& out, const TensorView& roi, const TensorView& scales,
                                    const TensorView& sizes) {
  auto axis_of = [&](int64_t axis) { return static_cast<size_t>(axis < 0 ? axis + in.rank : axis); };
  std::vector<ResizeAxis> axes;
  for (int d = 0; d < in.rank; ++d) axes.push_back({in[d], out[d], in[d] ? static_cast<double>(out[d]) / static_cast<double>(in[d]) : 1});
  std::vector<int64_t> named = a.axes;
  if (named.empty())
    for (int d = 0; d < in.rank; ++d) named.push_back(d);
  double common = a.aspect == "not_larger" ? INFINITY : 0;
  for (size_t i = 0; i < named.size(); ++i) {
    ResizeAxis& x = axes[axis_of(named[i])];
    if (scales.present && !sizes.present) x.scale = static_cast<double>(load_float(scales.data, scales.dtype, static_cast<int64_t>(i)));
    if (sizes.present && a.aspect != "stretch") {
      double scale = static_cast<double>(load_int(sizes.data, sizes.dtype, static_cast<int64_t>(i))) / static_cast<double>(x.in);
      common = a.aspect == "not_larger" ? std::min(common, scale) : std::max(common, scale);
    }
    auto n = static_cast<int64_t>(named.size());
    if (roi.present && roi.count() >= 2 * n) {
      x.roi_begin = static_cast<double>(load_float(roi.data, roi.dtype, static_cast<int64_t>(i)));
      x.roi_end = static_cast<double>(load_float(roi.data, roi.dtype, n + static_cast<int64_t>(i)));
    }
  }
  if (sizes.present && a.aspect != "stretch")
    for (int64_t d : named) axes[axis_of(d)].scale = common;
  return axes;
}

}  // namespace brisk
