// A tile of places of one plane, and the part of the plane its windows see, copied so that every tap reads consecutive
// elements whatever the stride: element (y, x) of the padded part lies in phase (y mod stride, x mod stride) at
// (y / stride, x / stride). A tap is then one offset for all places, counted in rows of `pitch` (the last ones of a row
// belong to no place).
#pragma once
#include <cstdint>

#include "backend/cpu/window_space.h"

namespace brisk::cpu {

class PlaneTile {
 public:
  static constexpr int64_t kElements = 48 << 10, kPlaces = 16 << 10, kSlack = 64;
  static constexpr int64_t kMaxTaps = 1024;

  // The cut of a plane into tiles whose copies have at most `elements` elements. Without `fits` the windows are too large.
  explicit PlaneTile(const WindowSpace& s, int64_t elements = kElements, int64_t places = kPlaces);
  bool fits() const { return fits_; }
  int64_t tiles() const { return row_tiles_ * column_tiles_; }

  // Chooses a tile, and computes the offsets of its taps.
  void choose(int64_t tile);
  int64_t first_row() const { return row_; }
  int64_t rows() const { return rows_; }
  int64_t first_column() const { return column_; }
  int64_t columns() const { return columns_; }
  int64_t pitch() const { return pitch_; }
  int64_t places() const { return (rows_ - 1) * pitch_ + columns_; }  // consecutive, with gaps
  const int32_t* offsets() const { return offset_; }
  int64_t elements() const { return phase_ * s_.w[1].stride * s_.w[2].stride; }

  // Fills `out` (room for elements() and kSlack more, which are read but do not matter) from a plane.
  void copy(const float* plane, float padding, float* out) const;

 private:
  int64_t reach_rows(int64_t rows) const { return (rows - 1) * s_.w[1].stride + s_.w[1].reach(); }
  int64_t reach_columns(int64_t columns) const { return (columns - 1) * s_.w[2].stride + s_.w[2].reach(); }
  int64_t elements(int64_t rows, int64_t columns) const;  // of the copy
  void copy_row(const float* from, float padding, float* to) const;

  const WindowSpace& s_;
  bool fits_ = false;
  int64_t tile_rows_ = 1, tile_columns_ = 1, row_tiles_ = 1, column_tiles_ = 1;
  int64_t row_ = 0, rows_ = 0, column_ = 0, columns_ = 0, pitch_ = 0, phase_ = 0;  // phase_: elements of one
  int32_t offset_[kMaxTaps];
};

}  // namespace brisk::cpu
