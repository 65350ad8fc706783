// The entry point that libFuzzer calls.
#include "base/log.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  brisk::set_log_level(brisk::LogLevel::kError);  // files that are wrong are told of by warnings
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  brisk::fuzz::parse(data, size);
  return 0;
}
