// Integer products take the scale and the bias that follow them; products of dequantised operands become integer ones.
#include <algorithm>

#include "passes/all.h"
#include "passes/rewrite.h"

namespace brisk::passes {
namespace {

int64_t columns(const Graph& g, const Node& product) {
  const Type& b = g.value(product.inputs[1]).type;
  return b.ranked && b.rank() == 2 ? b.shape[1].constant_or(0) : 0;
}

// f32, one number for all columns or one for each.
bool scale_of_columns(const Graph& g, ValueId v, int64_t n, bool one_allowed) {
  const Type& t = g.value(v).type;
  if (t.dtype != DType::kF32 || !t.ranked || t.rank() > 1 || (g.constant(v) && !g.constant(v)->encoding.plain())) return false;
  int64_t count = t.rank() == 0 ? 1 : t.shape[0].constant_or(0);
  return (one_allowed && count == 1) || (t.rank() == 1 && count == n);
}

// A weight [N, K] of signed bytes with a scale for each row.
bool row_scaled_bytes(const Constant& w) {
  const Encoding& e = w.encoding;
  return w.shape.rank == 2 && e.bits == 8 && e.code_dtype == DType::kI8 && e.group == 0 && e.offset == Encoding::Offset::kNone &&
         e.scale_dtype == DType::kF32;
}

ConstantPtr transposed_codes(const Constant& w) {
  int64_t n = w.shape[0], k = w.shape[1];
  std::vector<int8_t> out(static_cast<size_t>(n * k));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < k; ++j) out[static_cast<size_t>(j * n + i)] = w.as<int8_t>()[i * k + j];
  return make_constant(DType::kI8, Dims{k, n}, out);
}

// A constant number of f32, or nothing.
const float* number(const Graph& g, ValueId v) {
  const Constant* c = g.constant(v);
  return c && c->dtype == DType::kF32 && c->encoding.plain() && c->count() == 1 ? c->as<float>() : nullptr;
}

bool linear_to_integer(Graph& g, const Index& index, Node& n) {
  const auto& a = std::get<LinearAttrs>(n.attrs);
  const Constant* w = g.constant(n.inputs[1]);
  Node* dequantize = index.producer(n.inputs[0], OpId::kDequantizeLinear);
  if (!w || !dequantize || !row_scaled_bytes(*w) || !(a == LinearAttrs{}) || operand(n, 3) >= 0 || operand(n, 4) >= 0) return false;
  const Type& q = g.value(dequantize->inputs[0]).type;
  const float* scale = number(g, dequantize->inputs[1]);
  ValueId zero = operand(*dequantize, 2);
  const Constant* zero_point = g.constant(zero);
  if (!scale || !q.ranked || (q.dtype != DType::kU8 && q.dtype != DType::kI8) || g.value(n.outputs[0]).type.dtype != DType::kF32) return false;
  if (zero >= 0 && (!zero_point || zero_point->count() != 1 || zero_point->shape.rank > 1)) return false;
  if (operand(n, 2) >= 0 && !scale_of_columns(g, n.inputs[2], w->shape[0], false)) return false;
  std::vector<float> scales(static_cast<size_t>(w->shape[0]));
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = *scale * load_float(w->scales.bytes.data(), DType::kF32, static_cast<int64_t>(i));
  ValueId bias = operand(n, 2), x = dequantize->inputs[0];
  std::string name = g.value(n.inputs[1]).name;
  int64_t outputs = w->shape[0];
  ConstantPtr codes = transposed_codes(*w);
  ValueId b = g.add_constant(name + ".codes", codes);
  ValueId s = g.add_constant(name + ".scales", make_constant(DType::kF32, Dims{outputs}, scales));
  n.op = OpId::kMatMulInteger;
  n.attrs = NoAttrs{};
  n.inputs = {x, b, zero, kNoValue, s};
  if (bias >= 0) n.inputs.push_back(bias);
  return true;
}

}  // namespace

Result<int> linear_to_integers(Graph& g, PassContext& c) {
  int changed = 0;
  Index index(g);
  for (Node& n : g.nodes)
    if (n.op == OpId::kLinear) changed += linear_to_integer(g, index, n);
  if (changed) BRISK_TRY(remove_dead(g, c));
  return changed;
}

Result<int> fuse_integer_scale(Graph& g, PassContext& c) {
  int changed = 0;
  Index index(g);
  for (Node& n : g.nodes) {
    if (n.op != OpId::kMul && n.op != OpId::kAdd) continue;
    for (size_t side : {0u, 1u}) {
      ValueId v = n.inputs[side], other = n.inputs[1 - side];
      Node* from = index.producer(v);
      if (!from || !index.single_use(v)) continue;
      if (n.op == OpId::kMul) {  // Mul(Cast(product), scale)
        if (from->op != OpId::kCast || g.value(v).type.dtype != DType::kF32) continue;
        Node* product = index.producer(from->inputs[0], OpId::kMatMulInteger);
        if (!product || operand(*product, 4) >= 0 || !index.single_use(from->inputs[0]) || !scale_of_columns(g, other, columns(g, *product), true)) continue;
        Node fused = *product;
        set_operand(fused, 4, other);
        fused.outputs = n.outputs;
        n = std::move(fused);
      } else {
        if (from->op != OpId::kMatMulInteger || operand(*from, 4) < 0 || operand(*from, 5) >= 0) continue;
        if (!scale_of_columns(g, other, columns(g, *from), false)) continue;
        Node fused = *from;
        set_operand(fused, 5, other);
        fused.outputs = n.outputs;
        n = std::move(fused);
      }
      ++changed;
      break;
    }
  }
  if (changed) BRISK_TRY(remove_dead(g, c));
  return changed;
}

}  // namespace brisk::passes
