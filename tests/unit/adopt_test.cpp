// What a device is lent is given back when the engine on it goes: a build runs hundreds of graphs on one device.
#include <gtest/gtest.h>

#include "backend/ref/ref.h"
#include "compiler/evaluator.h"
#include "ir/graph.h"

namespace brisk {
namespace {

TEST(Adopt, AnEvaluatorsWeightsDoNotOutliveItsRun) {
  Registry registry;
  ref::add_kernels(registry);
  std::shared_ptr<Device> device = ref::make_device();
  auto evaluator = make_evaluator(registry, device, {});
  auto weight = make_constant(DType::kF32, {2}, std::vector<float>{1, 2});
  std::weak_ptr<const void> bytes = weight->data.owner;
  {
    Graph g;
    ValueId x = g.add_input("x", Type{DType::kF32, true, {Dim(2)}, {}});
    auto y = g.add(OpId::kAdd, NoAttrs{}, {x, g.add_constant("w", weight)}, "y");
    ASSERT_TRUE(y.ok());
    g.outputs = {*y};
    auto out = evaluator->run(g, {make_constant(DType::kF32, {2}, std::vector<float>{3, 4})});
    ASSERT_TRUE(out.ok()) << out.error().message;
    EXPECT_EQ(to_floats(*(*out)[0]), (std::vector<float>{4, 6}));
  }
  weight.reset();
  EXPECT_TRUE(bytes.expired());
}

}  // namespace
}  // namespace brisk
