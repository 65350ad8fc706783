// Reading a mapped page that the file no longer has raises SIGBUS. The guard turns that into data: its handler puts zero
// pages there and marks the mapping as lost, and whoever used the bytes asks afterwards. Faults outside of guarded
// mappings go to the handler that was there before. Installed by the first mapping.
#pragma once
#include <cstddef>
#include <cstdint>

namespace brisk::mapping_guard {

// A guarded range; -1 if there are too many (more than 4096): it then stays unguarded.
int add(const void* begin, size_t size) noexcept;
void remove(int slot) noexcept;
bool lost(int slot) noexcept;
// How many ranges have been lost since the process began.
uint64_t losses() noexcept;

}  // namespace brisk::mapping_guard
