#include "runtime/executor.h"

#include <algorithm>

#include "runtime/frame.h"

namespace brisk {

Result<std::unique_ptr<Executor>> Executor::create(std::shared_ptr<const LoadedEngine> engine, const std::string& function,
                                                   KernelContext context, int64_t memory_limit, int64_t scratch_limit) {
  std::unique_ptr<Executor> e(new Executor);
  e->engine_ = std::move(engine);
  e->plan_ = e->engine_->function(function);
  e->context_ = context;
  e->scratch_limit_ = scratch_limit;
  if (!e->plan_) return invalid("the engine has no function '" + function + "'");
  Device& device = e->engine_->device();
  e->budget_ = std::make_unique<MemoryBudget>(device, memory_limit > 0 ? memory_limit : device.available_bytes());
  BRISK_ASSIGN(e->root_, Frame::create(*e, *e->plan_));
  return e;
}

Executor::~Executor() {
  root_.reset();
  if (workspace_) budget_->deallocate(workspace_, workspace_bytes_);
}

Status Executor::reserve(const std::map<std::string, int64_t>& largest) {
  bound_.reset();
  symbols_.clear();
  for (const PlanSymbol& s : plan_->symbols) symbols_[s.name] = 1;
  for (auto& [name, n] : largest) symbols_[name] = n;
  return root_->bind(/*pin=*/true);
}

void Executor::set_state(size_t index, const TensorView& view) { root_->value(plan_->states[index].value) = view; }

Result<std::map<std::string, int64_t>> Executor::match(std::span<const Dims> shapes) const {
  if (shapes.size() != plan_->inputs.size())
    return invalid(std::to_string(shapes.size()) + " inputs given, the function takes " + std::to_string(plan_->inputs.size()));
  auto input = [&](size_t i) -> const PlanValue& { return plan_->values[static_cast<size_t>(plan_->inputs[i])]; };
  std::map<std::string, int64_t> symbols;
  auto complain = [&](size_t i, size_t axis, const std::string& wanted) {
    return invalid("input '" + input(i).name + "' axis " + std::to_string(axis) + " is " +
                   std::to_string(shapes[i][static_cast<int>(axis)]) + ", wanted " + wanted);
  };
  // Symbols first, then what is computed from them.
  for (size_t i = 0; i < shapes.size(); ++i) {
    const PlanValue& v = input(i);
    if (!v.ranked) continue;
    if (shapes[i].rank != static_cast<int>(v.shape.size()))
      return invalid("input '" + v.name + "' has rank " + std::to_string(shapes[i].rank) + ", wanted " + to_string(v.shape));
    for (size_t a = 0; a < v.shape.size(); ++a)
      if (auto name = v.shape[a].as_symbol()) {
        int64_t n = shapes[i][static_cast<int>(a)];
        auto [it, fresh] = symbols.emplace(*name, n);
        if (!fresh && it->second != n) return complain(i, a, std::to_string(it->second) + " (" + *name + ")");
        for (const PlanSymbol& s : plan_->symbols)
          if (s.name == *name && (n < s.min || n > s.max))
            return complain(i, a, std::to_string(s.min) + (s.max == INT64_MAX ? " or more" : " to " + std::to_string(s.max)));
      }
  }
  auto lookup = [&](const std::string& name) -> std::optional<int64_t> {
    auto it = symbols.find(name);
    if (it == symbols.end()) return std::nullopt;
    return it->second;
  };
  for (size_t i = 0; i < shapes.size(); ++i)
    for (size_t a = 0; input(i).ranked && a < input(i).shape.size(); ++a) {
      auto n = input(i).shape[a].evaluate(lookup);
      if (n && *n != shapes[i][static_cast<int>(a)])
        return complain(i, a, std::to_string(*n) + (input(i).shape[a].is_constant() ? "" : " (" + input(i).shape[a].to_string() + ")"));
    }
  return symbols;
}

bool Executor::bound_to(std::span<const Dims> shapes) const {
  return bound_ && std::equal(shapes.begin(), shapes.end(), bound_->begin(), bound_->end());
}

Status Executor::accepts(std::span<const Dims> shapes) const {
  if (bound_to(shapes)) return {};
  auto symbols = match(shapes);
  return symbols.ok() ? Status() : Status(std::move(symbols).error());
}

Status Executor::bind(std::span<const Dims> shapes) {
  if (bound_to(shapes)) return {};
  bound_.reset();
  BRISK_ASSIGN(symbols_, match(shapes));
  BRISK_TRY(root_->bind(/*pin=*/false));
  bound_.emplace(shapes.begin(), shapes.end());
  return {};
}

Status Executor::run(std::span<const TensorView> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const PlanValue& v = plan_->values[static_cast<size_t>(plan_->inputs[i])];
    if (inputs[i].dtype != v.dtype)
      return invalid("input '" + v.name + "' is " + std::string(dtype_name(inputs[i].dtype)) + ", wanted " + std::string(dtype_name(v.dtype)));
  }
  return root_->run(inputs);
}

Status Executor::make_room(int64_t bytes) {
  if (!budget_->has_room(bytes)) BRISK_TRY(root_->trim());
  return budget_->check(bytes);
}

std::vector<TensorView> Executor::outputs() const { return root_->outputs(); }
int64_t Executor::arena_bytes() const { return root_->arena_bytes(); }
const MemoryPlan& Executor::memory_plan() const { return root_->memory_plan(); }
void Executor::set_step_hook(StepHook hook) { hook_ = std::move(hook); }

Result<void*> Executor::workspace(int64_t bytes) {
  if (bytes > workspace_bytes_) {
    Device& d = engine_->device();
    BRISK_TRY(d.synchronize());
    BRISK_TRY(grant_scratch(bytes - workspace_bytes_));
    budget_->deallocate(workspace_, workspace_bytes_);
    workspace_ = nullptr;
    workspace_bytes_ = 0;
    BRISK_ASSIGN(workspace_, budget_->allocate(bytes));
    workspace_bytes_ = bytes;
  }
  return workspace_;
}

Status Executor::grant_scratch(int64_t more) {
  if (scratch_limit_ > 0 && more > scratch_limit_ - scratch_used_)
    return environment("needs " + std::to_string(scratch_used_ + more) + " bytes of scratch, the engine was built with --workspace " + std::to_string(scratch_limit_));
  scratch_used_ += more;
  return {};
}

}  // namespace brisk
