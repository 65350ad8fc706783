// Counts what operator new has handed out, so that a test can say how much memory a call held at its peak.
#pragma once
#include <cstdint>

namespace brisk::fuzz {
// Starts a new peak at what is live now.
void reset_peak();
// Most bytes live at once since reset_peak(), less those live then.
int64_t peak_bytes();
}  // namespace brisk::fuzz
