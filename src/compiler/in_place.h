// Which results of a plan take the bytes of an operand that nobody reads afterwards.
#pragma once
#include "engine/plan.h"

namespace brisk {

inline constexpr const char* kPlanInPlace = "plan-in-place";  // for --disable-pass

// Makes such results, of the plan and its blocks, views of the value whose bytes they take. An operand's bytes are taken
// where the step's kernel allows it (KernelDesc::in_place), shape and element size are the result's, the bytes belong to
// the arena, and this step is the last to touch them. Returns how many.
int plan_in_place(Plan& plan, const Registry& registry);

}  // namespace brisk
