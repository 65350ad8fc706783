#include "compiler/scratch.h"

#include "runtime/memory_plan.h"

namespace brisk {
namespace {

std::string name_of(const PlanStep& s) { return (s.name.empty() ? std::string() : "'" + s.name + "' ") + "(" + op_name(s.op) + ")"; }

// A view without data: kernels say what they need by shapes.
std::optional<TensorView> sized(DType dtype, bool ranked, const Shape& shape, const Dim::Lookup& largest) {
  if (!ranked || shape.size() > static_cast<size_t>(kMaxRank)) return std::nullopt;
  Dims dims;
  for (const Dim& d : shape) {
    auto n = d.evaluate(largest);
    if (!n || *n < 0) return std::nullopt;
    dims.push(*n);
  }
  return TensorView(nullptr, dtype, dims);
}

int64_t ask(const KernelDesc& kernel, const Attrs& attrs, std::vector<std::optional<TensorView>> in, std::vector<std::optional<TensorView>> out) {
  if (!kernel.workspace) return 0;
  std::vector<TensorView> given, made;
  for (auto& v : in) {
    if (!v) return 0;
    given.push_back(*v);
  }
  for (auto& v : out) {
    if (!v) return 0;
    made.push_back(*v);
  }
  KernelArgs args{given, made, &attrs, nullptr, 0};
  return kernel.workspace(args);
}

void kernels(const Plan& plan, const Registry& registry, const Dim::Lookup& largest, Scratch& s) {
  for (const PlanStep& step : plan.steps) {
    for (const Plan& b : step.blocks) kernels(b, registry, largest, s);
    const KernelDesc* kernel = step.kernel.empty() ? nullptr : registry.find(step.kernel);
    if (!kernel || !kernel->workspace) continue;
    auto view = [&](int32_t v) -> std::optional<TensorView> {
      if (v < 0) return TensorView();
      const PlanValue& p = plan.values[static_cast<size_t>(v)];
      return sized(p.dtype, p.ranked, p.shape, largest);
    };
    std::vector<std::optional<TensorView>> in, out;
    for (int32_t v : step.inputs) in.push_back(view(v));
    for (int32_t v : step.outputs) out.push_back(view(v));
    if (int64_t n = ask(*kernel, step.attrs, std::move(in), std::move(out)); n > s.kernel) s.kernel = n, s.kernel_at = name_of(step);
  }
}

void find_largest_step(const Plan& plan, const Dim::Lookup& largest, Scratch& s) {
  ValueUse use = find_value_use(plan);
  std::vector<int64_t> live(plan.steps.size());
  for (size_t i = 0; i < plan.values.size(); ++i) {
    const PlanValue& v = plan.values[i];
    if (v.kind != PlanValue::Kind::kArena || use.last[i] < 0) continue;
    auto view = sized(v.dtype, v.ranked, v.shape, largest);
    if (!view) continue;
    for (auto k = static_cast<size_t>(use.first[i]); k < live.size() && k <= static_cast<size_t>(use.last[i]); ++k) live[k] += view->bytes();
  }
  for (size_t k = 0; k < live.size(); ++k)
    if (live[k] > s.temporaries_live) s.temporaries_live = live[k], s.temporaries_at = name_of(plan.steps[k]);
}

}  // namespace

std::optional<Scratch> scratch_of(const Plan& plan, const Registry& registry) {
  for (const PlanSymbol& s : plan.symbols)
    if (s.max == INT64_MAX) return std::nullopt;
  auto largest = [&](const std::string& name) -> std::optional<int64_t> {
    for (const PlanSymbol& s : plan.symbols)
      if (s.name == name) return s.max;
    return std::nullopt;
  };
  auto bytes = temporary_bytes(plan, largest);
  if (!bytes) return std::nullopt;
  Scratch s;
  s.temporaries = *bytes;
  find_largest_step(plan, largest, s);
  kernels(plan, registry, largest, s);
  return s;
}

int64_t workspace_of(const KernelDesc& kernel, const ProblemDesc& p, const Dim::Lookup& largest) {
  if (!kernel.workspace) return 0;
  std::vector<std::optional<TensorView>> in, out;
  for (const OperandDesc& o : p.inputs) in.push_back(o.present ? sized(o.type.dtype, o.type.ranked, o.type.shape, largest) : TensorView());
  for (const Type& t : p.outputs) out.push_back(sized(t.dtype, t.ranked, t.shape, largest));
  return ask(kernel, *p.attrs, std::move(in), std::move(out));
}

}  // namespace brisk
