// A Pointwise program as CUDA C, one thread an element, for a run-time compiler (NVRTC).
#pragma once
#include <string>

#include "op/pointwise_program.h"

namespace brisk {

// Source of
//   extern "C" __global__ void NAME(const T0* in0, ..., T* out, BriskPointwiseShape shape)
// with f16 as __half, bf16 as __nv_bfloat16 (the headers cuda_fp16.h and cuda_bf16.h are included where needed), bool as one
// byte. BriskPointwiseShape holds the result's sizes and each operand's strides along them, 0 where it is broadcast:
//   struct { long long count; int rank; long long size[8]; long long stride[OPERANDS][8]; }
// Semantics are those of the reference kernel; an error is a program that does not decode.
Result<std::string> pointwise_source(const PointwiseAttrs& p, std::span<const DType> operands, const std::string& name);

}  // namespace brisk
