// Shape rules of the operators of decoders (ragged batches and paged state).
#include "op/rules.h"
#include "op/step_io.h"

namespace brisk::rules {
namespace {

Error wrong(const char* operand, const Type& t, const std::string& wanted) {
  return invalid(std::string(operand) + " is " + to_string(t) + ", wanted " + wanted);
}

// Two dims that can never be equal.
bool clash(const Dim& a, const Dim& b) {
  auto x = a.constant(), y = b.constant();
  return x && y && *x != *y;
}

}  // namespace

Status infer_embedding(InferContext& c) {
  const Type &w = c.in(0), &ids = c.in(1);
  if (w.rank() != 2) return wrong("weight", w, "rank 2");
  c.out().dtype = DType::kF32;
  c.out().shape = ids.shape;
  c.out().shape.push_back(w.shape[1]);
  return {};
}

Status infer_linear(InferContext& c) {
  const Type &x = c.in(0), &w = c.in(1);
  const auto& a = c.attrs<LinearAttrs>();
  if (w.rank() != 2) return wrong("weight", w, "[N, K]");
  if (x.rank() < 1 || clash(x.shape.back(), w.shape[1])) return wrong("x", x, "[..., " + w.shape[1].to_string() + "]");
  Dim n = w.shape[0];
  if (a.gated) n = Dim::floor_div(n, 2);
  if (c.has(2) && (c.in(2).rank() != 1 || clash(c.in(2).shape[0], w.shape[0])))
    return wrong("bias", c.in(2), "[" + w.shape[0].to_string() + "]");
  if (c.has(3) && (c.in(3).rank() != x.rank() || clash(c.in(3).shape.back(), n)))
    return wrong("residual", c.in(3), "[..., " + n.to_string() + "]");
  if (c.has(4) && (c.in(4).rank() != 1 || clash(c.in(4).shape[0], w.shape[1])))
    return wrong("norm weight", c.in(4), "[" + w.shape[1].to_string() + "]");
  c.out().dtype = x.dtype;
  c.out().shape = x.shape;
  c.out().shape.back() = n;
  return {};
}

Status infer_norm(InferContext& c) {
  const Type& x = c.in(0);
  c.out(0) = x;
  c.out(0).elements.reset();
  if (c.output_count() == 1) return {};
  // LayerNorm's mean and inverse standard deviation: normalised axes become 1, always f32.
  BRISK_ASSIGN(int axis, normalize_axis(c.attrs<NormAttrs>().axis, x.rank()));
  for (int i = 1; i < c.output_count(); ++i) {
    c.out(i) = x;
    c.out(i).dtype = DType::kF32;
    for (int d = axis; d < x.rank(); ++d) c.out(i).shape[static_cast<size_t>(d)] = 1;
  }
  return {};
}

Status infer_rope(InferContext& c) {
  const auto& a = c.attrs<RopeAttrs>();
  const Type& x = c.in(0);
  auto width = x.rank() == 2 ? x.shape[1].constant() : std::nullopt;
  if (!width || a.head_dim <= 0 || *width % a.head_dim != 0 || a.dim > a.head_dim || a.dim % 2 != 0)
    return wrong("x", x, "[T, heads * " + std::to_string(a.head_dim) + "]");
  c.out() = x;
  return {};
}

Status infer_paged_attention(InferContext& c) {
  const auto& a = c.attrs<AttentionAttrs>();
  if (a.heads <= 0 || a.kv_heads <= 0 || a.head_dim <= 0 || a.heads % a.kv_heads != 0)
    return invalid("heads " + std::to_string(a.heads) + " must be a multiple of kv_heads " + std::to_string(a.kv_heads));
  bool packed = !c.has(1);
  int64_t q_width = (packed ? a.heads + 2 * a.kv_heads : a.heads) * a.head_dim;
  const Type& q = c.in(0);
  if (q.rank() != 2 || clash(q.shape[1], q_width)) return wrong("q", q, "[T, " + std::to_string(q_width) + "]");
  for (int i : {1, 2})
    if (c.has(i) && (c.in(i).rank() != 2 || clash(c.in(i).shape[1], a.kv_heads * a.head_dim)))
      return wrong(i == 1 ? "k" : "v", c.in(i), "[T, " + std::to_string(a.kv_heads * a.head_dim) + "]");
  if (c.has(1) != c.has(2)) return invalid("k and v come together or not at all");
  if (a.rope_dim > 0 && !c.has(8)) return invalid("rope_dim is set but the frequencies are missing");
  c.out() = q;
  c.out().shape[1] = a.heads * a.head_dim;
  return {};
}

Status infer_resolve_ids(InferContext& c) {
  c.out() = c.in(0);
  return {};
}

Status infer_sample(InferContext& c) {
  const Type& logits = c.in(0);
  if (logits.rank() != 2) return wrong("logits", logits, "[L, V]");
  const Dim& rows = logits.shape[0];
  c.out(0) = Type{DType::kI32, true, {rows}, {}};
  c.out(1) = Type{DType::kF32, true, {rows}, {}};
  c.out(2) = Type{DType::kI32, true, {rows, kMaxTopLogprobs}, {}};
  c.out(3) = Type{DType::kF32, true, {rows, kMaxTopLogprobs}, {}};
  return {};
}

}  // namespace brisk::rules
