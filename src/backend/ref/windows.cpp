// Windows that are read at shifted places (DeformConv) or written back (MaxUnpool, Col2Im).
#include <algorithm>
#include <vector>

#include "backend/ref/util.h"
#include "op/window.h"

namespace brisk::ref {
namespace {

// Bilinear, zeros outside.
double read_at(const TensorView& x, int64_t plane, int64_t h, int64_t w, double y, double c) {
  if (!(y > -1 && c > -1 && y < static_cast<double>(h) && c < static_cast<double>(w))) return 0;
  double fy = std::floor(y), fx = std::floor(c), sum = 0;
  for (int i = 0; i < 4; ++i) {
    auto row = static_cast<int64_t>(fy) + i / 2, column = static_cast<int64_t>(fx) + i % 2;
    if (row < 0 || row >= h || column < 0 || column >= w) continue;
    sum += (i / 2 ? y - fy : 1 - y + fy) * (i % 2 ? c - fx : 1 - c + fx) * load_number(x, (plane * h + row) * w + column);
  }
  return sum;
}

struct Deform {
  const KernelArgs& k;
  const WindowAttrs& a = k.get<WindowAttrs>();
  const TensorView &x = k.in[0], &w = k.in[1], &offset = k.in[2], &y = k.out[0];
  int64_t channels = x.shape[1], h = x.shape[2], wide = x.shape[3], kh = w.shape[2], kw = w.shape[3], oh = y.shape[2], ow = y.shape[3];
  int64_t taps = kh * kw, groups = 0;  // of offsets
  WindowAxis rows = window_axis(a, 0, kh, 2, h), columns = window_axis(a, 1, kw, 2, wide);

  Status check() {
    Dims want = offset.shape;
    if (taps > 0) groups = offset.shape[1] / (2 * taps);
    want[0] = x.shape[0], want[1] = groups * 2 * taps, want[2] = oh, want[3] = ow;
    if (groups < 1 || !(want == offset.shape) || channels % groups != 0) return invalid("DeformConv: offsets " + to_string(offset.shape) + " for x " + to_string(x.shape) + " and weight " + to_string(w.shape));
    want[1] = groups * taps;
    if (k.has(4) && !(k.in[4].shape == want)) return invalid("DeformConv: mask " + to_string(k.in[4].shape) + ", wanted " + to_string(want));
    if (k.has(3) && k.in[3].count() != w.shape[0]) return invalid("DeformConv: bias " + to_string(k.in[3].shape));
    if (w.shape[1] * a.group != channels || w.shape[0] % a.group != 0) return invalid("DeformConv: weight " + to_string(w.shape) + " for x " + to_string(x.shape));
    return {};
  }
  // What the kernel sees of channel c for result (n, i, j) at tap t.
  double sample(int64_t n, int64_t c, int64_t t, int64_t i, int64_t j) const {
    int64_t g = c / (channels / groups), place = i * ow + j, area = oh * ow;
    int64_t at = ((n * groups + g) * taps + t) * 2;
    double row = static_cast<double>(i * rows.stride - rows.begin + t / kw * rows.dilation) + load_number(offset, at * area + place);
    double column = static_cast<double>(j * columns.stride - columns.begin + t % kw * columns.dilation) + load_number(offset, (at + 1) * area + place);
    double v = read_at(x, n * channels + c, h, wide, row, column);
    return k.has(4) ? v * load_number(k.in[4], ((n * groups + g) * taps + t) * area + place) : v;
  }
  void run() const {
    int64_t per = w.shape[1], results = w.shape[0];
    std::vector<double> seen(static_cast<size_t>(channels * taps));
    for (int64_t n = 0; n < x.shape[0]; ++n)
      for (int64_t p = 0; p < oh * ow; ++p) {
        for (int64_t c = 0; c < channels * taps; ++c) seen[static_cast<size_t>(c)] = sample(n, c / taps, c % taps, p / ow, p % ow);
        for (int64_t m = 0; m < results; ++m) {
          double sum = k.has(3) ? load_number(k.in[3], m) : 0;
          int64_t first = m / (results / a.group) * per * taps;
          for (int64_t c = 0; c < per * taps; ++c) sum += load_number(w, m * per * taps + c) * seen[static_cast<size_t>(first + c)];
          store_number(y, (n * results + m) * oh * ow + p, sum);
        }
      }
  }
};

Status run_deform_conv(KernelContext&, const KernelArgs& k) {
  if (!is_float(k.in[0].dtype)) return no_dtype(k.in[0].dtype);
  if (k.out[0].count() == 0) return {};
  Deform d{k};
  BRISK_TRY(d.check());
  d.run();
  return {};
}

Status run_max_unpool(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<WindowAttrs>();
  const TensorView &x = k.in[0], &places = k.in[1], &y = k.out[0];
  if (!(x.shape == places.shape)) return invalid("MaxUnpool: x " + to_string(x.shape) + ", places " + to_string(places.shape));
  Dims whole = x.shape, out = strides_of(y.shape);
  int axes = x.shape.rank - 2;
  for (int i = 0; i < axes; ++i) {
    WindowAxis w = window_axis(a, static_cast<size_t>(i), a.kernel[static_cast<size_t>(i)], axes, 0);
    whole[2 + i] = (x.shape[2 + i] - 1) * w.stride + w.kernel - w.begin - w.end;
  }
  auto total = checked_count({whole.d, static_cast<size_t>(whole.rank)});
  for (int d = 0; d < whole.rank; ++d)
    if (!total || y.shape[d] < whole[d]) return invalid("MaxUnpool: a result of " + to_string(y.shape) + ", at least " + to_string(whole) + " wanted");
  Dims own = strides_of(whole);
  std::memset(y.data, 0, static_cast<size_t>(y.bytes()));
  return dispatch_width(x.dtype, [&]<class T>(Tag<T>) -> Status {
    for (int64_t i = 0; i < x.count(); ++i) {
      int64_t place = load_int(places.data, places.dtype, i), at = 0;
      if (place < 0 || place >= *total) return invalid("MaxUnpool: place " + std::to_string(place) + " outside [0, " + std::to_string(*total) + ")");
      for (int d = 0; d < whole.rank; ++d) at += place / own[d] % whole[d] * out[d];
      y.as<T>()[at] = x.as<T>()[i];
    }
    return {};
  });
}

Status run_col2im(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<WindowAttrs>();
  const TensorView &x = k.in[0], &y = k.out[0];
  int axes = y.shape.rank - 2;
  auto image = to_ints(k.in[1]), block = to_ints(k.in[2]);
  if (axes < 0 || static_cast<int>(block.size()) != axes || image.size() != block.size()) return invalid("Col2Im: shapes of image and block differ in rank");
  std::vector<WindowAxis> windows;
  Dims steps, kernel;
  for (int i = 0; i < axes; ++i) {
    auto at = static_cast<size_t>(i);
    if (block[at] < 1 || block[at] > INT32_MAX) return invalid("Col2Im: block_shape holds " + std::to_string(block[at]));
    windows.push_back(window_axis(a, at, block[at], axes, image[at]));
    int64_t room = image[at] + windows[at].begin + windows[at].end - windows[at].reach();
    steps.push(room < 0 ? 0 : room / windows[at].stride + 1);
    kernel.push(block[at]);
  }
  auto size = checked_count({kernel.d, static_cast<size_t>(axes)}), count = checked_count({steps.d, static_cast<size_t>(axes)});
  if (!size || !count || x.shape[2] != *count || y.shape[1] > x.shape[1] || x.shape[1] / *size != y.shape[1] || x.shape[1] % *size != 0)
    return invalid("Col2Im: x " + to_string(x.shape) + " for an image of " + to_string(y.shape) + " and blocks of " + to_string(kernel));
  Dims step_strides = strides_of(steps), kernel_strides = strides_of(kernel), out = strides_of(y.shape);
  std::vector<double> sum(static_cast<size_t>(y.count()));
  int64_t planes = y.shape[0] * y.shape[1], area = y.shape.count(2, y.shape.rank);
  for (int64_t i = 0; i < x.count(); ++i) {
    int64_t l = i % *count, t = i / *count % *size, plane = i / *count / *size, at = plane * area;
    bool inside = plane < planes;
    for (int d = 0; d < axes && inside; ++d) {
      const WindowAxis& w = windows[static_cast<size_t>(d)];
      int64_t p = l / step_strides[d] % steps[d] * w.stride - w.begin + t / kernel_strides[d] % kernel[d] * w.dilation;
      inside = p >= 0 && p < y.shape[2 + d];
      at += p * out[2 + d];
    }
    if (inside) sum[static_cast<size_t>(at)] += load_number(x, i);
  }
  for (size_t i = 0; i < sum.size(); ++i) store_number(y, static_cast<int64_t>(i), sum[i]);
  return {};
}

}  // namespace

void add_windows(Registry& r) {
  add_plain(r, OpId::kDeformConv, run_deform_conv);
  add_plain(r, OpId::kMaxUnpool, run_max_unpool);
  add_plain(r, OpId::kCol2Im, run_col2im);
}

}  // namespace brisk::ref
