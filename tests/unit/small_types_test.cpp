// Element types of a byte and less: values from their definitions, and each code read and written back.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tensor/tensor.h"

namespace brisk {
namespace {

float read(DType t, uint8_t code) { return load_float(&code, t, 0); }
uint8_t written(DType t, float v) {
  uint8_t code = 0;
  store_float(&code, t, 0, v);
  return code;
}

TEST(SmallTypes, EveryCodeComesBack) {
  for (DType t : {DType::kF8E4M3, DType::kF8E5M2, DType::kF8E4M3Fnuz, DType::kF8E5M2Fnuz, DType::kF8E8M0, DType::kF4E2M1, DType::kI2, DType::kU2})
    for (int code = 0; code < 1 << dtype_bits(t); ++code) {
      float v = read(t, static_cast<uint8_t>(code));
      if (std::isnan(v)) EXPECT_TRUE(std::isnan(read(t, written(t, v)))) << dtype_name(t) << " " << code;
      else EXPECT_EQ(written(t, v), code) << dtype_name(t) << " " << v;
    }
}

TEST(SmallTypes, LargestAndSmallest) {
  EXPECT_EQ(read(DType::kF8E4M3, 0x7e), 448);
  EXPECT_EQ(read(DType::kF8E4M3Fnuz, 0x7f), 240);
  EXPECT_EQ(read(DType::kF8E5M2Fnuz, 0x7f), 57344);
  EXPECT_EQ(read(DType::kF8E4M3Fnuz, 1), std::ldexp(1.0f, -10));
  EXPECT_EQ(read(DType::kF8E5M2Fnuz, 1), std::ldexp(1.0f, -17));
  EXPECT_TRUE(std::isnan(read(DType::kF8E4M3Fnuz, 0x80)));
  EXPECT_EQ(read(DType::kF8E8M0, 0), std::ldexp(1.0f, -127));
  EXPECT_EQ(read(DType::kF8E8M0, 127), 1);
  EXPECT_TRUE(std::isnan(read(DType::kF8E8M0, 255)));
  const float positive[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (uint8_t code = 0; code < 8; ++code) {
    EXPECT_EQ(read(DType::kF4E2M1, code), positive[code]);
    EXPECT_EQ(read(DType::kF4E2M1, static_cast<uint8_t>(code + 8)), -positive[code]);
  }
}

TEST(SmallTypes, RoundingAndOverflow) {
  EXPECT_EQ(read(DType::kF4E2M1, written(DType::kF4E2M1, 2.5f)), 2);  // halves to even
  EXPECT_EQ(read(DType::kF4E2M1, written(DType::kF4E2M1, 3.5f)), 4);
  EXPECT_EQ(read(DType::kF4E2M1, written(DType::kF4E2M1, -1e6f)), -6);
  EXPECT_EQ(read(DType::kF4E2M1, written(DType::kF4E2M1, INFINITY)), 6);
  EXPECT_EQ(written(DType::kF8E4M3Fnuz, -0.0f), 0);  // there is no negative zero
  EXPECT_EQ(read(DType::kF8E4M3Fnuz, written(DType::kF8E4M3Fnuz, 1e9f)), 240);
  EXPECT_EQ(written(DType::kF8E8M0, 3.0f), 128);  // half way: to the even code
  EXPECT_EQ(written(DType::kF8E8M0, 1.5f), 128);
  EXPECT_EQ(written(DType::kF8E8M0, std::numeric_limits<float>::max()), 254);
}

TEST(SmallTypes, PartsOfBytesLieLowBitsFirst) {
  uint8_t two[2] = {};
  for (int i = 0; i < 5; ++i) store_float(two, DType::kI2, i, static_cast<float>(i % 4 - 2));
  EXPECT_EQ(two[0], 0b01001110);
  EXPECT_EQ(two[1], 0b00000010);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(load_int(two, DType::kI2, i), i % 4 - 2);
  EXPECT_EQ(load_int(two, DType::kU2, 0), 2);
  EXPECT_EQ(dtype_bytes(DType::kU2, 5), 2);
}

}  // namespace
}  // namespace brisk
