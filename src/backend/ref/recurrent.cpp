// LSTM (Hochreiter and Schmidhuber 1997), GRU (Cho et al. 2014) and plain RNN as ONNX defines them, step by step.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "backend/ref/util.h"
#include "op/byte_levels.h"

namespace brisk::ref {
namespace {

using Fn = std::function<double(double)>;
using Vec = std::vector<double>;

Result<Fn> activation(std::string name, double alpha, bool has_alpha, double beta, bool has_beta) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  auto a = [&](double d) { return has_alpha ? alpha : d; };
  auto b = [&](double d) { return has_beta ? beta : d; };
  if (name == "sigmoid") return Fn([](double x) { return 1 / (1 + std::exp(-x)); });
  if (name == "tanh") return Fn([](double x) { return std::tanh(x); });
  if (name == "relu") return Fn([](double x) { return std::max(x, 0.0); });
  if (name == "affine") return Fn([p = a(1), q = b(0)](double x) { return p * x + q; });
  if (name == "leakyrelu") return Fn([p = a(0.01)](double x) { return x < 0 ? p * x : x; });
  if (name == "thresholdedrelu") return Fn([p = a(1)](double x) { return x > p ? x : 0; });
  if (name == "scaledtanh") return Fn([p = a(1), q = b(1)](double x) { return p * std::tanh(q * x); });
  if (name == "hardsigmoid") return Fn([p = a(0.2), q = b(0.5)](double x) { return std::clamp(p * x + q, 0.0, 1.0); });
  if (name == "elu") return Fn([p = a(1)](double x) { return x < 0 ? p * std::expm1(x) : x; });
  if (name == "softsign") return Fn([](double x) { return x / (1 + std::fabs(x)); });
  if (name == "softplus") return Fn([](double x) { return x > 30 ? x : std::log1p(std::exp(x)); });
  return unsupported("activation '" + name + "'");
}

// Operands: 0 x, 1 W, 2 R, 3 B, 4 lengths, 5 h0, 6 c0, 7 P.
class Recurrence {
 public:
  Recurrence(const KernelArgs& k, OpId op) : k_(k), a_(k.get<RecurrentAttrs>()), op_(op) {
    const Dims& s = k.in[0].shape;
    time_ = s[a_.batch_first ? 1 : 0], batch_ = s[a_.batch_first ? 0 : 1], input_ = s[2], hidden_ = a_.hidden;
    gates_ = op == OpId::kLstm ? 4 : op == OpId::kGru ? 3 : 1;
    directions_ = a_.direction == "bidirectional" ? 2 : 1;
    per_direction_ = op == OpId::kLstm ? 3 : op == OpId::kGru ? 2 : 1;
  }

  Status run() {
    BRISK_TRY(check());
    BRISK_TRY(find_activations());
    for (TensorView& v : k_.out)
      if (v.present && v.bytes()) std::memset(v.data, 0, static_cast<size_t>(v.bytes()));
    for (int64_t d = 0; d < directions_; ++d)
      for (int64_t b = 0; b < batch_; ++b) BRISK_TRY(sequence(d, b));
    return {};
  }

 private:
  static double at(const TensorView& v, int64_t i) { return v.dtype == DType::kF64 ? v.as<double>()[i] : static_cast<double>(load_float(v.data, v.dtype, i)); }
  static void put(const TensorView& v, int64_t i, double x) { v.dtype == DType::kF64 ? void(v.as<double>()[i] = x) : store_float(v.data, v.dtype, i, static_cast<float>(x)); }

  Status check() const {
    auto wants = [&](size_t i, int64_t n) -> Status {
      if (!k_.has(i) || k_.in[i].count() == n) return {};
      return invalid("operand " + std::to_string(i) + " has " + std::to_string(k_.in[i].count()) + " elements, wanted " + std::to_string(n));
    };
    BRISK_TRY(wants(1, directions_ * gates_ * hidden_ * input_));
    BRISK_TRY(wants(2, directions_ * gates_ * hidden_ * hidden_));
    BRISK_TRY(wants(3, directions_ * 2 * gates_ * hidden_));
    BRISK_TRY(wants(4, batch_));
    BRISK_TRY(wants(5, directions_ * batch_ * hidden_));
    BRISK_TRY(wants(6, directions_ * batch_ * hidden_));
    return wants(7, directions_ * 3 * hidden_);
  }

  Status find_activations() {
    size_t alpha = 0, beta = 0;
    auto takes = [](const std::string& n, const char* const* list) { for (; *list; ++list) if (n == *list) return true; return false; };
    static const char* const kAlpha[] = {"Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu", nullptr};
    static const char* const kBeta[] = {"Affine", "ScaledTanh", "HardSigmoid", nullptr};
    for (const std::string& name : a_.activations) {
      bool has_a = takes(name, kAlpha) && alpha < a_.activation_alpha.size(), has_b = takes(name, kBeta) && beta < a_.activation_beta.size();
      double va = has_a ? static_cast<double>(a_.activation_alpha[alpha++]) : 0, vb = has_b ? static_cast<double>(a_.activation_beta[beta++]) : 0;
      BRISK_ASSIGN(Fn f, activation(name, va, has_a, vb, has_b));
      functions_.push_back(std::move(f));
    }
    if (static_cast<int64_t>(functions_.size()) < directions_ * per_direction_) return invalid("too few activations");
    return {};
  }
  double act(int64_t d, int64_t which, double x) const {
    if (a_.clip > 0) x = std::clamp(x, -static_cast<double>(a_.clip), static_cast<double>(a_.clip));
    return functions_[static_cast<size_t>(d * per_direction_ + which)](x);
  }

  // Place of step t of row b in x (before features) and in Y, whose layouts have time or batch first.
  int64_t x_row(int64_t t, int64_t b) const { return (a_.batch_first ? b * time_ + t : t * batch_ + b) * input_; }
  int64_t y_row(int64_t t, int64_t d, int64_t b) const { return (a_.batch_first ? (b * time_ + t) * directions_ + d : (t * directions_ + d) * batch_ + b) * hidden_; }
  int64_t state_row(int64_t d, int64_t b) const { return (a_.batch_first ? b * directions_ + d : d * batch_ + b) * hidden_; }

  // x W^T + Wb and h R^T + Rb of gate g, unit j.
  double from_input(int64_t d, int64_t g, int64_t j, const Vec& x) const {
    int64_t row = (d * gates_ + g) * hidden_ + j;
    double sum = k_.has(3) ? at(k_.in[3], d * 2 * gates_ * hidden_ + g * hidden_ + j) : 0;
    for (int64_t i = 0; i < input_; ++i) sum += x[static_cast<size_t>(i)] * at(k_.in[1], row * input_ + i);
    return sum;
  }
  double from_hidden(int64_t d, int64_t g, int64_t j, const Vec& h) const {
    int64_t row = (d * gates_ + g) * hidden_ + j;
    double sum = k_.has(3) ? at(k_.in[3], d * 2 * gates_ * hidden_ + (gates_ + g) * hidden_ + j) : 0;
    for (int64_t i = 0; i < hidden_; ++i) sum += h[static_cast<size_t>(i)] * at(k_.in[2], row * hidden_ + i);
    return sum;
  }
  double peephole(int64_t d, int64_t g, int64_t j, double c) const { return k_.has(7) ? at(k_.in[7], (d * 3 + g) * hidden_ + j) * c : 0; }

  void lstm_step(int64_t d, const Vec& x, Vec& h, Vec& c) const {  // gates i, o, f, c; peepholes i, o, f
    Vec next(h.size());
    for (int64_t j = 0; j < hidden_; ++j) {
      auto u = static_cast<size_t>(j);
      auto gate = [&](int64_t g) { return from_input(d, g, j, x) + from_hidden(d, g, j, h); };
      double i = act(d, 0, gate(0) + peephole(d, 0, j, c[u]));
      double f = a_.input_forget ? 1 - i : act(d, 0, gate(2) + peephole(d, 2, j, c[u]));
      double cell = f * c[u] + i * act(d, 1, gate(3));
      double o = act(d, 0, gate(1) + peephole(d, 1, j, cell));
      next[u] = o * act(d, 2, cell);
      c[u] = cell;
    }
    h = std::move(next);
  }

  void gru_step(int64_t d, const Vec& x, Vec& h) const {  // gates z, r, h
    Vec z(h.size()), r(h.size()), reset(h.size()), next(h.size());
    for (int64_t j = 0; j < hidden_; ++j) {
      auto u = static_cast<size_t>(j);
      z[u] = act(d, 0, from_input(d, 0, j, x) + from_hidden(d, 0, j, h));
      r[u] = act(d, 0, from_input(d, 1, j, x) + from_hidden(d, 1, j, h));
      reset[u] = r[u] * h[u];
    }
    for (int64_t j = 0; j < hidden_; ++j) {
      auto u = static_cast<size_t>(j);
      double recurrent = a_.linear_before_reset ? r[u] * from_hidden(d, 2, j, h) : from_hidden(d, 2, j, reset);
      next[u] = (1 - z[u]) * act(d, 1, from_input(d, 2, j, x) + recurrent) + z[u] * h[u];
    }
    h = std::move(next);
  }

  void rnn_step(int64_t d, const Vec& x, Vec& h) const {
    Vec next(h.size());
    for (int64_t j = 0; j < hidden_; ++j) next[static_cast<size_t>(j)] = act(d, 0, from_input(d, 0, j, x) + from_hidden(d, 0, j, h));
    h = std::move(next);
  }

  static void round(Vec& h) {
    auto [low, high] = std::minmax_element(h.begin(), h.end());
    ByteLevels levels(h.empty() ? 0 : static_cast<float>(*low), h.empty() ? 0 : static_cast<float>(*high));
    for (double& v : h) v = static_cast<double>(levels.rounded(static_cast<float>(v)));
  }

  Status sequence(int64_t d, int64_t b) {
    auto units = static_cast<size_t>(hidden_);
    Vec h(units), c(units), x(static_cast<size_t>(input_));
    for (int64_t j = 0; j < hidden_; ++j) {
      if (k_.has(5)) h[static_cast<size_t>(j)] = at(k_.in[5], state_row(d, b) + j);
      if (k_.has(6)) c[static_cast<size_t>(j)] = at(k_.in[6], state_row(d, b) + j);
    }
    int64_t length = k_.has(4) ? load_int(k_.in[4].data, k_.in[4].dtype, b) : time_;
    if (length < 0 || length > time_) return invalid("length " + std::to_string(length) + " outside [0, " + std::to_string(time_) + "]");
    bool backward = a_.direction == "reverse" || d == 1;
    for (int64_t s = 0; s < length; ++s) {
      int64_t t = backward ? length - 1 - s : s;
      for (int64_t i = 0; i < input_; ++i) x[static_cast<size_t>(i)] = at(k_.in[0], x_row(t, b) + i);
      if (a_.round_state) round(h);
      if (op_ == OpId::kLstm) lstm_step(d, x, h, c);
      else if (op_ == OpId::kGru) gru_step(d, x, h);
      else rnn_step(d, x, h);
      if (k_.out[0].present)
        for (int64_t j = 0; j < hidden_; ++j) put(k_.out[0], y_row(t, d, b) + j, h[static_cast<size_t>(j)]);
    }
    for (int64_t j = 0; j < hidden_; ++j) {
      if (k_.out.size() > 1 && k_.out[1].present) put(k_.out[1], state_row(d, b) + j, h[static_cast<size_t>(j)]);
      if (k_.out.size() > 2 && k_.out[2].present) put(k_.out[2], state_row(d, b) + j, c[static_cast<size_t>(j)]);
    }
    return {};
  }

  const KernelArgs& k_;
  const RecurrentAttrs& a_;
  OpId op_;
  int64_t time_, batch_, input_, hidden_, gates_, directions_, per_direction_;
  std::vector<Fn> functions_;
};

template <OpId op> Status run_recurrent(KernelContext&, const KernelArgs& k) {
  if (!is_float(k.in[0].dtype)) return no_dtype(k.in[0].dtype);
  return Recurrence(k, op).run();
}

}  // namespace

void add_recurrent(Registry& r) {
  add_plain(r, OpId::kLstm, run_recurrent<OpId::kLstm>);
  add_plain(r, OpId::kGru, run_recurrent<OpId::kGru>);
  add_plain(r, OpId::kRnn, run_recurrent<OpId::kRnn>);
}

}  // namespace brisk::ref
