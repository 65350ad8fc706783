// Element types of ggml tensors: their sizes, and how their blocks become planes of codes, scales and offsets.
//
// Every decoding is exact: quantised blocks keep their codes; where a block has two levels of scales the product is
// stored as f32. Nothing is requantised here.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "tensor/tensor.h"

namespace brisk {

struct BlockFormat {
  uint32_t type;     // ggml's number
  const char* name;  // "Q4_0"
  int32_t elements;  // of a block, along the last axis
  int32_t bytes;     // of a block
  // Fills code, scale and offset planes of `blocks` consecutive blocks; nullptr for plain types and unsupported ones.
  using Decode = void (*)(const uint8_t* in, int64_t blocks, uint8_t* codes, uint8_t* scales, uint8_t* offsets);
  Decode decode = nullptr;
  Encoding encoding = {};      // of the planes
  DType plain = DType::kString;  // plain types: the element type
  bool supported() const { return decode || plain != DType::kString; }
};

// nullptr for numbers that ggml has not given out (or that brisk has not heard of).
const BlockFormat* block_format(uint32_t type);

// `bytes` holds the tensor's blocks, its size checked against the shape; `format` is supported. Plain types share the
// memory (kept alive by `owner`) unless it is misaligned for the element type.
ConstantPtr decode_tensor(const BlockFormat& format, const Dims& shape, std::span<const std::byte> bytes,
                          std::shared_ptr<const void> owner);

}  // namespace brisk
