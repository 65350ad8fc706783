// Results on the bytes of operands that nobody reads afterwards: the same bits in less memory, and no file may lie about it.
#include <algorithm>
#include <random>

#include "compiler/compile.h"
#include "compiler/in_place.h"
#include "engine_sample.h"
#include "pass_check.h"
#include "runtime/executor.h"

namespace brisk {
namespace {

using namespace test;

// ---- what the reader refuses ----------------------------------------------------------------------------------------------

// x [n] -> a = Exp(x) -> b = Neg(a), b on a's bytes -> c = Abs(b).
struct Chain {
  EngineContent content;
  PlanBuilder b{content};
  int32_t x, w, first, second, third;
  explicit Chain(std::function<void(Chain&)> change = nullptr) {
    Dim n = Dim::symbol("n");
    b.plan.name = "main";
    b.plan.symbols = {{"n", 1, 3, 9}};
    content.device = "ref";
    x = b.input("x", DType::kF32, {n});
    w = b.weight("w", DType::kF32, {3});
    first = b.step("ref.Exp", kExp, NoAttrs{}, {x}, DType::kF32, {n});
    second = b.step("ref.Neg", kNeg, NoAttrs{}, {first}, DType::kF32, {n});
    on(second, first);
    third = b.step("ref.Abs", kAbs, NoAttrs{}, {second}, DType::kF32, {n});
    b.plan.outputs = {third};
    if (change) change(*this);
    content.functions["main"] = b.plan;
  }
  void on(int32_t result, int32_t operand) {
    value(result).kind = PlanValue::Kind::kView;
    value(result).view_of = operand;
  }
  PlanValue& value(int32_t v) { return b.plan.values[static_cast<size_t>(v)]; }
};

std::string problem(std::function<void(Chain&)> change = nullptr) {
  static const Registry registry = [] {
    Registry r;
    ref::add_kernels(r);
    return r;
  }();
  Chain c(std::move(change));
  TemporaryPath file("in-place.engine");
  EXPECT_TRUE(write_engine(c.content, file.path).ok());
  auto read = read_engine(file.path, registry);
  return read.ok() ? "" : read.error().message;
}

#define EXPECT_PROBLEM(change, text)                                             \
  do {                                                                           \
    std::string said = problem([](Chain& c) { change; });                        \
    EXPECT_NE(said.find(text), std::string::npos) << "'" << said << "' of " #change; \
  } while (false)

TEST(InPlace, TheReaderProvesWhoOverwritesWhat) {
  EXPECT_EQ(problem(), "");
  EXPECT_EQ(problem([](Chain& c) { c.on(c.third, c.second); }), "");
  EXPECT_EQ(problem([](Chain& c) { c.on(c.third, c.first); }), "");
  EXPECT_PROBLEM(c.b.plan.outputs.push_back(c.first), "an output is never written");
  EXPECT_PROBLEM(c.b.plan.steps[2].inputs = {c.first}, "which nothing has written");
  EXPECT_PROBLEM(c.on(c.first, c.x), "which is no temporary value");
  EXPECT_PROBLEM(c.on(c.third, c.third), "is a view of itself");
  EXPECT_PROBLEM(c.b.step("ref.Exp", kExp, NoAttrs{}, {c.x}, DType::kF32, {Dim::symbol("n")}); c.on(c.third, c.third + 1), "lies on bytes of no operand");
  EXPECT_PROBLEM(c.value(c.second).dtype = DType::kF64, "is not of the size of");
  EXPECT_PROBLEM(c.on(c.b.step("ref.Add", kAdd, NoAttrs{}, {c.third, c.third}, DType::kF32, {Dim::symbol("n")}), c.third), "lies on two operands");
  EXPECT_PROBLEM(c.on(c.b.step("ref.Softmax", kSoftmax, AxisAttrs{0}, {c.third}, DType::kF32, {Dim::symbol("n")}), c.third);
                 c.b.plan.outputs = {c.third + 1}, "kernel 'ref.Softmax' cannot write result");
  EXPECT_PROBLEM(c.on(c.b.step("ref.Exp", kExp, NoAttrs{}, {c.w}, DType::kF32, {3}), c.w), "which is no temporary value");
  // A view of the old bytes, made before or after.
  EXPECT_PROBLEM(c.b.plan.outputs = {c.b.view("old", c.first, {Dim::symbol("n"), 1})}, "an output is never written");
  EXPECT_EQ(problem([](Chain& c) { c.b.plan.outputs = {c.b.view("new", c.second, {Dim::symbol("n"), 1})}; }), "");
}

// ---- random graphs ----------------------------------------------------------------------------------------------------------

class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {
    Shape shape = {Dim::symbol("batch"), Dim::symbol("rows"), 8};
    live_ = {n.input("a", shape), n.input("b", shape)};
    for (int i = 0; i < 30; ++i) live_.push_back(grow());
    n.g.outputs = {live_.back(), live_[live_.size() - 4], n.add(kReshape, {pick(), n.ints({-1})})};
  }
  Net n;

 private:
  ValueId pick() { return live_[live_.size() - 1 - random_() % std::min<size_t>(live_.size(), 5)]; }
  ValueId grow() {
    ValueId x = pick();
    switch (random_() % 10) {
      case 0: return n.add(kTanh, {x});
      case 1: return n.add(kSigmoid, {x});
      case 2: return n.add(kAdd, {x, pick()});
      case 3: return n.add(kMul, {pick(), x});
      case 4: return n.softmax(x);
      case 5: return n.add(kLayerNorm, {x, n.weight({8}, 3), n.weight({8}, 4)}, NormAttrs{.epsilon = 1e-5f, .axis = -1});
      case 6: return n.add(kSub, {x, n.mean(x)});
      case 7: return n.add(kAdd, {n.add(kMatMul, {x, n.weight({8, 8}, 5)}), pick()});
      case 8: return n.transpose(n.transpose(x, {0, 2, 1}), {0, 2, 1});
      default: return n.add(kWhere, {n.add(kLess, {x, pick()}), x, pick()});
    }
  }
  std::mt19937 random_;
  std::vector<ValueId> live_;
};

struct Outcome {
  std::vector<std::vector<std::byte>> results;
  int64_t arena = 0;
  int in_place = 0;
};

Outcome run(Machine& m, const Graph& g, bool in_place, bool passes, std::shared_ptr<Device> device) {
  Outcome out;
  Model model;
  model.functions["main"] = g;
  CompileOptions o;
  o.precision = Precision::kFp32;
  if (!in_place) o.passes.disabled.insert(kPlanInPlace);
  if (!passes)
    for (const Pass& p : pipeline()) o.passes.disabled.insert(p.name);
  auto content = compile(std::move(model), o, Backend{m.registry, m.device, {&m.pool}});
  EXPECT_TRUE(content.ok()) << content.error().message;
  if (!content.ok()) return out;
  for (const PlanStep& s : content->functions.at("main").steps) out.in_place += brisk::in_place(content->functions.at("main"), s);
  auto engine = LoadedEngine::create(std::make_shared<EngineContent>(std::move(*content)), device, m.registry);
  EXPECT_TRUE(engine.ok());
  auto executor = Executor::create(*engine, "main", {&m.pool});
  EXPECT_TRUE(executor.ok());
  const std::vector<Dims> shapes(2, Dims{3, 5, 8});
  EXPECT_TRUE((*executor)->bind(shapes).ok());
  std::vector<ConstantPtr> in = {floats(shapes[0], 1), floats(shapes[1], 2)};
  std::vector<TensorView> views;
  for (auto& c : in) {
    auto p = device->allocate(c->shape.count() * 4);
    EXPECT_TRUE(p.ok());
    device->upload(*p, c->data.bytes.data(), c->shape.count() * 4);
    views.emplace_back(*p, DType::kF32, c->shape);
  }
  auto ran = (*executor)->run(views);
  EXPECT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_TRUE(device->synchronize().ok());
  for (const TensorView& v : (*executor)->outputs()) {
    out.results.emplace_back(static_cast<size_t>(v.bytes()));
    device->download(out.results.back().data(), v.data, v.bytes());
  }
  EXPECT_TRUE(device->synchronize().ok());
  for (auto& v : views) device->deallocate(v.data, v.bytes());
  out.arena = (*executor)->arena_bytes();
  return out;
}

TEST(InPlace, RandomGraphsGiveTheSameBitsInLessMemory) {
  int fewer = 0, all = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    Machine m;
    RandomGraph g(seed);
    const bool passes = seed % 2;
    Outcome apart = run(m, g.n.g, false, passes, m.device), over = run(m, g.n.g, true, passes, m.device);
    EXPECT_EQ(apart.in_place, 0);
    EXPECT_EQ(apart.results, over.results) << "seed " << seed;
    EXPECT_LE(over.arena, apart.arena) << "seed " << seed;
    fewer += over.arena < apart.arena;
    all += over.in_place;
  }
  EXPECT_GE(fewer, 20);
  EXPECT_GE(all, 200);
}

}  // namespace
}  // namespace brisk
