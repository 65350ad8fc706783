// com.microsoft operators on 8-bit tensors: products of integers, and operators between a dequantisation and a quantisation.
#include "import/onnx/lower.h"
#include "import/onnx/lower_integer.h"

namespace brisk::onnx_import {

using enum OpId;

ValueId integer_product(Lower& l, const IntegerProduct& p) {
  ValueId sums = l.add(kMatMulInteger, NoAttrs{}, {p.a, p.b, p.a_zero, p.b_zero});
  ValueId y = l.binary(kMul, l.cast(sums, DType::kF32), l.binary(kMul, l.cast(p.a_scale, DType::kF32), l.cast(p.b_scale, DType::kF32)));
  return p.bias == kNoValue ? y : l.binary(kAdd, y, l.cast(p.bias, DType::kF32));
}

namespace {

// Codes to numbers and back; scales and zero points of one element, operand i - 1 holding codes and i, i + 1 these.
ValueId real(Lower& l, ValueId x, ValueId scale, ValueId zero) {
  QuantAttrs a;
  a.to = DType::kF32;
  return l.add(kDequantizeLinear, a, {x, scale, zero});
}
ValueId codes(Lower& l, ValueId x, ValueId scale, ValueId zero, DType otherwise) {
  QuantAttrs a;
  a.to = zero == kNoValue ? otherwise : l.dtype(zero);
  return l.add(kQuantizeLinear, a, {x, scale, zero});
}

// (a, b, scale a, scale b, zero a?, zero b?, bias?) -> f32.
void matmul_integer_to_float(Lower& l) {
  l.set(0, integer_product(l, {l.in(0), l.in(1), l.in(2), l.in(3), l.in(4), l.in(5), l.in(6)}));
}

// (a f32, b, scale b, zero b?, bias?): a is quantised by its own range.
void dynamic_quantize_matmul(Lower& l) {
  auto a = l.add_n(kDynamicQuantizeLinear, NoAttrs{}, {l.in(0)}, 3);
  l.set(0, integer_product(l, {a[0], l.in(1), a[1], l.in(2), a[2], l.in(3), l.in(4)}));
}

// (a, scale, zero, b, scale, zero, result's scale, zero?).
template <OpId op> void pointwise_pair(Lower& l) {
  ValueId y = l.binary(op, real(l, l.in(0), l.in(1), l.in(2)), real(l, l.in(3), l.in(4), l.in(5)));
  l.set(0, codes(l, y, l.in(6), l.in(7), l.dtype(l.in(0))));
}

// (x, scale, zero?, result's scale, zero?): f between them.
template <class F> void between(Lower& l, F&& f) {
  ValueId y = f(real(l, l.in(0), l.in(1), l.in(2)));
  if (!l.failed()) l.set(0, codes(l, y, l.in(3), l.in(4), l.dtype(l.in(0))));
}
void sigmoid(Lower& l) {
  between(l, [&](ValueId x) { return l.unary(kSigmoid, x); });
}
void leaky_relu(Lower& l) {
  AlphaBetaAttrs a;
  a.alpha = l.f("alpha", 0.01f);
  between(l, [&](ValueId x) { return l.add(kLeakyRelu, a, {x}); });
}
void softmax(Lower& l) {
  int64_t axis = l.i("axis", -1);
  auto r = l.rank(l.in(0));
  if (!r) return void(l.refuse("x of unknown rank"));
  if (axis < -*r || axis >= *r) return void(l.bad("axis " + std::to_string(axis)));
  between(l, [&](ValueId x) {
    if (l.i("opset", 13) >= 13) return l.add(kSoftmax, AxisAttrs{axis}, {x});
    ValueId flat = l.add(kFlatten, AxisAttrs{axis < 0 ? axis + *r : axis}, {x});  // all axes from there on are one
    return l.binary(kReshape, l.add(kSoftmax, AxisAttrs{-1}, {flat}), l.shape_of(x));
  });
}

std::vector<int64_t> moved_channels(int64_t rank, bool to_last) {
  std::vector<int64_t> perm = {0};
  if (!to_last) perm.push_back(rank - 1);
  for (int64_t i = to_last ? 2 : 1; i < (to_last ? rank : rank - 1); ++i) perm.push_back(i);
  if (to_last) perm.push_back(1);
  return perm;
}

// f of [N, C, spatial...]; channels_last: it came as [N, spatial..., C].
template <class F> void pooled(Lower& l, F&& f) {
  auto r = l.rank(l.in(0));
  if (!r || *r < 3) return void(l.refuse("x of unknown rank, or without spatial axes"));
  bool last = l.i("channels_last", 0) != 0;
  between(l, [&](ValueId x) {
    ValueId y = f(last ? l.transpose(x, moved_channels(*r, false)) : x, *r);
    return last ? l.transpose(y, moved_channels(*r, true)) : y;
  });
}
void average_pool(Lower& l) {
  WindowAttrs a = window_attrs(l);
  if (a.kernel.empty()) return void(l.bad("kernel_shape is missing"));
  pooled(l, [&](ValueId x, int64_t) { return l.add(kAveragePool, a, {x}); });
}
void global_average_pool(Lower& l) {
  pooled(l, [&](ValueId x, int64_t rank) {
    std::vector<int64_t> axes;
    for (int64_t i = 2; i < rank; ++i) axes.push_back(i);
    return l.reduce(kReduceMean, x, axes);
  });
}
void reduce_mean(Lower& l) {
  auto r = l.rank(l.in(0));
  if (!r) return void(l.refuse("x of unknown rank"));
  ReduceAttrs a;
  a.axes = l.ints("axes");
  a.all = a.axes.empty();
  a.keep_dims = l.i("keepdims", 1) != 0;
  between(l, [&](ValueId x) { return l.add(kReduceMean, a, {x}); });
}

// (result's scale, zero, then each part with scale and zero).
void concat(Lower& l) {
  if (l.count() < 5 || l.count() % 3 != 2) return void(l.bad(std::to_string(l.count()) + " operands, wanted 2 and 3 for each part"));
  std::vector<ValueId> parts;
  for (size_t i = 2; i + 2 < l.count(); i += 3) parts.push_back(real(l, l.in(i), l.in(i + 1), l.in(i + 2)));
  l.set(0, codes(l, l.concat(parts, l.i("axis", 0)), l.in(0), l.in(1), l.dtype(l.in(2))));
}

// (condition, x, scale, zero, y, scale, zero, result's scale, zero).
void where(Lower& l) {
  ValueId y = l.add(kWhere, NoAttrs{}, {l.in(0), real(l, l.in(1), l.in(2), l.in(3)), real(l, l.in(4), l.in(5), l.in(6))});
  l.set(0, codes(l, y, l.in(7), l.in(8), l.dtype(l.in(1))));
}

// (a, scale, zero, b, scale, zero, c i32?, result's scale?, zero?): c counts in units of alpha and both scales.
void gemm(Lower& l) {
  auto turned = [&](ValueId v) { return l.transpose(v, {1, 0}); };
  if (l.rank(l.in(0)) != 2 || l.rank(l.in(3)) != 2) return void(l.refuse("operands that are not matrices"));
  ValueId a = l.i("transA", 0) ? turned(l.in(0)) : l.in(0), b = l.i("transB", 0) ? turned(l.in(3)) : l.in(3);
  ValueId sums = l.add(kMatMulInteger, NoAttrs{}, {a, b, l.in(2), l.in(5)});
  if (l.has(6)) sums = l.binary(kAdd, sums, l.in(6));
  ValueId scale = l.binary(kMul, l.binary(kMul, l.in(1), l.in(4)), l.scalar_of(DType::kF32, static_cast<double>(l.f("alpha", 1))));
  ValueId y = l.binary(kMul, l.cast(sums, DType::kF32), scale);
  l.set(0, l.has(7) ? codes(l, y, l.in(7), l.in(8), l.dtype(l.in(0))) : y);
}

}  // namespace

void register_contrib_quantized(LowerTable& t) {
  t.insert({{"com.microsoft::MatMulIntegerToFloat", matmul_integer_to_float}, {"com.microsoft::DynamicQuantizeMatMul", dynamic_quantize_matmul},
            {"com.microsoft::QLinearAdd", pointwise_pair<kAdd>}, {"com.microsoft::QLinearMul", pointwise_pair<kMul>},
            {"com.microsoft::QLinearSigmoid", sigmoid}, {"com.microsoft::QLinearLeakyRelu", leaky_relu},
            {"com.microsoft::QLinearSoftmax", softmax}, {"com.microsoft::QLinearAveragePool", average_pool},
            {"com.microsoft::QLinearGlobalAveragePool", global_average_pool}, {"com.microsoft::QLinearReduceMean", reduce_mean},
            {"com.microsoft::QLinearConcat", concat}, {"com.microsoft::QLinearWhere", where}, {"com.microsoft::QGemm", gemm}});
}

}  // namespace brisk::onnx_import
