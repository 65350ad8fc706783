#include "brisk/execution_context.h"

#include "api/compile_file.h"
#include "api/convert.h"
#include "engine/engine_file.h"
#include "runtime/executor.h"

namespace brisk {

struct ExecutionContext::State {
  std::shared_ptr<BackendSet> backend;
  std::shared_ptr<const LoadedEngine> engine;
  std::unique_ptr<Executor> executor;

  // Memory of the inputs on the device, grown as needed.
  struct Input {
    void* data = nullptr;
    int64_t bytes = 0;
  };
  std::vector<Input> inputs;

  ~State() {
    executor.reset();
    if (backend)
      for (Input& i : inputs)
        if (i.data) backend->device()->deallocate(i.data, i.bytes);
  }
};

ExecutionContext::ExecutionContext(std::unique_ptr<State> state) : state_(std::move(state)) {}
ExecutionContext::~ExecutionContext() = default;

Result<std::unique_ptr<ExecutionContext>> ExecutionContext::open(const std::string& path, const ExecutionOptions& o) {
  auto s = std::make_unique<State>();
  BRISK_ASSIGN(s->backend, BackendSet::create(o.device, o.threads));
  std::shared_ptr<const EngineContent> content;
  if (is_engine_file(path)) {
    BRISK_ASSIGN(content, read_engine(path, s->backend->registry()));
  } else {
    // A far device is not where a build can run; the kernels are the same.
    BRISK_ASSIGN(auto builder, BackendSet::create(o.device == "far" ? "ref" : o.device, o.threads));
    BuildConfig config;
    config.device = o.device;
    config.generative = false;
    config.precision = o.precision.empty() ? "fp32" : o.precision;
    BRISK_ASSIGN(auto compiled, compile_file(path, config, *builder));
    content = std::make_shared<EngineContent>(std::move(compiled));
  }
  if (content->functions.empty()) return invalid(path + ": no function inside");
  BRISK_ASSIGN(s->engine, LoadedEngine::create(content, s->backend->device(), s->backend->registry()));
  std::string function = content->functions.count("main") ? "main" : content->functions.begin()->first;
  if (function == "step") return invalid(path + ": a generative engine: use generate, chat or serve");
  BRISK_ASSIGN(s->executor, Executor::create(s->engine, function, s->backend->context(), o.memory_bytes));
  s->inputs.resize(s->executor->plan().inputs.size());
  return std::unique_ptr<ExecutionContext>(new ExecutionContext(std::move(s)));
}

namespace {
std::vector<ExecutionContext::Port> ports(const Plan& plan, const std::vector<int32_t>& values) {
  std::vector<ExecutionContext::Port> out;
  for (int32_t v : values) {
    const PlanValue& p = plan.values[static_cast<size_t>(v)];
    ExecutionContext::Port port{p.name, std::string(dtype_name(p.dtype)), {}};
    for (const Dim& d : p.shape) port.shape.push_back(d.to_string());
    out.push_back(std::move(port));
  }
  return out;
}
}  // namespace

std::vector<ExecutionContext::Port> ExecutionContext::inputs() const {
  return ports(state_->executor->plan(), state_->executor->plan().inputs);
}
std::vector<ExecutionContext::Port> ExecutionContext::outputs() const {
  return ports(state_->executor->plan(), state_->executor->plan().outputs);
}

Result<std::vector<std::pair<std::string, Tensor>>> ExecutionContext::run(const std::map<std::string, Tensor>& given) {
  State& s = *state_;
  const Plan& plan = s.executor->plan();
  Device& device = *s.backend->device();
  std::vector<Dims> shapes;
  std::vector<TensorView> views;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const PlanValue& v = plan.values[static_cast<size_t>(plan.inputs[i])];
    auto it = given.find(v.name);
    if (it == given.end()) return invalid("input '" + v.name + "' is missing");
    auto c = to_constant(it->second);
    if (!c.ok()) return std::move(c).error().in("input '" + v.name + "'");
    const int64_t bytes = (*c)->stored_bytes();
    State::Input& memory = s.inputs[i];
    if (memory.bytes < bytes || !memory.data) {
      if (memory.data) device.deallocate(memory.data, memory.bytes);
      memory = {};
      BRISK_ASSIGN(memory.data, device.allocate(bytes));
      memory.bytes = bytes;
    }
    device.upload(memory.data, (*c)->data.bytes.data(), bytes);
    views.emplace_back(memory.data, (*c)->dtype, (*c)->shape);
    shapes.push_back((*c)->shape);
  }
  for (auto& [name, t] : given) {
    bool known = false;
    for (int32_t v : plan.inputs) known |= plan.values[static_cast<size_t>(v)].name == name;
    if (!known) return invalid("the model has no input '" + name + "'");
  }
  BRISK_TRY(s.executor->bind(shapes));
  BRISK_TRY(s.executor->run(views));
  std::vector<std::pair<std::string, Tensor>> results;
  auto outputs = s.executor->outputs();
  int64_t bytes = 0;
  for (const TensorView& v : outputs) bytes += v.bytes();
  if (auto room = s.executor->make_room(bytes); !room.ok()) return std::move(room).error().in("results");
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor t;
    t.dtype = dtype_name(outputs[i].dtype);
    t.shape.assign(outputs[i].shape.begin(), outputs[i].shape.end());
    t.data.resize(static_cast<size_t>(outputs[i].bytes()));
    device.download(t.data.data(), outputs[i].data, outputs[i].bytes());
    results.emplace_back(plan.values[static_cast<size_t>(plan.outputs[i])].name, std::move(t));
  }
  BRISK_TRY(device.synchronize());
  BRISK_TRY(s.engine->content().check_mapping());
  return results;
}

}  // namespace brisk
