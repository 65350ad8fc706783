// One activation of a plan: the outermost function or a block of a control-flow step. Internal to the runtime.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/executor.h"

namespace brisk {

class Frame {
 public:
  static Result<std::unique_ptr<Frame>> create(Executor& executor, const Plan& plan);
  ~Frame();

  // Evaluates static shapes under the executor's symbols and places the arena if what is there does not fit.
  // `pin`: keep this placement for all smaller sizes.
  Status bind(bool pin);
  Status run(std::span<const TensorView> inputs);
  std::vector<TensorView> outputs() const;
  // Size of a value along an axis as declared, under the symbols bound; nullopt if it is known only at run time.
  std::optional<int64_t> declared(int32_t value, size_t axis) const;
  const Plan& plan() const { return plan_; }
  TensorView& value(int32_t index) { return values_[static_cast<size_t>(index)]; }
  int64_t arena_bytes() const;
  const MemoryPlan& memory_plan() const { return memory_; }

  // For control flow (control_flow.cpp).
  Device& device() const;
  MemoryBudget& budget() const { return *executor_.budget_; }
  Frame& block(size_t step, size_t which) { return *steps_[step].blocks[which]; }
  // Memory for a result whose size is known only now; replaces what the value held.
  Status allocate_dynamic(int32_t value, DType dtype, const Dims& shape);
  Status trim();  // gives the pool of dynamic buffers back to the device
  // Elements on the host: the data itself, or a copy fetched by waiting for the device.
  Result<TensorView> host_view(const TensorView& v, std::vector<std::byte>& storage);

 private:
  Frame(Executor& e, const Plan& p) : executor_(e), plan_(p) {}

  struct Step {
    const KernelDesc* kernel = nullptr;
    std::vector<std::unique_ptr<Frame>> blocks;
    std::vector<int32_t> dies;  // dynamic values whose last use this is
    std::vector<TensorView> in, out;
  };
  struct DynamicBuffer {
    void* data = nullptr;
    int64_t bytes = 0;
  };

  void find_lifetimes();
  Status place(bool pin);
  Status grow_arena(int64_t bytes);  // to at least so many; what it held is void
  Status run_step(size_t index);
  Status size_dynamic(size_t index);
  Status launch(size_t index);
  // Does what came up at run time keep to the value's declared type, as far as that is known?
  Status check_declared(int32_t value, DType dtype, const Dims& shape) const;
  void release(int32_t value);

  Executor& executor_;
  const Plan& plan_;
  std::vector<Step> steps_;
  std::vector<TensorView> values_;
  // Distinct shape expressions, evaluated once a bind; dims_[value][axis] indexes them, -1: known only at run time.
  std::vector<Dim> expressions_;
  std::vector<int64_t> numbers_;
  std::vector<std::vector<int32_t>> dims_;
  std::vector<bool> late_;  // views that a dynamic step makes
  std::vector<std::pair<int32_t, int32_t>> views_;     // every view and the value whose bytes it shows
  std::vector<int32_t> first_, last_;  // steps, of root values
  MemoryPlan memory_;
  std::vector<int32_t> placed_;        // values in memory_'s order
  std::vector<int64_t> placed_bytes_;
  bool pinned_ = false;
  // Why a block cannot run at these sizes: a branch that is not taken may be wrong for them, so run() says it.
  std::optional<Error> unfit_;
  void* arena_ = nullptr;
  int64_t arena_bytes_ = 0;
  std::vector<DynamicBuffer> dynamic_;           // by value
  std::multimap<int64_t, void*> free_dynamic_;   // by size
};

// If, Loop, Scan (control_flow.cpp).
Status run_control_flow(Frame& frame, size_t step_index, const PlanStep& step);

}  // namespace brisk
