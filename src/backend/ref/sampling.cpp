// Elements read at computed places: GridSample, RoiAlign, MaxRoiPool.
#include <algorithm>
#include <limits>
#include <vector>

#include "backend/ref/util.h"

namespace brisk::ref {
namespace {

struct Tap {
  int64_t index;  // -1: outside, reads as 0
  double weight;
};

// Folded back at both ends until it lies between them.
double reflected(double v, double low, double high) {
  double range = high - low;
  if (!(range > 0)) return 0;
  double past = v < low ? low - v : v > high ? v - high : 0;
  if (past == 0) return v;
  double turns = std::floor(past / range), rest = past - turns * range;
  bool from_low = (v < low) == (std::fmod(turns, 2) == 0);
  return from_low ? low + rest : high - rest;
}

// Places along one axis of n elements. F: the type in which the coordinate is computed (as exporters' runtimes do).
struct SampleAxis {
  const GridSampleAttrs& a;
  int64_t n;
  double low() const { return a.align_corners ? 0 : -0.5; }
  double high() const { return static_cast<double>(n) - (a.align_corners ? 1 : 0.5); }

  // Cubic taps beyond the border are put back one by one, not their centre: onnxruntime and PyTorch agree on it, while
  // onnx's own evaluator moves the centre.
  template <class F> double place(F v) const {
    auto size = static_cast<F>(n);
    double at = static_cast<double>(a.align_corners ? (v + 1) / 2 * (size - 1) : ((v + 1) * size - 1) / 2);
    if (a.mode == "nearest") at = std::nearbyint(at);
    if (at >= low() && at <= high()) return at;
    if (a.padding == "border" && a.mode != "cubic") return std::clamp(at, 0.0, static_cast<double>(n - 1));
    return a.padding == "reflection" ? reflected(at, low(), high()) : at;
  }
  int64_t element(double i) const {
    if (a.padding == "reflection") i = reflected(i, low(), high());
    int64_t at = int_of(i);
    if (a.padding != "zeros") return std::clamp<int64_t>(at, 0, n - 1);
    return at >= 0 && at < n ? at : -1;
  }
  // Keys 1981, free parameter -0.75, at distance d.
  static double cubic(double d) {
    constexpr double f = -0.75;
    d = std::fabs(d);
    return d <= 1 ? ((f + 2) * d - (f + 3)) * d * d + 1 : ((f * d - 5 * f) * d + 8 * f) * d - 4 * f;
  }
  void taps(double at, std::vector<Tap>& out) const {
    out.clear();
    if (a.mode == "nearest") return out.push_back({element(at), 1});
    double left = std::floor(at), t = at - left;
    if (a.mode == "linear") {
      out.push_back({element(left), 1 - t});
      return out.push_back({element(left + 1), t});
    }
    for (int i = -1; i <= 2; ++i) out.push_back({element(left + i), cubic(t - i)});
  }
};

// Sum over the product of all axes' taps from `axis` on.
double gather(const TensorView& x, int64_t offset, const std::vector<std::vector<Tap>>& taps, size_t axis) {
  double sum = 0;
  int64_t stride = x.shape.count(static_cast<int>(axis) + 3, x.shape.rank);
  for (const Tap& t : taps[axis]) {
    if (t.index < 0) continue;
    int64_t at = offset + t.index * stride;
    sum += t.weight * (axis + 1 == taps.size() ? load_number(x, at) : gather(x, at, taps, axis + 1));
  }
  return sum;
}

Status run_grid_sample(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<GridSampleAttrs>();
  const TensorView &x = k.in[0], &grid = k.in[1], &y = k.out[0];
  int axes = x.shape.rank - 2;
  if (grid.shape[axes + 1] != axes || grid.shape[0] != x.shape[0]) return invalid("GridSample: x " + to_string(x.shape) + " and grid " + to_string(grid.shape));
  if (y.count() == 0) return {};
  if (x.count() == 0) return invalid("GridSample: x is empty");
  int64_t channels = x.shape[1], size = x.shape.count(2, x.shape.rank), points = y.shape.count(2, y.shape.rank);
  std::vector<std::vector<Tap>> taps(static_cast<size_t>(axes));
  for (int64_t n = 0; n < x.shape[0]; ++n)
    for (int64_t p = 0; p < points; ++p) {
      for (int d = 0; d < axes; ++d) {  // the grid names the last axis first
        SampleAxis axis{a, x.shape[2 + d]};
        int64_t i = (n * points + p) * axes + axes - 1 - d;
        double v = load_number(grid, i);
        axis.taps(grid.dtype == DType::kF64 ? axis.place(v) : axis.place(static_cast<float>(v)), taps[static_cast<size_t>(d)]);
      }
      for (int64_t c = 0; c < channels; ++c) store_number(y, (n * channels + c) * points + p, gather(x, (n * channels + c) * size, taps, 0));
    }
  return {};
}

// The four elements round a point and their weights; weights of 0 outside.
struct Bilinear {
  int64_t at[4] = {};
  double weight[4] = {};
  Bilinear(double y, double x, int64_t h, int64_t w) {
    if (!(y >= -1 && x >= -1 && y <= static_cast<double>(h) && x <= static_cast<double>(w))) return;
    auto split = [](double v, int64_t n, int64_t& low, int64_t& high) {
      v = std::max(v, 0.0);
      low = std::min(static_cast<int64_t>(v), n - 1);
      high = std::min(low + 1, n - 1);
      return low == n - 1 ? 0.0 : v - static_cast<double>(low);
    };
    int64_t y0, y1, x0, x1;
    double fy = split(y, h, y0, y1), fx = split(x, w, x0, x1);
    int64_t places[4] = {y0 * w + x0, y0 * w + x1, y1 * w + x0, y1 * w + x1};
    double weights[4] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
    std::copy(places, places + 4, at);
    std::copy(weights, weights + 4, weight);
  }
};

// Mean of the samples; or the largest of all four weighted elements of each of them, which is what ONNX's own rule takes.
double pooled(const std::vector<Bilinear>& samples, const TensorView& x, int64_t offset, bool max) {
  double sum = 0, largest = -std::numeric_limits<double>::infinity();
  for (const Bilinear& b : samples)
    for (int i = 0; i < 4; ++i) {
      double v = b.weight[i] * load_number(x, offset + b.at[i]);
      sum += v;
      largest = std::max(largest, v);
    }
  if (samples.empty()) return 0;
  return max ? largest : sum / static_cast<double>(samples.size());
}

struct Span {  // of a region along one axis, cut into bins
  double start, bin;
  int64_t points;  // samples in a bin
  template <class F> static Span of(F from, F to, const RoiAttrs& a, int64_t bins) {
    F offset = a.half_pixel ? F(0.5) : F(0), scale = static_cast<F>(a.scale);
    F start = from * scale - offset, length = to * scale - offset - start;
    if (!a.half_pixel) length = std::max(length, F(1));
    auto bin = length / static_cast<F>(bins);
    return {static_cast<double>(start), static_cast<double>(bin), a.sampling > 0 ? a.sampling : int_of(std::ceil(static_cast<double>(bin)))};
  }
  double at(int64_t b, int64_t i) const { return start + bin * (static_cast<double>(b) + (static_cast<double>(i) + 0.5) / static_cast<double>(points)); }
};

Status run_roi_align(KernelContext&, const KernelArgs& k) {
  constexpr int64_t kMostPoints = 1 << 20;  // of one bin
  const auto& a = k.get<RoiAttrs>();
  const TensorView &x = k.in[0], &regions = k.in[1], &y = k.out[0];
  int64_t channels = x.shape[1], h = x.shape[2], w = x.shape[3], count = regions.shape[0];
  if (regions.shape[1] != 4 || k.in[2].count() != count) return invalid("RoiAlign: regions " + to_string(regions.shape) + ", batches " + to_string(k.in[2].shape));
  if (y.count() == 0) return {};
  if (x.count() == 0) return invalid("RoiAlign: x is empty");
  std::vector<Bilinear> samples;
  for (int64_t r = 0; r < count; ++r) {
    int64_t n = load_int(k.in[2].data, k.in[2].dtype, r);
    if (n < 0 || n >= x.shape[0]) return invalid("RoiAlign: batch " + std::to_string(n) + " outside [0, " + std::to_string(x.shape[0]) + ")");
    auto span = [&](int64_t i, int64_t bins) {
      double from = load_number(regions, r * 4 + i), to = load_number(regions, r * 4 + i + 2);
      return x.dtype == DType::kF64 ? Span::of(from, to, a, bins) : Span::of(static_cast<float>(from), static_cast<float>(to), a, bins);
    };
    Span sy = span(1, a.height), sx = span(0, a.width);
    if (sy.points > kMostPoints || sx.points > kMostPoints || sy.points * sx.points > kMostPoints)
      return invalid("RoiAlign: region " + std::to_string(r) + " has more than " + std::to_string(kMostPoints) + " samples in a bin");
    for (int64_t i = 0; i < a.height; ++i)
      for (int64_t j = 0; j < a.width; ++j) {
        samples.clear();
        for (int64_t p = 0; p < sy.points; ++p)
          for (int64_t q = 0; q < sx.points; ++q) samples.emplace_back(sy.at(i, p), sx.at(j, q), h, w);
        for (int64_t c = 0; c < channels; ++c) store_number(y, ((r * channels + c) * a.height + i) * a.width + j, pooled(samples, x, (n * channels + c) * h * w, a.max));
      }
  }
  return {};
}

Status run_max_roi_pool(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<RoiAttrs>();
  const TensorView &x = k.in[0], &regions = k.in[1], &y = k.out[0];
  int64_t channels = x.shape[1], h = x.shape[2], w = x.shape[3];
  if (regions.shape[1] != 5) return invalid("MaxRoiPool: regions " + to_string(regions.shape));
  for (int64_t r = 0; r < regions.shape[0]; ++r) {
    int64_t n = int_of(load_number(regions, r * 5));
    if (n < 0 || n >= x.shape[0]) return invalid("MaxRoiPool: batch " + std::to_string(n) + " outside [0, " + std::to_string(x.shape[0]) + ")");
    auto edge = [&](int64_t i) {
      double v = std::round(load_number(regions, r * 5 + i) * static_cast<double>(a.scale));
      return std::clamp<int64_t>(int_of(v), INT32_MIN, INT32_MAX);
    };
    // Elements [begin, end) of bin i along an axis of `size`.
    auto bin = [&](int64_t from, int64_t to, int64_t bins, int64_t i, int64_t size) {
      double width = static_cast<double>(std::max<int64_t>(to - from + 1, 1)) / static_cast<double>(bins);
      int64_t begin = int_of(std::floor(static_cast<double>(i) * width)) + from, end = int_of(std::ceil(static_cast<double>(i + 1) * width)) + from;
      return std::pair(std::clamp<int64_t>(begin, 0, size), std::clamp<int64_t>(end, 0, size));
    };
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < a.height; ++i)
        for (int64_t j = 0; j < a.width; ++j) {
          auto [y0, y1] = bin(edge(2), edge(4), a.height, i, h);
          auto [x0, x1] = bin(edge(1), edge(3), a.width, j, w);
          double best = y0 < y1 && x0 < x1 ? -std::numeric_limits<double>::infinity() : 0;
          for (int64_t p = y0; p < y1; ++p)
            for (int64_t q = x0; q < x1; ++q)
              if (double v = load_number(x, ((n * channels + c) * h + p) * w + q); v > best || std::isnan(v)) best = v;
          store_number(y, ((r * channels + c) * a.height + i) * a.width + j, best);
        }
  }
  return {};
}

}  // namespace

void add_sampling(Registry& r) {
  add_plain(r, OpId::kGridSample, run_grid_sample);
  add_plain(r, OpId::kRoiAlign, run_roi_align);
  add_plain(r, OpId::kMaxRoiPool, run_max_roi_pool);
}

}  // namespace brisk::ref
