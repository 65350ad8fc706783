#include "compiler/evaluator.h"

#include "compiler/lower.h"
#include "op/step_io.h"
#include "passes/pass.h"
#include "runtime/executor.h"

namespace brisk {
namespace {

// The states of one run.
class StateMemory {
 public:
  explicit StateMemory(Device& d) : device_(d) {}
  StateMemory(const StateMemory&) = delete;
  StateMemory& operator=(const StateMemory&) = delete;
  ~StateMemory() {
    for (auto& v : views_) device_.deallocate(v.data, v.bytes());
  }
  Status give(Executor& executor, int64_t units) {
    for (size_t i = 0; i < executor.plan().states.size(); ++i) {
      const PlanState& s = executor.plan().states[i];
      TensorView v(nullptr, s.dtype, s.kind == PlanState::Kind::kPagedKv ? Dims{units, 2, s.kv_heads, kBlockTokens, s.head_dim} : Dims{units, s.width});
      BRISK_ASSIGN(v.data, device_.allocate(v.bytes()));
      views_.push_back(v);
      executor.set_state(i, v);
    }
    return {};
  }

 private:
  Device& device_;
  std::vector<TensorView> views_;
};

class RuntimeEvaluator final : public Evaluator {
 public:
  RuntimeEvaluator(const Registry& r, std::shared_ptr<Device> d, KernelContext c, bool with_passes)
      : registry_(r), device_(std::move(d)), context_(c), with_passes_(with_passes) {}

  Result<std::vector<std::vector<ConstantPtr>>> run_each(const Graph& g, std::span<const std::vector<ConstantPtr>> inputs,
                                                         int64_t state_units) override {
    auto content = std::make_shared<EngineContent>();
    auto choose = [&](const ProblemDesc& p) { return registry_.best(p); };
    if (with_passes_) {
      Graph fused = g;
      auto folding = make_evaluator(registry_, device_, context_);
      PassContext context{registry_, folding.get()};
      BRISK_ASSIGN(auto passes, run_pipeline(fused, context, {}));
      BRISK_TRY(lower(fused, "main", choose, *content));
    } else {
      BRISK_TRY(lower(g, "main", choose, *content));
    }
    BRISK_ASSIGN(auto engine, LoadedEngine::create(content, device_, registry_));
    StateMemory states(*device_);
    BRISK_ASSIGN(auto executor, Executor::create(engine, "main", context_));
    BRISK_TRY(states.give(*executor, state_units));
    std::vector<std::vector<ConstantPtr>> all;
    for (auto& list : inputs) {
      BRISK_ASSIGN(auto out, run_once(*executor, list));
      all.push_back(std::move(out));
    }
    return all;
  }

 private:
  Result<std::vector<ConstantPtr>> run_once(Executor& executor, const std::vector<ConstantPtr>& inputs) {
    std::vector<Dims> shapes;
    std::vector<TensorView> views;
    for (auto& c : inputs) {
      shapes.push_back(c->shape);
      views.push_back(c->view());
    }
    BRISK_TRY(executor.bind(shapes));
    BRISK_TRY(executor.run(views));
    BRISK_TRY(device_->synchronize());
    std::vector<ConstantPtr> out;
    for (const TensorView& v : executor.outputs()) {
      auto c = std::make_shared<Constant>();
      c->dtype = v.dtype;
      c->shape = v.shape;
      auto* p = static_cast<const std::byte*>(v.data);
      c->data = Buffer::of(std::vector<std::byte>(p, p + v.bytes()));
      out.push_back(std::move(c));
    }
    return out;
  }

  const Registry& registry_;
  std::shared_ptr<Device> device_;
  KernelContext context_;
  bool with_passes_;
};

}  // namespace

std::unique_ptr<Evaluator> make_evaluator(const Registry& registry, std::shared_ptr<Device> device, KernelContext context,
                                          bool with_passes) {
  return std::make_unique<RuntimeEvaluator>(registry, std::move(device), context, with_passes);
}

}  // namespace brisk
