// What is known of a value before it exists: element type, symbolic shape, and, for small integer tensors (shapes,
// axes, indices), the elements themselves as symbolic expressions.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tensor/dim.h"
#include "tensor/dtype.h"

namespace brisk {

struct Type {
  DType dtype = DType::kF32;
  bool ranked = true;  // false: even the rank is known only at run time
  Shape shape;         // valid if ranked
  // Elements, row-major, if this is an integer or bool tensor of at most kMaxTrackedElements whose elements are known.
  std::optional<std::vector<Dim>> elements;

  int rank() const { return static_cast<int>(shape.size()); }
};
inline constexpr int64_t kMaxTrackedElements = 4096;

std::string to_string(const Type& t);  // "f32[batch, 64]"

}  // namespace brisk
