// ONNX's Attention over whole tensors. Keys and values of each (batch, key head) are packed once into panels of 32 columns;
// then tiles of rows meet blocks of 128 keys: scores, mask, softmax of the block, product with the values, merged with what
// came before (online softmax: Milakov and Gimelshein, 2018; blocks as in FlashAttention, Dao et al., 2022). Scores never
// leave the first-level cache.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cpu/light.h"

namespace brisk::cpu {
namespace {

constexpr int kBlockKeys = 128, kSegment = 32, kTileRows = 12, kItemRows = 48;

// Operands: 0 q, 1 k, 2 v, 3 mask, 4 past k, 5 past v, 6 valid keys. Rank 3 is [B, S, heads * size], rank 4 [B, heads, S, size].
// A row is one query of one head; rows of the heads that share a key head are counted together, head by head.
class Sdpa {
 public:
  explicit Sdpa(const KernelArgs& k) : k_(k), a_(k.get<SdpaAttrs>()) {
    const Dims &q = k.in[0].shape, &key = k.in[1].shape, &v = k.in[2].shape;
    flat_ = q.rank == 3;
    batch_ = q[0];
    heads_ = flat_ ? a_.heads : q[1];
    kv_heads_ = flat_ ? a_.kv_heads : key[1];
    queries_ = flat_ ? q[1] : q[2];
    new_keys_ = flat_ ? key[1] : key[2];
    size_ = flat_ ? q[2] / std::max<int64_t>(heads_, 1) : q[3];
    v_size_ = flat_ ? v[2] / std::max<int64_t>(kv_heads_, 1) : v[3];
    past_ = k.has(4) ? k.in[4].shape[2] : 0;
    keys_ = past_ + new_keys_;
    group_ = kv_heads_ > 0 ? heads_ / kv_heads_ : 0;
    rows_ = group_ * queries_;
    panels_ = static_cast<int>(ceil_div(v_size_, kSegment));
    key_panels_ = ceil_div(keys_, kSegment);
  }

  int64_t pack_floats() const { return key_panels_ * kSegment * (size_ + panels_ * kSegment); }  // of one key head
  int64_t workspace() const { return batch_ * kv_heads_ * pack_floats() * 4; }

  Status run(void* workspace, const KernelTable& t, const LightTable& light, ThreadPool& pool) {
    BRISK_TRY(check());
    copy_present(1, 1, size_, 4, pool);
    copy_present(2, 2, v_size_, 5, pool);
    if (k_.out[0].count() == 0) return {};
    t_ = &t, light_ = &light;
    packed_ = static_cast<float*>(workspace);
    scale_ = a_.scale != 0 ? a_.scale : 1 / std::sqrt(static_cast<float>(size_));
    int64_t heads = batch_ * kv_heads_, pieces = ceil_div(key_panels_, 4);
    for_ranges(pool, heads * pieces, static_cast<double>(128 * (size_ + v_size_)), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) pack(i / pieces, i % pieces * 4);
    });
    int64_t items = ceil_div(rows_, kItemRows);
    double work = static_cast<double>(std::min<int64_t>(rows_, kItemRows)) * static_cast<double>(keys_) * static_cast<double>(size_ + v_size_) / 8;
    for_ranges(pool, heads * items, work, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) item(i / items, rows_ * (i % items) / items, rows_ * (i % items + 1) / items);
    });
    return {};
  }

 private:
  Status check() {
    if (k_.has(4) != k_.has(5)) return invalid("past k and past v come together");
    if (heads_ < 1 || kv_heads_ < 1 || heads_ % kv_heads_ != 0) return invalid(std::to_string(heads_) + " heads over " + std::to_string(kv_heads_) + " key heads");
    auto wants = [&](size_t i, int64_t rows, int64_t size) { return !k_.has(i) || k_.in[i].count() == batch_ * kv_heads_ * rows * size; };
    if (!wants(1, new_keys_, size_) || !wants(2, new_keys_, v_size_) || !wants(4, past_, size_) || !wants(5, past_, v_size_))
      return invalid("q, k, v and past do not fit each other");
    if (k_.has(6) && k_.in[6].count() != batch_) return invalid("numbers of valid keys do not fit the batch");
    auto holds = [&](size_t i, int64_t n) { return k_.out.size() <= i || !k_.out[i].present || k_.out[i].count() == n; };
    if (!holds(1, batch_ * kv_heads_ * keys_ * size_) || !holds(2, batch_ * kv_heads_ * keys_ * v_size_))
      return invalid("results do not fit a cache of " + std::to_string(keys_));
    mask_keys_ = keys_;
    if (!k_.has(3)) return {};
    const Dims& m = k_.in[3].shape;
    if (m.rank > 4) return invalid("mask of rank " + std::to_string(m.rank));
    mask_keys_ = m.rank == 0 || m[m.rank - 1] == 1 ? keys_ : m[m.rank - 1];
    int64_t full[4] = {batch_, heads_, queries_, mask_keys_}, stride = 1;
    for (int i = 3; i >= 0; --i) {
      int own = i - (4 - m.rank);
      int64_t n = own < 0 ? 1 : m[own];
      if (n != 1 && n != full[i]) return invalid("mask " + to_string(m) + " does not fit the scores");
      mask_strides_[i] = n == 1 ? 0 : stride;
      stride *= n;
    }
    return {};
  }

  // Key or value (operand 1 or 2) of key head h at place j, past first.
  const float* cached(size_t operand, int64_t size, size_t past_operand, int64_t b, int64_t h, int64_t j) const {
    if (j < past_) return k_.in[past_operand].as<float>() + ((b * kv_heads_ + h) * past_ + j) * size;
    j -= past_;
    return k_.in[operand].as<float>() + (flat_ ? (b * new_keys_ + j) * kv_heads_ + h : (b * kv_heads_ + h) * new_keys_ + j) * size;
  }
  void copy_present(size_t out, size_t operand, int64_t size, size_t past_operand, ThreadPool& pool) const {
    if (k_.out.size() <= out || !k_.out[out].present) return;
    float* y = k_.out[out].as<float>();
    for_ranges(pool, batch_ * kv_heads_, static_cast<double>(keys_ * size), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        for (int64_t j = 0; j < keys_; ++j)
          std::memcpy(y + (i * keys_ + j) * size, cached(operand, size, past_operand, i / kv_heads_, i % kv_heads_, j), static_cast<size_t>(size) * 4);
    });
  }

  // Packed keys: [panel of 32 keys][size][32]. Packed values: [panel of 32 elements][keys rounded up][32]. Zeros beyond the ends.
  float* keys_of(int64_t head) const { return packed_ + head * pack_floats(); }
  float* values_of(int64_t head) const { return keys_of(head) + key_panels_ * kSegment * size_; }
  void pack(int64_t head, int64_t first_panel) const {
    int64_t b = head / kv_heads_, h = head % kv_heads_, padded = key_panels_ * kSegment;
    for (int64_t p = first_panel; p < std::min(key_panels_, first_panel + 4); ++p) {
      float* to = keys_of(head) + p * kSegment * size_;
      int64_t n = std::min<int64_t>(kSegment, keys_ - p * kSegment);
      if (n < kSegment) std::memset(to, 0, static_cast<size_t>(kSegment * size_) * 4);
      for (int64_t j = 0; j < n;) {
        // Rows that follow each other at one distance are transposed together.
        const float* from = cached(1, size_, 4, b, h, p * kSegment + j);
        bool in_past = p * kSegment + j < past_;
        int64_t run = in_past ? std::min(n - j, past_ - p * kSegment - j) : n - j, ld = !in_past && flat_ ? kv_heads_ * size_ : size_;
        light_->transpose32(reinterpret_cast<const uint32_t*>(from), ld, reinterpret_cast<uint32_t*>(to + j), kSegment, run, size_);
        j += run;
      }
      for (int64_t j = p * kSegment; j < (p + 1) * kSegment; ++j) {
        const float* from = j < keys_ ? cached(2, v_size_, 5, b, h, j) : nullptr;
        for (int64_t v = 0; v < panels_; ++v) {
          float* row = values_of(head) + (v * padded + j) * kSegment;
          int64_t width = from ? std::min<int64_t>(kSegment, v_size_ - v * kSegment) : 0;
          if (width > 0) std::memcpy(row, from + v * kSegment, static_cast<size_t>(width) * 4);
          std::fill(row + width, row + kSegment, 0.0f);
        }
      }
    }
  }

  int64_t valid(int64_t b) const { return k_.has(6) ? std::clamp<int64_t>(load_int(k_.in[6].data, k_.in[6].dtype, b), 0, keys_) : keys_; }
  // Keys [lo, hi) that query i of batch b may see, the mask aside.
  void visible(int64_t b, int64_t i, int64_t& lo, int64_t& hi) const {
    int64_t own = i + (k_.has(6) && !k_.has(4) ? load_int(k_.in[6].data, k_.in[6].dtype, b) - queries_ : past_);
    lo = 0, hi = std::min(valid(b), mask_keys_);
    if (a_.causal) hi = std::min(hi, own + 1);
    if (a_.left_window >= 0) lo = std::max(lo, own - a_.left_window);
    if (a_.right_window >= 0) hi = std::min(hi, own + a_.right_window + 1);
    hi = std::max(hi, lo);
  }

  struct Buffers {
    std::vector<float> q, acc, max, sum, part;
    std::vector<int64_t> lo, hi;
  };
  void item(int64_t head, int64_t r0, int64_t r1) const {
    thread_local Buffers u;
    auto n = static_cast<size_t>(r1 - r0), width = static_cast<size_t>(panels_) * kSegment;
    u.q.resize(n * static_cast<size_t>(size_));
    u.acc.assign(n * width, 0.0f);
    u.max.assign(n, -INFINITY), u.sum.assign(n, 0.0f);
    u.part.resize(kTileRows * width);
    u.lo.resize(n), u.hi.resize(n);
    int64_t b = head / kv_heads_, first_key = keys_, last_key = 0;
    for (int64_t r = r0; r < r1; ++r) {
      auto at = static_cast<size_t>(r - r0);
      int64_t i = r % queries_;
      light_->scale_shift(k_.in[0].as<float>() + place(head, r) * size_, size_, scale_, 0, u.q.data() + at * static_cast<size_t>(size_));
      visible(b, i, u.lo[at], u.hi[at]);
      first_key = std::min(first_key, u.lo[at]), last_key = std::max(last_key, u.hi[at]);
    }
    int tile_rows = std::min(t_->f32.max_rows, kTileRows), tiles = static_cast<int>(ceil_div(static_cast<int64_t>(n), tile_rows));
    for (int64_t key = first_key / kBlockKeys * kBlockKeys; key < last_key; key += kBlockKeys)
      for (int i = 0; i < tiles; ++i) {
        int64_t first = static_cast<int64_t>(n) * i / tiles;
        block(u, head, r0, first, static_cast<int>(static_cast<int64_t>(n) * (i + 1) / tiles - first), key);
      }
    for (size_t r = 0; r < n; ++r)
      t_->attend_finish(u.acc.data() + r * width, u.sum[r], static_cast<int>(v_size_), k_.out[0].as<float>() + place(head, r0 + static_cast<int64_t>(r)) * v_size_);
  }

  // Where row r of a key head lies in q and in the result, in vectors of one head.
  int64_t place(int64_t head, int64_t r) const {
    int64_t b = head / kv_heads_, h = head % kv_heads_ * group_ + r / queries_, i = r % queries_;
    return flat_ ? (b * queries_ + i) * heads_ + h : (b * heads_ + h) * queries_ + i;
  }

  // Rows [first, first + n) of an item against the keys from `key` on.
  void block(Buffers& u, int64_t head, int64_t r0, int64_t first, int n, int64_t key) const {
    int lo[kTileRows], hi[kTileRows], last = 0;
    bool any = false;
    for (int r = 0; r < n; ++r) {
      auto at = static_cast<size_t>(first + r);
      lo[r] = static_cast<int>(std::clamp<int64_t>(u.lo[at] - key, 0, kBlockKeys));
      hi[r] = static_cast<int>(std::clamp<int64_t>(u.hi[at] - key, 0, kBlockKeys));
      any |= lo[r] < hi[r];
      last = std::max(last, hi[r]);
    }
    if (!any) return;
    int segments = (last + kSegment - 1) / kSegment;
    alignas(64) float s[kBlockKeys * kTileRows];
    float max[kTileRows], sum[kTileRows];
    TileCall tile;
    tile.rows = n;
    tile.a = u.q.data() + static_cast<size_t>(first * size_);
    tile.lda = tile.k = size_;
    for (int g = 0; g < segments; ++g) {
      tile.w = reinterpret_cast<const std::byte*>(keys_of(head) + (key / kSegment + g) * kSegment * size_);
      tile.acc = s + g * n * kSegment;
      t_->f32.run(tile);
    }
    float softcap = a_.softcap;
    if (softcap > 0 && k_.has(3)) {  // before the mask
      cap(s, segments * n * kSegment);
      softcap = 0;
    }
    if (k_.has(3)) add_mask(s, head, r0 + first, n, key, lo, hi);
    t_->attend_softmax({s, n, segments, lo, hi, softcap, max, sum});
    tile.a = s;
    tile.lda = kSegment;
    for (int g = 0; g < segments; ++g) {
      tile.a = s + g * n * kSegment;
      tile.k = std::min(kSegment, last - g * kSegment);
      tile.first = g == 0;
      for (int p = 0; p < panels_; ++p) {
        tile.w = reinterpret_cast<const std::byte*>(values_of(head) + (p * key_panels_ * kSegment + key + g * kSegment) * kSegment);
        tile.acc = u.part.data() + static_cast<size_t>(p) * static_cast<size_t>(n) * kSegment;
        t_->f32.run(tile);
      }
    }
    auto at = static_cast<size_t>(first);
    t_->attend_merge({n, panels_, n, u.max.data() + at, u.sum.data() + at, u.acc.data() + at * static_cast<size_t>(panels_) * kSegment, max, sum, u.part.data()});
  }

  void cap(float* s, int64_t n) const {
    light_->scale_shift(s, n, 1 / a_.softcap, 0, s);
    light_->pointwise(OpId::kTanh, DType::kF32, 0)({s, nullptr, nullptr, s, n});
    light_->scale_shift(s, n, a_.softcap, 0, s);
  }

  // A row that the mask leaves nothing of this block sees no key.
  void add_mask(float* s, int64_t head, int64_t row, int n, int64_t key, int* lo, int* hi) const {
    const TensorView& m = k_.in[3];
    int64_t b = head / kv_heads_;
    for (int r = 0; r < n; ++r) {
      int64_t h = head % kv_heads_ * group_ + (row + r) / queries_, i = (row + r) % queries_;
      int64_t base = b * mask_strides_[0] + h * mask_strides_[1] + i * mask_strides_[2] + key * mask_strides_[3];
      float top = -INFINITY;
      for (int j0 = lo[r] / kSegment * kSegment; j0 < hi[r]; j0 += kSegment) {
        float* at = s + (j0 / kSegment * n + r) * kSegment;
        for (int j = std::max(j0, lo[r]); j < std::min(hi[r], j0 + kSegment); ++j) {
          int64_t e = base + j * mask_strides_[3];
          float add = m.dtype == DType::kBool ? (m.as<uint8_t>()[e] ? 0.0f : -INFINITY) : m.as<float>()[e];
          at[j - j0] += add;
          top = std::max(top, add);
        }
      }
      if (top == -INFINITY) lo[r] = hi[r] = 0;
    }
  }

  const KernelArgs& k_;
  const SdpaAttrs& a_;
  const KernelTable* t_ = nullptr;
  const LightTable* light_ = nullptr;
  bool flat_ = false;
  float scale_ = 1;
  float* packed_ = nullptr;
  int panels_ = 0;
  int64_t batch_, heads_, kv_heads_, queries_, new_keys_, size_, v_size_, past_, keys_, group_, rows_, key_panels_, mask_keys_ = 0;
  int64_t mask_strides_[4] = {};
};

Status run_sdpa(KernelContext& kc, const KernelArgs& k) {
  Context c = context_of(kc);
  return Sdpa(k).run(k.workspace, c.table, light_of_host(), c.pool);
}
int64_t sdpa_workspace(const KernelArgs& k) { return Sdpa(k).workspace(); }

// Ragged caches and scores as a result are ref's.
bool accepts_sdpa(const ProblemDesc& p) {
  for (size_t i : {0, 1, 2, 4, 5})
    if (p.has(i) && p.inputs[i].type.dtype != DType::kF32) return false;
  if (p.has(3) && p.inputs[3].type.dtype != DType::kF32 && p.inputs[3].type.dtype != DType::kBool) return false;
  return all_plain(p) && !p.has(7) && p.outputs.size() <= 3;
}

}  // namespace

void add_light_attention(Registry& r) {
  KernelDesc d = light_desc(OpId::kAttention, run_sdpa, accepts_sdpa);
  d.workspace = sdpa_workspace;
  r.add(d);
}

}  // namespace brisk::cpu
