// What the tests of passes share: graphs written as expressions, and that a pipeline keeps their results.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "backend/cpu/cpu.h"
#include "backend/cpu/thread_pool.h"
#include "backend/ref/ref.h"
#include "compiler/evaluator.h"
#include "passes/all.h"
#include "passes/pass.h"

namespace brisk::test {

using enum OpId;

struct Machine {
  Machine() {
    cpu::add_kernels(registry);
    ref::add_kernels(registry);
  }
  cpu::ThreadPool pool{1};
  Registry registry;
  std::shared_ptr<Device> device = cpu::make_device();
  std::unique_ptr<Evaluator> evaluator = make_evaluator(registry, device, {&pool});
  PassContext context{registry, evaluator.get()};
};

// Numbers in [-1, 1) that look like nothing.
inline ConstantPtr floats(const Dims& shape, int seed) {
  std::vector<float> v;
  uint32_t s = static_cast<uint32_t>(seed) * 2654435761u + 12345u;
  for (int64_t i = 0; i < shape.count(); ++i) {
    s = s * 1664525u + 1013904223u;
    v.push_back(static_cast<float>(s >> 8) / 8388608.0f - 1);
  }
  return make_constant(DType::kF32, shape, v);
}
inline ConstantPtr ids(const Dims& shape, int64_t below) {
  std::vector<int64_t> v;
  for (int64_t i = 0; i < shape.count(); ++i) v.push_back((i * 37 + i * i * 5 + 3) % below);
  return make_constant(DType::kI64, shape, v);
}
inline ConstantPtr ones(const Dims& shape) { return make_constant(DType::kI64, shape, std::vector<int64_t>(static_cast<size_t>(shape.count()), 1)); }

inline std::map<OpId, int> ops(const Graph& g) {
  std::map<OpId, int> n;
  for (const Node& node : g.nodes) ++n[node.op];
  return n;
}
// Nodes that run something, of those whose name holds the text.
inline int kernels(const Graph& g, const std::string& text) {
  return static_cast<int>(std::count_if(g.nodes.begin(), g.nodes.end(), [&](const Node& n) {
    return n.name.find(text) != std::string::npos && !op_def(n.op).is(kView);
  }));
}

// Runs the pipeline (all of it, or one pass) over a copy and compares results on the inputs, before and after.
inline Graph expect_same(Machine& m, const Graph& before, const std::vector<std::vector<ConstantPtr>>& inputs, double tolerance, const PipelineOptions& o = {}) {
  Graph after = before;
  auto reports = run_pipeline(after, m.context, o);
  EXPECT_TRUE(reports.ok()) << reports.error().message;
  for (auto& list : inputs) {
    auto want = m.evaluator->run(before, list), have = m.evaluator->run(after, list);
    EXPECT_TRUE(want.ok()) << want.error().message;
    EXPECT_TRUE(have.ok()) << have.error().message << print(after);
    if (!want.ok() || !have.ok()) continue;
    for (size_t k = 0; k < want->size(); ++k) {
      EXPECT_EQ(to_string((*want)[k]->shape), to_string((*have)[k]->shape));
      if (!((*want)[k]->shape == (*have)[k]->shape)) continue;
      double worst = 0;
      for (int64_t i = 0; i < (*want)[k]->count(); ++i)
        worst = std::max(worst, std::fabs(static_cast<double>((*want)[k]->as<float>()[i]) - static_cast<double>((*have)[k]->as<float>()[i])));
      EXPECT_LE(worst, tolerance) << "result " << k << " of " << to_string(list[0]->shape);
    }
  }
  return after;
}

inline PipelineOptions only(std::initializer_list<const char*> names) {
  PipelineOptions o;
  for (const Pass& p : pipeline())
    if (std::none_of(names.begin(), names.end(), [&](const char* n) { return std::string(n) == p.name; })) o.disabled.insert(p.name);
  return o;
}

// Written as expressions; what fails is reported where it fails.
struct Net {
  Graph g;
  ValueId input(const char* name, Shape shape, DType t = DType::kF32) { return g.add_input(name, Type{t, true, std::move(shape), {}}); }
  ValueId number(float v) { return g.add_constant("c" + std::to_string(g.values.size()), make_constant(DType::kF32, {}, std::vector<float>{v})); }
  ValueId weight(const Dims& d, int seed) { return g.add_constant("w" + std::to_string(g.values.size()), floats(d, seed)); }
  ValueId ints(const std::vector<int64_t>& v) { return g.add_constant("i" + std::to_string(g.values.size()), make_constant(DType::kI64, {static_cast<int64_t>(v.size())}, v)); }
  ValueId add(OpId op, std::vector<ValueId> in, Attrs a = NoAttrs{}) {
    auto r = g.add(op, std::move(a), std::move(in), std::string(op_name(op)) + std::to_string(g.nodes.size()));
    EXPECT_TRUE(r.ok()) << r.error().message;
    return r.ok() ? *r : kNoValue;
  }
  ValueId mean(ValueId x) {
    ReduceAttrs a;
    a.axes = {-1};
    return add(kReduceMean, {x}, a);
  }
  ValueId transpose(ValueId x, std::vector<int64_t> perm) { return add(kTranspose, {x}, TransposeAttrs{std::move(perm)}); }
  ValueId softmax(ValueId x) { return add(kSoftmax, {x}, AxisAttrs{-1}); }
};

inline const Shape kRows = {Dim::symbol("batch"), Dim::symbol("seq"), 8};

}  // namespace brisk::test
