#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "import/gguf/gguf_file.h"
#include "import/gguf/import.h"
#include "unit/model_files.h"

namespace brisk::fuzz {

std::vector<std::string> seeds() {
  test::GgufWriter blocks;  // no model, but every kind of value and two block formats
  blocks.alignment = 64;
  blocks.add_u32("a.u32", 7);
  blocks.add("a.bool", 7, std::string(1, '\1'));
  blocks.add("a.f64", 12, test::raw(1.5));
  blocks.add_texts("a.texts", {"", "low", "\xff"});
  blocks.add("a.numbers", 9, test::raw<uint32_t>(5) + test::raw<uint64_t>(2) + std::string(8, '\2'));
  blocks.add("a.nested", 9, test::raw<uint32_t>(9) + test::raw<uint64_t>(1) + test::raw<uint32_t>(0) + test::raw<uint64_t>(3) + "abc");
  blocks.tensor("q4_0", {2, 32}, 2, std::string(36, '\3'));
  blocks.tensor("q8_0", {1, 64}, 8, std::string(68, '\4'));
  return {blocks.build(), test::TinyLlama::gguf()};
}

bool parse(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  auto opened = GgufFile::open(file.path());
  if (!opened.ok()) return false;
  (void)import_gguf(file.path());
  return true;
}

}  // namespace brisk::fuzz
