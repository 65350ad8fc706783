// Quantised operators: Q/DQ pairs, integer products, and the packed weights of com.microsoft.
#include "import/onnx/lower.h"

namespace brisk::onnx_import {
namespace {

using enum OpId;

void quantize(Lower& l) {
  QuantAttrs a;
  a.axis = l.i("axis", 1);
  a.block = l.i("block_size", 0);
  a.saturate = l.i("saturate", 1) != 0;
  a.to = DType::kU8;
  if (l.has(2)) a.to = l.dtype(l.in(2));
  else if (int64_t named = l.i("output_dtype", 0)) {
    auto t = dtype_of_onnx(static_cast<int32_t>(named));
    if (!t) return void(l.refuse("output_dtype " + onnx_dtype_name(static_cast<int32_t>(named))));
    a.to = *t;
  }
  l.set(0, l.add(kQuantizeLinear, a, l.inputs()));
}

void dequantize(Lower& l) {
  QuantAttrs a;
  a.axis = l.i("axis", 1);
  a.block = l.i("block_size", 0);
  a.to = l.dtype(l.in(1));
  if (int64_t named = l.i("output_dtype", 0)) {
    auto t = dtype_of_onnx(static_cast<int32_t>(named));
    if (!t) return void(l.refuse("output_dtype " + onnx_dtype_name(static_cast<int32_t>(named))));
    a.to = *t;
  }
  l.set(0, l.add(kDequantizeLinear, a, l.inputs()));
}

void dynamic_quantize(Lower& l) {
  auto out = l.add_n(kDynamicQuantizeLinear, NoAttrs{}, l.inputs(), 3);
  for (size_t i = 0; i < 3; ++i) l.set(i, out[i]);
}

void matmul_integer(Lower& l) { lower_direct(l, kMatMulInteger); }

// i32 sums times the product of the scales, over the result's scale, quantised again.
ValueId requantized(Lower& l, ValueId sums, ValueId scale_a, ValueId scale_b, ValueId scale_y, ValueId zero_y) {
  ValueId real = l.binary(kMul, l.cast(sums, DType::kF32), l.binary(kMul, l.cast(scale_a, DType::kF32), l.cast(scale_b, DType::kF32)));
  QuantAttrs a;
  a.to = l.dtype(zero_y);
  return l.add(kQuantizeLinear, a, {real, l.cast(scale_y, DType::kF32), zero_y});
}

void qlinear_matmul(Lower& l) {
  ValueId sums = l.add(kMatMulInteger, NoAttrs{}, {l.in(0), l.in(3), l.in(2), l.in(5)});
  // A scale for each row of a is a column.
  ValueId scale_a = l.in(1);
  if (l.rank(scale_a) == 1 && !(l.type(scale_a).shape[0] == Dim(1))) scale_a = l.unsqueeze(scale_a, {1});
  l.set(0, requantized(l, sums, scale_a, l.in(4), l.in(6), l.in(7)));
}

void qlinear_conv(Lower& l) {
  const WindowAttrs a = window_attrs(l);
  auto r = l.rank(l.in(0));
  if (!r) return void(l.refuse("x of unknown rank"));
  ValueId sums = l.add(kConvInteger, a, {l.in(0), l.in(3), l.in(2), l.in(5)});
  auto over_channels = [&](ValueId v) {  // [M] -> [M, 1, ...]
    std::vector<int64_t> axes;
    for (int i = 1; i < *r - 1; ++i) axes.push_back(i);
    return l.rank(v) == 1 && !axes.empty() ? l.unsqueeze(v, axes) : v;
  };
  if (l.has(8)) sums = l.binary(kAdd, sums, over_channels(l.in(8)));
  l.set(0, requantized(l, sums, l.in(1), over_channels(l.in(4)), l.in(6), l.in(7)));
}

}  // namespace

void register_quantization(LowerTable& t) {
  t.insert({{"QuantizeLinear", quantize}, {"DequantizeLinear", dequantize}, {"DynamicQuantizeLinear", dynamic_quantize},
            {"MatMulInteger", matmul_integer}, {"QLinearMatMul", qlinear_matmul}, {"QLinearConv", qlinear_conv},
            {"com.microsoft::QuantizeLinear", quantize}, {"com.microsoft::DequantizeLinear", dequantize}});
}

}  // namespace brisk::onnx_import
