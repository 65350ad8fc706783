// ONNX's Attention over whole tensors, and rotary embedding with tables.
#include <cmath>
#include <limits>
#include <vector>

#include "backend/ref/util.h"

namespace brisk::ref {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

// Operands: 0 q, 1 k, 2 v, 3 mask, 4 past k, 5 past v, 6 valid keys, 7 length of the cache. Rank 3 is [B, S, heads * size].
// With a length the rows of a batch are ragged: row b has valid keys [0, n_b), its new ones are the last of them, and the past
// in front of those is read from the start of its buffer. A row shorter than its new keys is padded at its end.
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
    size_ = flat_ ? q[2] / heads_ : q[3];
    v_size_ = flat_ ? v[2] / kv_heads_ : v[3];
    past_ = k.has(4) ? k.in[4].shape[2] : 0;
    keys_ = past_ + new_keys_;
    ragged_ = k.has(6) && k.has(7);
    if (ragged_ && k.in[7].count() == 1) keys_ = std::max(past_, load_int(k.in[7].data, k.in[7].dtype, 0));
  }

  Status run() {
    if (k_.has(4) != k_.has(5)) return invalid("past k and past v come together");
    if (heads_ < 1 || kv_heads_ < 1 || heads_ % kv_heads_ != 0) return invalid(std::to_string(heads_) + " heads over " + std::to_string(kv_heads_) + " key heads");
    auto wants = [&](size_t i, int64_t rows, int64_t size) { return !k_.has(i) || k_.in[i].count() == batch_ * kv_heads_ * rows * size; };
    if (!wants(1, new_keys_, size_) || !wants(2, new_keys_, v_size_) || !wants(4, past_, size_) || !wants(5, past_, v_size_))
      return invalid("q, k, v and past do not fit each other");
    if (k_.has(3)) BRISK_TRY(set_mask());
    if (k_.has(6) && k_.in[6].count() != batch_) return invalid("numbers of valid keys do not fit the batch");
    if (ragged_) BRISK_TRY(check_lengths());
    auto holds = [&](size_t i, int64_t n) { return k_.out.size() <= i || !k_.out[i].present || k_.out[i].count() == n; };
    if (!holds(1, batch_ * kv_heads_ * keys_ * size_) || !holds(2, batch_ * kv_heads_ * keys_ * v_size_) ||
        !holds(3, batch_ * heads_ * queries_ * keys_))
      return invalid("results do not fit a cache of " + std::to_string(keys_));
    return dispatch_float(k_.in[0].dtype, [&]<class T>(Tag<T>) -> Status {
      if (k_.out.size() > 1 && k_.out[1].present) present<T>(1, size_, 4, k_.out[1]);
      if (k_.out.size() > 2 && k_.out[2].present) present<T>(2, v_size_, 5, k_.out[2]);
      for (int64_t b = 0; b < batch_; ++b)
        for (int64_t h = 0; h < heads_; ++h)
          for (int64_t i = 0; i < queries_; ++i) attend<T>(b, h, i);
      return {};
    });
  }

 private:
  // The mask is broadcast to [B, heads, queries, its own keys]; keys that it does not reach are masked.
  Status set_mask() {
    const Dims& m = k_.in[3].shape;
    if (m.rank > 4) return invalid("mask of rank " + std::to_string(m.rank));
    mask_keys_ = m.rank ? m[m.rank - 1] : 1;
    mask_keys_ = mask_keys_ == 1 && keys_ != 1 ? keys_ : mask_keys_;
    Dims full{batch_, heads_, queries_, mask_keys_};
    for (int i = 0; i < m.rank; ++i)
      if (int64_t want = full[4 - m.rank + i]; m[i] != 1 && m[i] != want) return invalid("mask " + to_string(m) + " does not fit " + to_string(full));
    mask_ = broadcast_strides(m, full);
    return {};
  }

  Status check_lengths() const {
    if (k_.in[7].count() != 1) return invalid("the cache's length is not one number");
    for (int64_t b = 0; b < batch_; ++b) {
      int64_t n = valid(b), most = std::min(keys_, past_ + new_keys_);
      if (n < 1 || n > most) return invalid("row " + std::to_string(b) + " has " + std::to_string(n) + " valid keys, allowed 1 to " + std::to_string(most));
      if (past_of(b) + queries_ > keys_) return invalid("the new keys of row " + std::to_string(b) + " end beyond the cache's " + std::to_string(keys_));
    }
    return {};
  }
  int64_t valid(int64_t b) const { return k_.has(6) ? load_int(k_.in[6].data, k_.in[6].dtype, b) : keys_; }
  int64_t past_of(int64_t b) const { return ragged_ ? std::max<int64_t>(0, valid(b) - new_keys_) : past_; }

  // Element d of key or value (operand 1 or 2) of key head `h` at place j, past first.
  template <class T> T cached(int operand, int64_t size, int past_operand, int64_t b, int64_t h, int64_t j, int64_t d) const {
    const int64_t own_past = past_of(b);
    if (j < own_past) return k_.in[static_cast<size_t>(past_operand)].template as<T>()[((b * kv_heads_ + h) * past_ + j) * size + d];
    j -= own_past;
    if (j >= new_keys_) return static_cast<T>(Acc<T>(0));  // room for later
    int64_t row = flat_ ? (b * new_keys_ + j) * kv_heads_ + h : (b * kv_heads_ + h) * new_keys_ + j;
    return k_.in[static_cast<size_t>(operand)].template as<T>()[row * size + d];
  }
  template <class T> void present(int operand, int64_t size, int past_operand, const TensorView& out) const {
    T* y = out.as<T>();
    for (int64_t b = 0; b < batch_; ++b)
      for (int64_t h = 0; h < kv_heads_; ++h)
        for (int64_t j = 0; j < keys_; ++j)
          for (int64_t d = 0; d < size; ++d) *y++ = cached<T>(operand, size, past_operand, b, h, j, d);
  }

  // What the mask, causality, windows and valid keys add to the score of query i and key j.
  double bias(int64_t b, int64_t h, int64_t i, int64_t j) const {
    int64_t own = i + (k_.has(6) && !k_.has(4) && !ragged_ ? valid(b) - queries_ : past_of(b));  // the query's own place among the keys
    if (j >= valid(b) || (a_.causal && j > own)) return kMasked;
    if ((a_.left_window >= 0 && own - j > a_.left_window) || (a_.right_window >= 0 && j - own > a_.right_window)) return kMasked;
    if (!k_.has(3)) return 0;
    if (j >= mask_keys_) return kMasked;
    int64_t at = b * mask_[0] + h * mask_[1] + i * mask_[2] + j * mask_[3];
    const TensorView& m = k_.in[3];
    if (m.dtype == DType::kBool) return m.as<uint8_t>()[at] ? 0 : kMasked;
    return m.dtype == DType::kF64 ? m.as<double>()[at] : static_cast<double>(load_float(m.data, m.dtype, at));
  }

  template <class T> static double rounded(double v) { return static_cast<double>(static_cast<Acc<T>>(static_cast<T>(static_cast<Acc<T>>(v)))); }

  template <class T> void attend(int64_t b, int64_t h, int64_t i) {
    int64_t kv = h / (heads_ / kv_heads_), row = flat_ ? (b * queries_ + i) * heads_ + h : (b * heads_ + h) * queries_ + i;
    const T* q = k_.in[0].template as<T>() + row * size_;
    double scale = a_.scale != 0 ? static_cast<double>(a_.scale) : 1 / std::sqrt(static_cast<double>(size_));
    double root = rounded<T>(std::sqrt(scale));  // on both sides, in the operands' type, as the standard defines it
    auto n = static_cast<size_t>(keys_);
    std::vector<double> score(n), shown(n), offset(n);
    double peak = kMasked, sum = 0;
    bool any = false;
    for (int64_t j = 0; j < keys_; ++j) {
      double s = 0;
      for (int64_t d = 0; d < size_; ++d)
        s += rounded<T>(root * static_cast<double>(static_cast<Acc<T>>(q[d]))) * rounded<T>(root * static_cast<double>(static_cast<Acc<T>>(cached<T>(1, size_, 4, b, kv, j, d))));
      s = rounded<T>(s);
      auto u = static_cast<size_t>(j);
      if (a_.softcap > 0) s = static_cast<double>(a_.softcap) * std::tanh(s / static_cast<double>(a_.softcap));
      offset[u] = bias(b, h, i, j);
      shown[u] = a_.scores_mode == 2 ? s + offset[u] : s;
      score[u] = s + offset[u];
      any = any || offset[u] != kMasked;
      peak = std::max(peak, score[u]);
    }
    for (double& s : score) sum += s = any ? std::exp(s - peak) : 0;
    for (double& s : score) s = sum > 0 ? rounded<T>(s / sum) : 0;
    for (int64_t d = 0; d < v_size_; ++d) {
      double y = 0;
      for (int64_t j = 0; j < keys_; ++j)
        if (double p = score[static_cast<size_t>(j)]; p != 0) y += p * static_cast<double>(static_cast<Acc<T>>(cached<T>(2, v_size_, 5, b, kv, j, d)));
      k_.out[0].template as<T>()[row * v_size_ + d] = static_cast<T>(static_cast<Acc<T>>(y));
    }
    if (k_.out.size() > 3 && k_.out[3].present)
      for (int64_t j = 0; j < keys_; ++j) {
        double v = a_.scores_mode == 3 ? score[static_cast<size_t>(j)] : shown[static_cast<size_t>(j)];
        k_.out[3].template as<T>()[((b * heads_ + h) * queries_ + i) * keys_ + j] = static_cast<T>(static_cast<Acc<T>>(v));
      }
  }

  const KernelArgs& k_;
  const SdpaAttrs& a_;
  bool flat_ = false, ragged_ = false;
  int64_t batch_, heads_, kv_heads_, queries_, new_keys_, size_, v_size_, past_, keys_, mask_keys_ = 0;
  Dims mask_;
};

Status run_sdpa(KernelContext&, const KernelArgs& k) {
  BRISK_TRY(same_dtype(k, {0, 1, 2, 4, 5}));
  return Sdpa(k).run();
}

// x: [B, H, S, d] or [B, S, H d]. Tables: [B or 1, S, dim / 2], or [places, dim / 2] read at positions [B, S].
Status run_rotary(KernelContext&, const KernelArgs& k) {
  BRISK_TRY(same_dtype(k, {0, 1, 2}));
  const auto& a = k.get<RopeAttrs>();
  const TensorView &x = k.in[0], &cos = k.in[1], &sin = k.in[2];
  bool flat = x.shape.rank == 3;
  int64_t half = a.dim / 2, batch = x.shape[0], heads = flat ? x.shape[2] / a.head_dim : x.shape[1], steps = flat ? x.shape[1] : x.shape[2];
  if (a.dim > a.head_dim || cos.shape.rank < 2 || cos.shape[cos.shape.rank - 1] != half || !(cos.shape == sin.shape)) return invalid("RotaryEmbedding: tables do not fit");
  int64_t rows = half ? cos.count() / half : 0;
  auto table_row = [&](int64_t b, int64_t s) -> Result<int64_t> {
    int64_t r = rows == steps ? s : b * steps + s;  // one table for all of the batch, or one each
    if (k.has(3)) {
      const TensorView& p = k.in[3];
      if (p.count() != batch * steps && p.count() != steps && p.count() != 1) return invalid("RotaryEmbedding: positions do not fit");
      // com.microsoft also allows the first position only.
      if (p.count() == 1) r = load_int(p.data, p.dtype, 0) + s;
      else r = load_int(p.data, p.dtype, p.count() == steps ? s : b * steps + s);
    }
    if (r < 0 || r >= rows) return invalid("RotaryEmbedding: position " + std::to_string(r) + " outside a table of " + std::to_string(rows));
    return r;
  };
  return dispatch_float(x.dtype, [&]<class T>(Tag<T>) -> Status {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t s = 0; s < steps; ++s) {
        BRISK_ASSIGN(int64_t r, table_row(b, s));
        for (int64_t h = 0; h < heads; ++h) {
          int64_t at = (flat ? (b * steps + s) * heads + h : (b * heads + h) * steps + s) * a.head_dim;
          const T* in = x.as<T>() + at;
          T* out = k.out[0].as<T>() + at;
          for (int64_t d = a.dim; d < a.head_dim; ++d) out[d] = in[d];
          for (int64_t i = 0; i < half; ++i) {
            int64_t p = a.interleaved ? 2 * i : i, q = a.interleaved ? 2 * i + 1 : i + half;
            auto c = static_cast<Acc<T>>(cos.as<T>()[r * half + i]), v = static_cast<Acc<T>>(sin.as<T>()[r * half + i]);
            auto u = static_cast<Acc<T>>(in[p]), w = static_cast<Acc<T>>(in[q]);
            out[p] = static_cast<T>(static_cast<Acc<T>>(c * u - v * w));
            out[q] = static_cast<T>(static_cast<Acc<T>>(v * u + c * w));
          }
        }
      }
    return {};
  });
}

}  // namespace

void add_attention(Registry& r) {
  add_plain(r, OpId::kAttention, run_sdpa);
  add_plain(r, OpId::kRotaryEmbedding, run_rotary);
}

}  // namespace brisk::ref
