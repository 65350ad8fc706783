#include "backend/cpu/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <new>
#include <vector>

#include "backend/cpu/rope.h"
#include "base/checked.h"
#include "base/half.h"

namespace brisk::cpu {
namespace {

// Rows of one work item: its queries and running outputs (24 KiB each) stay in the second-level cache beside a key block.
constexpr int kItemFloats = 6144;
constexpr int kItemRows = 96;
constexpr int kTileRows = 12;
// Key blocks are split over threads only for few items of few rows (decode), which bounds the scratch for partials.
constexpr int kSplitRows = 24;
constexpr int kSplitItems = 16;

// Rows r0..r1 of one sequence and kv head; row r is token r / group of the sequence, head r % group of the kv head's.
struct Item {
  int64_t sequence = 0, kv_head = 0, r0 = 0, r1 = 0;
  int rows() const { return static_cast<int>(r1 - r0); }
};

// The partial result of some rows for one key block: `out` is [panels][rows][32] per tile of rows.
struct Partial {
  float *max, *sum, *out;
};

class Attention {
 public:
  Attention(const KernelTable& t, const AttentionCall& c, int threads) : t_(t), c_(c) {
    const KvLayout& l = c.layout;
    group_ = c.heads / l.kv_heads;
    panels_ = static_cast<int>(ceil_div(l.head_dim, 32));
    item_rows_ = std::clamp(kItemFloats / (panels_ * 32), 1, kItemRows);
    const TileKernel& typed = l.type == CacheType::kF32 ? t.f32 : l.type == CacheType::kBf16 ? t.bf16 : t.f16;
    score_ = c.bf16_dot ? &t.bf16_dot : &typed;
    value_ = !l.value_panels() ? &t.f32 : score_;
    tile_rows_ = std::min({score_->max_rows, value_->max_rows, kTileRows});
    int most_rows = 0;
    thread_local std::vector<int64_t> first_items;  // the caller's, which waits until the last item is done
    first_items.resize(static_cast<size_t>(c.sequences));
    first_item_ = first_items.data();
    for (int64_t s = 0; s < c.sequences; s++) {
      first_items[static_cast<size_t>(s)] = items_;
      int64_t rows = int64_t{c.seq_starts[s + 1] - c.seq_starts[s]} * group_;
      items_ += ceil_div(rows, item_rows_) * l.kv_heads;
      most_rows = std::max<int>(most_rows, static_cast<int>(std::min<int64_t>(rows, item_rows_)));
      if (rows) key_blocks_ = std::max<int64_t>(key_blocks_, c.positions[c.seq_starts[s + 1] - 1] / kKeyBlock + 1);
    }
    if (items_ > 0 && items_ < std::min(2 * threads, kSplitItems) && most_rows <= kSplitRows)
      parts_ = std::clamp<int64_t>(ceil_div(4 * threads, items_), 1, key_blocks_);
  }

  static int64_t partial_floats(int panels, int rows) { return int64_t{rows} * (2 + panels * 32); }

  void run(void* workspace, ThreadPool& pool) {
    if (items_ == 0) return;
    if (parts_ <= 1) {
      // the last tokens see the most keys: longest work first
      pool.parallel_for(items_, [&](int64_t chunk, int) { whole_item(item(items_ - 1 - chunk)); });
      return;
    }
    auto* left = static_cast<std::atomic<int64_t>*>(workspace);
    auto* partials = reinterpret_cast<float*>(left + kSplitItems);
    for (int64_t i = 0; i < items_; i++) new (left + i) std::atomic<int64_t>(parts_);
    pool.parallel_for(items_ * parts_, [&](int64_t chunk, int) {
      int64_t i = chunk / parts_, part = chunk % parts_;
      Item it = item(i);
      float* base = partials + i * key_blocks_ * partial_floats(panels_, kSplitRows);
      split_part(it, key_blocks_ * part / parts_, key_blocks_ * (part + 1) / parts_, base);
      if (left[i].fetch_sub(1, std::memory_order_acq_rel) == 1) merge_parts(it, base);  // whoever is last
    });
  }

 private:
  Item item(int64_t index) const {
    int64_t s = std::upper_bound(first_item_, first_item_ + c_.sequences, index) - first_item_ - 1;
    int64_t rows = int64_t{c_.seq_starts[s + 1] - c_.seq_starts[s]} * group_, tiles = ceil_div(rows, item_rows_);
    int64_t in_sequence = index - first_item_[s], tile = in_sequence / c_.layout.kv_heads;
    return {s, in_sequence % c_.layout.kv_heads, rows * tile / tiles, rows * (tile + 1) / tiles};
  }
  int64_t token(const Item& it, int64_t row) const { return c_.seq_starts[it.sequence] + row / group_; }
  int64_t head(const Item& it, int64_t row) const { return it.kv_head * group_ + row % group_; }

  // Queries of an item, rotated and scaled: [rows][head_dim], floats, or bf16 at the start of the same memory.
  void load_queries(const Item& it, float* q) const {
    int dim = c_.layout.head_dim;
    for (int64_t r = it.r0; r < it.r1;) {
      int64_t at = token(it, r);
      RopeAngles angles(t_, c_.rope, c_.positions[at]);
      for (; r < it.r1 && token(it, r) == at; r++)
        angles.rotate(c_.q + at * c_.ld_q + head(it, r) * dim, dim, c_.scale, q + (r - it.r0) * dim);
    }
    // rows shrink toward the front, each vector is read before it is written over
    if (c_.bf16_dot) t_.to_bf16(q, int64_t{it.rows()} * dim, reinterpret_cast<uint16_t*>(q));
  }
  const void* query(const float* q, int row) const {
    int64_t at = int64_t{row} * c_.layout.head_dim;
    return c_.bf16_dot ? static_cast<const void*>(reinterpret_cast<const uint16_t*>(q) + at) : q + at;
  }

  const std::byte* state(const Item& it, int64_t block_column, int which) const {
    int64_t block = c_.block_tables[it.sequence * c_.table_columns + block_column];
    return static_cast<const std::byte*>(c_.state) + c_.layout.head_offset(block, which, it.kv_head);
  }

  // Values of a block as fp32 panels [panels][32 tokens][32], for head sizes that have none in the cache.
  const float* widen_values(const std::byte* from, int keys, int segment) const {
    thread_local std::vector<float> buffer;
    int dim = c_.layout.head_dim;
    size_t floats = static_cast<size_t>(panels_) * 1024;
    if (buffer.size() < kSegments * floats) buffer.resize(kSegments * floats);
    float* out = buffer.data() + static_cast<size_t>(segment) * floats;
    for (int j = 0; j < keys; j++)
      for (int i = 0; i < panels_ * 32; i++) {
        float v = 0;
        int64_t e = int64_t{j} * dim + i;
        if (i < dim && c_.layout.type == CacheType::kF32) v = reinterpret_cast<const float*>(from)[e];
        if (i < dim && c_.layout.type == CacheType::kBf16) v = reinterpret_cast<const bf16*>(from)[e];
        if (i < dim && c_.layout.type == CacheType::kF16) v = reinterpret_cast<const f16*>(from)[e];
        out[i / 32 * 1024 + j * 32 + i % 32] = v;
      }
    return out;
  }

  // Rows first..first + n of an item against one key block. The order of all sums is that of the keys and of the head's
  // elements; rows that share the tile change nothing but zeros added.
  void partial(const Item& it, const float* q, int first, int n, int64_t key_block, Partial out) const {
    int lo[kTileRows], hi[kTileRows], last = 0;
    int64_t key0 = key_block * kKeyBlock;
    bool any = false;
    for (int r = 0; r < n; r++) {
      int64_t position = c_.positions[token(it, it.r0 + first + r)];
      hi[r] = static_cast<int>(std::clamp<int64_t>(position + 1 - key0, 0, kKeyBlock));
      lo[r] = c_.window ? static_cast<int>(std::clamp<int64_t>(position + 1 - c_.window - key0, 0, kKeyBlock)) : 0;
      any |= lo[r] < hi[r];
      last = std::max(last, hi[r]);
    }
    if (!any) {
      std::fill(out.max, out.max + n, -INFINITY);
      return;
    }
    int segments = (last + kBlockTokens - 1) / kBlockTokens, dim = c_.layout.head_dim;
    alignas(64) float s[kSegments * kTileRows * 32];
    TileCall tile;
    tile.rows = n;
    for (int g = 0; g < segments; g++) {
      tile.a = query(q, first);
      tile.lda = dim;
      tile.w = state(it, key_block * kSegments + g, 0);
      tile.k = dim;
      tile.acc = s + g * n * 32;
      score_->run(tile);
    }
    t_.attend_softmax({s, n, segments, lo, hi, c_.softcap, out.max, out.sum});
    bool narrow = value_ == &t_.bf16_dot;
    if (narrow) t_.to_bf16(s, segments * n * 32, reinterpret_cast<uint16_t*>(s));
    for (int g = 0; g < segments; g++) {
      tile.a = narrow ? static_cast<const void*>(reinterpret_cast<const uint16_t*>(s) + g * n * 32) : s + g * n * 32;
      tile.lda = 32;
      tile.k = std::min(kBlockTokens, last - g * kBlockTokens);
      tile.first = g == 0;
      const std::byte* values = state(it, key_block * kSegments + g, 1);
      int64_t panel_bytes = int64_t{1024} * c_.layout.element_bytes();
      if (!c_.layout.value_panels()) {
        values = reinterpret_cast<const std::byte*>(widen_values(values, static_cast<int>(tile.k), g));
        panel_bytes = 4096;
      }
      for (int p = 0; p < panels_; p++) {
        tile.w = values + p * panel_bytes;
        tile.acc = out.out + p * n * 32;
        value_->run(tile);
      }
    }
  }

  // Running (max, sum, output) of an item's rows.
  struct Running {
    alignas(64) float acc[kItemFloats + 1024];
    float max[kItemRows], sum[kItemRows];
    Running(int rows, int panels) {
      std::fill(acc, acc + rows * panels * 32, 0.0f);
      std::fill(max, max + rows, -INFINITY);
      std::fill(sum, sum + rows, 0.0f);
    }
  };
  void merge(Running& run, int first, int n, const Partial& part) const {
    t_.attend_merge({n, panels_, n, run.max + first, run.sum + first, run.acc + first * panels_ * 32, part.max, part.sum,
                     part.out});
  }
  void finish(const Item& it, const Running& run) const {
    int dim = c_.layout.head_dim;
    for (int r = 0; r < it.rows(); r++)
      t_.attend_finish(run.acc + r * panels_ * 32, run.sum[r], dim,
                       c_.out + token(it, it.r0 + r) * c_.ld_out + head(it, it.r0 + r) * dim);
  }

  template <class F>
  void for_row_tiles(const Item& it, F&& f) const {
    int tiles = static_cast<int>(ceil_div(it.rows(), tile_rows_));
    for (int i = 0; i < tiles; i++) {
      int first = it.rows() * i / tiles;
      f(first, it.rows() * (i + 1) / tiles - first);
    }
  }

  // First key block that any of the item's rows sees, and one past the last.
  std::pair<int64_t, int64_t> visible_blocks(const Item& it) const {
    int64_t first = c_.positions[token(it, it.r0)], last = c_.positions[token(it, it.r1 - 1)];
    int64_t lowest = c_.window ? std::max<int64_t>(0, first + 1 - c_.window) : 0;
    return {lowest / kKeyBlock, last / kKeyBlock + 1};
  }

  // Blocks of state lie anywhere, where no hardware prefetcher finds them; rows so few do not wait for them twice.
  void prefetch_block(const Item& it, int64_t key_block, int which) const {
    if (it.rows() > kSplitRows) return;
    int64_t keys = c_.positions[token(it, it.r1 - 1)] + 1;
    for (int64_t column = key_block * kSegments; column < std::min((key_block + 1) * kSegments, ceil_div(keys, kBlockTokens)); column++) {
      const std::byte* from = state(it, column, which);
      for (int64_t i = 0; i < c_.layout.head_bytes(); i += 64) __builtin_prefetch(from + i, 0, 2);
    }
  }

  void whole_item(const Item& it) const {
    alignas(64) float q[kItemFloats + 1024], out[kTileRows * kMaxHeadDim];
    float max[kTileRows], sum[kTileRows];
    auto [begin, end] = visible_blocks(it);
    prefetch_block(it, begin, 0);
    load_queries(it, q);
    Running run(it.rows(), panels_);
    for (int64_t kb = begin; kb < end; kb++) {
      prefetch_block(it, kb, 1);
      if (kb + 1 < end) prefetch_block(it, kb + 1, 0);
      for_row_tiles(it, [&](int first, int n) {
        Partial part{max, sum, out};
        partial(it, q, first, n, kb, part);
        merge(run, first, n, part);
      });
    }
    finish(it, run);
  }

  Partial stored(float* base, int64_t key_block, int first) const {
    float* at = base + key_block * partial_floats(panels_, kSplitRows);
    return {at + first, at + kSplitRows + first, at + 2 * kSplitRows + first * panels_ * 32};
  }
  void split_part(const Item& it, int64_t begin, int64_t end, float* base) const {
    alignas(64) float q[kSplitRows * kMaxHeadDim];
    auto [visible_begin, visible_end] = visible_blocks(it);
    begin = std::max(begin, visible_begin);
    end = std::min(end, visible_end);
    if (begin >= end) return;
    load_queries(it, q);
    for (int64_t kb = begin; kb < end; kb++)
      for_row_tiles(it, [&](int first, int n) { partial(it, q, first, n, kb, stored(base, kb, first)); });
  }
  void merge_parts(const Item& it, float* base) const {
    Running run(it.rows(), panels_);
    auto [begin, end] = visible_blocks(it);
    for (int64_t kb = begin; kb < end; kb++)
      for_row_tiles(it, [&](int first, int n) { merge(run, first, n, stored(base, kb, first)); });
    finish(it, run);
  }

  const KernelTable& t_;
  const AttentionCall& c_;
  int group_ = 1, panels_ = 1, item_rows_ = 1, tile_rows_ = 1;
  const TileKernel *score_ = nullptr, *value_ = nullptr;
  int64_t items_ = 0, key_blocks_ = 0, parts_ = 1;
  const int64_t* first_item_ = nullptr;  // of each sequence
};

}  // namespace

int64_t attention_workspace(const AttentionCall& c) {
  int panels = static_cast<int>(ceil_div(c.layout.head_dim, 32));
  return kSplitItems * 8 + kSplitItems * ceil_div(c.table_columns, kSegments) * Attention::partial_floats(panels, kSplitRows) * 4;
}

void attention(const KernelTable& t, const AttentionCall& call, void* workspace, ThreadPool& pool) {
  Attention(t, call, pool.size()).run(workspace, pool);
}

}  // namespace brisk::cpu
