// Weights rearranged by whole rows, in any encoding (groups lie along the last axis, so rows are independent).
#pragma once
#include <vector>

#include "tensor/tensor.h"

namespace brisk {

// Constants of shape [N_i, K], one dtype and encoding -> [sum N_i, K].
Result<ConstantPtr> concat_rows(const std::vector<ConstantPtr>& parts);
// Two constants of shape [N, K] -> [2 N, K], rows alternating a, b.
Result<ConstantPtr> interleave_rows(const ConstantPtr& a, const ConstantPtr& b);
// Row i of the result is row order[i] of `c`, seen as [count / K, K]; with fewer rows than `c` it is [rows, K].
ConstantPtr permute_rows(const Constant& c, const std::vector<int64_t>& order);
// Plain [..., R, C] -> [..., C, R].
ConstantPtr transposed(const Constant& c);
// Do two constants hold the same numbers in the same form?
bool same_content(const Constant& a, const Constant& b);

}  // namespace brisk
