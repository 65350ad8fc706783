#include "engine/plan.h"

#include "op/step_io.h"

namespace brisk {

int64_t PlanState::unit_bytes() const {
  return kind == Kind::kPagedKv ? dtype_bytes(dtype, 2 * kv_heads * head_dim * kBlockTokens) : dtype_bytes(dtype, width);
}

int32_t root_of(const Plan& plan, int32_t v) {
  while (plan.values[static_cast<size_t>(v)].kind == PlanValue::Kind::kView) v = plan.values[static_cast<size_t>(v)].view_of;
  return v;
}

bool in_place(const Plan& plan, const PlanStep& step) {
  return !step.kernel.empty() && !step.outputs.empty() && step.outputs[0] >= 0 &&
         plan.values[static_cast<size_t>(step.outputs[0])].kind == PlanValue::Kind::kView;
}

Status EngineContent::check_mapping() const {
  if (!mapping || !mapping->lost()) return {};
  return environment(mapping->path() + ": the engine file was cut short, or a part of it could not be read");
}

}  // namespace brisk
