#include <algorithm>
#include <cstring>

#include "backend/cpu/conv.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/panel_product.h"
#include "base/checked.h"

namespace brisk::cpu {
namespace {

// Planes of all filters and taps of one image.
class TransposeSource : public PanelSource {
 public:
  TransposeSource(const KernelTable& t, const ConvCall& c, int64_t image, float* planes) : t_(t), c_(c), image_(image), planes_(planes) {
    per_group_ = c.channels / c.groups;
    rows_ = c.filters / c.groups * c.space.taps;
  }
  const float* a(int64_t g) const override { return c_.w + g * rows_ * conv_row(per_group_, 1); }
  void pack(int64_t g, int64_t panel, int64_t k0, int64_t count, float* out) const override {
    int64_t places = c_.space.in_count, first = panel * kPanel;
    const float* x = c_.x + (image_ * c_.channels + g * per_group_ + k0) * places + first;
    t_.pack_straight(x, places, static_cast<int>(std::min<int64_t>(kPanel, places - first)), count, out);
  }
  void finish(int64_t g, int64_t row, int64_t panel, FinishCall& f) const override {
    f.y = planes_ + (g * rows_ + row) * c_.space.in_count + panel * kPanel;
    f.ldy = c_.space.in_count;
  }

 private:
  const KernelTable& t_;
  const ConvCall& c_;
  int64_t image_, per_group_, rows_;
  float* planes_;
};

// Adds x's row to every stride-th element of y from `at` on, as far as they lie in [0, n).
void add_row(const float* x, int64_t count, int64_t stride, int64_t at, float* y, int64_t n) {
  int64_t low = at >= 0 ? 0 : ceil_div(-at, stride), high = at >= n ? 0 : std::min(count, (n - 1 - at) / stride + 1);
  if (low >= high) return;
  float* to = y + at + low * stride;
  if (stride == 1)
    for (int64_t i = low; i < high; i++) to[i - low] += x[i];
  else
    for (int64_t i = low; i < high; i++, to += stride) *to += x[i];
}

// One plane of the result from the planes of its taps.
void join_taps(const WindowSpace& s, const float* planes, float start, float* y) {
  std::fill_n(y, s.out_count, start);
  for (int64_t t = 0; t < s.taps; t++, planes += s.in_count) {
    int64_t shift[3] = {t / (s.w[1].kernel * s.w[2].kernel), t / s.w[2].kernel % s.w[1].kernel, t % s.w[2].kernel};
    for (int i = 0; i < 3; i++) shift[i] = shift[i] * s.w[i].dilation - s.w[i].begin;
    for (int64_t row = 0; row < s.in[0] * s.in[1]; row++) {
      int64_t z = row / s.in[1] * s.w[0].stride + shift[0], at = row % s.in[1] * s.w[1].stride + shift[1];
      if (z < 0 || z >= s.out[0] || at < 0 || at >= s.out[1]) continue;
      add_row(planes + row * s.in[2], s.in[2], s.w[2].stride, shift[2], y + (z * s.out[1] + at) * s.out[2], s.out[2]);
    }
  }
}

}  // namespace

void pack_conv_transpose(const float* w, int64_t channels, int64_t per_group, int64_t taps, int64_t groups, float* out) {
  int64_t in_group = channels / groups, row = conv_row(in_group, 1), rows = per_group * taps;
  std::memset(out, 0, static_cast<size_t>(groups * rows * row) * sizeof(float));
  for (int64_t c = 0; c < channels; c++)
    for (int64_t i = 0; i < rows; i++) out[(c / in_group * rows + i) * row + c % in_group] = w[c * rows + i];
}

int64_t conv_transpose_workspace(const ConvCall& c) { return c.filters * c.space.taps * c.space.in_count * 4; }

void conv_transpose(const KernelTable& t, ThreadPool& pool, const ConvCall& c, float* workspace) {
  ProductShape s;
  s.matrices = c.groups;
  s.m = c.filters / c.groups * c.space.taps;
  s.n = c.space.in_count;
  s.k = c.channels / c.groups;
  s.lda = conv_row(s.k, 1);
  for (int64_t image = 0; image < c.batch; image++) {
    multiply(t, pool, s, TransposeSource(t, c, image, workspace));
    pool.parallel_for(c.filters, [&](int64_t m, int) {
      join_taps(c.space, workspace + m * c.space.taps * c.space.in_count, c.end.bias ? c.end.bias[m] : 0.0f,
                c.y + (image * c.filters + m) * c.space.out_count);
    });
  }
}

}  // namespace brisk::cpu
