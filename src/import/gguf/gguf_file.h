// GGUF, versions 2 and 3: the model file of llama.cpp. Layout (all little-endian): "GGUF", u32 version, u64 tensor count,
// u64 metadata count, the metadata (key, type, value), the tensor table (name, rank, dimensions with the fastest first,
// element type, offset), padding to general.alignment, tensor data. A model may be split over files named
// "<name>-00001-of-0000N.gguf"; opening any of them opens all.
//
// Nothing in the file is trusted: counts are held against the bytes that are left before anything is allocated, nested
// arrays have a depth limit, names are unique, tensors lie inside the file and do not overlap. Values are views into the
// mapping. Errors name file, field and limit. Immutable after open; any thread may read.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "brisk/result.h"
#include "tensor/tensor.h"

namespace brisk {

enum class GgufType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

struct GgufValue {
  std::string_view key;
  GgufType type = GgufType::kU8;
  GgufType element = GgufType::kU8;  // of an array
  uint64_t count = 0;                // of an array
  std::span<const std::byte> bytes;  // a number, the text of a string, or an array's elements as stored
};

struct GgufTensor {
  std::string_view name;
  uint32_t type = 0;                 // ggml's number; blocks.h knows what it means
  Dims shape;                        // row-major, as everywhere in brisk: the file's order reversed
  std::span<const std::byte> bytes;  // empty if the type's size is unknown
  uint32_t file = 0;                 // which part of a split model
};

class GgufFile {
 public:
  // Opens a file, and its siblings if it is a part of a split model.
  static Result<std::shared_ptr<const GgufFile>> open(const std::string& path);

  const std::string& path() const { return files_[0]->path(); }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // sorted by name
  const GgufTensor* tensor(std::string_view name) const;
  const std::vector<GgufValue>& metadata() const { return metadata_; }  // of the first part, sorted by key
  const GgufValue* find(std::string_view key) const;
  // Keeps the mapping that a tensor points into alive.
  std::shared_ptr<const void> owner(const GgufTensor& t) const { return files_[t.file]; }

  // Typed access: nullopt where the key is absent, an error that names file, key and range where the value is of another
  // type or outside [min, max]. Numbers of any integer (or, for number(), float) type are taken.
  Result<std::optional<int64_t>> integer(std::string_view key, int64_t min, int64_t max) const;
  Result<std::optional<double>> number(std::string_view key) const;
  Result<std::optional<bool>> flag(std::string_view key) const;
  Result<std::optional<std::string_view>> text(std::string_view key) const;
  Result<std::optional<std::vector<std::string_view>>> texts(std::string_view key) const;   // an array of strings
  Result<std::optional<std::vector<double>>> numbers(std::string_view key) const;           // an array of numbers

 private:
  Status add_part(std::shared_ptr<MappedFile> file);
  Status finish();
  Error wrong(std::string_view key, const std::string& what) const;

  std::vector<std::shared_ptr<MappedFile>> files_;
  std::vector<GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace brisk
