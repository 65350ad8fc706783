// How much memory there is.
#pragma once
#include <cstdint>

namespace brisk {

// Bytes that this process may still use without driving the machine, or the control group it runs in, out of memory.
// What the system can win back from its page cache counts as there.
int64_t available_memory();

}  // namespace brisk
