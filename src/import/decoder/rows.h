// Lossless rearrangements of a weight by whole rows (groups lie along K, so a row takes its scales and offsets with it)
// beyond those of tensor/constant_ops.h. A constant of rank 1 counts as rows of one element.
#pragma once
#include "tensor/tensor.h"

namespace brisk {

// Rows [first, first + count), sharing the memory of `c`.
ConstantPtr slice_rows(const ConstantPtr& c, int64_t first, int64_t count);

// Rows of q or k (or their bias) stored for interleaved rotation (pairs 2i, 2i + 1), copied to the order of half-split
// rotation (i, i + d / 2): row h * d + half * d / 2 + i  comes from  h * d + 2 * i + half.
ConstantPtr half_split_rows(const ConstantPtr& c, int64_t heads, int64_t head_dim);

// Plain float constants as f32; the same pointer if it is that already.
ConstantPtr as_f32(const ConstantPtr& c);

}  // namespace brisk
