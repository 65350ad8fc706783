// Private: one TensorProto to a constant. `folder` is where external data may lie; null: nowhere.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "base/file.h"
#include "brisk/result.h"
#include "tensor/tensor.h"

namespace onnx {
class TensorProto;
}

namespace brisk::onnx_import {

// External files of one model, mapped once each. Refuses what leads out of the folder: "..", absolute paths, links.
class ExternalFiles {
 public:
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}
  Result<std::shared_ptr<MappedFile>> open(const std::string& location);

 private:
  std::string folder_;
  std::map<std::string, std::shared_ptr<MappedFile>> files_;
};

// Takes raw_data out of the message instead of copying it.
Result<ConstantPtr> take_tensor(onnx::TensorProto& t, ExternalFiles* external);

}  // namespace brisk::onnx_import
