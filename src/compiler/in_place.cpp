#include "compiler/in_place.h"

#include "runtime/memory_plan.h"

namespace brisk {
namespace {

using Kind = PlanValue::Kind;

// The operand whose bytes result 0 of step i may take; -1: none.
int32_t dying_operand(const Plan& plan, size_t i, const KernelDesc& kernel, const ValueUse& use) {
  const PlanStep& s = plan.steps[i];
  const PlanValue& result = plan.values[static_cast<size_t>(s.outputs[0])];
  for (size_t k = 0; k < s.inputs.size() && k < 32; ++k) {
    if (!(kernel.in_place >> k & 1) || s.inputs[k] < 0) continue;
    const PlanValue& operand = plan.values[static_cast<size_t>(s.inputs[k])];
    int32_t root = root_of(plan, s.inputs[k]);
    if (plan.values[static_cast<size_t>(root)].kind != Kind::kArena || use.last[static_cast<size_t>(root)] != static_cast<int32_t>(i)) continue;
    if (!(operand.shape == result.shape) || dtype_bits(operand.dtype) != dtype_bits(result.dtype)) continue;
    int readers = 0;  // the same bytes as another operand: the kernel may read them out of step
    for (int32_t v : s.inputs) readers += v >= 0 && root_of(plan, v) == root;
    if (readers == 1) return root;
  }
  return -1;
}

}  // namespace

int plan_in_place(Plan& plan, const Registry& registry) {
  ValueUse use = find_value_use(plan);
  int taken = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    PlanStep& s = plan.steps[i];
    for (Plan& b : s.blocks) taken += plan_in_place(b, registry);
    const KernelDesc* kernel = s.kernel.empty() || s.dynamic || s.outputs[0] < 0 ? nullptr : registry.find(s.kernel);
    if (!kernel || kernel->in_place == 0) continue;
    int32_t root = dying_operand(plan, i, *kernel, use);
    if (root < 0) continue;
    auto result = static_cast<size_t>(s.outputs[0]);
    plan.values[result].kind = Kind::kView;
    plan.values[result].view_of = root;
    use.last[static_cast<size_t>(root)] = use.last[result];
    ++taken;
  }
  return taken;
}

}  // namespace brisk
