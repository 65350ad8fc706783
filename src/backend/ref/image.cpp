// Resize as ONNX defines it: every resized axis in turn, each result a weighted sum of neighbours along that axis.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/ref/util.h"
#include "op/resize.h"

namespace brisk::ref {
namespace {

// Resizes one axis of values seen as [outer, n, inner].
std::vector<double> along(const std::vector<double>& x, const std::vector<ResizeTaps>& taps, int64_t outer, int64_t n, int64_t inner, double outside) {
  auto m = static_cast<int64_t>(taps.size());
  std::vector<double> y(static_cast<size_t>(outer * m * inner));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < inner; ++j) {
        double sum = taps[static_cast<size_t>(i)].empty() ? outside : 0;
        for (const ResizeTap& t : taps[static_cast<size_t>(i)])
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
  auto operand = [&](size_t i) { return k.has(i) ? k.in[i] : TensorView(); };
  auto axes = resize_axes(a, x.shape, y.shape, operand(1), operand(2), operand(3));
  for (int d = 0; d < shape.rank; ++d) {
    const ResizeAxis& axis = axes[static_cast<size_t>(d)];
    if (axis.plain()) continue;
    std::vector<ResizeTaps> taps;
    for (int64_t i = 0; i < axis.out; ++i) taps.push_back(resize_taps(a, axis, i));
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
