#include "brisk/execution_context.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "api/compile_file.h"
#include "api/convert.h"
#include "engine/engine_file.h"
#include "runtime/executor.h"

namespace brisk {

struct ExecutionContext::State {
  std::shared_ptr<BackendSet> backend;
  std::shared_ptr<const LoadedEngine> engine;
  std::vector<std::unique_ptr<Executor>> executors;  // one a profile
  const Plan& plan() const { return executors[0]->plan(); }
  Result<Executor*> executor_for(std::span<const Dims> shapes) const;

  // Memory of the inputs on the device, grown as needed.
  struct Input {
    void* data = nullptr;
    int64_t bytes = 0;
  };
  std::vector<Input> inputs;

  ~State() {
    executors.clear();
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
  auto built = content->build_record.find("workspace");
  int64_t scratch = built == content->build_record.end() ? 0 : std::atoll(built->second.c_str());
  for (int i = 0; i == 0 || content->functions.count(function + "." + std::to_string(i)); ++i) {
    BRISK_ASSIGN(auto executor, Executor::create(s->engine, i == 0 ? function : function + "." + std::to_string(i), s->backend->context(), o.memory_bytes, scratch));
    if (!s->executors.empty() && executor->plan().inputs.size() != s->plan().inputs.size()) return invalid(path + ": its profiles differ in their inputs");
    s->executors.push_back(std::move(executor));
  }
  s->inputs.resize(s->plan().inputs.size());
  return std::unique_ptr<ExecutionContext>(new ExecutionContext(std::move(s)));
}

// The first profile that takes the shapes; else what each of them has against them.
Result<Executor*> ExecutionContext::State::executor_for(std::span<const Dims> shapes) const {
  std::string all;
  for (size_t i = 0; i < executors.size(); ++i) {
    Status fits = executors[i]->accepts(shapes);
    if (fits.ok()) return executors[i].get();
    if (executors.size() == 1) return std::move(fits).error();
    all += "\n  profile " + std::to_string(i) + ": " + fits.error().message;
  }
  return invalid("no profile of the engine takes these shapes:" + all);
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
  return ports(state_->plan(), state_->plan().inputs);
}
std::vector<ExecutionContext::Port> ExecutionContext::outputs() const {
  return ports(state_->plan(), state_->plan().outputs);
}

Result<std::vector<std::pair<std::string, Tensor>>> ExecutionContext::run(const std::map<std::string, Tensor>& given) {
  State& s = *state_;
  const Plan& plan = s.plan();
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
  BRISK_ASSIGN(Executor* executor, s.executor_for(shapes));
  BRISK_TRY(executor->bind(shapes));
  BRISK_TRY(executor->run(views));
  std::vector<std::pair<std::string, Tensor>> results;
  auto outputs = executor->outputs();
  int64_t bytes = 0;
  for (const TensorView& v : outputs) bytes += v.bytes();
  if (auto room = executor->make_room(bytes); !room.ok()) return std::move(room).error().in("results");
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

Result<std::vector<ExecutionContext::StepTime>> ExecutionContext::profile(const std::map<std::string, Tensor>& inputs, int calls) {
  using Clock = std::chrono::steady_clock;
  State& s = *state_;
  std::vector<const PlanStep*> order;
  std::map<const PlanStep*, std::vector<double>> times;  // of a call: all runs of a step, summed
  Clock::time_point last;
  auto hook = [&](const PlanStep& step, std::span<const TensorView>, std::span<const TensorView>) -> Status {
    BRISK_TRY(s.backend->device()->synchronize());
    auto now = Clock::now();
    auto [it, fresh] = times.try_emplace(&step);
    if (fresh) order.push_back(&step);
    if (it->second.empty()) it->second.push_back(0);
    it->second.back() += std::chrono::duration<double, std::milli>(now - last).count();
    last = Clock::now();
    return {};
  };
  for (auto& e : s.executors) e->set_step_hook(hook);
  Status failed;
  for (int i = 0; i < calls && failed.ok(); ++i) {
    for (auto& [step, t] : times) t.push_back(0);
    last = Clock::now();
    auto results = run(inputs);
    if (!results.ok()) failed = std::move(results).error();
  }
  for (auto& e : s.executors) e->set_step_hook(nullptr);
  BRISK_TRY(std::move(failed));
  std::vector<StepTime> out;
  for (const PlanStep* step : order) {
    auto& t = times[step];
    std::nth_element(t.begin(), t.begin() + static_cast<std::ptrdiff_t>(t.size() / 2), t.end());
    out.push_back({step->name, op_name(step->op), step->kernel, t[t.size() / 2]});
  }
  return out;
}

}  // namespace brisk
