#include "engine/kv_dtype.h"

#include <algorithm>

#include "engine/step_problem.h"

namespace brisk {
namespace {

bool reads(const Plan& plan, const PlanStep& step, const PlanValue& state) {
  return std::ranges::any_of(step.inputs, [&](int32_t v) { return v >= 0 && &root_value(plan, v) == &state; });
}

}  // namespace

Status set_kv_dtype(EngineContent& content, DType dtype, const Registry& registry) {
  auto found = content.functions.find("step");
  if (found == content.functions.end()) return invalid("not a generative engine (it has no function 'step')");
  Plan plan = found->second;
  for (PlanState& state : plan.states) {
    if (state.kind != PlanState::Kind::kPagedKv || state.dtype == dtype) continue;
    PlanValue& value = plan.values[static_cast<size_t>(state.value)];
    state.dtype = value.dtype = dtype;
    for (PlanStep& step : plan.steps) {
      if (step.kernel.empty() || !reads(plan, step, value)) continue;
      // A kernel that packs operands would read weights in another form than they are stored in.
      auto kernels = registry.candidates(step_problem(content.weights, plan, step));
      auto kernel = std::ranges::find_if(kernels, [](const KernelDesc* k) { return k->packings.empty(); });
      if (kernel == kernels.end())
        return unsupported("keys and values in " + std::string(dtype_name(dtype)) + ": no kernel for step '" + step.name + "' (" + op_name(step.op) +
                           ") reads them; the engine was built for others");
      step.kernel = (*kernel)->id;
      step.kernel_version = (*kernel)->version;
    }
  }
  found->second = std::move(plan);
  return {};
}

}  // namespace brisk
