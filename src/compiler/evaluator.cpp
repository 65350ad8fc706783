#include "compiler/evaluator.h"

#include "compiler/lower.h"
#include "runtime/executor.h"

namespace brisk {
namespace {

class RuntimeEvaluator final : public Evaluator {
 public:
  RuntimeEvaluator(const Registry& r, std::shared_ptr<Device> d, KernelContext c) : registry_(r), device_(std::move(d)), context_(c) {}

  Result<std::vector<ConstantPtr>> run(const Graph& g, const std::vector<ConstantPtr>& inputs) override {
    auto content = std::make_shared<EngineContent>();
    BRISK_TRY(lower(g, "main", [&](const ProblemDesc& p) { return registry_.best(p); }, *content));
    BRISK_ASSIGN(auto engine, LoadedEngine::create(content, device_, registry_));
    BRISK_ASSIGN(auto executor, Executor::create(engine, "main", context_));
    std::vector<Dims> shapes;
    std::vector<TensorView> views;
    for (auto& c : inputs) {
      shapes.push_back(c->shape);
      views.push_back(c->view());
    }
    BRISK_TRY(executor->bind(shapes));
    BRISK_TRY(executor->run(views));
    BRISK_TRY(device_->synchronize());
    std::vector<ConstantPtr> out;
    for (const TensorView& v : executor->outputs()) {
      auto c = std::make_shared<Constant>();
      c->dtype = v.dtype;
      c->shape = v.shape;
      auto* p = static_cast<const std::byte*>(v.data);
      c->data = Buffer::of(std::vector<std::byte>(p, p + v.bytes()));
      out.push_back(std::move(c));
    }
    return out;
  }

 private:
  const Registry& registry_;
  std::shared_ptr<Device> device_;
  KernelContext context_;
};

}  // namespace

std::unique_ptr<Evaluator> make_evaluator(const Registry& registry, std::shared_ptr<Device> device, KernelContext context) {
  return std::make_unique<RuntimeEvaluator>(registry, std::move(device), context);
}

}  // namespace brisk
