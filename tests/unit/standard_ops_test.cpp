// Reference kernels of boxes, sampling, windows written back, selection: odd cases, and refusals of hostile operands.
#include <limits>

#include "op_check.h"

namespace brisk {
namespace {

using Numbers = std::vector<double>;

// Results of the reference kernel, or the rule's or the kernel's error.
Result<std::vector<TestTensor>> run(OpId op, const Attrs& attrs, const std::vector<TestTensor>& in, int outputs = 1) {
  Registry registry;
  ref::add_kernels(registry);
  std::vector<Type> types(in.size());
  std::vector<const Type*> given;
  ProblemDesc problem{op, &attrs, {}, {}};
  std::vector<TensorView> ins, outs;
  for (size_t i = 0; i < in.size(); ++i) {
    const TensorView& v = in[i].view;
    types[i].dtype = v.dtype;
    types[i].shape.assign(v.shape.begin(), v.shape.end());
    given.push_back(v.present ? &types[i] : nullptr);
    problem.inputs.push_back({types[i], {}, v.present, false, nullptr});
    ins.push_back(v);
  }
  BRISK_ASSIGN(problem.outputs, infer_types(op, attrs, given, outputs, nullptr, [&](int i) { return ins[static_cast<size_t>(i)].present ? &ins[static_cast<size_t>(i)] : nullptr; }));
  std::vector<TestTensor> out;
  for (const Type& t : problem.outputs) {
    Dims shape;
    for (const Dim& d : t.shape) shape.push(d.constant().value_or(0));
    out.emplace_back(t.dtype, shape);
    std::memset(out.back().view.data, 0x5a, static_cast<size_t>(out.back().view.bytes()));
    outs.push_back(out.back().view);
  }
  const KernelDesc* kernel = registry.best(problem);
  if (!kernel) return unsupported("no kernel");
  KernelContext context;
  BRISK_TRY(kernel->run(context, {ins, outs, &attrs, nullptr, 0}));
  return out;
}
Numbers numbers(const TestTensor& t) {
  Numbers v;
  for (int64_t i = 0; i < t.view.count(); ++i) v.push_back(t.number(i));
  return v;
}
Numbers of(const Result<std::vector<TestTensor>>& r, size_t i = 0) {
  EXPECT_TRUE(r.ok()) << (r.ok() ? "" : r.error().message);
  return r.ok() ? numbers((*r)[i]) : Numbers{};
}
TestTensor f32(const Dims& shape, const std::vector<float>& v) { return tensor_of(DType::kF32, shape, v); }
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(StandardOps, UniqueOfNumbers) {
  ModeAttrs a;
  a.mode = "flat", a.flag = 1;
  auto r = run(OpId::kUnique, a, {f32({2, 4}, {3, kNan, 1, -0.0f, 3, 0, kNan, -5})}, 4);
  Numbers y = of(r);
  ASSERT_EQ(y.size(), 5u);
  EXPECT_EQ(Numbers(y.begin(), y.end() - 1), (Numbers{-5, 0, 1, 3}));
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_EQ(of(r, 1), (Numbers{7, 3, 2, 0, 1}));
  EXPECT_EQ(of(r, 2), (Numbers{3, 4, 2, 1, 3, 1, 4, 0}));
  EXPECT_EQ(of(r, 3), (Numbers{1, 2, 1, 2, 2}));
  a.flag = 0;
  r = run(OpId::kUnique, a, {ints({7, -1, 7, 2, -1})}, 4);
  EXPECT_EQ(of(r), (Numbers{7, -1, 2}));
  EXPECT_EQ(of(r, 2), (Numbers{0, 1, 0, 2, 1}));
  EXPECT_EQ(of(run(OpId::kUnique, a, {ints({})}, 2), 1), Numbers{});
  auto large = tensor_of<uint64_t>(DType::kU64, {3}, {UINT64_MAX, 1, UINT64_MAX - 1});
  a.flag = 1;
  r = run(OpId::kUnique, a, {large}, 2);
  EXPECT_EQ(of(r, 1), (Numbers{1, 2, 0}));
}

TEST(StandardOps, UniqueOfSlices) {
  ModeAttrs a;
  a.axis = -1, a.flag = 1;
  auto r = run(OpId::kUnique, a, {f32({2, 3}, {2, 1, 2, 0, 5, 0})}, 4);
  EXPECT_EQ(of(r), (Numbers{1, 2, 5, 0}));
  EXPECT_EQ(of(r, 2), (Numbers{1, 0, 1}));
  EXPECT_EQ(of(run(OpId::kUnique, a, {TestTensor(DType::kF32, {0, 3})}, 4), 3), (Numbers{3}));  // slices of nothing are equal
  a.axis = 2;
  EXPECT_FALSE(run(OpId::kUnique, a, {f32({2, 3}, {1, 2, 3, 4, 5, 6})}).ok());
}

TEST(StandardOps, NonMaxSuppression) {
  auto boxes = f32({1, 4, 4}, {0, 0, 1, 1, 0, 0.1f, 1, 1.1f, 1, 1, 0, 0, 5, 5, 6, 6});  // the third is the first, corners swapped
  auto scores = f32({1, 2, 4}, {0.5f, 0.9f, 0.9f, 0.1f, kNan, kNan, kNan, 0.2f});
  auto f = [](float v) { return f32({}, {v}); };
  ModeAttrs a;
  EXPECT_EQ(of(run(OpId::kNonMaxSuppression, a, {boxes, scores, ints({9}), f(0.5f), f(0.05f)})), (Numbers{0, 0, 1, 0, 0, 3, 0, 1, 3}));
  EXPECT_EQ(of(run(OpId::kNonMaxSuppression, a, {boxes, scores, ints({1}), f(1), f(0.05f)})), (Numbers{0, 0, 1, 0, 1, 3}));
  EXPECT_EQ(of(run(OpId::kNonMaxSuppression, a, {boxes, scores})), Numbers{});  // no number: none
  EXPECT_EQ(of(run(OpId::kNonMaxSuppression, a, {boxes, scores, ints({-3})})), Numbers{});
  EXPECT_FALSE(run(OpId::kNonMaxSuppression, a, {boxes, scores, ints({9}), f(1.5f)}).ok());
  EXPECT_FALSE(run(OpId::kNonMaxSuppression, a, {boxes, f32({1, 2, 2}, {1, 2, 3, 4}), ints({9})}).ok());
}

TEST(StandardOps, GridSampleOutsideAndWithoutNumbers) {
  auto x = f32({1, 1, 1, 3}, {1, 2, 4});
  auto at = [&](const char* mode, const char* padding, bool corners, const std::vector<float>& places) {
    std::vector<float> grid;
    for (float p : places) grid.insert(grid.end(), {p, 0});
    return of(run(OpId::kGridSample, GridSampleAttrs{mode, padding, corners}, {x, f32({1, 1, static_cast<int64_t>(places.size()), 2}, grid)}));
  };
  EXPECT_EQ(at("linear", "zeros", true, {-1, -0.5f, 1, 2}), (Numbers{1, 1.5, 4, 0}));
  EXPECT_EQ(at("linear", "border", true, {-9, 9, 1e30f}), (Numbers{1, 4, 4}));
  EXPECT_EQ(at("nearest", "reflection", true, {2, 3}), (Numbers{2, 1}));
  EXPECT_EQ(at("nearest", "zeros", false, {-1.5f, 0}), (Numbers{0, 2}));
  EXPECT_EQ(at("cubic", "border", true, {0, -1}), (Numbers{2, 1}));
  for (const char* mode : {"linear", "nearest", "cubic"})
    for (const char* padding : {"zeros", "border", "reflection"})
      EXPECT_EQ(at(mode, padding, false, {kNan, std::numeric_limits<float>::infinity(), -3e38f}).size(), 3u);  // no reading outside
  auto grid = f32({1, 1, 1, 2}, {0, 0});
  EXPECT_FALSE(run(OpId::kGridSample, GridSampleAttrs{"lanczos", "zeros", false}, {x, grid}).ok());
  EXPECT_FALSE(run(OpId::kGridSample, GridSampleAttrs{}, {TestTensor(DType::kF32, {1, 1, 0, 3}), grid}).ok());
  EXPECT_FALSE(run(OpId::kGridSample, GridSampleAttrs{}, {x, f32({2, 1, 1, 2}, {0, 0, 0, 0})}).ok());
}

TEST(StandardOps, Regions) {
  auto x = f32({1, 1, 2, 2}, {1, 2, 3, 4});
  RoiAttrs a;
  EXPECT_EQ(of(run(OpId::kRoiAlign, a, {x, f32({1, 4}, {0, 0, 1, 1}), ints({0})})), (Numbers{2.5}));
  EXPECT_EQ(of(run(OpId::kRoiAlign, a, {x, f32({1, 4}, {-90, -90, -80, -80}), ints({0})})), (Numbers{0}));
  EXPECT_FALSE(run(OpId::kRoiAlign, a, {x, f32({1, 4}, {0, 0, 1, 1}), ints({1})}).ok());
  EXPECT_FALSE(run(OpId::kRoiAlign, a, {x, f32({1, 4}, {0, 0, 1e30f, 1e30f}), ints({0})}).ok());  // a bin of 1e60 samples
  EXPECT_EQ(of(run(OpId::kRoiAlign, a, {x, f32({1, 4}, {kNan, 0, 1, 1}), ints({0})})).size(), 1u);
  a.height = -1;
  EXPECT_FALSE(run(OpId::kRoiAlign, a, {x, f32({1, 4}, {0, 0, 1, 1}), ints({0})}).ok());
  a.height = 2, a.width = 1;
  EXPECT_EQ(of(run(OpId::kMaxRoiPool, a, {x, f32({2, 5}, {0, 0, 0, 1, 1, 0, 7, 7, 8, 8})})), (Numbers{2, 4, 0, 0}));
  EXPECT_FALSE(run(OpId::kMaxRoiPool, a, {x, f32({1, 5}, {1e30f, 0, 0, 1, 1})}).ok());
}

TEST(StandardOps, WindowsWrittenBack) {
  WindowAttrs a;
  a.kernel = {2}, a.strides = {2};
  auto x = f32({1, 1, 2}, {5, 6});
  auto places = tensor_of<int64_t>(DType::kI64, {1, 1, 2}, {1, 2});
  EXPECT_EQ(of(run(OpId::kMaxUnpool, a, {x, places})), (Numbers{0, 5, 6, 0}));
  EXPECT_EQ(of(run(OpId::kMaxUnpool, a, {x, places, ints({1, 1, 5})})), (Numbers{0, 5, 6, 0, 0}));
  EXPECT_FALSE(run(OpId::kMaxUnpool, a, {x, tensor_of<int64_t>(DType::kI64, {1, 1, 2}, {1, 4})}).ok());
  EXPECT_FALSE(run(OpId::kMaxUnpool, a, {x, places, ints({1, 1, 3})}).ok());
  WindowAttrs c;
  EXPECT_EQ(of(run(OpId::kCol2Im, c, {f32({1, 2, 2}, {1, 2, 3, 4}), ints({3}), ints({2})})), (Numbers{1, 5, 4}));
  EXPECT_FALSE(run(OpId::kCol2Im, c, {f32({1, 2, 2}, {1, 2, 3, 4}), ints({4}), ints({2})}).ok());
  EXPECT_FALSE(run(OpId::kCol2Im, c, {f32({1, 2, 2}, {1, 2, 3, 4}), ints({3}), ints({INT64_MAX})}).ok());
  EXPECT_FALSE(run(OpId::kCol2Im, c, {f32({1, 2, 2}, {1, 2, 3, 4}), ints({INT64_MAX, INT64_MAX}), ints({1, 2})}).ok());
  auto image = f32({1, 1, 2, 2}, {1, 2, 3, 4}), weight = f32({1, 1, 1, 1}, {2});
  EXPECT_EQ(of(run(OpId::kDeformConv, WindowAttrs{}, {image, weight, f32({1, 2, 2, 2}, {0, 0, 0, 9, 0.5f, 1, 0, 0})})), (Numbers{3, 0, 6, 0}));
  EXPECT_FALSE(run(OpId::kDeformConv, WindowAttrs{}, {image, weight, f32({1, 2, 1, 1}, {0, 0})}).ok());
}

TEST(StandardOps, Determinants) {
  EXPECT_EQ(of(run(OpId::kDet, NoAttrs{}, {f32({2, 2, 2}, {0, 1, 1, 0, 1, 2, 2, 4})})), (Numbers{-1, 0}));
  EXPECT_EQ(of(run(OpId::kDet, NoAttrs{}, {TestTensor(DType::kF32, {1, 0, 0})})), (Numbers{1}));
  EXPECT_FALSE(run(OpId::kDet, NoAttrs{}, {f32({1, 2}, {1, 2})}).ok());
  EXPECT_FALSE(run(OpId::kDet, NoAttrs{}, {f32({2}, {1, 2})}).ok());
}

TEST(StandardOps, CountsOfNgrams) {
  NgramAttrs a;
  a.max_length = 2, a.max_skip = 1, a.starts = {0, 2}, a.columns = {0, 2, 1}, a.pool = {7, 8, 7, 8};
  EXPECT_EQ(of(run(OpId::kTfIdfVectorizer, a, {ints({7, 8, 9, 8})})), (Numbers{1, 1, 2}));
  EXPECT_EQ(of(run(OpId::kTfIdfVectorizer, a, {ints({7, 9, 8})})), (Numbers{1, 1, 1}));
  EXPECT_EQ(of(run(OpId::kTfIdfVectorizer, a, {TestTensor(DType::kI64, {2, 0})})), (Numbers{0, 0, 0, 0, 0, 0}));
  auto bad = [&](auto change) {
    NgramAttrs b = a;
    change(b);
    return !run(OpId::kTfIdfVectorizer, b, {ints({7})}).ok();
  };
  EXPECT_TRUE(bad([](NgramAttrs& b) { b.columns = {0, 1, INT64_MAX}; }));
  EXPECT_TRUE(bad([](NgramAttrs& b) { b.columns = {-1, 1, 0}; }));
  EXPECT_TRUE(bad([](NgramAttrs& b) { b.starts = {0, 3}; }));
  EXPECT_TRUE(bad([](NgramAttrs& b) { b.starts = {5, 2}; }));
  EXPECT_TRUE(bad([](NgramAttrs& b) { b.weights = {1}; }));
  EXPECT_TRUE(bad([](NgramAttrs& b) { b.pool = {7, 7, 7, 8}; }));
  EXPECT_TRUE(bad([](NgramAttrs& b) { b.max_length = INT64_MAX; }));
}

TEST(StandardOps, LinearAttentionKeepsItsState) {
  LinearAttentionAttrs a;
  a.heads = 2, a.kv_heads = 1, a.scale = 1, a.delta = true;
  auto q = f32({1, 2, 2}, {1, 2, 3, 4}), k = f32({1, 2, 1}, {1, 2}), v = f32({1, 2, 1}, {10, 20}), rate = f32({1, 2, 1}, {1, 0.5f});
  // S = 10; then S += 2 * 0.5 * (20 - 10 * 2) = 10.
  auto r = run(OpId::kLinearAttention, a, {q, k, v, {}, {}, rate}, 2);
  EXPECT_EQ(of(r), (Numbers{10, 20, 30, 40}));
  EXPECT_EQ(of(r, 1), (Numbers{10}));
  EXPECT_EQ(of(run(OpId::kLinearAttention, a, {TestTensor(DType::kF32, {1, 0, 2}), TestTensor(DType::kF32, {1, 0, 1}), TestTensor(DType::kF32, {1, 0, 1}), f32({1, 1, 1, 1}, {3}), {}, TestTensor(DType::kF32, {1, 0, 1})}, 2), 1), (Numbers{3}));
  EXPECT_FALSE(run(OpId::kLinearAttention, a, {q, k, v}).ok());  // no rate
  a.heads = 3;
  EXPECT_FALSE(run(OpId::kLinearAttention, a, {q, k, v, {}, {}, rate}).ok());
}

}  // namespace
}  // namespace brisk
