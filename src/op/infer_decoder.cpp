// Shape rules of the operators of decoders (ragged batches and paged state).
#include "op/activation.h"
#include "op/rules.h"
#include "op/step_io.h"

namespace brisk::rules {
namespace {

// Far beyond any model, and safe to multiply.
constexpr int64_t kMaxHeads = 1 << 16, kMaxHeadDim = 1 << 16;

Error wrong(const char* operand, const Type& t, const std::string& wanted) {
  return invalid(std::string(operand) + " is " + to_string(t) + ", wanted " + wanted);
}

// Two dims that can never be equal.
bool clash(const Dim& a, const Dim& b) {
  auto x = a.constant(), y = b.constant();
  return x && y && *x != *y;
}

// Operand i, if it is there, must be of this type.
Status expect(InferContext& c, int i, const char* operand, DType dtype, const Shape& shape) {
  if (!c.has(i)) return {};
  const Type& t = c.in(i);
  bool fits = t.dtype == dtype && t.ranked && t.shape.size() == shape.size();
  for (size_t d = 0; fits && d < shape.size(); ++d) fits = !clash(t.shape[d], shape[d]);
  if (!fits) return wrong(operand, t, to_string(Type{dtype, true, shape, {}}));
  return {};
}

// The same for floats beside activations: of the activations' type, or f32.
Status expect_float(InferContext& c, int i, const char* operand, DType activation, const Shape& shape) {
  return expect(c, i, operand, c.has(i) && c.in(i).dtype == DType::kF32 ? DType::kF32 : activation, shape);
}

}  // namespace

Status infer_embedding(InferContext& c) {
  const Type &w = c.in(0), &ids = c.in(1);
  if (w.rank() != 2 || !is_float(w.dtype)) return wrong("weight", w, "floats [V, H]");
  if (!ids.ranked || ids.dtype != DType::kI32) return wrong("ids", ids, "i32 [...]");
  c.out().dtype = DType::kF32;
  c.out().shape = ids.shape;
  c.out().shape.push_back(w.shape[1]);
  return {};
}

Status infer_linear(InferContext& c) {
  const Type &x = c.in(0), &w = c.in(1);
  const auto& a = c.attrs<LinearAttrs>();
  if (w.rank() != 2 || !is_float(w.dtype)) return wrong("weight", w, "floats [N, K]");
  if (x.rank() < 1 || !is_float(x.dtype) || clash(x.shape.back(), w.shape[1]))
    return wrong("x", x, "floats [..., " + w.shape[1].to_string() + "]");
  if (a.act_group < 0) return invalid("act_group " + std::to_string(a.act_group));
  if (a.act_terms < 1 || a.act_terms > 2) return invalid("act_terms " + std::to_string(a.act_terms) + " outside 1 to 2");
  if (!activation_from_name(a.act)) return invalid("activation '" + a.act + "'");
  auto rows = w.shape[0].constant();
  if (a.gated && rows && *rows % 2 != 0) return wrong("weight", w, "an even number of rows, gate and up");
  c.out().dtype = x.dtype;
  c.out().shape = x.shape;
  c.out().shape.back() = a.gated ? Dim::floor_div(w.shape[0], 2) : w.shape[0];
  BRISK_TRY(expect_float(c, 2, "bias", x.dtype, {w.shape[0]}));
  BRISK_TRY(expect_float(c, 3, "residual", x.dtype, c.out().shape));
  return expect_float(c, 4, "norm weight", x.dtype, {w.shape[1]});
}

Status infer_expert_linear(InferContext& c) {
  const Type &x = c.in(0), &w = c.in(2);
  const auto& a = c.attrs<LinearAttrs>();
  if (w.rank() != 3 || !is_float(w.dtype)) return wrong("weights", w, "floats [E, N, K]");
  if (x.rank() != 2 || !is_float(x.dtype) || clash(x.shape[1], w.shape[2])) return wrong("x", x, "floats [R, " + w.shape[2].to_string() + "]");
  BRISK_TRY(expect(c, 1, "experts", DType::kI64, {x.shape[0]}));
  BRISK_TRY(expect_float(c, 3, "bias", x.dtype, {w.shape[0], w.shape[1]}));
  if (a.act_group < 0 || a.act_terms != 1 || a.norm_epsilon != 0 || !activation_from_name(a.act))
    return invalid("act_group " + std::to_string(a.act_group) + ", act_terms " + std::to_string(a.act_terms) + ", activation '" + a.act + "', or a norm");
  auto rows = w.shape[1].constant();
  if (a.gated && rows && *rows % 2 != 0) return wrong("weights", w, "an even number of rows each, gate and up");
  c.out().dtype = x.dtype;
  c.out().shape = {x.shape[0], a.gated ? Dim::floor_div(w.shape[1], 2) : w.shape[1]};
  return {};
}

Status infer_norm(InferContext& c) {
  const Type& x = c.in(0);
  if (!x.ranked || !is_float(x.dtype)) return wrong("x", x, "floats of known rank");
  BRISK_ASSIGN(int first, normalize_axis(c.attrs<NormAttrs>().axis, x.rank()));
  Shape normalized(x.shape.begin() + first, x.shape.end());
  BRISK_TRY(expect_float(c, 1, "weight", x.dtype, normalized));
  BRISK_TRY(expect_float(c, 2, "bias", x.dtype, normalized));
  c.out(0) = x;
  c.out(0).elements.reset();
  if (c.output_count() == 1) return {};
  // LayerNorm's mean and inverse standard deviation: normalised axes become 1, always f32.
  for (int i = 1; i < c.output_count(); ++i) {
    c.out(i) = x;
    c.out(i).dtype = DType::kF32;
    for (int d = first; d < x.rank(); ++d) c.out(i).shape[static_cast<size_t>(d)] = 1;
  }
  return {};
}

Status infer_rope(InferContext& c) {
  const auto& a = c.attrs<RopeAttrs>();
  const Type& x = c.in(0);
  auto width = x.rank() == 2 ? x.shape[1].constant() : std::nullopt;
  if (!width || !is_float(x.dtype) || a.head_dim <= 0 || *width % a.head_dim != 0)
    return wrong("x", x, "floats [T, heads * " + std::to_string(a.head_dim) + "]");
  if (a.dim < 0 || a.dim > a.head_dim || a.dim % 2 != 0)
    return invalid("dim " + std::to_string(a.dim) + ", allowed even numbers from 0 to head_dim " + std::to_string(a.head_dim));
  BRISK_TRY(expect(c, 1, "positions", DType::kI32, {x.shape[0]}));
  BRISK_TRY(expect(c, 2, "frequencies", DType::kF32, {a.dim / 2}));
  c.out() = x;
  return {};
}

Status infer_paged_attention(InferContext& c) {
  const auto& a = c.attrs<AttentionAttrs>();
  auto outside = [](int64_t n, int64_t max) { return n <= 0 || n > max; };
  if (outside(a.heads, kMaxHeads) || outside(a.kv_heads, kMaxHeads) || a.heads % a.kv_heads != 0)
    return invalid("heads " + std::to_string(a.heads) + " must be a multiple of kv_heads " + std::to_string(a.kv_heads));
  if (outside(a.head_dim, kMaxHeadDim) || a.rope_dim < 0 || a.rope_dim > a.head_dim || a.rope_dim % 2 != 0)
    return invalid("head_dim " + std::to_string(a.head_dim) + " with rope_dim " + std::to_string(a.rope_dim));
  if (a.window < 0 || a.window > INT32_MAX)  // positions are i32
    return invalid("window " + std::to_string(a.window) + ", allowed 0 to 2147483647");
  if (c.has(1) != c.has(2)) return invalid("k and v come together or not at all");
  if (a.rope_dim > 0 && !c.has(8)) return invalid("rope_dim is set but the frequencies are missing");
  const Type& q = c.in(0);
  int64_t q_width = (c.has(1) ? a.heads : a.heads + 2 * a.kv_heads) * a.head_dim;
  if (q.rank() != 2 || !is_float(q.dtype) || clash(q.shape[1], q_width)) return wrong("q", q, "floats [T, " + std::to_string(q_width) + "]");
  const Dim& tokens = q.shape[0];
  BRISK_TRY(expect(c, 1, "k", q.dtype, {tokens, a.kv_heads * a.head_dim}));
  BRISK_TRY(expect(c, 2, "v", q.dtype, {tokens, a.kv_heads * a.head_dim}));
  BRISK_TRY(expect(c, 4, "positions", DType::kI32, {tokens}));
  const Type& lens = c.in(6);
  if (lens.rank() != 1) return wrong("context_lens", lens, "i32 [S]");
  const Dim sequences = lens.shape[0];
  BRISK_TRY(expect(c, 5, "seq_starts", DType::kI32, {sequences + Dim(1)}));
  BRISK_TRY(expect(c, 6, "context_lens", DType::kI32, {sequences}));
  const Type& tables = c.in(7);
  if (tables.rank() != 2) return wrong("block_tables", tables, "i32 [S, B]");
  BRISK_TRY(expect(c, 7, "block_tables", DType::kI32, {sequences, tables.shape[1]}));
  if (a.rope_dim > 0) BRISK_TRY(expect(c, 8, "frequencies", DType::kF32, {a.rope_dim / 2}));
  c.out() = q;
  c.out().shape[1] = a.heads * a.head_dim;
  return {};
}

Status infer_resolve_ids(InferContext& c) {
  if (!c.in(0).ranked || c.in(0).dtype != DType::kI32) return wrong("ids", c.in(0), "i32 [T]");
  c.out() = c.in(0);
  return {};
}

Status infer_sample(InferContext& c) {
  const Type& logits = c.in(0);
  if (logits.rank() != 2 || logits.dtype != DType::kF32) return wrong("logits", logits, "f32 [L, V]");
  const Dim& rows = logits.shape[0];
  BRISK_TRY(expect(c, 1, "params", DType::kU8, {rows, static_cast<int64_t>(sizeof(SampleParams))}));
  BRISK_TRY(expect(c, 2, "slots", DType::kI32, {rows}));
  c.out(0) = Type{DType::kI32, true, {rows}, {}};
  c.out(1) = Type{DType::kF32, true, {rows}, {}};
  c.out(2) = Type{DType::kI32, true, {rows, kMaxTopLogprobs}, {}};
  c.out(3) = Type{DType::kF32, true, {rows, kMaxTopLogprobs}, {}};
  return {};
}

}  // namespace brisk::rules
