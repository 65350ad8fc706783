#include "backend/cpu/conv.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/pack.h"
#include "backend/cpu/panel_product.h"
#include "base/checked.h"

namespace brisk::cpu {
namespace {

// The pieces of one tap of 32 places: what each row of places reads from its row of the plane.
class Pieces {
 public:
  Pieces(const WindowSpace& s, int lanes, int64_t panel, int64_t tap) {
    int64_t t[3] = {tap / (s.w[1].kernel * s.w[2].kernel), tap / s.w[2].kernel % s.w[1].kernel, tap % s.w[2].kernel};
    int64_t place = panel * kPanel, end = std::min(place + kPanel, s.out_count), shift = t[2] * s.w[2].dilation - s.w[2].begin;
    for (int64_t lane = 0; place < end;) {
      int64_t row = place / s.out[2], x0 = place % s.out[2], n = std::min(s.out[2] - x0, end - place);
      int64_t z = row / s.out[1] * s.w[0].stride + t[0] * s.w[0].dilation - s.w[0].begin;
      int64_t y = row % s.out[1] * s.w[1].stride + t[1] * s.w[1].dilation - s.w[1].begin;
      if (z >= 0 && z < s.in[0] && y >= 0 && y < s.in[1])
        add_row(s, lanes, lane, n, (z * s.in[1] + y) * s.in[2], x0 * s.w[2].stride + shift);
      place += n, lane += n;
    }
  }
  const WindowPiece* data() const { return pieces_; }
  int count() const { return count_; }

 private:
  // n lanes from `lane` on read from x of a row, x + stride, ...; those inside the row become pieces.
  void add_row(const WindowSpace& s, int lanes, int64_t lane, int64_t n, int64_t row, int64_t x) {
    int64_t stride = s.w[2].stride;
    int64_t low = x >= 0 ? 0 : ceil_div(-x, stride), high = x >= s.in[2] ? 0 : std::min(n, (s.in[2] - 1 - x) / stride + 1);
    while (low < high) {
      int64_t first = (lane + low) / lanes * lanes, last = std::min(high, first + lanes - lane);
      WindowPiece& p = pieces_[count_++];
      p.low = static_cast<int>(lane + low);
      p.high = static_cast<int>(lane + last);
      p.step = static_cast<int>(stride);
      p.offset = row + x + (first - lane) * stride;
      low = last;
    }
  }

  WindowPiece pieces_[kPanel];
  int count_ = 0;
};

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
