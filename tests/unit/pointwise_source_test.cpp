// The printed CUDA C, compiled as C++ with stand-ins for what the device has, gives the reference kernel's numbers.
#include "op/pointwise_source.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "op_check.h"

namespace brisk {
namespace {

// One "thread" runs all elements. Half types are bits with the conversions of base/half.h.
constexpr const char* kPrelude = R"(
#include <cmath>
#include <cstring>
#define __global__
#define __device__
#define __restrict__
struct Index { long long x; };
static const Index blockIdx{0}, threadIdx{0}, blockDim{1}, gridDim{1};
static float __int_as_float(unsigned v) { float f; std::memcpy(&f, &v, 4); return f; }
struct __half { _Float16 v; };
static float __half2float(__half h) { return (float)h.v; }
static __half __float2half_rn(float f) { return {(_Float16)f}; }
)";

// The struct that the source declares.
template <int operands> struct Printed {
  long long count;
  int rank;
  long long size[8];
  long long stride[operands][8];
};

struct Library {
  void* handle = nullptr;
  ~Library() { if (handle) dlclose(handle); }
};

TEST(PointwiseSource, CompiledItGivesTheReferenceNumbers) {
  // r0 x f32, r1 row f32, r2 mask bool, r3 half, r4 count i64
  std::vector<DType> types = {DType::kF32, DType::kF32, DType::kBool, DType::kF16, DType::kI64};
  PointwiseAttrs p;
  auto add = [&](const char* op, int64_t a, int64_t b = -1, int64_t c = -1, float alpha = 0, float beta = 0, DType to = DType::kF32) {
    p.ops.push_back(op), p.a.push_back(a), p.b.push_back(b), p.c.push_back(c), p.alpha.push_back(alpha), p.beta.push_back(beta), p.to.push_back(static_cast<int64_t>(to));
    return static_cast<int64_t>(types.size() + p.ops.size()) - 1;
  };
  int64_t r = add("Add", 0, 1);
  for (const char* op : {"Abs", "Exp", "Tanh", "Sigmoid", "Silu", "Softplus", "Softsign", "HardSwish", "Mish", "Erf", "Sin", "Cos", "Atan", "Neg", "Relu", "Sign", "Floor"})
    r = add("Add", add(op, r), 0);
  r = add("Elu", r, -1, -1, 0.5f), r = add("Gelu", r), r = add("Gelu", r, -1, -1, 1), r = add("LeakyRelu", r, -1, -1, 0.1f), r = add("HardSigmoid", r, -1, -1, 0.2f, 0.5f);
  r = add("Selu", r, -1, -1, 1.6f, 1.05f), r = add("Celu", r, -1, -1, 2), r = add("ThresholdedRelu", r, -1, -1, 0.01f), r = add("Max", r, 1), r = add("Min", r, 3);
  int64_t big = add("Greater", r, 1), even = add("Equal", add("Mul", add("Div", 4, add("Sub", 4, 4)), 4), 4);
  int64_t whole = add("Cast", add("Mul", 0, 0), -1, -1, 0, 0, DType::kI64), back = add("Cast", whole, -1, -1, 0, 0, DType::kF32);
  r = add("Where", add("And", 2, add("Not", add("Xor", big, even))), r, back);
  r = add("Where", add("IsNaN", r), 1, r);
  p.result = DType::kF16;

  TestTensor x[] = {random_tensor(DType::kF32, {3, 5, 7}, 1), random_tensor(DType::kF32, {7}, 2), random_tensor(DType::kBool, {3, 1, 7}, 3), random_tensor(DType::kF16, {}, 4),
                    random_tensor(DType::kI64, {5, 1}, 5, -9, 9)};
  OpCheck()(OpId::kPointwise, p, {x[0], x[1], x[2], x[3], x[4]}, 1, 2e-3);

  auto source = pointwise_source(p, types, "kernel");
  ASSERT_TRUE(source.ok()) << source.error().message;
  std::string text = *source;
  ASSERT_NE(text.find("#include <cuda_fp16.h>\n"), std::string::npos);
  text.erase(text.find("#include <cuda_fp16.h>"), 22);
  auto folder = std::filesystem::temp_directory_path() / ("brisk-source-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "k.cpp") << kPrelude << text;
  std::string command = std::string(BRISK_TEST_CXX) + " -std=c++20 -mf16c -shared -fPIC -o " + (folder / "k.so").string() + " " + (folder / "k.cpp").string() + " 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << text;
  Library library{dlopen((folder / "k.so").c_str(), RTLD_NOW)};
  std::filesystem::remove_all(folder);
  ASSERT_NE(library.handle, nullptr) << dlerror();
  using Kernel = void (*)(const float*, const float*, const uint8_t*, const uint16_t*, const int64_t*, uint16_t*, Printed<5>);
  auto kernel = reinterpret_cast<Kernel>(dlsym(library.handle, "kernel"));
  ASSERT_NE(kernel, nullptr);
  std::vector<uint16_t> out(105);
  Printed<5> shape{105, 3, {3, 5, 7}, {{35, 7, 1}, {0, 0, 1}, {7, 0, 1}, {0, 0, 0}, {0, 1, 0}}};
  kernel(x[0].view.as<float>(), x[1].view.as<float>(), x[2].view.as<uint8_t>(), x[3].view.as<uint16_t>(), x[4].view.as<int64_t>(), out.data(), shape);

  Registry registry;
  ref::add_kernels(registry);
  Attrs attrs = p;
  TestTensor want(DType::kF16, {3, 5, 7});
  std::vector<TensorView> in, outs{want.view};
  for (auto& t : x) in.push_back(t.view);
  KernelContext context;
  ASSERT_TRUE(registry.find("ref.Pointwise")->run(context, {in, outs, &attrs}).ok());
  for (int64_t i = 0; i < 105; ++i) EXPECT_NEAR(load_float(out.data(), DType::kF16, i), want.number(i), 2e-3 * std::max(1.0, std::fabs(want.number(i)))) << i;
}

TEST(PointwiseSource, RefusesWhatIsNoProgram) {
  std::vector<DType> types = {DType::kF32};
  PointwiseAttrs p{{"Exp"}, {0}, {-1}, {}, {0}, {0}};
  EXPECT_TRUE(pointwise_source(p, types, "k").ok());
  p.a = {1};
  EXPECT_FALSE(pointwise_source(p, types, "k").ok());
  p.a = {0}, p.ops = {"MatMul"};
  EXPECT_FALSE(pointwise_source(p, types, "k").ok());
  p.ops = {"Not"};
  EXPECT_FALSE(pointwise_source(p, types, "k").ok());
  p.ops = {"Exp"}, p.result = DType::kI64;
  EXPECT_FALSE(pointwise_source(p, types, "k").ok());
}

// Every operator of the pointwise trait that a program may contain computes there what it computes alone, on both backends
// and in the printed source's table: none passes its operand through.
TEST(PointwiseSource, EveryOperatorThatMayBeAnInstructionIsOne) {
  OpCheck check;
  int tried = 0;
  for (const OpDef& def : op_table()) {
    const OpId op = def.id;
    if (!def.is(kPointwise) || op == OpId::kCast || op == OpId::kWhere) continue;  // their types differ: the test above has them
    for (DType t : {DType::kF32, DType::kBool, DType::kI64, DType::kI32}) {
      std::vector<DType> types(static_cast<size_t>(def.min_inputs), t);
      auto result = instruction_type(op, types, t);
      if (!result) continue;
      std::vector<TestTensor> in;
      for (size_t i = 0; i < types.size(); ++i) in.push_back(random_tensor(t, {3, 7}, static_cast<unsigned>(i + 1), op == OpId::kAcosh ? 1 : 0.1, 0.9 + 4 * (t == DType::kI64 || t == DType::kI32 || op == OpId::kAcosh)));
      PointwiseAttrs p;
      p.ops = {std::string(def.name)}, p.a = {0}, p.b = {types.size() > 1 ? 1 : -1}, p.alpha = {0.7f}, p.beta = {0.6f}, p.to = {static_cast<int64_t>(t)};
      p.result = *result;
      Attrs attrs = NoAttrs{};
      if (AlphaBetaAttrs scaled{0.7f, 0.6f}; def.attrs_index == Attrs(scaled).index()) attrs = scaled;
      SCOPED_TRACE(def.name);
      check(OpId::kPointwise, p, in);
      EXPECT_EQ(check.reference(OpId::kPointwise, p, in), check.reference(op, attrs, in)) << dtype_name(t);
      EXPECT_TRUE(pointwise_source(p, types, "kernel").ok());
      ++tried;
    }
  }
  EXPECT_GE(tried, 70);
}

}  // namespace
}  // namespace brisk
