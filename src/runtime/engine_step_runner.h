// StepRunner over an executor: the real thing.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "runtime/executor.h"
#include "runtime/step_runner.h"

namespace brisk {

struct StepRunnerOptions {
  StepLimits limits;                // blocks: 0 = from memory_bytes
  int64_t memory_limit = 0;         // of the executor's temporary memory; 0: what the device has available
};

// Bytes of paged state that one block of kBlockTokens tokens takes over all layers.
int64_t state_bytes_per_block(const Plan& step);

// Device bytes of everything else that a runner with these limits allocates: temporary values, slots, arrays of a step.
// nullopt where the plan's sizes cannot be counted.
std::optional<int64_t> step_bytes(const Plan& step, const StepLimits& limits);

// Allocates all state and buffers for the limits; nothing is allocated by submit() or wait().
Result<std::unique_ptr<StepRunner>> make_step_runner(std::shared_ptr<const LoadedEngine> engine, KernelContext context,
                                                     const StepRunnerOptions& options);

}  // namespace brisk
