// Resize as ONNX defines it: every resized axis in turn, each result a weighted sum of neighbours along that axis.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/ref/util.h"
#include "base/int_of.h"

namespace brisk::ref {
namespace {

struct Tap {
  int64_t index;
  double weight;
};
using Taps = std::vector<Tap>;  // empty: outside, the extrapolation value

double cubic(double x, double a) {  // Keys 1981, with free parameter a
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

struct Axis {
  int64_t in, out;
  double scale;          // of sizes: out / in
  double roi_begin = 0, roi_end = 1;
};

// Place in x of result i. The width that formulas call output_width is scale * in, not rounded.
double source(const ResizeAttrs& a, const Axis& x, int64_t i) {
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

Taps taps_of(const ResizeAttrs& a, const Axis& x, int64_t i) {
  double p = source(a, x, i);
  if (a.coordinates == "tf_crop_and_resize" && (p < 0 || p > static_cast<double>(x.in - 1))) return {};
  // The neighbour on the left is strictly to the left: ratio in (0, 1].
  double whole = std::floor(p), ratio = p == whole ? 1 : p - whole;
  int64_t left = int_of(p == whole ? whole - 1 : whole);
  Taps taps;
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
  for (Tap& t : taps) {
    if (a.exclude_outside && (t.index < 0 || t.index >= x.in)) t.weight = 0;
    t.index = std::clamp<int64_t>(t.index, 0, x.in - 1);
    sum += t.weight;
  }
  if ((a.antialias || a.exclude_outside) && sum != 0)
    for (Tap& t : taps) t.weight /= sum;
  return taps;
}

std::vector<Axis> axes_of_problem(const KernelArgs& k) {
  const auto& a = k.get<ResizeAttrs>();
  const Dims &in = k.in[0].shape, &out = k.out[0].shape;
  std::vector<Axis> axes;
  for (int d = 0; d < in.rank; ++d) axes.push_back({in[d], out[d], in[d] ? static_cast<double>(out[d]) / static_cast<double>(in[d]) : 1});
  std::vector<int64_t> named = a.axes;
  if (named.empty())
    for (int d = 0; d < in.rank; ++d) named.push_back(d);
  double common = a.aspect == "not_larger" ? INFINITY : 0;
  for (size_t i = 0; i < named.size(); ++i) {
    Axis& x = axes[static_cast<size_t>(axis_of(named[i], in.rank))];
    if (k.has(2) && !k.has(3)) x.scale = static_cast<double>(load_float(k.in[2].data, k.in[2].dtype, static_cast<int64_t>(i)));
    if (k.has(3) && a.aspect != "stretch") {
      double scale = static_cast<double>(load_int(k.in[3].data, k.in[3].dtype, static_cast<int64_t>(i))) / static_cast<double>(x.in);
      common = a.aspect == "not_larger" ? std::min(common, scale) : std::max(common, scale);
    }
    auto n = static_cast<int64_t>(named.size());
    if (k.has(1) && k.in[1].count() >= 2 * n) {
      x.roi_begin = static_cast<double>(load_float(k.in[1].data, k.in[1].dtype, static_cast<int64_t>(i)));
      x.roi_end = static_cast<double>(load_float(k.in[1].data, k.in[1].dtype, n + static_cast<int64_t>(i)));
    }
  }
  if (k.has(3) && a.aspect != "stretch")
    for (int64_t d : named) axes[static_cast<size_t>(axis_of(d, in.rank))].scale = common;
  return axes;
}

// Resizes one axis of values seen as [outer, n, inner].
std::vector<double> along(const std::vector<double>& x, const std::vector<Taps>& taps, int64_t outer, int64_t n, int64_t inner, double outside) {
  auto m = static_cast<int64_t>(taps.size());
  std::vector<double> y(static_cast<size_t>(outer * m * inner));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < inner; ++j) {
        double sum = taps[static_cast<size_t>(i)].empty() ? outside : 0;
        for (const Tap& t : taps[static_cast<size_t>(i)])
          if (t.weight != 0) sum += t.weight * x[static_cast<size_t>((o * n + t.index) * inner + j)];
        y[static_cast<size_t>((o * m + i) * inner + j)] = sum;
      }
  return y;
}

Status run_resize(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<ResizeAttrs>();
  const TensorView &x = k.in[0], &y = k.out[0];
  if (a.mode != "nearest" && a.mode != "linear" && a.mode != "cubic") return unsupported("Resize: mode '" + a.mode + "'");
  if (y.count() == 0) return {};
  if (x.count() == 0) return invalid("Resize: x is empty");
  std::vector<double> v(static_cast<size_t>(x.count()));
  for (size_t i = 0; i < v.size(); ++i) {
    auto at = static_cast<int64_t>(i);
    v[i] = x.dtype == DType::kF64 ? x.as<double>()[i] : is_float(x.dtype) ? static_cast<double>(load_float(x.data, x.dtype, at)) : static_cast<double>(load_int(x.data, x.dtype, at));
  }
  Dims shape = x.shape;
  auto axes = axes_of_problem(k);
  for (int d = 0; d < shape.rank; ++d) {
    const Axis& axis = axes[static_cast<size_t>(d)];
    bool plain = axis.in == axis.out && axis.scale == 1 && axis.roi_begin == 0 && axis.roi_end == 1;
    if (plain) continue;
    std::vector<Taps> taps;
    for (int64_t i = 0; i < axis.out; ++i) taps.push_back(taps_of(a, axis, i));
    v = along(v, taps, shape.count(0, d), axis.in, shape.count(d + 1, shape.rank), static_cast<double>(a.extrapolation));
    shape[d] = axis.out;
  }
  for (int64_t i = 0, n = y.count(); i < n; ++i) {
    double value = v[static_cast<size_t>(i)];
    if (y.dtype == DType::kF64) y.as<double>()[i] = value;
    else if (is_float(y.dtype)) store_float(y.data, y.dtype, i, static_cast<float>(value));
    else store_float(y.data, y.dtype, i, static_cast<float>(std::trunc(value)));
  }
  return {};
}

}  // namespace

void add_image(Registry& r) { add_plain(r, OpId::kResize, run_resize); }

}  // namespace brisk::ref
