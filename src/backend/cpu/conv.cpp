#include "backend/cpu/conv.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/pack.h"
#include "backend/cpu/panel_product.h"
#include "backend/cpu/plane_tile.h"
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

// --- without panels: a band of all channels of a group is copied with its padding, every k of a window is an offset into it

constexpr int64_t kBandElements = 96 << 10;  // 384 KiB, in the second level beside the filters
constexpr int64_t kMaxWindow = 4096;         // k
constexpr int64_t kMaxFilters = 256;         // rows of a chunk
constexpr int64_t kMinFilters = 24;          // below, copying the band costs too much

struct Band {
  alignas(64) float window[kBandElements + PlaneTile::kSlack];
  alignas(64) float acc[kMaxFilters * kPanel + 16];
  int32_t offset[kMaxWindow];
};

class DirectConv {
 public:
  DirectConv(const KernelTable& t, const ConvCall& c, int threads)
      : t_(t), c_(c), per_group_(c.channels / c.groups), rows_(c.filters / c.groups),
        plan_(c.space, std::max<int64_t>(1, kBandElements / per_group_), places_for(c, threads)) {
    parts_ = ceil_div(rows_, kMaxFilters);
    int64_t others = c.batch * c.groups * (plan_.fits() ? plan_.tiles() : 1);
    while (others * parts_ < 2 * threads && rows_ / (parts_ + 1) >= kMinFilters) parts_++;
  }

  // The columns that are multiplied for nothing, against what gathering costs: about 14 rows of multiplication for each k.
  bool pays() const {
    const WindowSpace& s = c_.space;
    if (s.taps == 1 || per_group_ * s.taps > kMaxWindow || !plan_.fits()) return false;
    int64_t places = 0;
    for (int64_t i = 0; i < plan_.tiles(); i++) {
      PlaneTile tile = plan_;
      tile.choose(i);
      places += align_up(tile.places(), kPanel);
    }
    return places * rows_ < align_up(s.out_count, kPanel) * (rows_ + 14);
  }

  int64_t chunks() const { return c_.batch * c_.groups * plan_.tiles() * parts_; }

  void run(int64_t chunk) const {
    int64_t part = chunk % parts_, tile_index = chunk / parts_ % plan_.tiles(), g = chunk / parts_ / plan_.tiles();
    int64_t row = rows_ * part / parts_, n_rows = rows_ * (part + 1) / parts_ - row;
    Band b;
    PlaneTile tile = plan_;
    tile.choose(tile_index);
    const float* x = c_.x + (g / c_.groups * c_.channels + g % c_.groups * per_group_) * c_.space.in_count;
    for (int64_t i = 0; i < per_group_; i++) tile.copy(x + i * c_.space.in_count, 0.0f, b.window + i * tile.elements());
    for (int64_t t = 0, k = 0; t < c_.space.taps; t++)
      for (int64_t i = 0; i < per_group_; i++) b.offset[k++] = static_cast<int32_t>(i * tile.elements()) + tile.offsets()[t];
    for (int64_t p = 0; p < tile.places(); p += kPanel) {
      multiply_panel(b, g % c_.groups * rows_ + row, n_rows, b.window + p);
      finish_panel(b, tile, g, row, n_rows, p);
    }
  }

 private:
  // Bands small enough that every thread gets several.
  static int64_t places_for(const ConvCall& c, int threads) {
    int64_t share = c.space.out_count * c.batch * c.groups / (4 * threads);
    return std::clamp<int64_t>(share, 256, PlaneTile::kPlaces);
  }

  void multiply_panel(Band& b, int64_t filter, int64_t n_rows, const float* window) const {
    int64_t lda = conv_row(per_group_, c_.space.taps), parts = ceil_div(n_rows, int64_t{t_.scattered.max_rows});
    TileCall call;
    call.lda = lda;
    call.w = reinterpret_cast<const std::byte*>(window);
    call.offset = b.offset;
    call.k = per_group_ * c_.space.taps;
    for (int64_t i = 0, done = 0; i < parts; i++) {
      call.rows = static_cast<int>(n_rows * (i + 1) / parts - done);
      call.a = c_.w + (filter + done) * lda;
      call.acc = b.acc + done * kPanel;
      t_.scattered.run(call);
      done += call.rows;
    }
  }

  // Places [p, p + 32) of a tile are pieces of its rows, and the gaps between them.
  void finish_panel(const Band& b, const PlaneTile& tile, int64_t g, int64_t row, int64_t n_rows, int64_t p) const {
    const WindowSpace& s = c_.space;
    int64_t filter = g % c_.groups * rows_ + row, plane = (g / c_.groups * c_.filters + filter) * s.out_count;
    for (int64_t r = p / tile.pitch(); r < tile.rows() && r * tile.pitch() < p + kPanel; r++) {
      int64_t first = std::max(p, r * tile.pitch()), last = std::min(p + kPanel, r * tile.pitch() + tile.columns());
      if (first >= last) continue;
      int64_t at = plane + (tile.first_row() + r) * s.out[2] + tile.first_column() + first - r * tile.pitch();
      FinishCall f;
      f.acc = b.acc + first - p;
      f.rows = static_cast<int>(n_rows);
      f.n = last - first;
      if (c_.end.bias) f.row_bias = c_.end.bias + filter;
      if (c_.end.residual) f.residual = c_.end.residual + at;
      f.residual_last = c_.end.residual_last;
      f.act = c_.end.act;
      f.y = c_.y + at;
      f.ldy = s.out_count;
      t_.finish(f);
    }
  }

  const KernelTable& t_;
  const ConvCall& c_;
  int64_t per_group_, rows_, parts_ = 1;
  PlaneTile plan_;
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
  if (DirectConv direct(t, c, pool.size()); direct.pays())
    return pool.parallel_for(direct.chunks(), [&](int64_t chunk, int) { direct.run(chunk); });
  ProductShape s;
  s.matrices = c.batch * c.groups;
  s.m = c.filters / c.groups;
  s.n = c.space.out_count;
  s.k = c.channels / c.groups * c.space.taps;
  s.lda = conv_row(c.channels / c.groups, c.space.taps);
  multiply(t, pool, s, ConvSource(t, c, s.lda));
}

}  // namespace brisk::cpu
