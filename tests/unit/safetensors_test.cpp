#include "import/hf/safetensors.h"

#include <gtest/gtest.h>

#include "../fuzz/memory_file.h"
#include "model_files.h"

namespace brisk {
namespace {

using test::raw;
using test::safetensors;
using test::safetensors_raw;
using test::TestFolder;

std::string sample() {
  return safetensors({{"b", "BF16", {2, 3}, std::string(12, '\1')}, {"a", "F32", {2}, test::raw_floats({1, 2})}, {"empty", "I64", {0, 5}, ""}});
}

auto open_bytes(const std::string& bytes) {  // a file in memory: thousands of them take no time
  fuzz::MemoryFile file(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return SafeTensors::open_file(file.path());
}

std::string error_of(const std::string& bytes) {
  auto r = open_bytes(bytes);
  if (r.ok()) return "accepted";
  EXPECT_EQ(r.error().kind, ErrorKind::kInvalid);
  EXPECT_TRUE(r.error().message.starts_with("/proc/self/fd/")) << r.error().message;
  return r.error().message;
}

TEST(SafeTensors, ReadsShapesAndSharesTheMapping) {
  TestFolder dir;
  auto r = SafeTensors::open_file(dir.write("m.safetensors", sample()));
  ASSERT_TRUE(r.ok()) << r.error().message;
  const SafeTensors& s = **r;
  ASSERT_EQ(s.tensors().size(), 3u);
  EXPECT_EQ(s.find("b")->shape, (Dims{2, 3}));
  EXPECT_EQ(s.find("b")->dtype, DType::kBF16);
  EXPECT_EQ(s.find("c"), nullptr);
  EXPECT_EQ(s.find("empty")->bytes.size(), 0u);
  auto a = s.load(*s.find("a"));
  EXPECT_EQ(to_floats(*a), (std::vector<float>{1, 2}));
  bool aligned = reinterpret_cast<uintptr_t>(s.find("a")->bytes.data()) % 4 == 0;
  EXPECT_EQ(a->data.bytes.data() == s.find("a")->bytes.data(), aligned);
}

TEST(SafeTensors, EveryTruncationIsRefused) {
  std::string whole = sample();
  for (size_t n = 0; n < whole.size(); ++n) ASSERT_NE(error_of(whole.substr(0, n)), "accepted") << n;
  EXPECT_NE(error_of(whole + "x"), "accepted");
}

TEST(SafeTensors, EveryFlippedBitIsRefusedOrHarmless) {
  std::string whole = sample();
  size_t header = whole.size() - 20;
  int refused = 0;
  for (size_t bit = 0; bit < header * 8; ++bit) {
    std::string s = whole;
    s[bit / 8] = static_cast<char>(s[bit / 8] ^ 1 << bit % 8);
    auto r = open_bytes(s);
    refused += !r.ok();
    if (r.ok()) {
      for (const auto& t : (*r)->tensors()) ASSERT_LE(t.bytes.size(), 20u);
    }
  }
  EXPECT_GT(refused, static_cast<int>(header) * 4);
}

TEST(SafeTensors, StructureIsFixed) {
  auto header = [&](const std::string& json, size_t data = 8) { return error_of(safetensors_raw(json, std::string(data, '\0'))); };
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  EXPECT_EQ(header("{\"x\":{" + good + "}}"), "accepted");
  EXPECT_EQ(header("{}", 0), "accepted");
  for (const char* bad : {"", "[]", "7", "{", R"({"x":7})", R"({"x":[]})", R"({"x":{}})", R"({"x":null})", R"({"__metadata__":{"a":1}})",
                          R"({"x":{"dtype":"F32","shape":[2]}})", R"({"x":{"dtype":["F32"],"shape":[2],"data_offsets":[0,8]}})",
                          R"({"x":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
                          R"({"x":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", R"({"x":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})",
                          R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0]}})",
                          R"({"x":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"y":1}})",
                          R"({"x":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}})"})
    EXPECT_NE(header(bad), "accepted") << bad;
  EXPECT_NE(header("{\"x\":{" + good + "},\"x\":{" + good + "}}"), "accepted");
  EXPECT_NE(header(std::string(100000, '[')), "accepted");
  EXPECT_NE(header("{\"x\":" + std::string(100000, '{')), "accepted");
}

TEST(SafeTensors, OffsetsCoverTheDataOnce) {
  auto two = [&](const std::string& first, const std::string& second, size_t data) {
    return error_of(safetensors_raw(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[)" + first + R"(]},"y":{"dtype":"U8","shape":[4],"data_offsets":[)" + second + "]}}", std::string(data, '\0')));
  };
  EXPECT_EQ(two("0,4", "4,8", 8), "accepted");
  EXPECT_EQ(two("4,8", "0,4", 8), "accepted");
  EXPECT_NE(two("0,4", "5,9", 9).find("leave a hole"), std::string::npos);
  EXPECT_NE(two("0,4", "2,6", 6).find("overlap"), std::string::npos);
  EXPECT_NE(two("0,4", "0,4", 4).find("overlap"), std::string::npos);
  EXPECT_NE(two("0,4", "4,8", 7).find("allowed are 0 to 7"), std::string::npos);
  EXPECT_NE(two("0,4", "4,8", 9).find("tensors end at byte 8 of 9"), std::string::npos);
  EXPECT_NE(two("0,4", "4,9", 9).find("does not take the 5 bytes"), std::string::npos);
  EXPECT_NE(two("0,4", "4,18446744073709551615", 9), "accepted");
  EXPECT_NE(error_of(safetensors_raw(R"({"x":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", "")).find("does not take"), std::string::npos);
  EXPECT_NE(error_of(raw<uint64_t>(UINT64_MAX) + "{}").find("a header of 18446744073709551615 bytes"), std::string::npos);
}

TEST(SafeTensors, ShardsStayInsideTheFolder) {
  TestFolder dir;
  dir.write("m-1.safetensors", safetensors({{"a", "U8", {1}, "x"}}));
  dir.write("m-2.safetensors", safetensors({{"b", "U8", {1}, "y"}}));
  auto open = [&](const std::string& index) {
    dir.write("model.safetensors.index.json", index);
    auto r = SafeTensors::open_folder(dir.path());
    return r.ok() ? "accepted " + std::to_string((*r)->tensors().size()) : r.error().message;
  };
  EXPECT_EQ(open(R"({"metadata":{"total_size":2,"x":[1,{"y":null}]},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})"), "accepted 2");
  for (const char* file : {"../m-1.safetensors", "/etc/passwd", "sub/m-1.safetensors", "m-1.bin", "..\\\\m.safetensors", ".safetensors"})
    EXPECT_NE(open(R"({"weight_map":{"a":")" + std::string(file) + "\"}}").find("inside the folder"), std::string::npos) << file;
  EXPECT_NE(open(R"({"weight_map":{"a":"m-2.safetensors"}})").find("where it is not"), std::string::npos);
  EXPECT_NE(open(R"({"weight_map":{"a":"m-3.safetensors"}})").find("no such file"), std::string::npos);
  EXPECT_NE(open(R"({"weight_map":{"a":7}})").find("must not be a number"), std::string::npos);
  EXPECT_NE(open(R"({"weight_map":{}})").find("missing or empty"), std::string::npos);
  EXPECT_NE(open("[[[[").find("not JSON"), std::string::npos);
  EXPECT_NE(open(R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors")").find("not JSON"), std::string::npos);
  dir.write("m-2.safetensors", safetensors({{"a", "U8", {1}, "y"}}));
  EXPECT_NE(open(R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})").find("occurs twice"), std::string::npos);
}

TEST(SafeTensors, PicklesAreNeverOpened) {
  TestFolder dir;
  EXPECT_EQ(SafeTensors::open_folder(dir.path()).error().kind, ErrorKind::kInvalid);
  dir.write("pytorch_model.bin", "\x80\x02");
  auto r = SafeTensors::open_folder(dir.path());
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(r.error().message.find("never opened; convert"), std::string::npos);
}

}  // namespace
}  // namespace brisk
