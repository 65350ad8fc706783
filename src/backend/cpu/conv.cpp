#include "backend/cpu/conv.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/pack.h"
#include "backend/cpu/panel_product.h"
#include "backend/cpu/window_pieces.h"
#include "base/checked.h"

namespace brisk::cpu {
namespace {

class ConvSource : public PanelSource {
 public:
  ConvSource(const KernelTable& t, const ConvCall& c, int64_t lda) : t_(t), c_(c), lda_(lda) {
    per_group_ = c.channels / c.groups;
    rows_ = c.filters / c.groups;
  }
  const float* a(int64_t g) const override { return c_.w + g % c_.groups * rows_ * lda_; }

  void pack(int64_t g, int64_t panel, int64_t k0, int64_t count, float* out) const override {
    const float* x = c_.x + (g / c_.groups * c_.channels + g % c_.groups * per_group_) * c_.space.in_count;
    for (int64_t k = k0; k < k0 + count;) {
      int64_t tap = k / per_group_, channel = k % per_group_;
      Pieces pieces(c_.space, t_.lanes, panel, tap);
      WindowPackCall p;
      p.channels = std::min(per_group_ - channel, k0 + count - k);
      p.plane = c_.space.in_count;
      p.x = x + channel * p.plane;
      p.pieces = pieces.data();
      p.count = pieces.count();
      p.out = out;
      t_.pack_window(p);
      out += p.channels * kPanel;
      k += p.channels;
    }
  }

  void finish(int64_t g, int64_t row, int64_t panel, FinishCall& f) const override {
    int64_t filter = g % c_.groups * rows_ + row, plane = c_.space.out_count;
    int64_t at = (g / c_.groups * c_.filters + filter) * plane + panel * kPanel;
    if (c_.end.bias) f.row_bias = c_.end.bias + filter;
    if (c_.end.residual) f.residual = c_.end.residual + at;
    f.residual_last = c_.end.residual_last;
    f.act = c_.end.act;
    f.y = c_.y + at;
    f.ldy = plane;
  }

 private:
  const KernelTable& t_;
  const ConvCall& c_;
  int64_t lda_, per_group_, rows_;
};

}  // namespace

int64_t conv_row(int64_t per_group, int64_t taps) {
  int64_t lines = ceil_div(per_group * taps, int64_t{16});
  return (lines | 1) * 16;
}

void pack_conv(const float* w, int64_t filters, int64_t per_group, int64_t taps, float* out) {
  int64_t row = conv_row(per_group, taps);
  std::memset(out, 0, static_cast<size_t>(filters * row) * sizeof(float));
  for (int64_t m = 0; m < filters; m++)
    for (int64_t c = 0; c < per_group; c++)
      for (int64_t t = 0; t < taps; t++) out[m * row + t * per_group + c] = w[(m * per_group + c) * taps + t];
}

void conv(const KernelTable& t, ThreadPool& pool, const ConvCall& call) {
  ConvCall c = call;
  c.space.flatten();
  ProductShape s;
  s.matrices = c.batch * c.groups;
  s.m = c.filters / c.groups;
  s.n = c.space.out_count;
  s.k = c.channels / c.groups * c.space.taps;
  s.lda = conv_row(c.channels / c.groups, c.space.taps);
  multiply(t, pool, s, ConvSource(t, c, s.lda));
}

}  // namespace brisk::cpu
