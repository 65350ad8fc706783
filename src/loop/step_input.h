// From the scheduler's plan to the arrays that the device takes.
#pragma once
#include <functional>

#include "runtime/step_runner.h"
#include "sched/scheduler.h"

namespace brisk {

// Fills `out` (its vectors are reused from step to step). `sampling` gives the parameters of a living request; the index
// of the draw is set here.
void build_step_input(const Scheduler& scheduler, const StepPlan& plan,
                      const std::function<const SampleParams&(RequestId)>& sampling, StepInput& out);

}  // namespace brisk
