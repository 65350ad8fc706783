#include <gtest/gtest.h>

#include "import/onnx/tensor_proto.h"

namespace brisk {
namespace {

TEST(TensorProto, RoundTripOfEveryWidth) {
  for (DType t : {DType::kF32, DType::kF16, DType::kF64, DType::kI8, DType::kU16, DType::kI64, DType::kBool, DType::kU4, DType::kF8E5M2,
                  DType::kF8E4M3Fnuz, DType::kF8E5M2Fnuz, DType::kF8E8M0, DType::kF4E2M1, DType::kI2, DType::kU2}) {
    Constant c;
    c.dtype = t;
    c.shape = {3};
    std::vector<std::byte> bytes(static_cast<size_t>(dtype_bytes(t, 3)), std::byte{1});
    c.data = Buffer::of(bytes);
    auto back = parse_tensor_proto(format_tensor_proto(c, "x"));
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ((*back)->dtype, t);
    EXPECT_EQ((*back)->shape, c.shape);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), (*back)->data.bytes.begin(), (*back)->data.bytes.end()));
  }
}

// dims: field 1, data_type: field 2, int32_data: field 5 (not packed here), raw_data: field 9.
TEST(TensorProto, TypedFields) {
  auto c = parse_tensor_proto(std::string("\x08\x02\x10\x03\x28\x05\x28\x07", 8));
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_EQ((*c)->dtype, DType::kI8);
  EXPECT_EQ(to_ints((*c)->view()), (std::vector<int64_t>{5, 7}));
}

TEST(TensorProto, ClaimsAreHeldAgainstTheBytes) {
  EXPECT_FALSE(parse_tensor_proto(std::string("\x08\x03\x10\x03\x28\x05\x28\x07", 8)).ok());  // three claimed, two there
  EXPECT_FALSE(parse_tensor_proto("\xff\xff\xff").ok());
  std::string huge("\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x08\x09\x10\x01", 14);  // 2^63 - 1 times 9
  EXPECT_FALSE(parse_tensor_proto(huge).ok());
  auto text = parse_tensor_proto(std::string("\x08\x01\x10\x08\x32\x01x", 7));
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().kind, ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace brisk
