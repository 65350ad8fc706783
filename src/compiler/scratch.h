// How much scratch a plan needs, and where: what `brisk build --workspace` is held against.
#pragma once
#include <optional>
#include <string>

#include "engine/plan.h"
#include "kernel/kernel.h"

namespace brisk {

struct Scratch {
  int64_t temporaries = 0;       // arena, blocks included
  std::string temporaries_at;    // the step with most of them alive
  int64_t temporaries_live = 0;  // at that step
  int64_t kernel = 0;            // largest workspace of a kernel
  std::string kernel_at;
  int64_t total() const { return temporaries + kernel; }
};

// At the largest sizes of the plan's symbols; nullopt where one has no maximum. Results sized at run time are not counted.
std::optional<Scratch> scratch_of(const Plan& plan, const Registry& registry);

// Workspace that a kernel wants for a problem at the symbols' largest sizes; 0 where that cannot be said.
int64_t workspace_of(const KernelDesc& kernel, const ProblemDesc& problem, const Dim::Lookup& largest);

}  // namespace brisk
