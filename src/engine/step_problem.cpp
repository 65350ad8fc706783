#include "engine/step_problem.h"

namespace brisk {
namespace {

OperandDesc operand(std::span<const Weight> weights, const Plan& p, int32_t v) {
  OperandDesc d;
  if (v < 0) return d;
  const PlanValue& value = p.values[static_cast<size_t>(v)];
  d.type = Type{value.dtype, value.ranked, value.shape, {}};
  d.present = true;
  const PlanValue& r = root_value(p, v);
  d.constant = r.kind == PlanValue::Kind::kWeight;
  if (d.constant) d.encoding = weights[static_cast<size_t>(r.weight)].encoding;
  return d;
}

}  // namespace

const PlanValue& root_value(const Plan& plan, int32_t v) {
  return plan.values[static_cast<size_t>(root_of(plan, v))];
}

ProblemDesc step_problem(std::span<const Weight> weights, const Plan& plan, const PlanStep& step) {
  ProblemDesc problem{step.op, &step.attrs, {}, {}};
  for (int32_t v : step.inputs) problem.inputs.push_back(operand(weights, plan, v));
  for (int32_t v : step.outputs) problem.outputs.push_back(operand(weights, plan, v).type);
  return problem;
}

}  // namespace brisk
