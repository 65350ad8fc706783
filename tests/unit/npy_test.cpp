#include "tensor/npy.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "tensor/zip.h"

namespace brisk {
namespace {

std::string temporary(const std::string& name) { return (std::filesystem::temp_directory_path() / ("brisk_npy_" + name)).string(); }

TEST(Npy, RoundTripKeepsTypeShapeAndBytes) {
  auto c = make_constant<int64_t>(DType::kI64, {2, 3}, {1, -2, 3, 4, 5, INT64_MIN});
  auto text = format_npy(*c);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ((text->size() - 6 * 8) % 64, 0u);  // data is aligned, as NumPy writes it
  auto back = parse_npy(*text);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ((*back)->dtype, DType::kI64);
  EXPECT_EQ((*back)->shape, (Dims{2, 3}));
  EXPECT_EQ(to_ints((*back)->view()), (std::vector<int64_t>{1, -2, 3, 4, 5, INT64_MIN}));
}

TEST(Npy, ScalarsVectorsAndEmptyArrays) {
  for (const Dims& shape : {Dims{}, Dims{1}, Dims{0, 4}}) {
    auto c = make_constant<float>(DType::kF32, shape, std::vector<float>(static_cast<size_t>(shape.count()), 2.5f));
    auto back = parse_npy(*format_npy(*c));
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ((*back)->shape, shape);
  }
}

TEST(Npy, FortranOrderIsTransposed) {
  std::string header = "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }\n";
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size());
  text += '\0';
  text += header;
  for (char v : {1, 4, 2, 5, 3, 6}) text += v, text += '\0';
  auto c = parse_npy(text);
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_EQ(to_ints((*c)->view()), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST(Npy, TypesThatNumpyLacksAreWidened) {
  Constant c;
  c.dtype = DType::kU4;
  c.shape = {3};
  c.data = Buffer::of({std::byte{0x21}, std::byte{0x0f}});
  auto back = parse_npy(*format_npy(c));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ((*back)->dtype, DType::kU8);
  EXPECT_EQ(to_ints((*back)->view()), (std::vector<int64_t>{1, 2, 15}));
}

TEST(Npy, HostileBytesAreErrors) {
  std::string good = *format_npy(*make_constant<float>(DType::kF32, {4}, {1, 2, 3, 4}));
  for (size_t n = 0; n < good.size(); n += 7) EXPECT_FALSE(parse_npy(good.substr(0, n)).ok()) << n;
  std::string big = good;
  big.replace(big.find("(4,)"), 4, "(9223372036854775807,9)");
  EXPECT_FALSE(parse_npy(big).ok());
  std::string objects = good;
  objects.replace(objects.find("<f4"), 3, "|O8");
  auto refused = parse_npy(objects);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
}

TEST(Npz, WritesAndReadsSeveralArrays) {
  std::string path = temporary("several.npz");
  auto a = make_constant<float>(DType::kF32, {2}, {1, 2});
  auto b = make_constant<uint8_t>(DType::kBool, {}, {1});
  ASSERT_TRUE(write_npz(path, {{"a", a}, {"in:b", b}}).ok());
  auto back = read_npz(path);
  ASSERT_TRUE(back.ok()) << back.error().message;
  ASSERT_EQ(back->size(), 2u);
  EXPECT_EQ(to_floats(*back->at("a")), (std::vector<float>{1, 2}));
  EXPECT_EQ(back->at("in:b")->dtype, DType::kBool);
  std::filesystem::remove(path);
}

TEST(Zip, DamageIsAnError) {
  std::string good = *zip({{"x", "hello"}, {"y", std::string(300, 'a')}});
  ASSERT_TRUE(unzip(good).ok());
  std::string flipped = good;
  flipped[good.find("hello")] = 'j';
  EXPECT_FALSE(unzip(flipped).ok());  // checksum
  for (size_t n = 0; n < good.size(); n += 5) EXPECT_FALSE(unzip(std::string_view(good).substr(0, n)).ok()) << n;
  for (size_t i = 0; i < good.size(); ++i) {  // any answer, no crash
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0xff);
    auto r = unzip(bad);
    EXPECT_TRUE(r.ok() || !r.error().message.empty());
  }
}

}  // namespace
}  // namespace brisk
