// Attention, rotary embedding and the norms that go with them, of ai.onnx and com.microsoft.
#include "import/onnx/lower.h"

namespace brisk::onnx_import {
namespace {

using enum OpId;

void attention(Lower& l) {
  SdpaAttrs a;
  a.heads = l.i("q_num_heads", 0);
  a.kv_heads = l.i("kv_num_heads", 0);
  a.scale = l.f("scale", 0);
  a.softcap = l.f("softcap", 0);
  a.causal = l.i("is_causal", 0) != 0;
  a.left_window = l.i("left_window_size", -1);
  a.right_window = l.i("right_window_size", -1);
  a.scores_mode = l.i("qk_matmul_output_mode", 0);
  size_t outputs = l.wants(3) ? 4 : l.wants(2) ? 3 : l.wants(1) ? 2 : 1;
  auto out = l.add_n(kAttention, a, l.inputs(), outputs);
  for (size_t i = 0; i < outputs; ++i) l.set(i, out[i]);
}

// Operand order of the row: x, cos, sin, positions.
void rotary_embedding(Lower& l) {
  RopeAttrs a;
  a.interleaved = l.i("interleaved", 0) != 0;
  a.dim = l.i("rotary_embedding_dim", 0);
  int64_t heads = l.i("num_heads", 0);
  auto r = l.rank(l.in(0));
  if (!r) return void(l.refuse("x of unknown rank"));
  if (*r == 4) a.head_dim = l.type(l.in(0)).shape[3].constant_or(0);
  else if (heads > 0) a.head_dim = l.type(l.in(0)).shape.back().constant_or(0) / heads;
  if (a.head_dim < 1) return void(l.refuse("a head size that is not known"));
  if (a.dim == 0) a.dim = a.head_dim;
  l.set(0, l.add(kRotaryEmbedding, a, l.inputs()));
}

// x / sqrt(mean(x^2) + epsilon) * scale over the axes from `axis` on; in f32, as all of its users mean it.
ValueId rms_norm(Lower& l, ValueId x, ValueId scale, float epsilon, int64_t axis) {
  auto r = l.rank(x);
  if (!r) return l.refuse("x of unknown rank");
  int64_t first = axis < 0 ? axis + *r : axis;
  DType t = l.dtype(x);
  if (first == *r - 1 && t == DType::kF32 && l.dtype(scale) == t && l.rank(scale) == 1) {
    NormAttrs a;
    a.epsilon = epsilon;
    return l.add(kRmsNorm, a, {x, scale});
  }
  DType work = t == DType::kF64 ? t : DType::kF32;
  std::vector<int64_t> axes;
  for (int64_t i = first; i < *r; ++i) axes.push_back(i);
  ValueId wide = l.cast(x, work), square = l.reduce(kReduceMean, l.binary(kMul, wide, wide), axes);
  ValueId root = l.unary(kSqrt, l.binary(kAdd, square, l.scalar_of(work, static_cast<double>(epsilon))));
  ValueId y = l.cast(l.binary(kDiv, wide, root), l.dtype(scale));
  return l.binary(kMul, y, scale);
}

void rms_normalization(Lower& l) { l.set(0, rms_norm(l, l.in(0), l.in(1), l.f("epsilon", 1e-5f), l.i("axis", -1))); }

// (x, skip, weight, bias?) -> y, -, -, x + skip + bias.
void skip_simplified(Lower& l) {
  ValueId sum = l.binary(kAdd, l.in(0), l.in(1));
  if (l.has(3)) sum = l.binary(kAdd, sum, l.in(3));
  l.set(0, rms_norm(l, sum, l.in(2), l.f("epsilon", 1e-12f), -1));
  if (l.wants(3)) l.set(3, sum);
}

// (x, skip, gamma, beta?, bias?) -> y, -, -, x + skip + bias.
void skip_layer_norm(Lower& l) {
  ValueId sum = l.binary(kAdd, l.in(0), l.in(1));
  if (l.has(4)) sum = l.binary(kAdd, sum, l.in(4));
  NormAttrs a;
  a.epsilon = l.f("epsilon", 1e-12f);
  l.set(0, l.add(kLayerNorm, a, {sum, l.in(2), l.in(3)}));
  if (l.wants(3)) l.set(3, sum);
}

}  // namespace

void register_attention(LowerTable& t) {
  t.insert({{"Attention", attention}, {"RotaryEmbedding", rotary_embedding}, {"RMSNormalization", rms_normalization},
            {"SimplifiedLayerNormalization", rms_normalization}, {"com.microsoft::SimplifiedLayerNormalization", rms_normalization},
            {"com.microsoft::SkipSimplifiedLayerNormalization", skip_simplified},
            {"com.microsoft::SkipLayerNormalization", skip_layer_norm}});
}

}  // namespace brisk::onnx_import
