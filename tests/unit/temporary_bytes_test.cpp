#include <gtest/gtest.h>

#include "engine_sample.h"
#include "runtime/memory_plan.h"

namespace brisk {
namespace {

TEST(TemporaryBytes, ChainsNeedTwoBuffersWhateverTheirLength) {
  EngineContent c;
  test::PlanBuilder b(c);
  Dim n = Dim::symbol("n");
  int32_t v = b.input("x", DType::kF32, {n});
  for (int i = 0; i < 10; ++i) v = b.step("t.add", OpId::kAdd, NoAttrs{}, {v, v}, DType::kF32, {n});
  int32_t seen = b.view("seen", v, {n, 1});
  b.plan.outputs = {seen};
  auto at = [&](int64_t size) {
    return temporary_bytes(b.plan, [=](const std::string& s) { return s == "n" ? std::optional(size) : std::nullopt; });
  };
  EXPECT_EQ(at(16), 2 * 64);
  EXPECT_EQ(at(1000), 2 * 4032);
  EXPECT_EQ(at(int64_t{1} << 41), std::nullopt);
  EXPECT_EQ(temporary_bytes(b.plan, [](const std::string&) { return std::optional<int64_t>(); }), std::nullopt);
  ValueUse use = find_value_use(b.plan);
  EXPECT_EQ(use.first[static_cast<size_t>(v)], 9);
  EXPECT_EQ(use.last[static_cast<size_t>(v)], INT32_MAX - 1);  // through the view, an output
}

}  // namespace
}  // namespace brisk
