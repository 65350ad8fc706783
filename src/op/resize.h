// Resize as ONNX defines it, one axis at a time: each result is a weighted sum of neighbours along the axis.
#pragma once
#include <vector>

#include "op/attrs.h"
#include "tensor/tensor.h"

namespace brisk {

struct ResizeTap {
  int64_t index;
  double weight;
};
using ResizeTaps = std::vector<ResizeTap>;  // empty: outside, the extrapolation value

struct ResizeAxis {
  int64_t in = 1, out = 1;
  double scale = 1;  // of sizes: out / in
  double roi_begin = 0, roi_end = 1;
  bool plain() const { return in == out && scale == 1 && roi_begin == 0 && roi_end == 1; }
};

// What result i of the axis is made of.
ResizeTaps resize_taps(const ResizeAttrs& a, const ResizeAxis& x, int64_t i);

// The axes of x for a result of that shape. Operands may be absent: roi, scales (f32), sizes (i64), one element for each axis that
// the attributes name.
std::vector<ResizeAxis> resize_axes(const ResizeAttrs& a, const Dims& in, const Dims& out, const TensorView& roi, const TensorView& scales,
                                    const TensorView& sizes);

}  // namespace brisk
