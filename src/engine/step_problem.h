// A plan's step as the kernels see it.
#pragma once
#include <span>

#include "engine/plan.h"
#include "kernel/kernel.h"

namespace brisk {

// The value behind views: `v` must be an index into plan.values.
const PlanValue& root_value(const Plan& plan, int32_t v);

// Operands whose root is a weight are constants with its encoding. Indices must have been checked; `attrs` points into the step.
ProblemDesc step_problem(std::span<const Weight> weights, const Plan& plan, const PlanStep& step);

}  // namespace brisk
