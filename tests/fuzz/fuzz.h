// What a fuzzer is: tests/fuzz/NAME_fuzz.cpp with one parser fed from bytes, and valid inputs to start from.
// The same file is built twice: with replay_main.cpp (always; ctest runs every seed and some thousand seeded mutations
// of it, under a limit of time and memory) and with libFuzzer (`make fuzz`).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace brisk::fuzz {

// Small valid inputs; parse() must return true for each. The mutations start here.
std::vector<std::string> seeds();

// Parses the bytes; true if they were accepted. Must not crash, hang, or hold more memory than 16 times their size
// plus 32 MiB, whatever they are.
bool parse(const uint8_t* data, size_t size);

}  // namespace brisk::fuzz
