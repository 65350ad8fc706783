// Rotary embedding and attention over paged state.
//
// State layout of this backend, one layer: [blocks, 2 (k, v), kv_heads, kBlockTokens, head_dim] of the state's dtype.
#include <cmath>
#include <vector>

#include "backend/ref/groups.h"
#include "op/step_io.h"

namespace brisk::ref {
namespace {

struct Rotation {
  int64_t dim;
  bool interleaved;
  float magnitude;
  const float* frequencies;

  void apply(float* head, int32_t position) const {
    for (int64_t i = 0; i < dim / 2; ++i) {
      float angle = static_cast<float>(position) * frequencies[i];
      float c = std::cos(angle) * magnitude, s = std::sin(angle) * magnitude;
      float& x = head[interleaved ? 2 * i : i];
      float& y = head[interleaved ? 2 * i + 1 : i + dim / 2];
      float x0 = x, y0 = y;
      x = x0 * c - y0 * s;
      y = x0 * s + y0 * c;
    }
  }
};

Status rope(KernelContext&, const KernelArgs& a) {
  const auto& attrs = a.get<RopeAttrs>();
  Rotation rotation{attrs.dim, attrs.interleaved, attrs.magnitude, a.in[2].as<float>()};
  int64_t width = a.in[0].shape[1];
  std::memcpy(a.out[0].data, a.in[0].data, static_cast<size_t>(a.in[0].bytes()));
  for (int64_t t = 0; t < a.in[0].shape[0]; ++t)
    for (int64_t h = 0; h < width; h += attrs.head_dim)
      rotation.apply(a.out[0].as<float>() + t * width + h, a.in[1].as<int32_t>()[t]);
  return {};
}

class Attention {
 public:
  explicit Attention(const KernelArgs& a) : a_(a), p_(a.get<AttentionAttrs>()) {}

  Status run() {
    const int32_t* starts = a_.in[5].as<int32_t>();
    int64_t sequences = a_.in[6].count(), columns = a_.in[7].shape[1];
    for (int64_t s = 0; s < sequences; ++s) {
      const int32_t* table = a_.in[7].as<int32_t>() + s * columns;
      // All keys of the step are in place before any query reads them, so chunking cannot change what is read.
      for (int32_t t = starts[s]; t < starts[s + 1]; ++t) write_key_value(t, table);
      for (int32_t t = starts[s]; t < starts[s + 1]; ++t) attend(t, table);
    }
    return {};
  }

 private:
  bool packed() const { return !a_.has(1); }
  int32_t position(int64_t t) const { return a_.in[4].as<int32_t>()[t]; }
  const float* part(int64_t t, int which, int64_t head) const {  // 0 q, 1 k, 2 v
    if (!packed()) {
      int64_t heads = which == 0 ? p_.heads : p_.kv_heads;
      return a_.in[static_cast<size_t>(which)].as<float>() + (t * heads + head) * p_.head_dim;
    }
    int64_t first = which == 0 ? 0 : which == 1 ? p_.heads : p_.heads + p_.kv_heads;
    return a_.in[0].as<float>() + (t * (p_.heads + 2 * p_.kv_heads) + first + head) * p_.head_dim;
  }
  std::vector<float> rotated(int64_t t, int which, int64_t head) const {
    const float* x = part(t, which, head);
    std::vector<float> v(x, x + p_.head_dim);
    if (p_.rope_dim && which < 2)
      Rotation{p_.rope_dim, p_.rope_interleaved, p_.rope_magnitude, a_.in[8].as<float>()}.apply(v.data(), position(t));
    return v;
  }
  int64_t state_index(const int32_t* table, int32_t position, int which, int64_t head) const {
    int64_t block = table[position / kBlockTokens], row = position % kBlockTokens;
    return ((((block * 2 + which) * p_.kv_heads + head) * kBlockTokens) + row) * p_.head_dim;
  }

  void write_key_value(int64_t t, const int32_t* table) {
    const TensorView& state = a_.in[3];
    for (int64_t h = 0; h < p_.kv_heads; ++h)
      for (int which : {1, 2}) {
        auto v = rotated(t, which, h);
        int64_t at = state_index(table, position(t), which - 1, h);
        for (int64_t i = 0; i < p_.head_dim; ++i) store_float(state.data, state.dtype, at + i, v[static_cast<size_t>(i)]);
      }
  }

  void attend(int64_t t, const int32_t* table) {
    const TensorView& state = a_.in[3];
    int32_t last = position(t), first = p_.window ? static_cast<int32_t>(std::max<int64_t>(0, last - p_.window + 1)) : 0;
    std::vector<float> score(static_cast<size_t>(last - first + 1));
    for (int64_t h = 0; h < p_.heads; ++h) {
      int64_t kv = h / (p_.heads / p_.kv_heads);
      auto q = rotated(t, 0, h);
      float largest = -INFINITY;
      for (int32_t j = first; j <= last; ++j) {
        int64_t at = state_index(table, j, 0, kv);
        double dot = 0;
        for (int64_t i = 0; i < p_.head_dim; ++i) dot += static_cast<double>(q[static_cast<size_t>(i)]) * load_float(state.data, state.dtype, at + i);
        float s = static_cast<float>(dot) * p_.scale;
        if (p_.softcap > 0) s = p_.softcap * std::tanh(s / p_.softcap);
        score[static_cast<size_t>(j - first)] = s;
        largest = std::max(largest, s);
      }
      double sum = 0;
      std::vector<double> out(static_cast<size_t>(p_.head_dim));
      for (int32_t j = first; j <= last; ++j) {
        double e = std::exp(static_cast<double>(score[static_cast<size_t>(j - first)] - largest));
        sum += e;
        int64_t at = state_index(table, j, 1, kv);
        for (int64_t i = 0; i < p_.head_dim; ++i) out[static_cast<size_t>(i)] += e * load_float(state.data, state.dtype, at + i);
      }
      float* y = a_.out[0].as<float>() + (t * p_.heads + h) * p_.head_dim;
      for (int64_t i = 0; i < p_.head_dim; ++i) y[i] = static_cast<float>(out[static_cast<size_t>(i)] / sum);
    }
  }

  const KernelArgs& a_;
  const AttentionAttrs& p_;
};

Status paged_attention(KernelContext&, const KernelArgs& a) { return Attention(a).run(); }

Status resolve_ids(KernelContext&, const KernelArgs& a) {
  int64_t slots = a.in[1].count();
  for (int64_t t = 0; t < a.in[0].count(); ++t) {
    int32_t id = a.in[0].as<int32_t>()[t];
    if (id < 0 && -1 - static_cast<int64_t>(id) >= slots) return internal("slot of id " + std::to_string(id) + " does not exist");
    a.out[0].as<int32_t>()[t] = id >= 0 ? id : a.in[1].as<int32_t>()[-1 - id];
  }
  return {};
}

bool f32_operand(const ProblemDesc& p, size_t i) { return !p.has(i) || p.inputs[i].type.dtype == DType::kF32; }
bool rope_problem(const ProblemDesc& p) { return f32_operand(p, 0); }
bool attention_problem(const ProblemDesc& p) {
  return f32_operand(p, 0) && f32_operand(p, 1) && f32_operand(p, 2) && is_float(p.inputs[3].type.dtype);
}

}  // namespace

void add_decoder(Registry& r) {
  add(r, OpId::kRope, rope, rope_problem);
  add(r, OpId::kPagedAttention, paged_attention, attention_problem);
  add(r, OpId::kResolveIds, resolve_ids);
}

}  // namespace brisk::ref
