// What becomes of a file's own blocks in each precision.
#include <gtest/gtest.h>

#include <cmath>

#include "quantize/quantize.h"

namespace brisk {
namespace {

// [2, 64] with codes that repeat, one scale (and minimum) per group.
ConstantPtr blocks(uint8_t bits, DType code, DType scale, int32_t group, Encoding::Offset offset, float factor = 1) {
  auto c = std::make_shared<Constant>();
  c->shape = {2, 64};
  c->encoding = {bits, code, scale, offset, -1, group};
  int64_t groups = group ? 128 / group : 2;
  auto plane = [&](float base) {
    std::vector<std::byte> b(static_cast<size_t>(dtype_bytes(scale, groups)));
    for (int64_t i = 0; i < groups; ++i) store_float(b.data(), scale, i, base * (1 + 0.1f * static_cast<float>(i)) * factor);
    return Buffer::of(std::move(b));
  };
  std::vector<std::byte> codes(static_cast<size_t>(128 * bits / 8));
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i * 37);
  c->data = Buffer::of(std::move(codes));
  c->scales = plane(0.01f);
  if (offset == Encoding::Offset::kMinimum) c->offsets = plane(-0.05f);
  return c;
}

// The weight of a graph of one Linear after apply_precision.
ConstantPtr applied(const ConstantPtr& weight, Precision p) {
  Graph g;
  ValueId x = g.add_input("x", Type{DType::kF32, true, {Dim::symbol("T"), 64}, {}});
  ValueId w = g.add_constant("w", weight);
  auto y = g.add(OpId::kLinear, LinearAttrs{}, {x, w}, "y");
  EXPECT_TRUE(y.ok());
  g.outputs = {*y};
  auto report = apply_precision(g, {p, {}});
  EXPECT_TRUE(report.ok());
  return g.value(w).constant;
}

float largest_difference(const Constant& a, const Constant& b) {
  auto x = to_floats(a), y = to_floats(b);
  float worst = 0;
  for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::fabs(x[i] - y[i]));
  return worst;
}

TEST(QuantizeBlocks, KernelFormsStayAsTheyAre) {
  auto q4_0 = blocks(4, DType::kI4, DType::kF16, 32, Encoding::Offset::kNone), q4_1 = blocks(4, DType::kU4, DType::kF16, 32, Encoding::Offset::kMinimum);
  auto q8_0 = blocks(8, DType::kI8, DType::kF16, 32, Encoding::Offset::kNone), rows = blocks(8, DType::kI8, DType::kF32, 0, Encoding::Offset::kNone);
  EXPECT_EQ(applied(q4_0, Precision::kInt4w), q4_0);
  EXPECT_EQ(applied(q4_1, Precision::kInt4w), q4_1);
  EXPECT_EQ(applied(q8_0, Precision::kInt8w), q8_0);
  EXPECT_EQ(applied(q8_0, Precision::kInt8), q8_0);
  EXPECT_EQ(applied(rows, Precision::kInt8), rows);
}

TEST(QuantizeBlocks, TwoLevelScalesAreRoundedNotRequantised) {
  auto q4_k = blocks(4, DType::kU4, DType::kF32, 32, Encoding::Offset::kMinimum), iq4_xs = blocks(8, DType::kI8, DType::kF32, 32, Encoding::Offset::kNone);
  for (auto [before, p] : {std::pair{q4_k, Precision::kInt4w}, {iq4_xs, Precision::kInt8w}}) {
    auto after = applied(before, p);
    EXPECT_EQ(after->encoding.scale_dtype, DType::kF16);
    EXPECT_EQ(after->data.bytes.data(), before->data.bytes.data());
    EXPECT_LT(largest_difference(*before, *after), 128 * 0.02f / 2048);
  }
}

TEST(QuantizeBlocks, OtherFormsAreQuantisedAgain) {
  auto q6_k = blocks(8, DType::kI8, DType::kF32, 16, Encoding::Offset::kNone), q2_k = blocks(4, DType::kU4, DType::kF32, 16, Encoding::Offset::kMinimum);
  auto eight = applied(q6_k, Precision::kInt8w), four = applied(q2_k, Precision::kInt4w);
  EXPECT_EQ(to_string(eight->encoding), "i8/g32/f16");
  EXPECT_EQ(to_string(four->encoding), "u4/g32/f16+min");
  EXPECT_EQ(to_string(applied(convert_float(*q6_k, DType::kF32), Precision::kInt8)->encoding), "i8/g64/f16");  // no ranges of its own
  EXPECT_LT(largest_difference(*q6_k, *eight), 128 * 0.02f / 127);  // half a step of the larger group, and its scale's rounding
  auto tiny = blocks(8, DType::kI8, DType::kF32, 32, Encoding::Offset::kNone, 1e-8f);  // scales below f16's range
  EXPECT_EQ(half_scales(*tiny), nullptr);
  EXPECT_EQ(to_string(applied(tiny, Precision::kInt8w)->encoding), "i8/g32/f16");
}

// A NaN has no nearest code: it gets the lowest one, and its neighbours stay what they are.
TEST(QuantizeBlocks, WeightsThatAreNotNumbersGetACode) {
  std::vector<float> w(32);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i) - 15.0f;
  w[3] = NAN;
  auto c = make_constant(DType::kF32, {1, 32}, w);
  auto bytes = quantize_int8(*c, 0);
  EXPECT_EQ(bytes->as<int8_t>()[3], -127);
  EXPECT_EQ(bytes->as<int8_t>()[31], 127);
  auto nibbles = quantize_int4(*c, 32);
  EXPECT_EQ(static_cast<int>(nibbles->data.bytes[1]) >> 4, 0);
  EXPECT_EQ(static_cast<int>(nibbles->data.bytes[15]) >> 4, 15);
}

TEST(QuantizeBlocks, ValuesThatCodesCannotSayAreRefused) {
  for (float bad : {NAN, INFINITY}) {
    std::vector<float> v(128, 0.5f);
    v[70] = bad;
    for (Precision p : {Precision::kInt8, Precision::kInt4w, Precision::kBf16}) {
      Graph g;
      ValueId x = g.add_input("x", Type{DType::kF32, true, {Dim::symbol("T"), 64}, {}});
      ValueId w = g.add_constant("w", make_constant(DType::kF32, {2, 64}, v));
      g.outputs = {g.add(OpId::kLinear, LinearAttrs{}, {x, w}, "y").value()};
      auto report = apply_precision(g, {p, {}, {}});
      EXPECT_EQ(report.ok(), p == Precision::kBf16);
      if (!report.ok()) EXPECT_NE(report.error().message.find("'w'"), std::string::npos);
    }
  }
}

TEST(QuantizeBlocks, KeptNamesMustExist) {
  Graph g;
  ValueId x = g.add_input("x", Type{DType::kF32, true, {Dim::symbol("T"), 64}, {}});
  ValueId w = g.add_constant("w", make_constant(DType::kF32, {2, 64}, std::vector<float>(128, 0.5f)));
  g.outputs = {g.add(OpId::kLinear, LinearAttrs{}, {x, w}, "y").value()};
  EXPECT_FALSE(apply_precision(g, {Precision::kInt8, {{"v", Precision::kFp32}}, {}}).ok());
  EXPECT_TRUE(apply_precision(g, {Precision::kInt8, {{"w*", Precision::kFp32}}, {}}).ok());
}

}  // namespace
}  // namespace brisk
