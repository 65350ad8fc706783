// The register programs of the fused operator Pointwise: what may be an instruction, on which types, with which result.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "op/op.h"

namespace brisk {

struct PointwiseStep {
  OpId op;
  int64_t a = -1, b = -1, c = -1;  // registers
  float alpha = 0, beta = 0;
  DType in = DType::kF32;          // of the operands that are computed with
  DType type = DType::kF32;        // of the result's register
};

// Registers hold f32, i64, i32 or bool.
inline DType register_type(DType stored) { return stored == DType::kF16 || stored == DType::kBF16 ? DType::kF32 : stored; }

// Type of the result of an instruction on registers of these types (`to`: of a Cast); nullopt where it may not be one.
std::optional<DType> instruction_type(OpId op, std::span<const DType> operands, DType to);

// The checked program: errors for lists that do not fit each other, unknown operators, registers that do not exist yet.
Result<std::vector<PointwiseStep>> decode_program(const PointwiseAttrs& p, std::span<const DType> operands);

}  // namespace brisk
