// Engine files as somebody who means harm would make them: checksums are put right again before they are read.
#include "base/file.h"
#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "unit/engine_sample.h"
#include "unit/engine_seal.h"

namespace brisk::fuzz {
namespace {

std::string written(const EngineContent& content) {
  const test::TemporaryPath file("fuzz-seed.engine");
  if (!write_engine(content, file.path).ok()) return {};
  auto bytes = read_file(file.path);
  return bytes.ok() ? *bytes : std::string();
}

}  // namespace

std::vector<std::string> seeds() { return {written(test::sample_content(1)), written(EngineContent{})}; }

bool parse(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  test::seal(bytes);
  const MemoryFile file(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  static const Registry registry = test::sample_registry();
  (void)read_engine_metadata(file.path());
  return read_engine(file.path(), registry, {.verify_checksums = true}).ok();
}

}  // namespace brisk::fuzz
