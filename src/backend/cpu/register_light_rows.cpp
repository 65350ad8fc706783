// Softmax, norms and other operators on rows, in f32.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/light.h"

namespace brisk::cpu {
namespace {

struct AxisRows {  // x seen as [outer, n, inner] round one axis
  int64_t outer, n, inner;
  AxisRows(const Dims& s, int axis) : outer(s.count(0, axis)), n(s[axis]), inner(s.count(axis + 1, s.rank)) {}
};

template <bool log_form> Status run_softmax(KernelContext& kc, const KernelArgs& k) {
  const TensorView& x = k.in[0];
  if (x.shape.rank == 0) return invalid("softmax of rank 0");
  int axis = axis_in(k.get<AxisAttrs>().axis, x.shape.rank);
  if (axis < 0 || axis >= x.shape.rank) return invalid("softmax: axis outside the rank");
  if (x.count() == 0) return {};
  AxisRows rows(x.shape, axis);
  const LightTable& t = light_of_host();
  const float* in = x.as<float>();
  float* out = k.out[0].as<float>();
  if (rows.inner == 1) {
    for_ranges(pool_of(kc), rows.outer, static_cast<double>(rows.n) * 14 + 30, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) (log_form ? t.log_softmax : t.softmax)(in + r * rows.n, rows.n, out + r * rows.n);
    });
    return {};
  }
  constexpr int64_t kColumns = 256;
  int64_t blocks = ceil_div(rows.inner, kColumns);
  for_ranges(pool_of(kc), rows.outer * blocks, static_cast<double>(rows.n * std::min(rows.inner, kColumns)) * 14, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      int64_t c = i % blocks * kColumns, at = i / blocks * rows.n * rows.inner + c;
      t.softmax_columns(in + at, rows.n, rows.inner, std::min(kColumns, rows.inner - c), log_form, out + at);
    }
  });
  return {};
}

// --- norms --------------------------------------------------------------------------------------------------------------

// Operand i spread over the normalised axes; null where it is absent.
const float* spread_row(const KernelArgs& k, size_t i, const Dims& normalised, std::vector<float>& storage) {
  if (!k.has(i)) return nullptr;
  const TensorView& v = k.in[i];
  int64_t n = normalised.count();
  if (v.count() == n) return v.as<float>();
  storage.resize(static_cast<size_t>(n));
  for (int64_t j = 0; j < n; ++j) {
    int64_t rest = j, at = 0, stride = 1;
    for (int d = normalised.rank - 1; d >= 0; --d) {
      int64_t place = rest % normalised[d];
      rest /= normalised[d];
      int own = d - (normalised.rank - v.shape.rank);
      if (own < 0) continue;
      if (v.shape[own] != 1) at += place * stride;
      stride *= v.shape[own];
    }
    storage[static_cast<size_t>(j)] = v.as<float>()[at];
  }
  return storage.data();
}

Status run_layer_norm(KernelContext& kc, const KernelArgs& k) {
  const TensorView& x = k.in[0];
  const auto& a = k.get<NormAttrs>();
  int axis = axis_in(a.axis, x.shape.rank);
  if (axis < 0 || axis > x.shape.rank) return invalid("LayerNorm: axis " + std::to_string(a.axis));
  Dims normalised;
  for (int d = axis; d < x.shape.rank; ++d) normalised.push(x.shape[d]);
  for (size_t i = 1; i < k.in.size(); ++i)
    if (k.has(i) && k.in[i].shape.rank > normalised.rank) return invalid("LayerNorm: operand " + std::to_string(i) + " has rank " + std::to_string(k.in[i].shape.rank));
  int64_t rows = x.shape.count(0, axis), inner = normalised.count();
  if (inner == 0) return {};
  thread_local std::vector<float> scales, biases;
  const float *w = spread_row(k, 1, normalised, scales), *b = spread_row(k, 2, normalised, biases);
  float* mean = k.out.size() > 1 && k.out[1].present ? k.out[1].as<float>() : nullptr;
  float* deviation = k.out.size() > 2 && k.out[2].present ? k.out[2].as<float>() : nullptr;
  const LightTable& t = light_of_host();
  for_ranges(pool_of(kc), rows, static_cast<double>(inner) * 6 + 30, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float* in = x.as<float>() + r * inner;
      if (mean || deviation) {
        auto n = static_cast<float>(inner);
        float m = t.fold_row(Fold::kSum, in, inner, 0) / n;
        if (deviation) deviation[r] = 1.0f / std::sqrt(t.squares_about(in, inner, m) / n + a.epsilon);
        if (mean) mean[r] = m;
      }
      t.layer_norm(in, w, b, inner, a.epsilon, k.out[0].as<float>() + r * inner);
    }
  });
  return {};
}

Status one_per_channel(const KernelArgs& k) {
  if (k.in[0].shape.rank < 2) return invalid("x has rank " + std::to_string(k.in[0].shape.rank) + ", at least 2 wanted");
  for (size_t i = 1; i < k.in.size(); ++i)
    if (k.in[i].count() != k.in[0].shape[1])
      return invalid("operand " + std::to_string(i) + " has " + std::to_string(k.in[i].count()) + " elements, x " + std::to_string(k.in[0].shape[1]) + " channels");
  return {};
}

Status run_batch_norm(KernelContext& kc, const KernelArgs& k) {
  BRISK_TRY(one_per_channel(k));
  const TensorView& x = k.in[0];
  int64_t channels = x.shape[1], inner = x.shape.count(2, x.shape.rank);
  float epsilon = k.get<NormAttrs>().epsilon;
  thread_local std::vector<float> factors;
  factors.resize(static_cast<size_t>(2 * channels));
  float *scale = factors.data(), *shift = scale + channels;
  for (int64_t c = 0; c < channels; ++c) {
    scale[c] = k.in[1].as<float>()[c] / std::sqrt(k.in[4].as<float>()[c] + epsilon);
    shift[c] = k.in[2].as<float>()[c] - k.in[3].as<float>()[c] * scale[c];
  }
  const LightTable& t = light_of_host();
  float* out = k.out[0].as<float>();
  for_ranges(pool_of(kc), x.shape[0] * channels, static_cast<double>(inner) * 4 + 10, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      int64_t c = p % channels;
      if (inner == 1) out[p] = x.as<float>()[p] * scale[c] + shift[c];
      else t.scale_shift(x.as<float>() + p * inner, inner, scale[c], shift[c], out + p * inner);
    }
  });
  return {};
}

Status run_instance_norm(KernelContext& kc, const KernelArgs& k) {
  BRISK_TRY(one_per_channel(k));
  const TensorView& x = k.in[0];
  int64_t channels = x.shape[1], inner = x.shape.count(2, x.shape.rank);
  float epsilon = k.get<NormAttrs>().epsilon;
  const LightTable& t = light_of_host();
  for_ranges(pool_of(kc), x.shape[0] * channels, static_cast<double>(inner) * 6 + 30, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last && inner > 0; ++p) {
      const float* in = x.as<float>() + p * inner;
      auto n = static_cast<float>(inner);
      float mean = t.fold_row(Fold::kSum, in, inner, 0) / n;
      float scale = k.in[1].as<float>()[p % channels] / std::sqrt(t.squares_about(in, inner, mean) / n + epsilon);
      t.scale_shift(in, inner, scale, k.in[2].as<float>()[p % channels] - mean * scale, k.out[0].as<float>() + p * inner);
    }
  });
  return {};
}

// x / (bias + alpha / size * sum of squares of the channels round it)^beta, a piece of one channel's plane at a time.
Status run_lrn(KernelContext& kc, const KernelArgs& k) {
  const auto& a = k.get<LrnAttrs>();
  const TensorView& x = k.in[0];
  if (x.shape.rank < 2) return invalid("Lrn: rank " + std::to_string(x.shape.rank));
  int64_t channels = x.shape[1], inner = x.shape.count(2, x.shape.rank), before = (a.size - 1) / 2, after = a.size - 1 - before;
  int64_t pieces = ceil_div(std::max<int64_t>(inner, 1), kTile);
  const LightTable& t = light_of_host();
  TileFn log = t.pointwise(OpId::kLog, DType::kF32, 0), exp = t.pointwise(OpId::kExp, DType::kF32, 0), mul = t.pointwise(OpId::kMul, DType::kF32, 0);
  for_ranges(pool_of(kc), x.shape[0] * channels * pieces, static_cast<double>(std::min(inner, kTile)) * static_cast<double>(25 + a.size), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      int64_t plane = i / pieces, c = plane % channels, column = i % pieces * kTile, n = std::min(kTile, inner - column);
      const float* in = x.as<float>() + plane * inner + column;
      float sum[kTile];
      std::fill_n(sum, n, 0.0f);
      for (int64_t j = std::max<int64_t>(0, c - before); j <= std::min(channels - 1, c + after); ++j)
        t.fold_columns(Fold::kSquares, in + (j - c) * inner, n, nullptr, sum);
      t.scale_shift(sum, n, a.alpha / static_cast<float>(a.size), a.bias, sum);
      log({sum, nullptr, nullptr, sum, n});
      t.scale_shift(sum, n, -a.beta, 0, sum);
      exp({sum, nullptr, nullptr, sum, n});
      mul({in, sum, nullptr, k.out[0].as<float>() + plane * inner + column, n});
    }
  });
  return {};
}

// x: [B, H, S, d] or [B, S, H d]. Tables: [B or 1, S, dim / 2], or [places, dim / 2] read at positions [B, S].
Status run_rotary(KernelContext& kc, const KernelArgs& k) {
  const auto& a = k.get<RopeAttrs>();
  const TensorView &x = k.in[0], &cos = k.in[1], &sin = k.in[2];
  bool flat = x.shape.rank == 3;
  int64_t half = a.dim / 2, batch = x.shape[0], heads = flat ? x.shape[2] / a.head_dim : x.shape[1], steps = flat ? x.shape[1] : x.shape[2];
  if (a.dim > a.head_dim || cos.shape.rank < 2 || cos.shape[cos.shape.rank - 1] != half || !(cos.shape == sin.shape)) return invalid("RotaryEmbedding: tables do not fit");
  int64_t table_rows = half ? cos.count() / half : 0;
  thread_local std::vector<int64_t> table_row;
  table_row.clear();
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t s = 0; s < steps; ++s) {
      int64_t r = table_rows == steps ? s : b * steps + s;  // one table for all of the batch, or one each
      if (k.has(3)) {
        const TensorView& p = k.in[3];
        if (p.count() != batch * steps && p.count() != steps && p.count() != 1) return invalid("RotaryEmbedding: positions do not fit");
        r = p.count() == 1 ? load_int(p.data, p.dtype, 0) + s : load_int(p.data, p.dtype, p.count() == steps ? s : b * steps + s);
      }
      if (r < 0 || r >= table_rows) return invalid("RotaryEmbedding: position " + std::to_string(r) + " outside a table of " + std::to_string(table_rows));
      table_row.push_back(r);
    }
  const int64_t* rows = table_row.data();
  const LightTable& t = light_of_host();
  for_ranges(pool_of(kc), batch * heads * steps, static_cast<double>(a.head_dim) * 3 + 10, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      int64_t b = i / (heads * steps), s = flat ? i / heads % steps : i % steps;
      const float *in = x.as<float>() + i * a.head_dim, *c = cos.as<float>() + rows[b * steps + s] * half, *v = sin.as<float>() + rows[b * steps + s] * half;
      float* out = k.out[0].as<float>() + i * a.head_dim;
      std::copy(in + a.dim, in + a.head_dim, out + a.dim);
      if (!a.interleaved) {
        t.rotate_halves(in, half, c, v, out);
      } else {
        for (int64_t j = 0; j < half; ++j) {
          float u = in[2 * j], w = in[2 * j + 1];
          out[2 * j] = c[j] * u - v[j] * w;
          out[2 * j + 1] = v[j] * u + c[j] * w;
        }
      }
    }
  });
  return {};
}

bool accepts_rotary(const ProblemDesc& p) {
  for (size_t i = 0; i < 3; ++i)
    if (!p.has(i) || p.inputs[i].type.dtype != DType::kF32) return false;
  return all_plain(p) && p.get<RopeAttrs>().head_dim > 0;
}
bool accepts_lrn(const ProblemDesc& p) { return all_f32(p) && p.get<LrnAttrs>().size > 0; }
// LayerNorm's further results are f32, whatever they are for.
bool accepts_layer_norm(const ProblemDesc& p) { return all_f32(p); }

}  // namespace

void add_light_rows(Registry& r) {
  constexpr uint32_t kX = 1;  // a row is read whole, or element by element, before it is written
  r.add(light_desc(OpId::kSoftmax, run_softmax<false>, all_f32, kX));
  r.add(light_desc(OpId::kLogSoftmax, run_softmax<true>, all_f32, kX));
  r.add(light_desc(OpId::kLayerNorm, run_layer_norm, accepts_layer_norm, kX));
  r.add(light_desc(OpId::kBatchNorm, run_batch_norm, all_f32, kX));
  r.add(light_desc(OpId::kInstanceNorm, run_instance_norm, all_f32, kX));
  r.add(light_desc(OpId::kLrn, run_lrn, accepts_lrn));
  r.add(light_desc(OpId::kRotaryEmbedding, run_rotary, accepts_rotary, kX));
}

}  // namespace brisk::cpu
