// The sizes T, S, L and B of a step have no maximum in the engine file: what a runner allocates for its limits is counted
// beforehand and granted by its budget, so an engine cannot ask for more than it is given.
#include <gtest/gtest.h>

#include "backend/ref/ref.h"
#include "compiler/compile.h"
#include "runtime/engine_step_runner.h"
#include "tiny_llama.h"

namespace brisk {
namespace {

class StepMemory : public testing::Test {
 protected:
  void SetUp() override {
    ref::add_kernels(registry_);
    CompileOptions options;
    options.precision = Precision::kFp32;
    auto compiled = compile(test::tiny_llama(), options, {registry_, ref::make_device(), {}});
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    content_ = std::make_shared<EngineContent>(std::move(*compiled));
  }
  Plan& step() { return content_->functions.at("step"); }
  Status make(int64_t memory_limit) {
    BRISK_ASSIGN(auto engine, LoadedEngine::create(content_, ref::make_device(), registry_));
    StepRunnerOptions options;
    options.limits = kLimits;
    options.memory_limit = memory_limit;
    BRISK_ASSIGN(auto runner, make_step_runner(engine, {}, options));
    return runner ? Status() : internal("no runner");
  }
  static constexpr StepLimits kLimits{256, 16, 64, 8};
  Registry registry_;
  std::shared_ptr<EngineContent> content_;
};

TEST_F(StepMemory, IsCountedBeforeItIsTaken) {
  auto bytes = step_bytes(step(), kLimits);
  ASSERT_TRUE(bytes);
  EXPECT_GT(*bytes, 16 * 97 * 4 + 256 * 64 * 4);  // logits, and one row of the hidden size for each token
  EXPECT_LT(*bytes, 4 << 20);
  EXPECT_TRUE(make(*bytes).ok());
  auto refused = make(64 << 10);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kEnvironment) << refused.error().message;
  EXPECT_NE(refused.error().message.find("of the 65536 allowed"), std::string::npos) << refused.error().message;
}

TEST_F(StepMemory, OfAWideEngineIsRefused) {
  PlanValue* wide = nullptr;
  for (PlanValue& v : step().values)
    if (v.kind == PlanValue::Kind::kArena && v.shape.size() == 2 && v.shape[0].as_symbol() == "T") wide = &v;
  ASSERT_NE(wide, nullptr);
  wide->shape[1] = int64_t{1} << 30;  // 1 TiB for 256 tokens
  step().shapes_proven = true;        // as if a reader had been taken in
  auto bytes = step_bytes(step(), kLimits);
  ASSERT_TRUE(bytes);
  EXPECT_GE(*bytes, int64_t{1} << 40);
  auto refused = make(1 << 30);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kEnvironment) << refused.error().message;
  wide->shape[1] = int64_t{1} << 40;
  EXPECT_EQ(step_bytes(step(), kLimits), std::nullopt);
  EXPECT_FALSE(make(1 << 30).ok());
}

}  // namespace
}  // namespace brisk
