// com.microsoft's GroupQueryAttention on a batch whose rows are of different lengths: each row gives what it gives alone,
// whatever its padding and the rest of the cache's buffer hold. (Against onnxruntime it was compared when it was written.)
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include <unistd.h>

#include "base/file.h"
#include "brisk/execution_context.h"
#include "onnx_bytes.h"

namespace brisk {
namespace {

using namespace test::onnx;
constexpr int64_t kHeads = 4, kKvHeads = 2, kSize = 8, kPlaces = 32;

class RaggedAttention : public testing::Test {
 protected:
  static std::string floats(const std::string& name, const std::vector<int64_t>& dims, const std::vector<float>& v) {
    std::string s, raw(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float));
    for (int64_t d : dims) s += number(1, static_cast<uint64_t>(d));
    return bytes(5, s + number(2, 1) + bytes(8, name) + bytes(9, raw));
  }
  void SetUp() override {
    std::vector<float> cosine, sine;
    for (int64_t p = 0; p < kPlaces; ++p)
      for (int64_t i = 0; i < kSize / 2; ++i) {
        float angle = static_cast<float>(p) / std::pow(10.0f, static_cast<float>(i));
        cosine.push_back(std::cos(angle));
        sine.push_back(std::sin(angle));
      }
    std::string graph = input("q", 1, {"batch", "sequence", "32"}) + input("k", 1, {"batch", "sequence", "16"}) +
                        input("v", 1, {"batch", "sequence", "16"}) + input("past_k", 1, {"batch", "2", "past", "8"}) +
                        input("past_v", 1, {"batch", "2", "past", "8"}) + input("seqlens_k", 6, {"batch"}) + input("total", 6, {"1"}) +
                        floats("cos", {kPlaces, kSize / 2}, cosine) + floats("sin", {kPlaces, kSize / 2}, sine) +
                        node("GroupQueryAttention", {"q", "k", "v", "past_k", "past_v", "seqlens_k", "total", "cos", "sin"},
                             {"y", "present_k", "present_v"},
                             int_attribute("num_heads", kHeads) + int_attribute("kv_num_heads", kKvHeads) + int_attribute("do_rotary", 1),
                             "com.microsoft") +
                        output("y") + output("present_k") + output("present_v");
    std::string model = number(1, 8) + opset("", 18) + opset("com.microsoft", 1) + bytes(7, graph);
    path_ = (std::filesystem::temp_directory_path() / ("brisk_ragged_" + std::to_string(::getpid()) + ".onnx")).string();
    auto file = AtomicFile::create(path_);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->write(std::as_bytes(std::span(model))).ok());
    ASSERT_TRUE((*file)->commit().ok());
    auto context = ExecutionContext::open(path_, {.device = "ref", .precision = "fp32", .threads = 1});
    ASSERT_TRUE(context.ok()) << context.error().message;
    context_ = std::move(*context);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Tensor random(std::vector<int64_t> shape) {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    Tensor t{"f32", std::move(shape), std::vector<std::byte>(static_cast<size_t>(n) * 4)};
    for (int64_t i = 0; i < n; ++i) t.as<float>()[i] = std::normal_distribution<float>()(rng_);
    return t;
  }
  static Tensor ints(const std::vector<int32_t>& v) {
    Tensor t{"i32", {static_cast<int64_t>(v.size())}, std::vector<std::byte>(v.size() * 4)};
    std::copy(v.begin(), v.end(), t.as<int32_t>());
    return t;
  }
  // [rows, ...][row]: the first `count` of the axis `axis` (1 or 2).
  static Tensor part(const Tensor& t, int64_t row, int axis, int64_t count) {
    Tensor out{t.dtype, t.shape, {}};
    out.shape[0] = 1;
    out.shape[static_cast<size_t>(axis)] = count;
    int64_t outer = axis == 2 ? t.shape[1] : 1, inner = t.shape.back(), have = t.shape[static_cast<size_t>(axis)];
    for (int64_t o = 0; o < outer; ++o) {
      const std::byte* from = t.data.data() + ((row * outer + o) * have) * inner * 4;
      out.data.insert(out.data.end(), from, from + count * inner * 4);
    }
    return out;
  }
  using Values = std::map<std::string, Tensor>;
  Result<std::vector<std::pair<std::string, Tensor>>> run(const Values& in) { return context_->run(in); }

  // `lengths` with the step's tokens; `steps` tokens a row (a row shorter than that is padded), `room` places of past.
  void expect_rows_as_alone(int64_t steps, int64_t room, const std::vector<int32_t>& lengths) {
    auto rows = static_cast<int64_t>(lengths.size());
    int32_t total = *std::max_element(lengths.begin(), lengths.end());
    Values all = {{"q", random({rows, steps, kHeads * kSize})}, {"k", random({rows, steps, kKvHeads * kSize})},
                  {"v", random({rows, steps, kKvHeads * kSize})}, {"past_k", random({rows, kKvHeads, room, kSize})},
                  {"past_v", random({rows, kKvHeads, room, kSize})}, {"total", ints({total})}};
    std::vector<int32_t> last;
    for (int32_t n : lengths) last.push_back(n - 1);
    all["seqlens_k"] = ints(last);
    auto together = run(all);
    ASSERT_TRUE(together.ok()) << together.error().message;
    EXPECT_EQ((*together)[1].second.shape[2], std::max<int64_t>(room, total));
    for (int64_t r = 0; r < rows; ++r) {
      int32_t n = lengths[static_cast<size_t>(r)];
      int64_t past = std::max<int64_t>(0, n - steps), fresh = n - past;
      Values one = {{"total", ints({n})}, {"seqlens_k", ints({n - 1})}};
      for (const char* name : {"q", "k", "v"}) one[name] = part(all[name], r, 1, fresh);
      for (const char* name : {"past_k", "past_v"}) one[name] = part(all[name], r, 2, past);
      auto alone = run(one);
      ASSERT_TRUE(alone.ok()) << alone.error().message;
      EXPECT_EQ(part((*together)[0].second, r, 1, fresh).data, (*alone)[0].second.data) << "row " << r;
      for (size_t k : {1, 2}) EXPECT_EQ(part((*together)[k].second, r, 2, n).data, (*alone)[k].second.data) << "row " << r;
    }
  }

  std::mt19937 rng_{7};
  std::string path_;
  std::unique_ptr<ExecutionContext> context_;
};

TEST_F(RaggedAttention, PaddedPrompt) { expect_rows_as_alone(5, 0, {5, 3, 1}); }
TEST_F(RaggedAttention, Decode) { expect_rows_as_alone(1, 6, {7, 3, 5}); }
TEST_F(RaggedAttention, DecodeInALargerBuffer) { expect_rows_as_alone(1, 16, {7, 3, 5}); }
TEST_F(RaggedAttention, PromptInALargerBuffer) { expect_rows_as_alone(5, 16, {5, 2, 4}); }

TEST_F(RaggedAttention, LengthsThatDoNotFitAreErrors) {
  Values in = {{"q", random({2, 1, 32})}, {"k", random({2, 1, 16})}, {"v", random({2, 1, 16})}, {"past_k", random({2, 2, 6, 8})},
               {"past_v", random({2, 2, 6, 8})}, {"total", ints({7})}, {"seqlens_k", ints({6, 2})}};
  EXPECT_TRUE(run(in).ok());
  for (auto [name, values] : {std::pair("seqlens_k", std::vector<int32_t>{7, 2}), {"seqlens_k", {6, -1}}, {"total", {8}}, {"total", {INT32_MAX}},
                              {"total", {0}}, {"total", {-7}}}) {
    Values bad = in;
    bad[name] = ints(values);
    auto r = run(bad);
    ASSERT_FALSE(r.ok()) << name << " " << values[0];
    EXPECT_EQ(r.error().kind, ErrorKind::kInvalid) << r.error().message;
    EXPECT_NE(r.error().message.find("allowed 1 to"), std::string::npos) << r.error().message;
  }
}

}  // namespace
}  // namespace brisk
