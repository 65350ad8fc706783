// If and Loop: the executor's own steps, running a block's frame.
#include "runtime/frame.h"

namespace brisk {
namespace {

void copy(Device& d, void* target, const void* source, int64_t bytes) {
  d.submit([&d, target, source, bytes] {
    if (bytes) std::memcpy(d.resolve(target), d.resolve(const_cast<void*>(source)), static_cast<size_t>(bytes));
    return Status();
  });
}

// A block's result becomes the outer step's: copied, since the block's memory is reused at its next run.
Status take_result(Frame& frame, int32_t to, const TensorView& from) {
  if (to < 0) return {};
  BRISK_TRY(frame.allocate_dynamic(to, from.dtype, from.shape));
  copy(frame.device(), frame.value(to).data, from.data, from.bytes());
  return {};
}

Status run_if(Frame& frame, size_t index, const PlanStep& step) {
  std::vector<std::byte> storage;
  BRISK_ASSIGN(auto condition, frame.host_view(frame.value(step.inputs[0]), storage));
  if (condition.dtype != DType::kBool || condition.count() != 1)
    return invalid("the condition is " + std::string(dtype_name(condition.dtype)) + to_string(condition.shape) + ", wanted one bool");
  Frame& block = frame.block(index, load_int(condition.data, DType::kBool, 0) ? 0 : 1);
  std::vector<TensorView> captured;
  for (size_t i = step.inputs.size() - static_cast<size_t>(step.captures); i < step.inputs.size(); ++i)
    captured.push_back(step.inputs[i] < 0 ? TensorView() : frame.value(step.inputs[i]));
  BRISK_TRY(block.run(captured));
  auto results = block.outputs();
  for (size_t i = 0; i < step.outputs.size(); ++i) BRISK_TRY(take_result(frame, step.outputs[i], results[i]));
  return {};
}

// Device memory of one value that outlives a run of the block that made it.
class Held {
 public:
  explicit Held(Frame& f) : device_(&f.device()), budget_(&f.budget()) {}
  Held(Held&& o) noexcept : device_(o.device_), budget_(o.budget_), view_(o.view_), bytes_(o.bytes_) { o.view_ = TensorView(); }
  Held& operator=(Held&&) = delete;
  ~Held() { budget_->deallocate(view_.data, bytes_); }

  const TensorView& view() const { return view_; }
  Status take(const TensorView& from) {
    int64_t bytes = std::max<int64_t>(from.bytes(), 1);
    if (bytes > bytes_) {
      BRISK_ASSIGN(void* p, budget_->allocate(bytes));
      // Work that reads the old bytes may still be queued.
      if (view_.data) BRISK_TRY(device_->synchronize());
      budget_->deallocate(view_.data, bytes_);
      view_.data = p;
      bytes_ = bytes;
    }
    void* data = view_.data;
    view_ = TensorView(data, from.dtype, from.shape);
    copy(*device_, data, from.data, from.bytes());
    return {};
  }
  template <class T> Status set(DType t, T value) {
    if (!view_.data) {
      BRISK_ASSIGN(view_.data, budget_->allocate(sizeof(T)));
      bytes_ = sizeof(T);
      view_ = TensorView(view_.data, t, Dims{});
    }
    device_->upload(view_.data, &value, sizeof value);
    return {};
  }

 private:
  Device* device_;
  MemoryBudget* budget_;
  TensorView view_;
  int64_t bytes_ = 0;
};

Result<bool> truth(Frame& frame, const TensorView& v) {
  std::vector<std::byte> storage;
  BRISK_ASSIGN(auto host, frame.host_view(v, storage));
  if (host.dtype != DType::kBool || host.count() != 1)
    return invalid("the condition is " + std::string(dtype_name(host.dtype)) + to_string(host.shape) + ", wanted one bool");
  return load_int(host.data, DType::kBool, 0) != 0;
}

// The elements that the steps gave, one behind the other.
Status stack(Frame& frame, int32_t to, const std::vector<Held>& pieces, const PlanValue& element) {
  if (to < 0) return {};
  Dims shape{static_cast<int64_t>(pieces.size())};
  DType dtype = element.dtype;
  if (pieces.empty()) {
    // The rank may be the element's alone; a size that only a step would have shown is 0.
    for (size_t i = 0; i < element.shape.size(); ++i) {
      auto declared = frame.declared(to, i + 1);
      shape.push(element.shape[i].constant_or(declared ? *declared : 0));
    }
  } else {
    dtype = pieces[0].view().dtype;
    for (int64_t d : pieces[0].view().shape) shape.push(d);
  }
  for (const Held& p : pieces)
    if (!(p.view().shape == pieces[0].view().shape))
      return invalid("scan elements of shapes " + to_string(pieces[0].view().shape) + " and " + to_string(p.view().shape));
  BRISK_TRY(frame.allocate_dynamic(to, dtype, shape));
  int64_t at = 0;
  for (const Held& p : pieces) {
    copy(frame.device(), frame.value(to).as<char>() + at, p.view().data, p.view().bytes());
    at += p.view().bytes();
  }
  return frame.device().synchronize();  // the pieces go when this returns
}

// Operands: trip count, condition, states, captures. Block: (i, condition, states, captures) -> (condition, states, elements).
Status run_loop(Frame& frame, size_t index, const PlanStep& step) {
  Frame& block = frame.block(index, 0);
  Device& device = frame.device();
  auto states = static_cast<size_t>(std::get<ModeAttrs>(step.attrs).flag);
  size_t captures = static_cast<size_t>(step.captures), elements = step.outputs.size() - states;
  int64_t trips = INT64_MAX;
  if (step.inputs[0] >= 0) {
    std::vector<std::byte> storage;
    BRISK_ASSIGN(auto host, frame.host_view(frame.value(step.inputs[0]), storage));
    if (host.count() != 1) return invalid("the trip count is " + to_string(host.shape) + ", wanted one number");
    trips = load_int(host.data, host.dtype, 0);
  }
  bool go = true;
  if (step.inputs[1] >= 0) { BRISK_ASSIGN(go, truth(frame, frame.value(step.inputs[1]))); }

  std::vector<Held> held;
  for (size_t i = 0; i < states; ++i) {
    held.emplace_back(frame);
    BRISK_TRY(held[i].take(frame.value(step.inputs[2 + i])));
  }
  Held counter(frame), condition(frame);
  std::vector<std::vector<Held>> pieces(elements);
  std::vector<TensorView> in(2 + states + captures);
  for (size_t c = 0; c < captures; ++c) {
    int32_t v = step.inputs[step.inputs.size() - captures + c];
    if (v >= 0) in[2 + states + c] = frame.value(v);
  }
  for (int64_t i = 0; i < trips && go; ++i) {
    BRISK_TRY(counter.set<int64_t>(DType::kI64, i));
    BRISK_TRY(condition.set<uint8_t>(DType::kBool, 1));
    in[0] = counter.view();
    in[1] = condition.view();
    for (size_t s = 0; s < states; ++s) in[2 + s] = held[s].view();
    BRISK_TRY(block.run(in));
    auto results = block.outputs();
    BRISK_ASSIGN(go, truth(frame, results[0]));
    // States may be passed on in another order: all are copied before any is overwritten.
    std::vector<Held> next;
    for (size_t s = 0; s < states; ++s) {
      next.emplace_back(frame);
      BRISK_TRY(next[s].take(results[1 + s]));
    }
    for (size_t e = 0; e < elements; ++e) {
      pieces[e].emplace_back(frame);
      BRISK_TRY(pieces[e].back().take(results[1 + states + e]));
    }
    BRISK_TRY(device.synchronize());
    held.swap(next);
  }
  for (size_t s = 0; s < states; ++s) BRISK_TRY(take_result(frame, step.outputs[s], held[s].view()));
  const Plan& plan = block.plan();
  for (size_t e = 0; e < elements; ++e)
    BRISK_TRY(stack(frame, step.outputs[states + e], pieces[e], plan.values[static_cast<size_t>(plan.outputs[1 + states + e])]));
  return device.synchronize();
}

}  // namespace

Status run_control_flow(Frame& frame, size_t index, const PlanStep& step) {
  std::string_view op = op_name(step.op);
  if (op == "If") return run_if(frame, index, step);
  if (op == "Loop") return run_loop(frame, index, step);
  return internal("no control flow for " + std::string(op));
}

}  // namespace brisk
