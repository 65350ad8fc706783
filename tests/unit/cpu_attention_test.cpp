#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "backend/cpu/attention.h"
#include "base/half.h"

namespace brisk::cpu {
namespace {

struct Model {
  int heads, kv_heads, dim;
  CacheType type = CacheType::kF32;
  int64_t window = 0;
  float softcap = 0;
  int rope_dim = 0;
  bool interleaved = false;
  bool bf16_dot = false;

  int q_width() const { return heads * dim; }
  int kv_width() const { return kv_heads * dim; }
};

// Sequences with random queries, keys and values for every position, and a cache filled in steps.
class Fixture {
 public:
  Fixture(const KernelTable& t, const Model& m, std::vector<int> lengths, unsigned seed = 3)
      : t_(t), m_(m), lengths_(std::move(lengths)) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    auto fill = [&](std::vector<float>& v, size_t n) { for (v.resize(n); float& x : v) x = normal(rng); };
    columns_ = 0;
    for (int n : lengths_) columns_ = std::max(columns_, (n + kBlockTokens - 1) / kBlockTokens);
    int64_t blocks = 0;
    for (size_t s = 0; s < lengths_.size(); s++) {
      fill(q.emplace_back(), size_t(lengths_[s] * m.q_width()));
      fill(k.emplace_back(), size_t(lengths_[s] * m.kv_width()));
      fill(v.emplace_back(), size_t(lengths_[s] * m.kv_width()));
      out.emplace_back(size_t(lengths_[s] * m.q_width()));
      blocks += columns_;
    }
    table_.resize(size_t(blocks));
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), rng);
    layout_ = {m.type, m.kv_heads, m.dim};
    state_.assign(size_t(blocks * layout_.block_bytes()) + 64, std::byte{0xff});  // unwritten slots: NaN
    for (int i = 0; i < m.rope_dim / 2; i++) frequencies_.push_back(std::pow(10000.0f, -2.0f * float(i) / float(m.rope_dim)));
  }

  // One step: tokens [from[s], to[s]) of each sequence.
  void step(const std::vector<int>& from, const std::vector<int>& to, ThreadPool& pool) {
    std::vector<float> sq, sk, sv;
    std::vector<int32_t> positions, starts{0};
    for (size_t s = 0; s < lengths_.size(); s++) {
      auto append = [&](std::vector<float>& a, const std::vector<float>& b, int w) {
        a.insert(a.end(), b.begin() + from[s] * w, b.begin() + to[s] * w);
      };
      append(sq, q[s], m_.q_width());
      append(sk, k[s], m_.kv_width());
      append(sv, v[s], m_.kv_width());
      for (int p = from[s]; p < to[s]; p++) positions.push_back(p);
      starts.push_back(int32_t(positions.size()));
    }
    RopeSpec rope{m_.rope_dim, m_.interleaved, 1.0f, frequencies_.data()};
    void* state = state_.data() + (64 - reinterpret_cast<uintptr_t>(state_.data()) % 64) % 64;
    KvWriteCall w{layout_, rope, state, sk.data(), sv.data(), m_.kv_width(), m_.kv_width(), positions.data(),
                  starts.data(), int64_t(lengths_.size()), table_.data(), columns_};
    write_kv(t_, w, pool);
    std::vector<float> y(sq.size());
    AttentionCall c;
    c.layout = layout_;
    c.heads = m_.heads;
    c.scale = scale();
    c.window = m_.window;
    c.bf16_dot = m_.bf16_dot;
    c.softcap = m_.softcap;
    c.rope = rope;
    c.state = state;
    c.q = sq.data();
    c.ld_q = c.ld_out = m_.q_width();
    c.positions = positions.data();
    c.seq_starts = starts.data();
    c.sequences = int64_t(lengths_.size());
    c.block_tables = table_.data();
    c.table_columns = columns_;
    c.out = y.data();
    std::vector<double> scratch(size_t(attention_workspace(c)) / 8 + 1);
    attention(t_, c, scratch.data(), pool);
    for (size_t s = 0; s < lengths_.size(); s++)
      std::copy(y.begin() + starts[s] * m_.q_width(), y.begin() + starts[s + 1] * m_.q_width(),
                out[s].begin() + from[s] * m_.q_width());
  }
  void prefill(int chunk, ThreadPool& pool) {
    std::vector<int> from(lengths_.size()), to(lengths_.size());
    for (bool more = true; more;) {
      more = false;
      for (size_t s = 0; s < from.size(); s++) {
        from[s] = to[s];
        to[s] = std::min(lengths_[s], from[s] + chunk);
        more |= to[s] < lengths_[s];
      }
      step(from, to, pool);
    }
  }

  float scale() const { return 1.0f / std::sqrt(float(m_.dim)); }
  float stored(float x) const {
    return m_.type == CacheType::kF32 ? x : m_.type == CacheType::kBf16 ? float(bf16(x)) : float(f16(x));
  }
  std::vector<double> rotated(const float* x, int position) const {
    std::vector<double> r(x, x + m_.dim);
    int half = m_.rope_dim / 2;
    for (int i = 0; i < half; i++) {
      int a = m_.interleaved ? 2 * i : i, b = m_.interleaved ? 2 * i + 1 : i + half;
      double w = double(float(position) * frequencies_[size_t(i)]);
      r[size_t(a)] = x[a] * std::cos(w) - x[b] * std::sin(w);
      r[size_t(b)] = x[b] * std::cos(w) + x[a] * std::sin(w);
    }
    return r;
  }
  // Largest difference to attention in doubles over the stored keys and values.
  double error(size_t s, int position, int head) const {
    int kv = head / (m_.heads / m_.kv_heads), first = m_.window ? std::max<int>(0, position + 1 - int(m_.window)) : 0;
    auto query = rotated(&q[s][size_t(position * m_.q_width() + head * m_.dim)], position);
    std::vector<double> score, sum(size_t(m_.dim));
    for (int j = first; j <= position; j++) {
      auto key = rotated(&k[s][size_t(j * m_.kv_width() + kv * m_.dim)], j);
      double dot = 0;
      for (size_t i = 0; i < key.size(); i++) dot += query[i] * double(stored(float(key[i])));
      dot *= double(scale());
      score.push_back(m_.softcap > 0 ? m_.softcap * std::tanh(dot / double(m_.softcap)) : dot);
    }
    double top = *std::max_element(score.begin(), score.end()), total = 0, worst = 0;
    for (size_t j = 0; j < score.size(); j++) {
      double e = std::exp(score[j] - top);
      total += e;
      for (int i = 0; i < m_.dim; i++)
        sum[size_t(i)] += e * double(stored(v[s][(size_t(first) + j) * size_t(m_.kv_width()) + size_t(kv * m_.dim + i)]));
    }
    for (int i = 0; i < m_.dim; i++)
      worst = std::max(worst, std::fabs(sum[size_t(i)] / total - double(out[s][size_t(position * m_.q_width() + head * m_.dim + i)])));
    return worst;
  }

  std::vector<std::vector<float>> q, k, v, out;

 private:
  const KernelTable& t_;
  Model m_;
  std::vector<int> lengths_;
  KvLayout layout_;
  int columns_ = 0;
  std::vector<int32_t> table_;
  std::vector<std::byte> state_;
  std::vector<float> frequencies_;
};

std::vector<Model> models(Isa isa) {
  std::vector<Model> all;
  if (isa == Isa::kAvx512Bf16) {
    all.push_back({9, 3, 64, CacheType::kBf16, 0, 0, 64, false, true});
    all.push_back({6, 2, 96, CacheType::kBf16, 37, 0, 0, false, true});
    all.push_back({8, 1, 80, CacheType::kBf16, 0, 0, 20, true, true});
  }
  for (CacheType type : {CacheType::kF32, CacheType::kBf16, CacheType::kF16}) {
    all.push_back({9, 3, 64, type});
    all.push_back({4, 4, 32, type, 0, 0, 32, false});
    all.push_back({8, 1, 80, type, 0, 0, 20, true});
    all.push_back({6, 2, 96, type, 37, 0, 96, false});
    all.push_back({2, 1, 18, type, 0, 5.0f, 0, false});
  }
  return all;
}

TEST(CpuAttention, MatchesDoubles) {
  ThreadPool pool(2);
  for (Isa isa : present_isas())
    for (const Model& m : models(isa)) {
      Fixture f(kernels(isa), m, {1, 70, 131});
      f.prefill(1000, pool);
      for (auto [s, n] : {std::pair<size_t, int>{0, 1}, {1, 70}, {2, 131}})
        for (int p : {0, n / 3, n / 2, n - 1})
          for (int h = 0; h < m.heads; h++)
            // 16-bit caches: a key that rounds the other way after rotation in floats is one unit off;
            // bf16 dots: queries and probabilities have 8 bits
            ASSERT_LT(f.error(s, p, h), m.type == CacheType::kF32 ? 2e-6 : m.type == CacheType::kF16 ? 1e-3 : m.bf16_dot ? 2e-2 : 6e-3)
                << isa_name(isa) << " dim " << m.dim << " type " << int(m.type) << " sequence " << s << " position " << p;
    }
}

// Chunked, token by token (where key blocks are split over threads), at any thread count: the same bits.
TEST(CpuAttention, BitsDoNotDependOnChunksOrThreads) {
  ThreadPool one(1), two(2), three(3);
  for (Isa isa : present_isas())
    for (const Model& m : models(isa)) {
      std::vector<int> lengths{200};
      Fixture whole(kernels(isa), m, lengths), chunks(kernels(isa), m, lengths), single(kernels(isa), m, lengths);
      whole.prefill(1000, one);
      chunks.prefill(29, two);
      single.prefill(1, three);
      ASSERT_EQ(0, std::memcmp(whole.out[0].data(), chunks.out[0].data(), whole.out[0].size() * 4)) << isa_name(isa) << " dim " << m.dim;
      ASSERT_EQ(0, std::memcmp(whole.out[0].data(), single.out[0].data(), whole.out[0].size() * 4)) << isa_name(isa) << " dim " << m.dim;
    }
}

TEST(CpuRope, LargePositions) {
  for (Isa isa : present_isas()) {
    float frequency[5] = {1.0f, 0.37f, 0.1f, 1e-4f, 0.77f}, c[5], s[5];
    for (float position : {0.0f, 1.0f, 7.0f, 4095.0f, 131071.0f}) {
      kernels(isa).rope_angles(frequency, 5, position, 1.0f, c, s);
      for (int i = 0; i < 5; i++) {
        double w = double(frequency[i] * position);
        EXPECT_NEAR(c[i], std::cos(w), 5e-7) << isa_name(isa) << " " << position << " " << i;
        EXPECT_NEAR(s[i], std::sin(w), 5e-7) << isa_name(isa) << " " << position << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace brisk::cpu
