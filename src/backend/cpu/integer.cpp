#include "backend/cpu/integer.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/panel_product.h"
#include "backend/cpu/window_pieces.h"

namespace brisk::cpu {
namespace {

int64_t words(int64_t bytes) { return ceil_div(bytes, int64_t{4}); }
const int32_t* sums_behind(const std::byte* packed, int64_t bytes) { return reinterpret_cast<const int32_t*>(packed + bytes); }

// --- MatMulInteger --------------------------------------------------------------------------------------------------------

struct MatMulSource : IntegerSource {
  const MatMulIntegerCall& c;
  const uint8_t* rows;
  const int32_t *row_sums, *column_add, *column_factor;  // the factor: null where all weights' zero points are 0
  MatMulSource(const MatMulIntegerCall& call) : c(call) {}

  const float* a(int64_t) const override { return reinterpret_cast<const float*>(rows); }
  void pack(int64_t, int64_t, int64_t, int64_t, float*) const override {}
  const float* packed(int64_t, int64_t panel, int64_t k0) const override {
    return reinterpret_cast<const float*>(c.b) + (panel * words(c.k) + k0) * kPanel;
  }
  void finish_integers(int64_t, int64_t row, int64_t panel, IntegerFinishCall& f) const override {
    int64_t column = panel * kPanel, at = row * c.n + column;
    f.column_add = column_add + column;
    if (column_factor) f.row_factor = row_sums + row, f.column_factor = column_factor + column;
    f.ldy = c.n;
    if (!c.y) {
      f.integers = c.integers + at;
      return;
    }
    f.y = c.y + at;
    if (c.scale.size() == 1) f.scale = c.scale[0];
    else f.column_scale = c.scale.data() + column;
    if (c.bias) f.column_bias = c.bias + column;
  }
};

// --- ConvInteger ----------------------------------------------------------------------------------------------------------

struct ConvSource : IntegerSource {
  const KernelTable& t;
  const ConvIntegerCall& c;
  const int32_t *row_add, *row_factor, *window_sums;  // window_sums: [batch * groups][places], null where the factor is 0
  int64_t per_group, rows;
  ConvSource(const KernelTable& table, const ConvIntegerCall& call)
      : t(table), c(call), per_group(call.channels / call.groups), rows(call.filters / call.groups) {}

  const float* a(int64_t g) const override {
    return reinterpret_cast<const float*>(c.w) + g % c.groups * rows * integer_row(per_group, c.space.taps);
  }
  void pack(int64_t g, int64_t panel, int64_t k0, int64_t count, float* out) const override {
    const uint8_t* x = c.x + (g / c.groups * c.channels + g % c.groups * per_group) * c.space.in_count;
    int flip = c.x_signed ? 0x80 : 0, padding = c.x_zero;
    int64_t each = words(per_group), tap = -1;
    WindowPiece pieces[kPanel];
    int n = 0;
    for (int64_t k = k0; k < k0 + count; k++, out += kPanel) {
      if (k / each != tap) {
        tap = k / each;
        Pieces p(c.space, kPanel, panel, tap);
        n = p.count();
        std::copy_n(p.data(), n, pieces);
      }
      alignas(64) uint8_t four[4 * kPanel];
      for (int64_t i = 0; i < 4; i++) {
        int64_t channel = k % each * 4 + i;
        uint8_t* to = four + i * kPanel;
        std::memset(to, channel < per_group ? padding & 255 : 0, kPanel);
        if (channel >= per_group) continue;
        const uint8_t* from = x + channel * c.space.in_count;
        for (int j = 0; j < n; j++) {
          const WindowPiece& p = pieces[j];
          if (p.step == 1) std::memcpy(to + p.low, from + p.offset + p.low, static_cast<size_t>(p.high - p.low));
          else
            for (int lane = p.low; lane < p.high; lane++) to[lane] = from[p.offset + lane * p.step];
        }
      }
      if (flip)
        for (uint8_t& v : four) v ^= 0x80;
      t.interleave_bytes(four, reinterpret_cast<uint8_t*>(out));
    }
  }
  void finish_integers(int64_t g, int64_t row, int64_t panel, IntegerFinishCall& f) const override {
    int64_t filter = g % c.groups * rows + row, places = c.space.out_count;
    f.row_add = row_add + filter;
    if (window_sums) {
      f.row_factor = row_factor + filter;
      f.column_factor = window_sums + g * places + panel * kPanel;
    }
    f.integers = c.integers + (g / c.groups * c.filters + filter) * places + panel * kPanel;
    f.ldy = places;
  }
};

// Sums of the windows of one group's planes, as unsigned bytes, padding included.
void sum_windows(const ConvIntegerCall& c, const uint8_t* x, int64_t planes, int32_t padding, int32_t* pixel, int32_t* out) {
  const WindowSpace& s = c.space;
  int flip = c.x_signed ? 0x80 : 0;
  std::fill_n(pixel, s.in_count, 0);
  for (int64_t p = 0; p < planes; p++, x += s.in_count)
    for (int64_t i = 0; i < s.in_count; i++) pixel[i] += x[i] ^ flip;
  int64_t outside = padding * planes;
  for (int64_t panel = 0; panel * kPanel < s.out_count; panel++) {
    int64_t first = panel * kPanel, n = std::min<int64_t>(kPanel, s.out_count - first);
    std::fill_n(out + first, n, static_cast<int32_t>(outside * s.taps));
    for (int64_t tap = 0; tap < s.taps; tap++) {
      Pieces pieces(s, kPanel, panel, tap);
      for (int j = 0; j < pieces.count(); j++) {
        const WindowPiece& p = pieces.data()[j];
        for (int lane = p.low; lane < p.high; lane++) out[first + lane] += pixel[p.offset + lane * p.step] - static_cast<int32_t>(outside);
      }
    }
  }
}

}  // namespace

int64_t packed_columns_bytes(int64_t k, int64_t n) { return ceil_div(n, int64_t{kPanel}) * (words(k) + 1) * kPanel * 4; }

void pack_columns(const uint8_t* b, bool is_signed, int64_t k, int64_t n, std::byte* out) {
  int64_t panels = ceil_div(n, int64_t{kPanel}), panel_bytes = words(k) * kPanel * 4;
  std::memset(out, 0, static_cast<size_t>(packed_columns_bytes(k, n)));
  auto* sums = reinterpret_cast<int32_t*>(out + panels * panel_bytes);
  for (int64_t i = 0; i < k; i++)
    for (int64_t j = 0; j < n; j++) {
      auto v = static_cast<int8_t>(b[i * n + j] ^ (is_signed ? 0 : 0x80));
      out[j / kPanel * panel_bytes + (i / 4 * kPanel + j % kPanel) * 4 + i % 4] = static_cast<std::byte>(v);
      sums[j] += v;
    }
}

int64_t matmul_integer_workspace(int64_t m, int64_t n, int64_t k) { return align_up(m * words(k) * 4 + m * 4, 64) + n * 8; }

void matmul_integer(const KernelTable& t, ThreadPool& pool, const MatMulIntegerCall& c, void* workspace) {
  if (c.m < 1 || c.n < 1) return;
  int64_t row_bytes = words(c.k) * 4;
  auto* rows = static_cast<uint8_t*>(workspace);
  auto* row_sums = reinterpret_cast<int32_t*>(rows + c.m * row_bytes);
  auto* column_add = reinterpret_cast<int32_t*>(rows + align_up(c.m * row_bytes + c.m * 4, 64));
  int32_t* factor = column_add + c.n;
  const int32_t* column_sums = sums_behind(c.b, ceil_div(c.n, int64_t{kPanel}) * words(c.k) * kPanel * 4);
  int32_t u_zero = c.a_zero + (c.a_signed ? 128 : 0);
  bool any = false;
  for (int64_t j = 0; j < c.n; j++) {
    int32_t zero = c.b_zeros[c.b_zeros.size() == 1 ? 0 : static_cast<size_t>(j)] - (c.b_signed ? 0 : 128);
    any |= zero != 0;
    factor[j] = -zero;
    column_add[j] = static_cast<int32_t>(c.k) * u_zero * zero - u_zero * column_sums[j];
  }
  int64_t together = std::max<int64_t>(1, 16384 / std::max<int64_t>(c.k, 1));
  pool.parallel_for(ceil_div(c.m, together), [&](int64_t chunk, int) {
    for (int64_t r = chunk * together; r < std::min(c.m, (chunk + 1) * together); r++)
      row_sums[r] = t.prepare_bytes(c.a + r * c.k, c.k, c.a_signed ? 0x80 : 0, rows + r * row_bytes, row_bytes);
  });
  MatMulSource source(c);
  source.rows = rows;
  source.row_sums = row_sums;
  source.column_add = column_add;
  source.column_factor = any ? factor : nullptr;
  ProductShape s;
  s.m = c.m;
  s.n = c.n;
  s.k = s.lda = words(c.k);
  s.tile = &t.bytes_by_signed;
  multiply(t, pool, s, source);
}

int64_t integer_row(int64_t per_group, int64_t taps) {
  int64_t lines = ceil_div(words(per_group) * taps, int64_t{16});
  return (lines | 1) * 16;
}
int64_t packed_filters_bytes(int64_t filters, int64_t per_group, int64_t taps) { return filters * (integer_row(per_group, taps) + 1) * 4; }

void pack_filters(const uint8_t* w, bool is_signed, int64_t filters, int64_t per_group, int64_t taps, std::byte* out) {
  int64_t row = integer_row(per_group, taps) * 4;
  std::memset(out, 0, static_cast<size_t>(packed_filters_bytes(filters, per_group, taps)));
  auto* sums = reinterpret_cast<int32_t*>(out + filters * row);
  for (int64_t m = 0; m < filters; m++)
    for (int64_t c = 0; c < per_group; c++)
      for (int64_t t = 0; t < taps; t++) {
        auto v = static_cast<int8_t>(w[(m * per_group + c) * taps + t] ^ (is_signed ? 0 : 0x80));
        out[m * row + t * words(per_group) * 4 + c] = static_cast<std::byte>(v);
        sums[m] += v;
      }
}

int64_t conv_integer_workspace(const ConvIntegerCall& c) {
  return 4 * (2 * c.filters + c.batch * c.groups * (c.space.in_count + c.space.out_count));
}

void conv_integer(const KernelTable& t, ThreadPool& pool, const ConvIntegerCall& call, void* workspace) {
  ConvIntegerCall c = call;
  if (c.batch < 1 || c.space.out_count < 1) return;
  c.space.flatten();
  int64_t per_group = c.channels / c.groups, taps = c.space.taps;
  auto* row_add = static_cast<int32_t*>(workspace);
  int32_t *row_factor = row_add + c.filters, *sums = row_factor + c.filters, *pixels = sums + c.batch * c.groups * c.space.out_count;
  const int32_t* filter_sums = sums_behind(c.w, c.filters * integer_row(per_group, taps) * 4);
  int32_t u_zero = c.x_zero + (c.x_signed ? 128 : 0);
  bool any = false;
  for (int64_t m = 0; m < c.filters; m++) {
    int32_t zero = c.w_zeros[c.w_zeros.size() == 1 ? 0 : static_cast<size_t>(m)] - (c.w_signed ? 0 : 128);
    any |= zero != 0;
    row_factor[m] = -zero;
    row_add[m] = static_cast<int32_t>(per_group * taps) * u_zero * zero - u_zero * filter_sums[m];
  }
  if (any)
    pool.parallel_for(c.batch * c.groups, [&](int64_t g, int) {
      const uint8_t* x = c.x + (g / c.groups * c.channels + g % c.groups * per_group) * c.space.in_count;
      sum_windows(c, x, per_group, u_zero, pixels + g * c.space.in_count, sums + g * c.space.out_count);
    });
  ConvSource source(t, c);
  source.row_add = row_add;
  source.row_factor = row_factor;
  source.window_sums = any ? sums : nullptr;
  ProductShape s;
  s.matrices = c.batch * c.groups;
  s.m = c.filters / c.groups;
  s.n = c.space.out_count;
  s.k = words(per_group) * taps;
  s.lda = integer_row(per_group, taps);
  s.tile = &t.signed_by_bytes;
  multiply(t, pool, s, source);
}

}  // namespace brisk::cpu
