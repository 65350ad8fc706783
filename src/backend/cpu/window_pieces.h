// Which elements of a plane one tap of a window reads for the 32 places of a panel.
#pragma once
#include <algorithm>

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/window_space.h"
#include "base/checked.h"

namespace brisk::cpu {

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

}  // namespace brisk::cpu
