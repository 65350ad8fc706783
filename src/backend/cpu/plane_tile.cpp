#include "backend/cpu/plane_tile.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"

namespace brisk::cpu {

int64_t PlaneTile::elements(int64_t rows, int64_t columns) const {
  int64_t high = ceil_div(reach_rows(rows), s_.w[1].stride), wide = ceil_div(reach_columns(columns), s_.w[2].stride);
  return high * wide * s_.w[1].stride * s_.w[2].stride;
}

PlaneTile::PlaneTile(const WindowSpace& s, int64_t most, int64_t most_places) : s_(s) {
  if (s.in[0] != 1 || s.out[0] != 1 || s.w[0].kernel != 1 || s.taps > kMaxTaps || s.out_count == 0) return;
  // Sizes beyond these never fit, and smaller ones multiply safely.
  for (int i : {1, 2})
    if (s.w[i].kernel > kElements || s.w[i].dilation > kElements || s.w[i].stride > kElements) return;
  tile_columns_ = std::min<int64_t>(s.out[2], 2048);
  while (tile_columns_ > 1 && elements(1, tile_columns_) > most) tile_columns_ = (tile_columns_ + 1) / 2;
  if (elements(1, tile_columns_) > most) return;
  tile_rows_ = s.out[1];
  auto places = [&](int64_t rows) { return rows * ceil_div(reach_columns(tile_columns_), s.w[2].stride); };
  while (tile_rows_ > 1 && (elements(tile_rows_, tile_columns_) > most || places(tile_rows_) > most_places)) tile_rows_ = (tile_rows_ + 1) / 2;
  if (places(tile_rows_) > most_places) return;
  row_tiles_ = ceil_div(s.out[1], tile_rows_);
  column_tiles_ = ceil_div(s.out[2], tile_columns_);
  fits_ = true;
}

void PlaneTile::choose(int64_t tile) {
  row_ = tile / column_tiles_ * tile_rows_;
  column_ = tile % column_tiles_ * tile_columns_;
  rows_ = std::min(tile_rows_, s_.out[1] - row_);
  columns_ = std::min(tile_columns_, s_.out[2] - column_);
  pitch_ = ceil_div(reach_columns(columns_), s_.w[2].stride);
  phase_ = pitch_ * ceil_div(reach_rows(rows_), s_.w[1].stride);
  int64_t t = 0;
  for (int64_t i = 0; i < s_.w[1].kernel; i++)
    for (int64_t j = 0; j < s_.w[2].kernel; j++) {
      int64_t y = i * s_.w[1].dilation, x = j * s_.w[2].dilation;
      int64_t phase = y % s_.w[1].stride * s_.w[2].stride + x % s_.w[2].stride;
      offset_[t++] = static_cast<int32_t>(phase * phase_ + y / s_.w[1].stride * pitch_ + x / s_.w[2].stride);
    }
}

// One row of the plane (null: of the padding) into the phases of its columns.
void PlaneTile::copy_row(const float* from, float padding, float* to) const {
  int64_t stride = s_.w[2].stride, start = column_ * stride - s_.w[2].begin;
  for (int64_t f = 0; f < stride; f++, to += phase_) {
    // columns x = start + f + stride * j inside [0, in)
    int64_t x = start + f, low = 0, high = 0;
    if (from) {
      low = x >= 0 ? 0 : std::min(pitch_, ceil_div(-x, stride));
      high = x >= s_.in[2] ? 0 : std::min(pitch_, (s_.in[2] - 1 - x) / stride + 1);
    }
    high = std::max(low, high);
    std::fill(to, to + low, padding);
    if (stride == 1 && low < high) std::copy(from + x + low, from + x + high, to + low);
    else
      for (int64_t j = low; j < high; j++) to[j] = from[x + j * stride];
    std::fill(to + high, to + pitch_, padding);
  }
}

void PlaneTile::copy(const float* plane, float padding, float* out) const {
  int64_t stride = s_.w[1].stride, start = row_ * stride - s_.w[1].begin, high = phase_ / pitch_;
  for (int64_t f = 0; f < stride; f++)
    for (int64_t j = 0; j < high; j++) {
      int64_t y = start + f + j * stride;
      bool inside = y >= 0 && y < s_.in[1];
      copy_row(inside ? plane + y * s_.in[2] : nullptr, padding, out + f * s_.w[2].stride * phase_ + j * pitch_);
    }
}

}  // namespace brisk::cpu
