#include "backend/cpu/pool.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "backend/cpu/plane_tile.h"
#include "base/checked.h"

namespace brisk::cpu {
namespace {

// Elements that a mean divides by, along one axis: those inside, or inside the plane with its padding.
int64_t counted(const WindowSpace& s, int axis, int64_t place, bool padding) {
  int64_t n = 0;
  for (int64_t i = 0; i < s.w[axis].kernel; i++) {
    int64_t at = place * s.w[axis].stride - s.w[axis].begin + i * s.w[axis].dilation;
    n += padding ? at < s.in[axis] + s.w[axis].end : at >= 0 && at < s.in[axis];
  }
  return n;
}

// The whole plane is the window.
bool is_global(const WindowSpace& s) {
  bool all = s.out_count == 1;
  for (const auto& [w, n] : {std::pair(s.w[1], s.in[1]), std::pair(s.w[2], s.in[2])}) all &= w.kernel == n && w.begin == 0 && w.dilation == 1;
  return all && s.in[0] == 1;
}

float whole_plane(const float* x, int64_t n, bool largest) {
  float part[16];
  std::fill(part, part + 16, largest ? -std::numeric_limits<float>::infinity() : 0.0f);
  auto join = [&](float& a, float b) { a = largest ? std::max(a, b) : a + b; };
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int j = 0; j < 16; j++) join(part[j], x[i + j]);
  for (; i < n; i++) join(part[i % 16], x[i]);
  for (int step = 8; step > 0; step /= 2)
    for (int j = 0; j < step; j++) join(part[j], part[j + step]);
  return largest ? part[0] : part[0] / static_cast<float>(n);
}

// Sums become means.
void divide(const PoolCall& c, const PlaneTile& tile, float* sum) {
  const WindowSpace& s = c.space;
  for (int64_t r = 0; r < tile.rows(); r++) {
    int64_t rows = counted(s, 1, tile.first_row() + r, c.count_include_pad);
    for (int64_t j = 0; j < tile.columns(); j++) {
      int64_t n = rows * counted(s, 2, tile.first_column() + j, c.count_include_pad);
      float& v = sum[r * tile.pitch() + j];
      v = n > 0 ? v / static_cast<float>(n) : 0.0f;
    }
  }
}

// One place of one plane, tap by tap: for windows that spread over more than a tile holds.
float window_at(const PoolCall& c, const float* x, const int64_t (&place)[3]) {
  const WindowSpace& s = c.space;
  int64_t first[3], counts = 1;
  for (int i = 0; i < 3; i++) {
    first[i] = place[i] * s.w[i].stride - s.w[i].begin;
    counts *= counted(s, i, place[i], c.count_include_pad);
  }
  float v = c.largest ? -std::numeric_limits<float>::infinity() : 0.0f;
  auto inside = [&](int axis, int64_t at) { return at >= 0 && at < s.in[axis]; };
  for (int64_t i = 0; i < s.w[0].kernel; i++)
    for (int64_t j = 0; j < s.w[1].kernel; j++)
      for (int64_t k = 0; k < s.w[2].kernel; k++) {
        int64_t a = first[0] + i * s.w[0].dilation, b = first[1] + j * s.w[1].dilation, d = first[2] + k * s.w[2].dilation;
        if (!inside(0, a) || !inside(1, b) || !inside(2, d)) continue;
        float e = x[(a * s.in[1] + b) * s.in[2] + d];
        v = c.largest ? std::max(v, e) : v + e;
      }
  return c.largest ? v : counts > 0 ? v / static_cast<float>(counts) : 0.0f;
}

void pool_by_place(ThreadPool& pool, const PoolCall& c) {
  const WindowSpace& s = c.space;
  pool.parallel_for(c.planes, [&](int64_t p, int) {
    float* y = c.y + p * s.out_count;
    for (int64_t i = 0; i < s.out[0]; i++)
      for (int64_t j = 0; j < s.out[1]; j++)
        for (int64_t k = 0; k < s.out[2]; k++) *y++ = window_at(c, c.x + p * s.in_count, {i, j, k});
  });
}

}  // namespace

void pool_planes(const KernelTable& t, ThreadPool& pool, const PoolCall& c) {
  const WindowSpace& s = c.space;
  if (c.planes < 1 || s.out_count < 1) return;
  int64_t together = std::clamp<int64_t>((int64_t{1} << 18) / (s.out_count * s.taps + 1), 1, std::max<int64_t>(1, c.planes / (4 * pool.size())));
  int64_t groups = ceil_div(c.planes, together);
  if (is_global(s)) {
    pool.parallel_for(groups, [&](int64_t chunk, int) {
      for (int64_t p = chunk * together; p < std::min(c.planes, (chunk + 1) * together); p++)
        c.y[p] = whole_plane(c.x + p * s.in_count, s.in_count, c.largest);
    });
    return;
  }
  PlaneTile plan(s);
  if (!plan.fits()) return pool_by_place(pool, c);
  pool.parallel_for(plan.tiles() * groups, [&](int64_t chunk, int) {
    alignas(64) float window[PlaneTile::kElements + PlaneTile::kSlack];
    alignas(64) float sum[PlaneTile::kPlaces + PlaneTile::kSlack];
    float ones[PlaneTile::kMaxTaps];
    std::fill(ones, ones + s.taps, 1.0f);
    PlaneTile tile = plan;
    tile.choose(chunk / groups);
    bool uniform = true;
    for (int axis : {1, 2})
      uniform &= s.w[axis].begin == 0 && (s.out[axis] - 1) * s.w[axis].stride + s.w[axis].reach() <= s.in[axis];
    for (int64_t p = chunk % groups * together; p < std::min(c.planes, (chunk % groups + 1) * together); p++) {
      const float* x = c.x + p * s.in_count;
      int taps = static_cast<int>(s.taps);
      FinishCall f;
      if (c.largest) {
        tile.copy(x, -std::numeric_limits<float>::infinity(), window);
        t.largest_of(window, tile.offsets(), taps, tile.places(), sum);
      } else {
        tile.copy(x, 0.0f, window);
        t.correlate(window, tile.offsets(), ones, taps, 0.0f, tile.places(), sum);
        if (uniform) f.scale = 1.0f / static_cast<float>(s.taps);
        else divide(c, tile, sum);
      }
      f.acc = sum;
      f.ld_acc = tile.pitch();
      f.rows = static_cast<int>(tile.rows());
      f.n = tile.columns();
      f.y = c.y + p * s.out_count + tile.first_row() * s.out[2] + tile.first_column();
      f.ldy = s.out[2];
      t.finish(f);
    }
  });
}

}  // namespace brisk::cpu
