// Private: the integer product that several operators of com.microsoft are made of.
#pragma once
#include "import/onnx/lower.h"

namespace brisk::onnx_import {

struct IntegerProduct {
  ValueId a, b;                     // i8 or u8, as MatMul takes them
  ValueId a_scale, b_scale;         // f32 [] or [1]; b's also [N]
  ValueId a_zero = kNoValue, b_zero = kNoValue, bias = kNoValue;
};
// (a - zero) (b - zero) * scales + bias, f32.
ValueId integer_product(Lower& l, const IntegerProduct& p);

}  // namespace brisk::onnx_import
