// TensorProto files (.pb), as the ONNX test suite keeps inputs and outputs.
#pragma once
#include <string>
#include <string_view>

#include "brisk/result.h"
#include "tensor/tensor.h"

namespace brisk {

// Elements as ONNX stores them become a plain constant. External data is refused.
Result<ConstantPtr> parse_tensor_proto(std::string_view bytes);
// An empty file is an absent optional value: null.
Result<ConstantPtr> read_pb(const std::string& path);

std::string format_tensor_proto(const Constant& plain, const std::string& name = {});
Status write_pb(const std::string& path, const Constant& plain, const std::string& name = {});

}  // namespace brisk
