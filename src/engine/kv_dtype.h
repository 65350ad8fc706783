// Keys and values stored in another element type than an engine was built for.
#pragma once
#include "engine/plan.h"
#include "kernel/kernel.h"

namespace brisk {

// Changes the paged states of the function `step`, and gives each step that reads one the kernel that `registry` prefers for
// the new type: the one chosen at build reads the old. kUnsupported, and the content is as it was, where there is none;
// kInvalid if there is no function `step`. The content must have been checked.
Status set_kv_dtype(EngineContent& content, DType dtype, const Registry& registry);

}  // namespace brisk
