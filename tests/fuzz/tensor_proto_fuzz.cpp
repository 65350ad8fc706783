#include "fuzz/fuzz.h"
#include "import/onnx/tensor_proto.h"

namespace brisk::fuzz {

std::vector<std::string> seeds() {
  return {format_tensor_proto(*make_constant<float>(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6}), "weight"),
          format_tensor_proto(*make_constant<int64_t>(DType::kI64, {}, {-1})),
          format_tensor_proto(*make_constant<uint8_t>(DType::kU8, {0, 5}, {}))};
}

bool parse(const uint8_t* data, size_t size) {
  return parse_tensor_proto({reinterpret_cast<const char*>(data), size}).ok();
}

}  // namespace brisk::fuzz
