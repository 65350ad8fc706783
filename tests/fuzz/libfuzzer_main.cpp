// The entry point that libFuzzer calls.
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  brisk::fuzz::parse(data, size);
  return 0;
}
