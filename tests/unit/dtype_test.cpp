#include "tensor/dtype.h"

#include <gtest/gtest.h>

namespace brisk {
namespace {

TEST(DType, BytesRoundUpAndNeverWrap) {
  EXPECT_EQ(dtype_bytes(DType::kI4, 3), 2);
  EXPECT_EQ(dtype_bytes(DType::kF32, 5), 20);
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto type = static_cast<DType>(t);
    if (dtype_bits(type) == 0) continue;
    for (int64_t count : {int64_t{1} << 55, int64_t{1} << 58, int64_t{1} << 61, INT64_MAX})
      EXPECT_GE(dtype_bytes(type, count), int64_t{1} << 54) << dtype_name(type) << " " << count;
  }
}

}  // namespace
}  // namespace brisk
