// Attention through a state of fixed size (Katharopoulos et al. 2020), with decay (Yang et al. 2023, gated) and the delta
// rule (Schlag et al. 2021), token by token.
#include <vector>

#include "backend/ref/util.h"

namespace brisk::ref {
namespace {

struct Recurrence {
  const KernelArgs& k;
  const LinearAttentionAttrs& a = k.get<LinearAttentionAttrs>();
  int64_t batch = k.in[0].shape[0], tokens = k.in[0].shape[1], dk = k.in[0].shape[2] / a.heads, dv = k.in[2].shape[2] / a.kv_heads;
  std::vector<double> state = std::vector<double>(static_cast<size_t>(dk * dv));
  std::vector<double> written = std::vector<double>(static_cast<size_t>(dv));

  Status check() const {
    auto wants = [&](size_t i, std::initializer_list<int64_t> lasts) -> Status {
      if (!k.has(i)) return {};
      const Dims& s = k.in[i].shape;
      bool fits = s.rank == 3 && s[0] == batch && s[1] == tokens && std::find(lasts.begin(), lasts.end(), s[2]) != lasts.end();
      return fits ? Status() : Status(invalid("LinearAttention: operand " + std::to_string(i) + " is " + to_string(s)));
    };
    BRISK_TRY(wants(0, {a.heads * dk}));
    BRISK_TRY(wants(1, {a.kv_heads * dk}));
    BRISK_TRY(wants(2, {a.kv_heads * dv}));
    BRISK_TRY(wants(4, {a.kv_heads, a.kv_heads * dk}));
    BRISK_TRY(wants(5, {a.kv_heads, 1}));
    if (k.has(3) && !(k.in[3].shape == Dims{batch, a.kv_heads, dk, dv})) return invalid("LinearAttention: state " + to_string(k.in[3].shape));
    return {};
  }
  double& s(int64_t i, int64_t j) { return state[static_cast<size_t>(i * dv + j)]; }

  void token(int64_t b, int64_t head, int64_t t) {
    int64_t row = b * tokens + t;
    auto key = [&](int64_t i) { return load_number(k.in[1], (row * a.kv_heads + head) * dk + i); };
    if (a.gated) {
      bool each = k.in[4].shape[2] != a.kv_heads;
      for (int64_t i = 0; i < dk; ++i) {
        double decay = std::exp(load_number(k.in[4], each ? (row * a.kv_heads + head) * dk + i : row * a.kv_heads + head));
        for (int64_t j = 0; j < dv; ++j) s(i, j) *= decay;
      }
    }
    double rate = !a.delta ? 1 : load_number(k.in[5], k.in[5].shape[2] == 1 ? row : row * a.kv_heads + head);
    for (int64_t j = 0; j < dv; ++j) {
      double v = load_number(k.in[2], (row * a.kv_heads + head) * dv + j), known = 0;
      for (int64_t i = 0; i < dk && a.delta; ++i) known += s(i, j) * key(i);
      written[static_cast<size_t>(j)] = rate * (v - known);
    }
    for (int64_t i = 0; i < dk; ++i)
      for (int64_t j = 0; j < dv; ++j) s(i, j) += key(i) * written[static_cast<size_t>(j)];
    int64_t group = a.heads / a.kv_heads;
    double scale = a.scale != 0 ? static_cast<double>(a.scale) : 1 / std::sqrt(static_cast<double>(dk));
    for (int64_t h = head * group; h < (head + 1) * group; ++h)
      for (int64_t j = 0; j < dv; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < dk; ++i) sum += load_number(k.in[0], (row * a.heads + h) * dk + i) * s(i, j);
        store_number(k.out[0], (row * a.heads + h) * dv + j, scale * sum);
      }
  }
  void run() {
    for (int64_t r = 0; r < batch * a.kv_heads; ++r) {
      for (int64_t i = 0; i < dk * dv; ++i) state[static_cast<size_t>(i)] = k.has(3) ? load_number(k.in[3], r * dk * dv + i) : 0;
      for (int64_t t = 0; t < tokens; ++t) token(r / a.kv_heads, r % a.kv_heads, t);
      if (k.out.size() < 2 || !k.out[1].present) continue;
      for (int64_t i = 0; i < dk * dv; ++i) store_number(k.out[1], r * dk * dv + i, state[static_cast<size_t>(i)]);
    }
  }
};

Status run_linear_attention(KernelContext&, const KernelArgs& k) {
  Recurrence r{k};
  BRISK_TRY(r.check());
  r.run();
  return {};
}

}  // namespace

void add_linear_attention(Registry& r) { add_plain(r, OpId::kLinearAttention, run_linear_attention); }

}  // namespace brisk::ref
