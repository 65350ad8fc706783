// Convolutions with one input channel a group: each plane of the result is a weighted sum of shifted tiles of one plane.
#include <algorithm>

#include "backend/cpu/conv.h"
#include "backend/cpu/plane_tile.h"
#include "base/checked.h"

namespace brisk::cpu {

bool depthwise_fits(const WindowSpace& s) { return PlaneTile(s).fits(); }

void conv_depthwise(const KernelTable& t, ThreadPool& pool, const ConvCall& c) {
  const WindowSpace& s = c.space;
  if (c.batch < 1 || s.out_count < 1) return;
  PlaneTile plan(s);
  int64_t planes = c.batch * c.filters, each = c.filters / c.channels;
  // Planes go together as long as every thread gets several chunks, up to about 20 microseconds of work.
  int64_t together = std::clamp<int64_t>((int64_t{1} << 18) / (s.out_count * s.taps + 1), 1, std::max<int64_t>(1, planes / (4 * pool.size())));
  int64_t groups = ceil_div(planes, together);
  pool.parallel_for(plan.tiles() * groups, [&](int64_t chunk, int) {
    alignas(64) float window[PlaneTile::kElements + PlaneTile::kSlack];
    alignas(64) float sum[PlaneTile::kPlaces + PlaneTile::kSlack];
    PlaneTile tile = plan;
    tile.choose(chunk / groups);
    for (int64_t p = chunk % groups * together; p < std::min(planes, (chunk % groups + 1) * together); p++) {
      int64_t filter = p % c.filters, channel = p / c.filters * c.channels + filter / each;
      tile.copy(c.x + channel * s.in_count, 0.0f, window);
      t.correlate(window, tile.offsets(), c.w + filter * s.taps, static_cast<int>(s.taps), c.end.bias ? c.end.bias[filter] : 0.0f,
                  tile.places(), sum);
      FinishCall f;
      f.acc = sum;
      f.ld_acc = tile.pitch();
      f.rows = static_cast<int>(tile.rows());
      f.n = tile.columns();
      int64_t at = p * s.out_count + tile.first_row() * s.out[2] + tile.first_column();
      if (c.end.residual) f.residual = c.end.residual + at;
      f.residual_last = c.end.residual_last;
      f.act = c.end.act;
      f.y = c.y + at;
      f.ldy = s.out[2];
      t.finish(f);
    }
  });
}

}  // namespace brisk::cpu
