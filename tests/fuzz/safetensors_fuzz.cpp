#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "import/hf/safetensors.h"
#include "unit/model_files.h"

namespace brisk::fuzz {

std::vector<std::string> seeds() {
  return {test::safetensors({{"a", "F32", {2, 3}, std::string(24, '\1')}, {"b.c", "BF16", {5}, std::string(10, '\2')}}),
          test::safetensors({{"empty", "I64", {0, 4}, ""}, {"scalar", "U8", {}, "x"}, {"f8", "F8_E4M3", {4}, "abcd"}}),
          test::safetensors({})};
}

bool parse(const uint8_t* data, size_t size) {
  auto opened = SafeTensors::open_file(MemoryFile(data, size).path());
  if (!opened.ok()) return false;
  for (const SafeTensor& t : (*opened)->tensors())
    if (t.dtype != DType::kString) (*opened)->load(t);
  return true;
}

}  // namespace brisk::fuzz
