// Runs one function of an engine: binds shapes, places temporaries, enqueues steps on the device.
//
// bind() evaluates every shape under the inputs' sizes; run() enqueues the steps. Steps whose result sizes depend on data
// are sized when they run, by the operator's own rule; their buffers come from a pool. Control flow runs nested frames.
// An executor belongs to one thread at a time; several executors may share an engine.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/loaded_engine.h"
#include "runtime/memory_budget.h"
#include "runtime/memory_plan.h"

namespace brisk {

class Frame;

class Executor {
 public:
  // `memory_limit`: most bytes that arena, workspace and results sized at run time may take together; 0: what the device
  // has available now. Beyond it bind() and run() fail with kEnvironment. `scratch_limit`: the same for arena and workspace
  // alone (what the engine was built with as --workspace); 0: none.
  static Result<std::unique_ptr<Executor>> create(std::shared_ptr<const LoadedEngine> engine, const std::string& function,
                                                  KernelContext context, int64_t memory_limit = 0, int64_t scratch_limit = 0);
  ~Executor();

  const Plan& plan() const { return *plan_; }

  // Places the arena once for the largest sizes; later binds within them allocate nothing. Symbols not named keep 1.
  Status reserve(const std::map<std::string, int64_t>& largest);
  // Memory of a state operand (Plan::states order). Must be set before run().
  void set_state(size_t index, const TensorView& view);

  // Does the function take these shapes of all its inputs, in order? Errors name tensor, axis, value and range.
  Status accepts(std::span<const Dims> shapes) const;
  // Shapes of all inputs, in order (absent optional inputs cannot occur). Errors as accepts().
  Status bind(std::span<const Dims> shapes);
  // Inputs at device addresses, of the bound shapes. Enqueues; with data-dependent sizes it may wait for the device.
  Status run(std::span<const TensorView> inputs);
  // Valid after run() until the next bind() or run(): device addresses, final shapes.
  std::vector<TensorView> outputs() const;

  int64_t arena_bytes() const;       // temporaries of static size, nested blocks included
  const MemoryPlan& memory_plan() const;  // of the outermost frame at the last placement

  // Is there this much more inside the memory limit? For what the caller copies out; unused buffers are given up for it.
  Status make_room(int64_t bytes);

  // Called around every step if set: profile and layer-by-layer comparison. Runs after the step's work was enqueued.
  using StepHook = std::function<Status(const PlanStep&, std::span<const TensorView> in, std::span<const TensorView> out)>;
  void set_step_hook(StepHook hook);

 private:
  Executor() = default;
  friend class Frame;
  std::shared_ptr<const LoadedEngine> engine_;
  const Plan* plan_ = nullptr;
  KernelContext context_;
  std::map<std::string, int64_t> symbols_;
  std::optional<std::vector<Dims>> bound_;  // what the last bind() took: the same again has nothing to do
  std::unique_ptr<MemoryBudget> budget_;
  std::unique_ptr<Frame> root_;
  void* workspace_ = nullptr;
  int64_t workspace_bytes_ = 0;
  int64_t scratch_limit_ = 0, scratch_used_ = 0;
  StepHook hook_;

  Result<void*> workspace(int64_t bytes);
  // `more` bytes of arena or workspace (less than none: given back), inside scratch_limit_.
  Status grant_scratch(int64_t more);
  bool bound_to(std::span<const Dims> shapes) const;
  Result<std::map<std::string, int64_t>> match(std::span<const Dims> shapes) const;
};

}  // namespace brisk
