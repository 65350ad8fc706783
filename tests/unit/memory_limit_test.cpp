// Sizes that are only known when a model runs do not take more memory than is allowed: a typed error, and the next call works.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/memory.h"
#include "brisk/execution_context.h"
#include "onnx_bytes.h"

namespace brisk {
namespace {

using namespace test::onnx;

class MemoryLimit : public testing::TestWithParam<const char*> {
 protected:
  void open(const std::string& graph, int64_t memory) {
    std::string model = number(1, 8) + opset("", 18) + bytes(7, graph);
    path_ = (std::filesystem::temp_directory_path() / ("brisk_memory_" + std::to_string(::getpid()) + ".onnx")).string();
    auto file = AtomicFile::create(path_);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->write(std::as_bytes(std::span(model))).ok());
    ASSERT_TRUE((*file)->commit().ok());
    ExecutionOptions options;
    options.device = GetParam();
    options.precision = "fp32";
    options.threads = 1;
    options.memory_bytes = memory;
    auto context = ExecutionContext::open(path_, options);
    ASSERT_TRUE(context.ok()) << context.error().message;
    context_ = std::move(*context);
  }
  void TearDown() override { std::filesystem::remove(path_); }
  static Tensor ints(const std::vector<int64_t>& v) {
    Tensor t{"i64", {static_cast<int64_t>(v.size())}, std::vector<std::byte>(v.size() * 8)};
    std::memcpy(t.data.data(), v.data(), v.size() * 8);
    return t;
  }
  void expect_refused(const std::vector<int64_t>& n, ErrorKind kind = ErrorKind::kEnvironment) {
    auto r = context_->run({{"n", ints(n)}});
    ASSERT_FALSE(r.ok()) << n[0];
    EXPECT_EQ(r.error().kind, kind) << r.error().message;
    if (kind == ErrorKind::kEnvironment) EXPECT_NE(r.error().message.find("--memory"), std::string::npos) << r.error().message;
  }
  std::string path_;
  std::unique_ptr<ExecutionContext> context_;
};

// Twelve bytes of input, as much output as they say.
std::string zeros_of(const Names& then) {
  return input("n", 7, {"rank"}) + node("ConstantOfShape", {"n"}, {"z"}) + node(then[0], {"z"}, {"y"}) + output("y");
}

TEST_P(MemoryLimit, OfResultsSizedAtRunTime) {
  open(zeros_of({"Exp"}), 64 << 20);
  for (int round = 0; round < 3; ++round) {
    expect_refused({25'000'000'000});                   // 100 GB
    expect_refused({1 << 20, 1 << 19});                 // 2 TB
    expect_refused({int64_t{1} << 41}, ErrorKind::kInvalid);  // more than any tensor may have
    expect_refused({12 << 20});                         // one fits, two do not
    auto r = context_->run({{"n", ints({1000, 1000 + round})}});
    ASSERT_TRUE(r.ok()) << r.error().message;
    EXPECT_EQ((*r)[0].second.shape, (std::vector<int64_t>{1000, 1000 + round}));
    EXPECT_EQ((*r)[0].second.as<float>()[999999], 1);
  }
}

TEST_P(MemoryLimit, IsWhatIsThereWithoutAFlag) {
  EXPECT_GT(available_memory(), 1 << 20);
  open(zeros_of({"Exp"}), 0);
  expect_refused({25'000'000'000, 40});  // 4 TB
  EXPECT_TRUE(context_->run({{"n", ints({3})}}).ok());
}

// Buffers that were given back serve other sizes.
TEST_P(MemoryLimit, BuffersOfOtherSizesAreGivenUpFirst) {
  open(zeros_of({"Exp"}), 64 << 20);
  for (int64_t n : {1 << 20, 5 << 20, 2 << 20, 4 << 20, 1 << 18, 5 << 20}) {
    auto r = context_->run({{"n", ints({n})}});
    ASSERT_TRUE(r.ok()) << n << ": " << r.error().message;
    EXPECT_EQ((*r)[0].second.shape[0], n);
  }
}

TEST_P(MemoryLimit, OfValuesPlacedBeforehand) {
  open(input("n", 7, {"count"}) + int64s("wide", {4096, 1}) + node("Expand", {"n", "wide"}, {"e"}) + node("Neg", {"e"}, {"y"}) + output("y"),
       64 << 20);
  expect_refused(std::vector<int64_t>(4096, 7));  // 128 MB twice
  auto r = context_->run({{"n", ints({5, 6})}});
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ((*r)[0].second.shape, (std::vector<int64_t>{4096, 2}));
  EXPECT_EQ(reinterpret_cast<const int64_t*>((*r)[0].second.data.data())[8191], -6);
  expect_refused(std::vector<int64_t>(4096, 7));
}

// What a loop gathers grows with its trips.
TEST_P(MemoryLimit, OfLoops) {
  std::string body = input("i", 7, {}) + input("go", 9, {}) + node("Identity", {"go"}, {"again"}) +
                     node("ConstantOfShape", {"wide"}, {"piece"}) + output("again") + output("piece");
  open(input("n", 7, {"1"}) + int64s("wide", {1 << 18}) + int64s("none", {}) + node("Reshape", {"n", "none"}, {"trips"}) +
           node("Loop", {"trips", ""}, {"y"}, graph_attribute("body", body)) + output("y"),
       64 << 20);
  expect_refused({INT64_MAX});
  auto r = context_->run({{"n", ints({3})}});
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ((*r)[0].second.shape, (std::vector<int64_t>{3, 1 << 18}));
}

INSTANTIATE_TEST_SUITE_P(Devices, MemoryLimit, testing::Values("cpu", "far"), [](auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace brisk
