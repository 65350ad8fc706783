#include "backend/cpu/linear.h"

#include <algorithm>
#include <chrono>

#include "base/checked.h"

namespace brisk::cpu {
namespace {

// A panel's part of K that is worked on at once stays in half of a 48 KiB first-level cache, the rows of a block (their
// whole K, at most 96 x 1536 floats = 590 KB) in the second.
constexpr int64_t kPanelBlockBytes = 24 * 1024;
constexpr int64_t kBlockRows = 96;
constexpr int64_t kStreamBytes = 32 * 1024;
constexpr int64_t kStreamResultBytes = 4 << 20;
constexpr int64_t kChunksPerThread = 16;  // what a late thread can cost: a 32nd of the operator on two threads

struct Job {
  const LinearCall& c;
  const KernelTable& t;
  const TileKernel& kernel;
  int64_t row_blocks = 1, panels = 0, panels_per_chunk = 1, chunks_per_block = 1, threads = 1;
  bool stream = false;          // the result is too large to stay in a cache
  int64_t terms = 1, rows = 0;  // of activations; rows: m * terms
  int64_t k = 0;                // as the kernel counts it: padded for integer activations
  int64_t k_block = 0;

  Job(const LinearCall& call, const KernelTable& table, const TileKernel& tile, int pool_threads)
      : c(call), t(table), kernel(tile), threads(pool_threads) {
    const WeightLayout& w = *c.layout;
    panels = w.panels();
    if (c.arithmetic == Arithmetic::kInt8) terms = c.q.form.terms;
    rows = c.m * terms;
    row_blocks = ceil_div(rows, kBlockRows);
    k = c.arithmetic == Arithmetic::kInt8 ? w.padded_k() : w.k;
    int64_t bytes_per_128 = w.unit_bytes() * 128 / w.unit_k();
    k_block = rows <= kernel.max_rows ? k : std::max<int64_t>(1, kPanelBlockBytes / bytes_per_128) * 128;
    panels_per_chunk = std::clamp<int64_t>(row_blocks * panels / (threads * kChunksPerThread), 1, panels);
    chunks_per_block = ceil_div(panels, panels_per_chunk);
    stream = !c.residual && c.m * c.ldy * 4 > kStreamResultBytes && c.ldy % 16 == 0 &&
             reinterpret_cast<uintptr_t>(c.y) % 64 == 0;
  }

  void run_chunk(int64_t chunk) const {
    int64_t row = chunk / chunks_per_block * kBlockRows, first = chunk % chunks_per_block * panels_per_chunk;
    int64_t n = std::min(kBlockRows, rows - row);
    alignas(64) float acc[kBlockRows * kPanel];
    for (int64_t p = first; p < std::min(panels, first + panels_per_chunk); p++) {
      prefetch_columns(p, row / terms, n / terms);
      for (int64_t k0 = 0; k0 < k; k0 += k_block) multiply(p, next_panel(p, chunk), row, n, k0, acc);
      if (terms > 1) add_terms(acc, n);
      finish(p, row / terms, n / terms, acc);
    }
  }

  // The panel after p: of the same chunk, or, as far as chunks go round the threads, the first of this thread's next one.
  int64_t next_panel(int64_t p, int64_t chunk) const {
    int64_t first = chunk % chunks_per_block * panels_per_chunk;
    if (p + 1 < std::min(panels, first + panels_per_chunk)) return p + 1;
    return (chunk + threads) % chunks_per_block * panels_per_chunk;
  }

  // A panel's columns of residual and result lie a row apart, which no hardware prefetcher follows; they come in while
  // the panel is multiplied.
  void prefetch_columns(int64_t p, int64_t row, int64_t n) const {
    int64_t width = c.layout->gated ? kPanel / 2 : kPanel, column = p * width;
    for (int64_t r = row; r < row + n; r++)
      for (int64_t j = 0; j < width; j += 16) {
        if (c.residual) __builtin_prefetch(c.residual + r * c.ld_residual + column + j, 0, 2);
        // into the second level: rows are often a multiple of 4 KiB apart and share few sets of the first
        if (!stream) __builtin_prefetch(c.y + r * c.ldy + column + j, 0, 2);
      }
  }

  // Adds K block k0 of panel p to the accumulators of a block of rows, in tiles of nearly equal height.
  void multiply(int64_t p, int64_t next, int64_t row, int64_t n, int64_t k0, float* acc) const {
    const WeightLayout& w = *c.layout;
    int64_t in_panel = k0 / w.unit_k() * w.unit_bytes();
    TileCall tile;
    tile.w = c.weight + p * w.panel_bytes() + in_panel;
    tile.next = c.weight + next * w.panel_bytes() + in_panel;
    tile.k = std::min(k_block, k - k0);
    tile.first = k0 == 0;
    int64_t tiles = ceil_div(n, kernel.max_rows);
    bool streams = tiles == 1 && w.panel_bytes() > kStreamBytes;  // the hardware's prefetchers do better by themselves
    for (int64_t i = 0, done = 0; i < tiles; i++) {
      tile.rows = static_cast<int>(n * (i + 1) / tiles - done);
      tile.acc = acc + done * kPanel;
      if (!streams) {
        tile.next_first = static_cast<int>(256 * i / tiles);
        tile.next_last = static_cast<int>(256 * (i + 1) / tiles);
      }
      set_rows(tile, row + done, k0);
      kernel.run(tile);
      done += tile.rows;
    }
  }

  void set_rows(TileCall& tile, int64_t row, int64_t k0) const {
    if (c.arithmetic != Arithmetic::kInt8) {
      int64_t size = c.arithmetic == Arithmetic::kFloat ? 4 : 2;
      tile.a = static_cast<const std::byte*>(c.x) + (row * c.ldx + k0) * size;
      tile.lda = c.ldx;
      return;
    }
    const ActForm& f = c.q.form;
    tile.a = c.q.q + row * f.padded_k + k0;
    tile.lda = f.padded_k;
    tile.a_scale = c.q.scale + row * f.groups() + k0 / 64;
    tile.ld_scale = f.groups();
    tile.a_sum = static_cast<const int32_t*>(c.q.sum) + row * f.sums_per_row() + k0 / f.sum_unit;
    tile.ld_sum = f.sums_per_row();
  }

  // The two products of each row become one, rows close up.
  static void add_terms(float* acc, int64_t n) {
    for (int64_t r = 0; r < n / 2; r++)
      for (int j = 0; j < kPanel; j++) acc[r * kPanel + j] = acc[2 * r * kPanel + j] + acc[(2 * r + 1) * kPanel + j];
  }

  void finish(int64_t p, int64_t row, int64_t n, const float* acc) const {
    const WeightLayout& w = *c.layout;
    int64_t width = w.gated ? kPanel / 2 : kPanel, column = p * width;
    EpilogueCall e;
    e.acc = acc;
    e.rows = static_cast<int>(n);
    e.n = static_cast<int>(std::min(width, w.outputs() - column));
    if (w.channel_scales()) e.scale = reinterpret_cast<const float*>(c.weight + w.scales_offset()) + p * kPanel;
    alignas(64) float bias[kPanel];
    if (c.bias) {
      for (int j = 0; j < kPanel; j++) {
        int64_t r = w.row_of(p, j);
        bias[j] = r < 0 ? 0.0f : c.bias[r];
      }
      e.bias = bias;
    }
    if (c.residual) e.residual = c.residual + row * c.ld_residual + column;
    e.ld_residual = c.ld_residual;
    e.y = c.y + row * c.ldy + column;
    e.ldy = c.ldy;
    e.out_scale = c.out_scale;
    e.act = c.act;
    e.gated = w.gated;
    e.stream = stream;
    t.epilogue(e);
  }
};

}  // namespace

const TileKernel* find_tile_kernel(const KernelTable& t, const WeightLayout& w, Arithmetic arithmetic) {
  const TileKernel* found = nullptr;
  switch (w.kind) {
    case WeightKind::kF32:
      if (arithmetic == Arithmetic::kFloat) found = &t.f32;
      break;
    case WeightKind::kF16:
      if (arithmetic == Arithmetic::kFloat) found = &t.f16;
      break;
    case WeightKind::kBf16:
      if (arithmetic == Arithmetic::kFloat) found = &t.bf16;
      if (arithmetic == Arithmetic::kBf16Dot) found = &t.bf16_dot;
      break;
    case WeightKind::kInt8:
      if (arithmetic == Arithmetic::kFloat) found = &t.int8w[w.group / 32];
      if (arithmetic == Arithmetic::kInt8) found = &t.int8[w.group / 32];
      break;
    case WeightKind::kInt4:
      if (arithmetic == Arithmetic::kInt8)
        found = &t.int4[static_cast<int>(w.term)][w.group == 32 ? 0 : w.group == 64 ? 1 : 2];
      break;
  }
  return found && found->run ? found : nullptr;
}

void linear(const KernelTable& t, const LinearCall& call, ThreadPool& pool) {
  if (call.m <= 0) return;
  Job job(call, t, *find_tile_kernel(t, *call.layout, call.arithmetic), pool.size());
  pool.parallel_for(job.row_blocks * job.chunks_per_block, [&](int64_t chunk, int) { job.run_chunk(chunk); });
}

bool bf16_dot_pays(const KernelTable& t) {
  if (!t.bf16_dot.run) return false;
  static const bool pays = [&t] {
    constexpr int kRows = 12, kK = 256;  // operands of 28 KiB: first-level cache
    alignas(64) std::byte w[kK / 2 * 128] = {};
    alignas(64) float a[kRows * kK] = {}, acc[kRows * kPanel];
    TileCall c;
    c.a = a;
    c.lda = c.k = kK;
    c.w = w;
    c.acc = acc;
    c.rows = kRows;
    auto fastest = [&](const TileKernel& kernel) {
      auto best = std::chrono::steady_clock::duration::max();
      for (int i = 0; i < 8; i++) {
        auto start = std::chrono::steady_clock::now();
        kernel.run(c);
        best = std::min(best, std::chrono::steady_clock::now() - start);
      }
      return best;
    };
    return fastest(t.bf16_dot) < fastest(t.bf16);
  }();
  return pays;
}

void round_rows_bf16(const KernelTable& t, const float* x, int64_t ldx, int64_t m, int64_t k, uint16_t* out,
                     ThreadPool& pool) {
  int64_t ld = align_up(k, 2), rows_per_chunk = std::max<int64_t>(1, 16384 / k);
  pool.parallel_for(ceil_div(m, rows_per_chunk), [&](int64_t chunk, int) {
    for (int64_t r = chunk * rows_per_chunk; r < std::min(m, (chunk + 1) * rows_per_chunk); r++)
      t.round_row_bf16(x + r * ldx, k, out + r * ld);
  });
}

}  // namespace brisk::cpu
