// Arithmetic of sliding windows along one spatial axis, for the shape rules and the kernels.
#pragma once
#include <string>

#include "op/attrs.h"
#include "tensor/dim.h"

namespace brisk {

struct WindowAxis {
  int64_t kernel = 1, stride = 1, dilation = 1, begin = 0, end = 0;  // begin, end: padding
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
};

// Axis i of the attributes, defaults filled in; for auto_pad SAME the padding that gives ceil(n / stride) results.
WindowAxis window_axis(const WindowAttrs& a, size_t i, int64_t kernel, int64_t spatial_axes, int64_t n);
// Results along an axis of n elements. SAME: ceil(n / stride).
Dim window_count(const WindowAttrs& a, size_t i, int64_t kernel, int64_t spatial_axes, const Dim& n);

}  // namespace brisk
