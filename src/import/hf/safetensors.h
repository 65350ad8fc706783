// safetensors: u64 header size, a JSON object of tensors (name -> dtype, shape, data_offsets), then their bytes.
//
// One file, or a folder's shards that model.safetensors.index.json lists. Nothing is trusted: the header is parsed as a
// stream with a fixed structure, tensors must cover the data without holes or overlaps, shards are plain names inside
// the folder. Pickles are never opened. Immutable after open; any thread may read.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "brisk/result.h"
#include "tensor/tensor.h"

namespace brisk {

struct SafeTensor {
  std::string name;
  std::string type;                  // the file's word: "BF16"
  DType dtype = DType::kString;      // kString: a type that brisk has not
  Dims shape;
  std::span<const std::byte> bytes;
  uint32_t file = 0;                 // which shard
};

class SafeTensors {
 public:
  static Result<std::shared_ptr<const SafeTensors>> open_file(const std::string& path);
  // model.safetensors, or the shards of model.safetensors.index.json.
  static Result<std::shared_ptr<const SafeTensors>> open_folder(const std::string& folder);

  const std::deque<SafeTensor>& tensors() const { return tensors_; }  // sorted by name
  const SafeTensor* find(std::string_view name) const;
  // The elements, sharing the mapping unless they are misaligned. The tensor's dtype is known.
  ConstantPtr load(const SafeTensor& t) const;

 private:
  Status add(const std::string& path);
  Status finish();

  std::vector<std::shared_ptr<MappedFile>> files_;
  std::deque<SafeTensor> tensors_;
};

}  // namespace brisk
