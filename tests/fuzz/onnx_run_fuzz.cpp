// The whole way of a foreign graph: import, passes with folding, lowering, and one call with small inputs. What importer and
// shape rules let through must be enough for every kernel to stay inside its operands.
// More inputs to start from: the models of the ONNX suite (build/onnx-suite-0 after the test stage "onnx").
#include <cmath>
#include <cstring>

#include "backend/ref/ref.h"
#include "compiler/compile.h"
#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "import/onnx/import.h"
#include "runtime/executor.h"
#include "unit/onnx_bytes.h"

namespace brisk::fuzz {
namespace {

using namespace test::onnx;

constexpr int64_t kMostTemporaries = 1 << 17, kMemory = 4 << 20;  // beyond: sound, but slow to run

std::string ints_attribute(const std::string& name, const std::vector<int64_t>& v) {
  std::string s = bytes(1, name);
  for (int64_t x : v) s += number(8, static_cast<uint64_t>(x));
  return bytes(5, s + number(20, 7));
}
std::string model(const std::string& graph, const std::string& more = {}) {
  return number(1, 8) + opset("", 18) + more + bytes(7, graph + output("y"));
}

bool loops(const Plan& p) {
  for (const PlanStep& s : p.steps) {
    if (s.op == OpId::kLoop) return true;
    for (const Plan& b : s.blocks)
      if (loops(b)) return true;
  }
  return false;
}

std::optional<int64_t> size_of(const std::string&) { return 2; }

// Small numbers of both signs, now and then an odd one.
void fill(std::vector<std::byte>& to, DType t, int64_t count) {
  const int64_t size = count ? static_cast<int64_t>(to.size()) / count : 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t n = t == DType::kBool ? i % 2 : i % 9 == 8 ? INT32_MAX : i % 4 - (i % 7 == 3);
    if (is_float(t)) store_float(to.data(), t, i, i % 11 == 7 ? std::nanf("") : static_cast<float>(i % 5) - 1.5f);
    else std::memcpy(to.data() + i * size, &n, static_cast<size_t>(size));
  }
}

Status run(const std::shared_ptr<const LoadedEngine>& engine) {
  const Plan& plan = *engine->function("main");
  auto temporaries = temporary_bytes(plan, size_of);
  if (loops(plan) || (temporaries && *temporaries > kMostTemporaries)) return {};  // as often as the data says
  BRISK_ASSIGN(auto executor, Executor::create(engine, "main", {}, kMemory));
  std::vector<std::vector<std::byte>> memory;  // one allocation each: the sanitizer sees every step outside
  std::vector<Dims> shapes;
  std::vector<TensorView> inputs;
  for (int32_t index : plan.inputs) {
    const PlanValue& v = plan.values[static_cast<size_t>(index)];
    Dims shape;
    for (const Dim& d : v.shape) shape.push(std::clamp<int64_t>(d.evaluate(size_of).value_or(2), 0, 64));
    auto count = checked_count({shape.begin(), shape.end()});
    if (!count || *count > kMostTemporaries) return {};
    memory.emplace_back(static_cast<size_t>(dtype_bytes(v.dtype, *count)));
    fill(memory.back(), v.dtype, *count);
    shapes.push_back(shape);
    inputs.emplace_back(memory.back().data(), v.dtype, shape);
  }
  BRISK_TRY(executor->bind(shapes));
  BRISK_TRY(executor->run(inputs));
  return engine->device().synchronize();
}

}  // namespace

std::vector<std::string> seeds() {
  std::string x = input("x", 1, {"n", "4", "6"}), image = input("x", 1, {"1", "2", "7", "7"}), w = input("w", 1, {"2", "2", "3", "3"});
  std::vector<std::string> all = {
      model(x + node("Softmax", {"x"}, {"a"}) + node("Transpose", {"a"}, {"y"}, ints_attribute("perm", {2, 0, 1}))),
      model(image + w + node("Conv", {"x", "w"}, {"y"}, ints_attribute("pads", {1, 1, 1, 1}) + ints_attribute("strides", {2, 1}) + ints_attribute("dilations", {1, 2}))),
      model(image + w + node("ConvTranspose", {"x", "w"}, {"y"}, ints_attribute("strides", {2, 2}) + ints_attribute("output_padding", {1, 0}))),
      model(image + node("MaxPool", {"x"}, {"y", "i"}, ints_attribute("kernel_shape", {3, 2}) + int_attribute("ceil_mode", 1) + int_attribute("storage_order", 1))),
      model(image + node("AveragePool", {"x"}, {"y"}, ints_attribute("kernel_shape", {3, 2}) + ints_attribute("pads", {1, 0, 1, 1}))),
      model(x + int64s("s", {1, -1}) + int64s("e", {4, -9}) + int64s("a", {1, 2}) + int64s("d", {2, -1}) + node("Slice", {"x", "s", "e", "a", "d"}, {"y"})),
      model(x + int64s("i", {0, -1, 3}) + node("Gather", {"x", "i"}, {"g"}, int_attribute("axis", 1)) + node("CumSum", {"g", "one"}, {"y"}) + int64s("one", {1})),
      model(x + input("i", 7, {"3", "2"}) + node("GatherND", {"x", "i"}, {"y"})),
      model(x + input("i", 7, {"n", "4", "2"}) + input("u", 1, {"n", "4", "2"}) + node("ScatterElements", {"x", "i", "u"}, {"y"}, int_attribute("axis", 2))),
      model(x + int64s("k", {3}) + node("TopK", {"x", "k"}, {"y", "i"}, int_attribute("axis", -1))),
      model(x + node("NonZero", {"x"}, {"z"}) + node("Transpose", {"z"}, {"y"})),
      model(x + input("p", 7, {"6"}) + node("Pad", {"x", "p"}, {"y"})),
      model(x + input("r", 7, {"3"}) + node("Tile", {"x", "r"}, {"y"})),
      model(x + input("r", 7, {"3"}) + node("Reshape", {"x", "r"}, {"y"}, int_attribute("allowzero", 0))),
      model(input("r", 7, {"2"}) + node("ConstantOfShape", {"r"}, {"y"})),
      model(x + int64s("s", {2, 8, 3}) + node("Resize", {"x", "", "", "s"}, {"y"})),
      model(input("x", 1, {"5", "2", "4"}) + input("w", 1, {"1", "12", "4"}) + input("r", 1, {"1", "12", "3"}) + node("LSTM", {"x", "w", "r"}, {"y", "h"}, int_attribute("hidden_size", 3))),
      model(input("x", 1, {"5", "2", "4"}) + input("w", 1, {"1", "9", "4"}) + input("r", 1, {"1", "9", "3"}) + node("GRU", {"x", "w", "r"}, {"y", "h"}, int_attribute("hidden_size", 3))),
      model(input("q", 1, {"2", "3", "8"}) + input("k", 1, {"2", "3", "4"}) + input("p", 1, {"2", "1", "past", "4"}) + input("l", 6, {"2"}) + input("t", 6, {"1"}) +
                node("GroupQueryAttention", {"q", "k", "k", "p", "p", "l", "t"}, {"y", "a", "b"}, int_attribute("num_heads", 2) + int_attribute("kv_num_heads", 1), "com.microsoft"),
            opset("com.microsoft", 1)),
      model(input("c", 9, {}) + x + node("If", {"c"}, {"y"}, graph_attribute("then_branch", node("Neg", {"x"}, {"t"}) + output("t")) + graph_attribute("else_branch", node("Abs", {"x"}, {"e"}) + output("e")))),
      model(x + input("s", 1, {"4"}) + input("z", 2, {"4"}) + node("QuantizeLinear", {"x", "s", "z"}, {"q"}, int_attribute("axis", 1)) + node("DequantizeLinear", {"q", "s", "z"}, {"y"}, int_attribute("axis", 1))),
      model(input("x", 7, {"3"}) + input("d", 7, {"1"}) + input("v", 1, {"2"}) + node("OneHot", {"x", "d", "v"}, {"y"})),
  };
  return all;
}

bool parse(const uint8_t* data, size_t size) {
  static const Registry registry = [] {
    Registry all;
    ref::add_kernels(all);
    return all;
  }();
  static const std::shared_ptr<Device> device = ref::make_device();
  auto imported = import_onnx(MemoryFile(data, size).path());
  if (!imported.ok()) return false;
  CompileOptions options;
  options.device = "ref";
  options.precision = Precision::kFp32;
  auto compiled = compile(std::move(*imported), options, {registry, device, {}});
  if (!compiled.ok() || !compiled->functions.count("main")) return false;
  auto engine = LoadedEngine::create(std::make_shared<EngineContent>(std::move(*compiled)), device, registry);
  if (!engine.ok()) return false;
  if (auto s = run(*engine); !s.ok()) (void)device->synchronize();
  return true;
}

}  // namespace brisk::fuzz
