#include "backend/cpu/recurrent.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cpu/linear.h"
#include "base/checked.h"
#include "op/byte_levels.h"

namespace brisk::cpu {
namespace {

constexpr int64_t kSharedStepBytes = 256 << 10;  // weights of a step that are worth two threads and their meeting
constexpr int64_t kRowsTogether = 16;
constexpr int kByteWeights = 8;  // of gate_sums: see recurrent_kernels.h

WeightLayout input_layout(const RecurrentShape& s) { return {s.bytes ? WeightKind::kInt8 : WeightKind::kF32, s.gates() * s.hidden, s.input, 0, GroupTerm::kSymmetric, false}; }

// The rows of a batch that one task takes through all steps, in one direction.
class Sequence {
 public:
  Sequence(const KernelTable& t, const RecurrentCall& c, int64_t direction, int64_t first, int64_t rows)
      : t_(t), c_(c), s_(c.shape), d_(direction), first_(first), rows_(rows) {
    // Workspace: products of inputs, biases, then two states and a cell of each row.
    auto* base = static_cast<float*>(c.workspace);
    products_ = base + d_ * s_.time * s_.batch * width();
    float* biases = base + s_.directions * s_.time * s_.batch * width();
    late_bias_ = biases + d_ * (width() + s_.padded()) + width();
    float* states = biases + s_.directions * (width() + s_.padded()) + (d_ * s_.batch + first_) * 4 * s_.padded();
    h_ = states, next_ = states + rows_ * s_.padded(), cell_ = states + 2 * rows_ * s_.padded(), scaled_ = states + 3 * rows_ * s_.padded();
    std::memset(states, 0, static_cast<size_t>(rows_ * 4 * s_.padded()) * sizeof(float));
    for (int64_t b = 0; b < rows_; b++) {
      if (c_.h0) std::copy_n(c_.h0 + state_row(b), s_.hidden, h_ + b * s_.padded());
      if (c_.c0) std::copy_n(c_.c0 + state_row(b), s_.hidden, cell_ + b * s_.padded());
      if (s_.round_state) round(b);
    }
  }

  int64_t steps() const {
    int64_t most = 0;
    for (int64_t b = 0; b < rows_; b++) most = std::max(most, length(b));
    return most;
  }

  // Blocks [from, to) of a step. The early form has two phases that must not overlap.
  void step(int64_t s, int phase, int64_t from, int64_t to) {
    for (int64_t j = from; j < to; j++) {
      if (s_.cell == Cell::kLstm) lstm(s, j);
      else if (s_.cell == Cell::kGruLate) gru_late(s, j);
      else if (phase == 0) gru_early_gates(s, j);
      else gru_early_state(s, j);
    }
  }
  int phases() const { return s_.cell == Cell::kGruEarly ? 2 : 1; }

  // After all blocks of a step: the new state is the state of rows that are still running.
  void advance(int64_t s) {
    for (int64_t b = 0; b < rows_; b++) {
      if (s >= length(b)) continue;
      float* from = next_ + b * s_.padded();
      if (c_.y) std::copy_n(from, s_.hidden, c_.y + y_row(time_of(s, b), b));
      std::copy_n(from, s_.padded(), h_ + b * s_.padded());
      if (s_.round_state) round(b);
    }
  }

  void finish() {
    for (int64_t b = 0; b < rows_; b++) {
      if (c_.y_h) std::copy_n(h_ + b * s_.padded(), s_.hidden, c_.y_h + state_row(b));
      if (c_.y_c) std::copy_n(cell_ + b * s_.padded(), s_.hidden, c_.y_c + state_row(b));
      for (int64_t at = length(b); c_.y && at < s_.time; at++) std::fill_n(c_.y + y_row(at, b), s_.hidden, 0.0f);
    }
  }

 private:
  int64_t width() const { return s_.gates() * s_.hidden; }
  int64_t length(int64_t b) const { return c_.lengths ? c_.lengths[first_ + b] : s_.time; }
  int64_t time_of(int64_t s, int64_t b) const { return s_.backward || d_ == 1 ? length(b) - 1 - s : s; }
  int64_t x_row(int64_t at, int64_t b) const { return s_.batch_first ? (first_ + b) * s_.time + at : at * s_.batch + first_ + b; }
  int64_t y_row(int64_t at, int64_t b) const {
    return (s_.batch_first ? ((first_ + b) * s_.time + at) * s_.directions + d_ : (at * s_.directions + d_) * s_.batch + first_ + b) * s_.hidden;
  }
  int64_t state_row(int64_t b) const { return (s_.batch_first ? (first_ + b) * s_.directions + d_ : d_ * s_.batch + first_ + b) * s_.hidden; }

  // Products of gates [gate, gate + count) of a block with the inputs, as [gate][16]; zeros for rows that have ended.
  void load(int64_t s, int64_t b, int64_t gate, int64_t count, int64_t block, float* to) const {
    std::fill_n(to, count * 16, 0.0f);
    if (s >= length(b)) return;
    const float* from = products_ + x_row(time_of(s, b), b) * width() + gate * s_.hidden + block * 16;
    int64_t n = std::min<int64_t>(16, s_.hidden - block * 16);
    for (int64_t g = 0; g < count; g++) std::copy_n(from + g * s_.hidden, n, to + g * 16);
  }
  const std::byte* direction() const { return c_.r + d_ * s_.recurrent_bytes(); }
  // Weights from element `first` on.
  const float* weights(int64_t first) const {
    return reinterpret_cast<const float*>(direction() + (s_.bytes ? 64 + first : first * 4));
  }
  const float* weights(int64_t gates, int64_t block) const { return weights(block * s_.hidden * gates * 16); }

  // f(row, sums [gates][16]) for all rows, kRowsTogether at a time. `start` fills a row's sums.
  template <class Start, class F>
  void each_row(int gates, const float* state, const float* w, const Start& start, const F& f) {
    alignas(64) float acc[kRowsTogether * 64];
    for (int64_t b = 0; b < rows_; b += kRowsTogether) {
      int64_t n = std::min(kRowsTogether, rows_ - b);
      if (s_.bytes) {
        std::fill_n(acc, n * gates * 16, 0.0f);
        t_.gate_sums(gates + kByteWeights, state + b * s_.padded(), s_.padded(), static_cast<int>(n), s_.hidden, w, acc);
        alignas(64) float first[64];
        float scale = *reinterpret_cast<const float*>(direction());
        for (int64_t r = 0; r < n; r++) {
          start(b + r, first);
          for (int j = 0; j < gates * 16; j++) acc[r * gates * 16 + j] = first[j] + scale * acc[r * gates * 16 + j];
        }
      } else {
        for (int64_t r = 0; r < n; r++) start(b + r, acc + r * gates * 16);
        t_.gate_sums(gates, state + b * s_.padded(), s_.padded(), static_cast<int>(n), s_.hidden, w, acc);
      }
      for (int64_t r = 0; r < n; r++) f(b + r, acc + r * gates * 16);
    }
  }
  void sigmoid(float* v, int64_t n) const { t_.unary(Unary::kSigmoid, v, n, v); }
  void tanh(float* v, int64_t n) const { t_.unary(Unary::kTanh, v, n, v); }

  void round(int64_t b) {
    const float* h = h_ + b * s_.padded();
    auto [low, high] = std::minmax_element(h, h + s_.hidden);
    ByteLevels levels(*low, *high);
    for (int64_t j = 0; j < s_.hidden; j++) scaled_[b * s_.padded() + j] = levels.rounded(h[j]);
  }

  void lstm(int64_t s, int64_t block) {  // gates i, o, f, c
    each_row(4, s_.round_state ? scaled_ : h_, weights(4, block), [&](int64_t b, float* acc) { load(s, b, 0, 4, block, acc); }, [&](int64_t b, float* g) {
      if (s >= length(b)) return;
      sigmoid(g, 48);
      tanh(g + 48, 16);
      float* cell = cell_ + b * s_.padded() + block * 16;
      for (int j = 0; j < 16; j++) g[48 + j] = cell[j] = g[32 + j] * cell[j] + g[j] * g[48 + j];
      tanh(g + 48, 16);
      float* h = next_ + b * s_.padded() + block * 16;
      for (int j = 0; j < 16; j++) h[j] = g[16 + j] * g[48 + j];
    });
  }

  void gru_late(int64_t s, int64_t block) {  // gates z, r, h
    auto start = [&](int64_t b, float* acc) {
      load(s, b, 0, 2, block, acc);
      std::copy_n(late_bias_ + block * 16, 16, acc + 32);
    };
    each_row(3, h_, weights(3, block), start, [&](int64_t b, float* g) {
      if (s >= length(b)) return;
      alignas(64) float fresh[16];
      load(s, b, 2, 1, block, fresh);
      sigmoid(g, 32);
      for (int j = 0; j < 16; j++) fresh[j] += g[16 + j] * g[32 + j];
      blend(b, block, g, fresh);
    });
  }

  void gru_early_gates(int64_t s, int64_t block) {
    each_row(2, h_, weights(2, block), [&](int64_t b, float* acc) { load(s, b, 0, 2, block, acc); }, [&](int64_t b, float* g) {
      sigmoid(g, 32);
      int64_t at = b * s_.padded() + block * 16;
      for (int j = 0; j < 16; j++) cell_[at + j] = g[j], scaled_[at + j] = g[16 + j] * h_[at + j];
    });
  }
  void gru_early_state(int64_t s, int64_t block) {
    const float* w = weights((s_.blocks() * 2 + block) * s_.hidden * 16);
    each_row(1, scaled_, w, [&](int64_t b, float* acc) { load(s, b, 2, 1, block, acc); }, [&](int64_t b, float* fresh) {
      if (s < length(b)) blend(b, block, cell_ + b * s_.padded() + block * 16, fresh);
    });
  }
  // (1 - z) tanh(fresh) + z h
  void blend(int64_t b, int64_t block, const float* z, float* fresh) {
    tanh(fresh, 16);
    int64_t at = b * s_.padded() + block * 16;
    for (int j = 0; j < 16; j++) next_[at + j] = (1 - z[j]) * fresh[j] + z[j] * h_[at + j];
  }

  const KernelTable& t_;
  const RecurrentCall& c_;
  const RecurrentShape& s_;
  int64_t d_, first_, rows_;
  float *products_, *late_bias_, *h_, *next_, *cell_;
  float* scaled_;  // kGruEarly: the state times the reset gate; kLstm: the state rounded
};

// x W^T + biases of all steps of a direction. The state's bias joins here, but for the late form's third gate.
void input_products(const KernelTable& t, ThreadPool& pool, const RecurrentCall& c, int64_t d) {
  const RecurrentShape& s = c.shape;
  int64_t width = s.gates() * s.hidden, rows = s.time * s.batch;
  auto* base = static_cast<float*>(c.workspace);
  float* bias = base + s.directions * rows * width + d * (width + s.padded());
  std::fill_n(bias, width + s.padded(), 0.0f);
  if (c.bias) {
    const float* from = c.bias + d * 2 * width;
    int64_t joined = s.cell == Cell::kGruLate ? 2 * s.hidden : width;
    for (int64_t i = 0; i < width; i++) bias[i] = from[i] + (i < joined ? from[width + i] : 0.0f);
    if (s.cell == Cell::kGruLate) std::copy_n(from + width + joined, s.hidden, bias + width);
  }
  WeightLayout layout = input_layout(s);
  LinearCall l;
  l.layout = &layout;
  l.weight = c.w + d * s.input_bytes();
  l.m = rows;
  l.x = c.x;
  l.ldx = s.input;
  l.bias = bias;
  l.y = base + d * rows * width;
  l.ldy = width;
  linear(t, l, pool);
}

void run_alone(Sequence& q, int64_t blocks) {
  for (int64_t s = 0, n = q.steps(); s < n; s++) {
    for (int phase = 0; phase < q.phases(); phase++) q.step(s, phase, 0, blocks);
    q.advance(s);
  }
  q.finish();
}

}  // namespace

int64_t RecurrentShape::input_bytes() const { return align_up(input_layout(*this).bytes(), int64_t{64}); }

int64_t RecurrentShape::workspace_bytes() const {
  int64_t width = gates() * hidden;
  return 4 * directions * (time * batch * width + width + padded() + batch * 4 * padded());
}

Status pack_input_weights(const RecurrentShape& s, const float* w, std::byte* out) {
  LogicalWeight from;
  from.rows = w;
  std::vector<int8_t> codes;
  std::vector<float> scales;
  if (s.bytes) {
    int64_t n = s.gates() * s.hidden * s.input;
    float scale = byte_scale(w, n);
    for (int64_t i = 0; i < n; i++) codes.push_back(static_cast<int8_t>(std::lround(w[i] / scale)));
    scales.assign(static_cast<size_t>(s.gates() * s.hidden), scale);
    from.rows = codes.data();
    from.scales = scales.data();
  }
  return pack_weight(input_layout(s), from, {out, static_cast<size_t>(input_layout(s).bytes())});
}

float byte_scale(const float* w, int64_t n) {
  float smallest = 0, largest = 0;
  for (int64_t i = 0; i < n; i++) {
    float a = std::fabs(w[i]);
    if (a > 0 && (smallest == 0 || a < smallest)) smallest = a;
    largest = std::max(largest, a);
  }
  if (!(smallest > 0) || !(largest / smallest < 127.5f)) return 0;
  float scale = largest / std::round(largest / smallest);
  for (int64_t i = 0; i < n; i++)
    if (!(std::fabs(w[i] / scale - std::round(w[i] / scale)) < 1e-4f)) return 0;
  return scale;
}

void pack_recurrent_weights(const RecurrentShape& s, const float* r, std::byte* out) {
  float scale = s.bytes ? byte_scale(r, s.gates() * s.hidden * s.hidden) : 1;
  std::memset(out, 0, static_cast<size_t>(s.recurrent_bytes()));
  if (s.bytes) std::memcpy(out, &scale, sizeof scale);
  auto pack = [&](int64_t first, int64_t gates, int64_t to) {
    for (int64_t block = 0; block < s.blocks(); block++)
      for (int64_t k = 0; k < s.hidden; k++)
        for (int64_t g = 0; g < gates; g++)
          for (int64_t j = 0; j < 16; j++, to++) {
            int64_t unit = block * 16 + j;
            float v = unit < s.hidden ? r[((first + g) * s.hidden + unit) * s.hidden + k] : 0.0f;
            if (s.bytes) out[64 + to] = static_cast<std::byte>(std::lround(v / scale));
            else std::memcpy(out + to * 4, &v, sizeof v);
          }
  };
  if (s.cell != Cell::kGruEarly) return pack(0, s.gates(), 0);
  pack(0, 2, 0);
  pack(2, 1, s.blocks() * s.hidden * 2 * 16);
}

void recurrent(const KernelTable& t, ThreadPool& pool, const RecurrentCall& c) {
  const RecurrentShape& s = c.shape;
  if (s.batch < 1) return;
  if (s.time > 0)
    for (int64_t d = 0; d < s.directions; d++) input_products(t, pool, c, d);
  int64_t step_bytes = s.recurrent_bytes();
  if (s.directions * s.batch == 1 && step_bytes >= kSharedStepBytes && pool.size() > 1) {
    Sequence q(t, c, 0, 0, 1);
    int64_t parts = std::min<int64_t>(pool.size(), s.blocks());
    for (int64_t i = 0, n = q.steps(); i < n; i++) {
      for (int phase = 0; phase < q.phases(); phase++)
        pool.parallel_for(parts, [&](int64_t p, int) { q.step(i, phase, s.blocks() * p / parts, s.blocks() * (p + 1) / parts); });
      q.advance(i);
    }
    return q.finish();
  }
  int64_t groups = std::clamp<int64_t>(ceil_div(int64_t{pool.size()}, s.directions), 1, s.batch);
  pool.parallel_for(s.directions * groups, [&](int64_t i, int) {
    int64_t g = i % groups, first = s.batch * g / groups;
    Sequence q(t, c, i / groups, first, s.batch * (g + 1) / groups - first);
    run_alone(q, s.blocks());
  });
}

}  // namespace brisk::cpu
