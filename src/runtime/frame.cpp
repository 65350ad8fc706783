#include "runtime/frame.h"

#include <algorithm>
#include <unordered_map>

#include "base/checked.h"
#include "engine/check.h"

namespace brisk {

namespace {
constexpr int kMaxBlockDepth = 32;
bool holds_blocks(const PlanStep& s) { return op_def(s.op).is(kHasBlocks); }
bool is_view(const PlanStep& s) { return op_def(s.op).is(kView); }
}  // namespace

Device& Frame::device() const { return executor_.engine_->device(); }

Result<std::unique_ptr<Frame>> Frame::create(Executor& executor, const Plan& plan) {
  static thread_local int depth = 0;
  struct Guard { ~Guard() { --depth; } } guard;
  if (++depth > kMaxBlockDepth) return invalid("control flow is nested deeper than " + std::to_string(kMaxBlockDepth));

  std::unique_ptr<Frame> f(new Frame(executor, plan));
  f->values_.resize(plan.values.size());
  f->dynamic_.resize(plan.values.size());
  std::unordered_map<std::string, int32_t> seen;
  for (const PlanValue& v : plan.values) {
    std::vector<int32_t> dims;
    for (const Dim& d : v.shape) {
      auto [it, fresh] = seen.emplace(d.to_string(), static_cast<int32_t>(f->expressions_.size()));
      if (fresh) f->expressions_.push_back(d);
      dims.push_back(it->second);
    }
    f->dims_.push_back(std::move(dims));
  }
  f->numbers_.resize(f->expressions_.size());
  f->late_.resize(plan.values.size());
  for (size_t i = 0; i < plan.values.size(); ++i) {
    const PlanValue& v = plan.values[i];
    if (v.kind == PlanValue::Kind::kWeight) f->values_[i] = executor.engine_->weight(v.weight);
    if (v.kind == PlanValue::Kind::kView) f->views_.emplace_back(static_cast<int32_t>(i), root_of(plan, static_cast<int32_t>(i)));
  }
  for (const PlanStep& s : plan.steps) {
    Step step;
    if (!s.kernel.empty()) {
      step.kernel = executor.engine_->registry().find(s.kernel);
      if (!step.kernel) return internal("kernel '" + s.kernel + "' is not in this program");
      if (auto missing = executor.engine_->registry().missing_isa(*step.kernel); !missing.empty())
        return environment("kernel '" + s.kernel + "' needs " + missing[0] + ", which this processor lacks");
    } else if (!holds_blocks(s) && !is_view(s)) {
      return internal(std::string("step ") + op_name(s.op) + " has no kernel");
    }
    if (is_view(s) && s.dynamic) f->late_[static_cast<size_t>(s.outputs[0])] = true;
    for (const Plan& b : s.blocks) {
      BRISK_ASSIGN(auto block, Frame::create(executor, b));
      step.blocks.push_back(std::move(block));
    }
    step.in.resize(s.inputs.size());
    step.out.resize(s.outputs.size());
    f->steps_.push_back(std::move(step));
  }
  f->find_lifetimes();
  return f;
}

Frame::~Frame() {
  (void)device().synchronize();
  budget().deallocate(arena_, arena_bytes_);
  for (DynamicBuffer& b : dynamic_) budget().deallocate(b.data, b.bytes);
  for (auto& [bytes, p] : free_dynamic_) budget().deallocate(p, bytes);
}

void Frame::find_lifetimes() {
  ValueUse use = find_value_use(plan_);
  first_ = std::move(use.first);
  last_ = std::move(use.last);
  for (size_t v = 0; v < plan_.values.size(); ++v)
    if (plan_.values[v].kind == PlanValue::Kind::kDynamic && last_[v] >= 0 && last_[v] < static_cast<int32_t>(steps_.size()))
      steps_[static_cast<size_t>(last_[v])].dies.push_back(static_cast<int32_t>(v));
}

Status Frame::bind(bool pin) {
  auto lookup = [&](const std::string& name) -> std::optional<int64_t> {
    auto it = executor_.symbols_.find(name);
    if (it == executor_.symbols_.end()) return std::nullopt;
    return it->second;
  };
  for (size_t i = 0; i < expressions_.size(); ++i) numbers_[i] = expressions_[i].evaluate(lookup).value_or(-1);
  for (size_t i = 0; i < plan_.values.size(); ++i) {
    const PlanValue& v = plan_.values[i];
    if (v.kind != PlanValue::Kind::kArena && v.kind != PlanValue::Kind::kView) continue;
    TensorView& view = values_[i];
    view.dtype = v.dtype;
    view.present = true;
    view.shape.rank = 0;
    for (int32_t e : dims_[i]) view.shape.push(numbers_[static_cast<size_t>(e)]);
    auto count = checked_count({view.shape.begin(), view.shape.end()});
    if (!late_[i] && (!count || *count > kMaxElements))
      return invalid("value '" + v.name + "' would have shape " + to_string(view.shape));
  }
  if (!plan_.shapes_proven) BRISK_TRY(check_shapes_at(plan_, executor_.engine_->content().weights, lookup));
  BRISK_TRY(place(pin));
  for (Step& s : steps_)
    for (auto& b : s.blocks) {
      auto fits = b->bind(pin);
      b->unfit_ = fits.ok() ? std::nullopt : std::optional(fits.error());
    }
  return {};
}

Status Frame::grow_arena(int64_t bytes) {
  if (bytes <= arena_bytes_) return {};
  BRISK_TRY(device().synchronize());
  BRISK_TRY(trim());
  BRISK_TRY(executor_.grant_scratch(bytes - arena_bytes_));
  budget().deallocate(arena_, arena_bytes_);
  arena_ = nullptr;
  arena_bytes_ = 0;
  BRISK_ASSIGN(arena_, budget().allocate(bytes));
  arena_bytes_ = bytes;
  return {};
}

Status Frame::place(bool pin) {
  std::vector<Lifetime> lifetimes;
  std::vector<int32_t> values;
  int64_t sum = 0;
  bool fits = pinned_ || !memory_.offsets.empty();
  for (size_t i = 0; i < plan_.values.size(); ++i) {
    if (plan_.values[i].kind != PlanValue::Kind::kArena || last_[i] < 0) continue;
    int64_t bytes = values_[i].bytes();
    if (fits && (lifetimes.size() >= placed_bytes_.size() || bytes > placed_bytes_[lifetimes.size()])) fits = false;
    auto total = checked_add(sum, bytes);
    if (!total || *total > kMaxArenaBytes) return invalid("temporary values take more than " + std::to_string(kMaxArenaBytes) + " bytes");
    sum = *total;
    lifetimes.push_back({bytes, first_[i], last_[i]});
    values.push_back(static_cast<int32_t>(i));
  }
  // A placement for larger sizes serves smaller ones; only when it was pinned is that also the leanest choice over time.
  if (!fits || pin) {
    memory_ = plan_memory(lifetimes);
    placed_ = values;
    placed_bytes_.clear();
    for (auto& l : lifetimes) placed_bytes_.push_back(l.bytes);
    pinned_ = pin;
    if (auto grown = grow_arena(memory_.arena_bytes); !grown.ok()) {
      memory_ = {};  // nothing is placed: the next bind begins anew
      placed_.clear();
      placed_bytes_.clear();
      pinned_ = false;
      return std::move(grown).error().in("temporary values");
    }
  }
  for (size_t k = 0; k < placed_.size(); ++k)
    value(placed_[k]).data = static_cast<char*>(arena_) + memory_.offsets[k];
  return {};
}

Status Frame::run(std::span<const TensorView> inputs) {
  if (unfit_) return *unfit_;
  for (size_t i = 0; i < plan_.inputs.size(); ++i) {
    if (inputs[i].present) BRISK_TRY(check_declared(plan_.inputs[i], inputs[i].dtype, inputs[i].shape));
    value(plan_.inputs[i]) = inputs[i];
  }
  for (auto [view, root] : views_) value(view).data = value(root).data;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (auto s = run_step(i); !s.ok()) {
      const PlanStep& step = plan_.steps[i];
      return std::move(s).error().in(step.name.empty() ? op_name(step.op) : step.name + " (" + op_name(step.op) + ")");
    }
  }
  return {};
}

Status Frame::run_step(size_t i) {
  const PlanStep& step = plan_.steps[i];
  if (holds_blocks(step)) {
    BRISK_TRY(run_control_flow(*this, i, step));
  } else {
    if (step.dynamic) BRISK_TRY(size_dynamic(i));
    if (steps_[i].kernel) BRISK_TRY(launch(i));
  }
  if (executor_.hook_) {
    std::vector<TensorView> in, out;
    for (int32_t v : step.inputs) in.push_back(v < 0 ? TensorView() : value(v));
    for (int32_t v : step.outputs) out.push_back(v < 0 ? TensorView() : value(v));
    BRISK_TRY(executor_.hook_(step, in, out));
  }
  for (int32_t v : steps_[i].dies) release(v);
  return {};
}

Result<TensorView> Frame::host_view(const TensorView& v, std::vector<std::byte>& storage) {
  if (device().host_accessible()) {
    BRISK_TRY(device().synchronize());
    return v;
  }
  storage.resize(static_cast<size_t>(v.bytes()));
  device().download(storage.data(), v.data, v.bytes());
  BRISK_TRY(device().synchronize());
  TensorView host = v;
  host.data = storage.data();
  return host;
}

// Result shapes of a step by the operator's rule on what its operands really are.
Status Frame::size_dynamic(size_t i) {
  const PlanStep& step = plan_.steps[i];
  std::vector<Type> types(step.inputs.size());
  std::vector<const Type*> in(step.inputs.size(), nullptr);
  for (size_t k = 0; k < step.inputs.size(); ++k) {
    if (step.inputs[k] < 0) continue;
    const TensorView& v = value(step.inputs[k]);
    if (!v.present) continue;
    types[k].dtype = v.dtype;
    types[k].shape.assign(v.shape.begin(), v.shape.end());
    in[k] = &types[k];
  }
  std::vector<std::vector<std::byte>> storage(step.inputs.size());
  std::vector<TensorView> views(step.inputs.size());
  Status fetch;
  auto data = [&](int k) -> const TensorView* {
    auto at = static_cast<size_t>(k);
    if (at >= in.size() || !in[at]) return nullptr;
    if (!views[at].present) {
      auto host = host_view(value(step.inputs[at]), storage[at]);
      if (!host.ok()) { fetch = std::move(host).error(); return nullptr; }
      views[at] = *host;
    }
    return &views[at];
  };
  auto result = infer_types(step.op, step.attrs, in, static_cast<int>(step.outputs.size()), nullptr, data);
  BRISK_TRY(std::move(fetch));
  if (!result.ok()) return std::move(result).error();
  for (size_t k = 0; k < step.outputs.size(); ++k) {
    int32_t v = step.outputs[k];
    if (v < 0) continue;
    const Type& t = (*result)[k];
    Dims shape;
    for (const Dim& d : t.shape) {
      auto n = d.constant();
      if (!t.ranked || !n || shape.rank >= kMaxRank) return internal("result shape " + to_string(t) + " is not known at run time");
      shape.push(*n);
    }
    if (is_view(step) && k == 0) {
      BRISK_TRY(check_declared(v, t.dtype, shape));
      const TensorView& source = value(step.inputs[0]);
      value(v) = TensorView(source.data, t.dtype, shape);
    } else {
      BRISK_TRY(allocate_dynamic(v, t.dtype, shape));
    }
  }
  return {};
}

std::optional<int64_t> Frame::declared(int32_t v, size_t axis) const {
  const std::vector<int32_t>& dims = dims_[static_cast<size_t>(v)];
  if (!plan_.values[static_cast<size_t>(v)].ranked || axis >= dims.size() || numbers_[static_cast<size_t>(dims[axis])] < 0) return std::nullopt;
  return numbers_[static_cast<size_t>(dims[axis])];
}

Status Frame::check_declared(int32_t v, DType dtype, const Dims& shape) const {
  const PlanValue& p = plan_.values[static_cast<size_t>(v)];
  const std::vector<int32_t>& dims = dims_[static_cast<size_t>(v)];
  bool same = dtype == p.dtype && (!p.ranked || shape.rank == static_cast<int>(dims.size()));
  for (size_t a = 0; same && p.ranked && a < dims.size(); ++a) {
    int64_t wanted = numbers_[static_cast<size_t>(dims[a])];
    same = wanted < 0 || wanted == shape[static_cast<int>(a)];
  }
  if (same) return {};
  return invalid("value '" + p.name + "' is " + std::string(dtype_name(dtype)) + to_string(shape) + ", declared " +
                 std::string(dtype_name(p.dtype)) + (p.ranked ? to_string(p.shape) : ""));
}

Status Frame::allocate_dynamic(int32_t v, DType dtype, const Dims& shape) {
  BRISK_TRY(check_declared(v, dtype, shape));
  auto count = checked_count({shape.begin(), shape.end()});
  if (!count || *count > kMaxElements) return invalid("result of shape " + to_string(shape) + " is too large");
  int64_t bytes = align_up(std::max<int64_t>(dtype_bytes(dtype, *count), 1), 4096);
  release(v);
  DynamicBuffer& b = dynamic_[static_cast<size_t>(v)];
  if (auto it = free_dynamic_.lower_bound(bytes); it != free_dynamic_.end() && it->first <= 2 * bytes) {
    b = {it->second, it->first};
    free_dynamic_.erase(it);
  } else {
    if (!budget().has_room(bytes)) BRISK_TRY(trim());
    auto p = budget().allocate(bytes);
    if (!p.ok()) return std::move(p).error().in("a result of shape " + to_string(shape));
    b = {*p, bytes};
  }
  value(v) = TensorView(b.data, dtype, shape);
  return {};
}

// Back to the pool: later work on the same stream may reuse the bytes at once.
void Frame::release(int32_t v) {
  DynamicBuffer& b = dynamic_[static_cast<size_t>(v)];
  if (b.data) free_dynamic_.emplace(b.bytes, b.data);
  b = {};
}

Status Frame::trim() {
  if (free_dynamic_.empty()) return {};
  BRISK_TRY(device().synchronize());  // queued work may still use them
  for (auto& [bytes, p] : free_dynamic_) budget().deallocate(p, bytes);
  free_dynamic_.clear();
  return {};
}

Status Frame::launch(size_t i) {
  const PlanStep& step = plan_.steps[i];
  Step& s = steps_[i];
  for (size_t k = 0; k < step.inputs.size(); ++k) s.in[k] = step.inputs[k] < 0 ? TensorView() : value(step.inputs[k]);
  for (size_t k = 0; k < step.outputs.size(); ++k) s.out[k] = step.outputs[k] < 0 ? TensorView() : value(step.outputs[k]);

  KernelArgs args{s.in, s.out, &step.attrs, nullptr, 0};
  if (s.kernel->workspace) {
    args.workspace_bytes = s.kernel->workspace(args);
    BRISK_ASSIGN(args.workspace, executor_.workspace(args.workspace_bytes));
  }
  Device& d = device();
  if (d.host_accessible()) {
    struct Now { const Step& step; KernelContext& context; const KernelArgs& args; } now{s, executor_.context_, args};
    d.submit([&now] { return now.step.kernel->run(now.context, now.args); });  // one pointer: no allocation
    return {};
  }
  // The work may run after this frame has moved on: it takes its operands along, addresses resolved on the device.
  struct Call {
    std::vector<TensorView> in, out;
    Attrs attrs;
    KernelArgs args;
  };
  auto call = std::make_shared<Call>(Call{s.in, s.out, step.attrs, args});
  d.submit([call, kernel = s.kernel, &d, context = executor_.context_]() mutable {
    for (auto* list : {&call->in, &call->out})
      for (TensorView& v : *list)
        if (v.data) v.data = d.resolve(v.data);
    call->args.in = call->in;
    call->args.out = call->out;
    call->args.attrs = &call->attrs;
    if (call->args.workspace) call->args.workspace = d.resolve(call->args.workspace);
    return kernel->run(context, call->args);
  });
  return {};
}

std::vector<TensorView> Frame::outputs() const {
  std::vector<TensorView> out;
  for (int32_t v : plan_.outputs) out.push_back(values_[static_cast<size_t>(v)]);
  return out;
}

int64_t Frame::arena_bytes() const {
  int64_t sum = arena_bytes_;
  for (const Step& s : steps_)
    for (auto& b : s.blocks) sum += b->arena_bytes();
  return sum;
}

}  // namespace brisk
