// Engine files with changed bytes and right checksums; those that are accepted are run.
#include "fuzz/fuzz.h"
#include "fuzz/run_engine.h"
#include "unit/engine_seal.h"

namespace brisk::fuzz {

std::vector<std::string> seeds() { return {written(reference_sample())}; }

bool parse(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  test::seal(bytes);
  return read_and_run(bytes);
}

}  // namespace brisk::fuzz
