#include "fuzz/fuzz.h"
#include "tensor/npy.h"

namespace brisk::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> seeds;
  for (const Dims& shape : {Dims{}, Dims{7}, Dims{2, 3, 5}, Dims{0, 4}}) {
    const std::vector<float> values(static_cast<size_t>(shape.count()), 1.5f);
    auto text = format_npy(*make_constant<float>(DType::kF32, shape, values));
    if (text.ok()) seeds.push_back(*text);
  }
  std::string fortran = "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }\n";
  seeds.push_back(std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(fortran.size()) + '\0' + fortran + std::string(12, '\x05'));
  return seeds;
}

bool parse(const uint8_t* data, size_t size) {
  return parse_npy({reinterpret_cast<const char*>(data), size}).ok();
}

}  // namespace brisk::fuzz
