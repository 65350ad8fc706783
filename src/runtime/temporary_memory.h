// What a plan's temporaries take at given sizes, for people: placed, against what no placement could do without.
#pragma once
#include "runtime/memory_plan.h"

namespace brisk {

struct TemporaryMemory {
  int64_t arena_bytes = 0;  // as placed
  int64_t live_bytes = 0;   // the most that is alive at one step
  int64_t sum_bytes = 0;    // if nothing shared its place
  int64_t in_place = 0;     // results that lie on an operand's bytes
};

// Blocks' arenas stand beside that of the function. nullopt where a size is unknown or cannot be counted.
std::optional<TemporaryMemory> temporary_memory(const Plan& plan, const Dim::Lookup& symbols);

}  // namespace brisk
