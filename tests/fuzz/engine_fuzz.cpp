// Engine files as somebody who means harm would make them: checksums are put right again before they are read.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

#include "base/file.h"
#include "engine/layout.h"
#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "unit/engine_sample.h"

namespace brisk::fuzz {
namespace {

// Sets the size and every checksum whose place lies inside the file.
void seal(std::string& file) {
  layout::Header header;
  if (file.size() < sizeof header) return;
  std::memcpy(&header, file.data(), sizeof header);
  header.file_size = file.size();
  header.checksum = 0;
  size_t end = sizeof header;
  for (uint32_t i = 0; i < header.sections && end + sizeof(layout::SectionEntry) <= file.size(); ++i) {
    layout::SectionEntry entry;
    std::memcpy(&entry, file.data() + end, sizeof entry);
    if (entry.offset <= file.size() && entry.size <= file.size() - entry.offset)
      entry.checksum = XXH3_64bits(file.data() + entry.offset, entry.size);
    std::memcpy(file.data() + end, &entry, sizeof entry);
    end += sizeof entry;
  }
  std::memcpy(file.data(), &header, sizeof header);
  header.checksum = XXH3_64bits(file.data(), end);
  std::memcpy(file.data(), &header, sizeof header);
}

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
  seal(bytes);
  const MemoryFile file(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  static const Registry registry = test::sample_registry();
  (void)read_engine_metadata(file.path());
  return read_engine(file.path(), registry, {.verify_checksums = true}).ok();
}

}  // namespace brisk::fuzz
