#include "backend/cpu/panel_product.h"

#include <algorithm>

#include "backend/cpu/pack.h"
#include "base/checked.h"

namespace brisk::cpu {
namespace {

constexpr int64_t kBlockK = 192;        // 24 KiB of a panel, half of a first-level cache
constexpr int64_t kMaxPanels = 8;       // packed at once: 192 KiB, in the second level
constexpr int64_t kMaxTiles = 1024;     // rows times panels of accumulators: 128 KiB
constexpr int64_t kMaxRows = 256;       // of a chunk
constexpr int64_t kMinRows = 48;        // below, packing a panel costs too much beside multiplying it
constexpr int64_t kSmallWork = 1 << 16; // multiplications that are done before another thread has woken
constexpr int64_t kChunksPerThread = 4;

struct Scratch {
  alignas(64) float panels[kMaxPanels * kBlockK * kPanel];
  alignas(64) float acc[kMaxTiles * kPanel];
};

struct Job {
  const KernelTable& t;
  const ProductShape& s;
  const PanelSource& source;
  int64_t panels, row_parts, rows, chunk_panels, panel_parts;

  Job(const KernelTable& table, const ProductShape& shape, const PanelSource& from, int64_t threads)
      : t(table), s(shape), source(from) {
    panels = ceil_div(s.n, int64_t{kPanel});
    row_parts = ceil_div(s.m, kMaxRows);
    rows = ceil_div(s.m, row_parts);
    chunk_panels = std::clamp<int64_t>(kMaxTiles / rows, 1, kMaxPanels);
    int64_t wanted = threads * kChunksPerThread;
    if (s.matrices * s.m * s.n * s.k < kSmallWork) wanted = 1;
    auto chunks = [&] { return s.matrices * row_parts * ceil_div(panels, chunk_panels); };
    while (chunk_panels > 1 && chunks() < wanted) chunk_panels = (chunk_panels + 1) / 2;
    while (chunks() < wanted && rows > kMinRows) rows = ceil_div(s.m, ++row_parts);
    chunk_panels = std::min(chunk_panels, panels);
    panel_parts = ceil_div(panels, chunk_panels);
  }

  int64_t chunks() const { return s.matrices * row_parts * panel_parts; }

  void run(int64_t chunk) const {
    Scratch scratch;
    int64_t g = chunk / (row_parts * panel_parts), part = chunk / panel_parts % row_parts;
    int64_t row = s.m * part / row_parts, n_rows = s.m * (part + 1) / row_parts - row;
    int64_t first = panels * (chunk % panel_parts) / panel_parts;
    int64_t count = panels * (chunk % panel_parts + 1) / panel_parts - first;
    if (n_rows < 1) return;
    const float* a = source.a(g) + row * s.lda;
    for (int64_t k0 = 0; k0 == 0 || k0 < s.k; k0 += kBlockK) {
      int64_t k = std::min(kBlockK, s.k - k0);
      const float* at[kMaxPanels];
      for (int64_t p = 0; p < count; p++) {
        float* own = scratch.panels + p * kBlockK * kPanel;
        at[p] = source.packed(g, first + p, k0);
        if (!at[p]) source.pack(g, first + p, k0, k, own), at[p] = own;
      }
      for (int64_t p = 0; p < count; p++) tiles(a + k0, at[p], k, n_rows, k0 == 0, scratch.acc + p * n_rows * kPanel);
    }
    for (int64_t p = 0; p < count; p++) {
      FinishCall f;
      f.acc = scratch.acc + p * n_rows * kPanel;
      f.rows = static_cast<int>(n_rows);
      f.n = std::min<int64_t>(kPanel, s.n - (first + p) * kPanel);
      source.store(t, g, row, first + p, f);
    }
  }

  // One panel block times all rows, in tiles of nearly equal height.
  void tiles(const float* a, const float* panel, int64_t k, int64_t n_rows, bool first, float* acc) const {
    TileCall c;
    c.lda = s.lda;
    c.w = reinterpret_cast<const std::byte*>(panel);
    c.k = k;
    c.first = first;
    const TileKernel& tile = s.tile ? *s.tile : t.f32;
    int64_t parts = ceil_div(n_rows, int64_t{tile.max_rows});
    for (int64_t i = 0, done = 0; i < parts; i++) {
      c.rows = static_cast<int>(n_rows * (i + 1) / parts - done);
      c.a = a + done * s.lda;
      c.acc = acc + done * kPanel;
      tile.run(c);
      done += c.rows;
    }
  }
};

}  // namespace

void multiply(const KernelTable& t, ThreadPool& pool, const ProductShape& shape, const PanelSource& source) {
  if (shape.matrices < 1 || shape.m < 1 || shape.n < 1) return;
  Job job(t, shape, source, pool.size());
  if (job.chunks() == 1) return job.run(0);
  pool.parallel_for(job.chunks(), [&](int64_t chunk, int) { job.run(chunk); });
}

}  // namespace brisk::cpu
