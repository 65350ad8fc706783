// Reductions, indexing, images and quantisation of the CPU backend against the reference kernels (see cpu_light_test.cpp).
#include "op_check.h"

namespace brisk {
namespace {

using enum OpId;

TEST(CpuLight, ReductionsOverAnyAxes) {
  OpCheck expect_same;
  const std::vector<std::pair<Dims, std::vector<int64_t>>> cases = {
      {{7}, {0}}, {{3, 5}, {0}}, {{3, 5}, {1}}, {{4, 1100}, {0}}, {{200, 33}, {0}}, {{2, 3, 4, 5}, {1, 3}}, {{2, 3, 4, 5}, {0, 2}}, {{2, 3, 4, 5}, {2, 3}},
      {{1, 1}, {0}}, {{0, 3}, {0}}, {{3, 0}, {0}}, {{5, 9000}, {1}}, {{70, 3, 700}, {0}}, {{2, 3, 4}, {}}};
  for (auto& [shape, axes] : cases)
    for (bool keep : {false, true}) {
      ReduceAttrs a{axes, keep, axes.empty()};
      for (OpId op : {kReduceSum, kReduceMean, kReduceMax, kReduceMin, kReduceL1, kReduceL2, kReduceSumSquare, kReduceLogSumExp})
        expect_same(op, a, {random_tensor(DType::kF32, shape, 1)});
      expect_same(kReduceLogSum, a, {random_tensor(DType::kF32, shape, 2, 0.1, 2)});
      expect_same(kReduceProd, a, {random_tensor(DType::kF32, shape, 3, 0.99, 1.01)}, 1, 1e-5);
      for (OpId op : {kReduceSum, kReduceMax, kReduceMin})
        for (DType t : {DType::kI64, DType::kI32}) expect_same(op, a, {random_tensor(t, shape, 4, -100, 100)});
    }
  expect_same(kReduceSum, ReduceAttrs{{}, true}, {random_tensor(DType::kF32, {3, 4, 5}, 5), ints({-1, 0})});
  std::vector<float> odd = {1, NAN, 3, -INFINITY, INFINITY, 2};
  for (OpId op : {kReduceMax, kReduceMin, kReduceSum})
    for (int64_t axis : {0, 1}) expect_same(op, ReduceAttrs{{axis}}, {tensor_of(DType::kF32, {2, 3}, odd)});
}

TEST(CpuLight, PlacesOfExtremes) {
  OpCheck expect_same;
  for (OpId op : {kArgMax, kArgMin})
    for (bool last : {false, true})
      for (const Dims& s : {Dims{9}, Dims{5, 40}, Dims{3, 7, 300}, Dims{2, 1, 3}}) {
        TestTensor x = random_tensor(DType::kF32, s, 6);
        for (int64_t i = 0; i < s.count(); ++i) x.view.as<float>()[i] = std::round(x.view.as<float>()[i]);  // with ties
        for (int64_t axis = 0; axis < s.rank; ++axis) expect_same(op, ReduceAttrs{{axis}, true, false, last}, {x});
      }
  std::vector<float> odd = {NAN, 2, 5, 1, NAN, 5};
  expect_same(kArgMax, ReduceAttrs{{1}}, {tensor_of(DType::kF32, {2, 3}, odd)});
}

TEST(CpuLight, RunningSumsAndTopK) {
  OpCheck expect_same;
  for (DType t : {DType::kF32, DType::kI64, DType::kI32})
    for (int64_t flag : {0, 1, 2, 3})
      for (int64_t axis : {0, 1, -1}) expect_same(kCumSum, ModeAttrs{"", 0, flag}, {random_tensor(t, {4, 5, 6}, 7), tensor_of<int64_t>(DType::kI64, {}, {axis})});
  for (int64_t flag : {0, 1})
    for (int64_t axis : {0, 1, -1}) {
      TestTensor x = random_tensor(DType::kF32, {6, 9, 7}, 8);
      for (int64_t i = 0; i < x.view.count(); ++i) x.view.as<float>()[i] = std::round(x.view.as<float>()[i]);
      expect_same(kTopK, ModeAttrs{"", axis, flag}, {x, ints({4})}, 2);
    }
}

TEST(CpuLight, ElementsByPlace) {
  OpCheck expect_same;
  for (DType t : {DType::kF32, DType::kI64, DType::kU8, DType::kF16})
    for (int64_t axis : {0, 1, 2}) {
      TestTensor ids = random_tensor(DType::kI64, {4, 3, 5}, 9, -4, 4);
      TestTensor x = random_tensor(t, {5, 4, 6}, 10);
      expect_same(kGatherElements, AxisAttrs{axis}, {x, ids});
      expect_same(kScatterElements, ModeAttrs{"none", axis}, {x, random_tensor(DType::kI32, {1, 1, 1}, 9, 0, 4), random_tensor(t, {1, 1, 1}, 11)});
    }
  TestTensor x = random_tensor(DType::kF32, {5, 4, 6}, 12), ids = random_tensor(DType::kI64, {4, 3, 5}, 13, -4, 4), u = random_tensor(DType::kF32, {4, 3, 5}, 14);
  for (const char* mode : {"add", "mul", "min", "max"}) {
    for (int64_t axis : {0, 1, 2}) expect_same(kScatterElements, ModeAttrs{mode, axis}, {x, ids, u}, 1, 1e-5);
    expect_same(kScatterND, ModeAttrs{mode}, {x, random_tensor(DType::kI64, {7, 2}, 15, -4, 4), random_tensor(DType::kF32, {7, 6}, 16)}, 1, 1e-5);
  }
  for (DType t : {DType::kF32, DType::kI64, DType::kBool}) {
    expect_same(kScatterND, ModeAttrs{"none"}, {random_tensor(t, {5, 4, 6}, 17), random_tensor(DType::kI64, {3, 3}, 18, 0, 4), random_tensor(t, {3}, 19)});
    expect_same(kGatherND, AxisAttrs{0}, {random_tensor(t, {5, 4, 6}, 17), random_tensor(DType::kI64, {2, 3, 2}, 20, -4, 4)});
    expect_same(kGatherND, AxisAttrs{1}, {random_tensor(t, {5, 4, 6}, 17), random_tensor(DType::kI64, {5, 3, 1}, 21, -4, 4)});
  }
}

TEST(CpuLight, TreesWalkedDown) {
  OpCheck expect_same;
  // Seven nodes of a full tree of depth 2, and one that is its own end at once.
  std::vector<int64_t> children = {1, 2, 3, 4, 5, 6, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7};
  for (int64_t comparison : {0, 1, 2, 3, 4, 5, 8, 11, -1})
    for (DType t : {DType::kF32, DType::kF64}) {
      std::vector<int64_t> nodes;
      for (int64_t i = 0; i < 8; ++i) nodes.insert(nodes.end(), {i % 3, children[static_cast<size_t>(2 * i)], children[static_cast<size_t>(2 * i + 1)], comparison < 0 ? i : comparison});
      TestTensor x = random_tensor(t, {5, 3}, 33), splits = random_tensor(t, {8}, 34), weights = random_tensor(t, {8, 2}, 35);
      if (t == DType::kF32) x.view.as<float>()[4] = NAN;
      TestTensor tree = tensor_of(DType::kI64, {8, 4}, nodes);
      tree.constant = true;
      for (const char* how : {"SUM", "MIN", "MAX"})
        expect_same(kTreeEnsemble, ModeAttrs{how, comparison, 4}, {x, ints({0, 7, 0, 1, 2, 0, 0, 0, 0, 5, 1}), tree, splits, weights});
    }
}

TEST(CpuLight, ResizesAsTheStandardSays) {
  OpCheck expect_same;
  TestTensor none, x = random_tensor(DType::kF32, {2, 3, 7, 9}, 22);
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (const char* coordinates : {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"})
      for (auto sizes : {std::vector<int64_t>{2, 3, 14, 18}, {2, 3, 3, 4}, {2, 3, 7, 20}, {2, 3, 13, 9}, {2, 5, 1, 1}, {2, 3, 7, 9}})
        for (bool antialias : {false, true}) {
          ResizeAttrs a;
          a.mode = mode, a.coordinates = coordinates, a.antialias = antialias && a.mode != "nearest", a.exclude_outside = antialias;
          expect_same(kResize, a, {x, none, none, ints(sizes)}, 1, 4e-6);
        }
  ResizeAttrs crop;
  crop.mode = "linear", crop.coordinates = "tf_crop_and_resize", crop.extrapolation = 7, crop.axes = {2, 3};
  expect_same(kResize, crop, {x, tensor_of<float>(DType::kF32, {4}, {-0.2f, 0.3f, 1.1f, 0.8f}), none, ints({5, 11})}, 1, 4e-6);
  ResizeAttrs scaled;
  scaled.nearest = "floor";
  expect_same(kResize, scaled, {x, none, tensor_of<float>(DType::kF32, {4}, {1, 1, 2, 2.6f})});
}

TEST(CpuLight, LinearQuantisation) {
  OpCheck expect_same;
  TestTensor none;
  for (DType t : {DType::kU8, DType::kI8}) {
    QuantAttrs a;
    a.to = t;
    TestTensor x = random_tensor(DType::kF32, {3, 5, 77}, 23, -9, 9), scale = random_tensor(DType::kF32, {}, 24, 0.01, 0.1), zero = random_tensor(t, {}, 25, 0, 100);
    expect_same(kQuantizeLinear, a, {x, scale, zero});
    expect_same(kQuantizeLinear, a, {x, scale});
    expect_same(kQuantizeLinear, a, {x, random_tensor(DType::kF32, {5}, 26, 0.01, 0.1), random_tensor(t, {5}, 27, 0, 100)});
    expect_same(kQuantizeLinear, a, {random_tensor(DType::kF32, {40000}, 23, -9, 9), scale, zero});
    QuantAttrs back;
    back.to = DType::kF32;
    TestTensor q = random_tensor(t, {3, 5, 77}, 28, -100, 100);
    expect_same(kDequantizeLinear, back, {q, scale, zero});
    expect_same(kDequantizeLinear, back, {q, random_tensor(DType::kF32, {5}, 26, 0.01, 0.1), random_tensor(t, {5}, 27, 0, 100)});
    back.axis = 2;
    expect_same(kDequantizeLinear, back, {q, random_tensor(DType::kF32, {77}, 26, 0.01, 0.1)});
  }
  expect_same(kDequantizeLinear, QuantAttrs{1, 0, DType::kF32}, {random_tensor(DType::kI32, {9, 4}, 29, -1000, 1000), random_tensor(DType::kF32, {4}, 30, 0.01, 0.1)});
  for (const Dims& s : {Dims{1}, Dims{17}, Dims{3, 20000}}) expect_same(kDynamicQuantizeLinear, NoAttrs{}, {random_tensor(DType::kF32, s, 31)}, 3);
  expect_same(kDynamicQuantizeLinear, NoAttrs{}, {random_tensor(DType::kF32, {50}, 32, 0, 0)}, 3);
}

}  // namespace
}  // namespace brisk
