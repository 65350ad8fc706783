// Reads an engine file with the reference kernels and, if it is accepted, runs every function on exact allocations: what
// the reader proved must be enough for every kernel to stay inside its operands.
#pragma once
#include <algorithm>
#include <cstring>

#include "backend/ref/ref.h"
#include "base/file.h"
#include "fuzz/memory_file.h"
#include "runtime/executor.h"
#include "unit/engine_sample.h"

namespace brisk::fuzz {

inline constexpr int64_t kMostTemporaries = 1 << 22;  // beyond: sound, but slow to run
inline constexpr int64_t kTokens = 5, kSequences = 2, kBlocks = 2, kSlots = 3;

inline const Registry& registry() {
  static const Registry r = [] {
    Registry all;
    ref::add_kernels(all);
    return all;
  }();
  return r;
}

// The sample as lowering for the reference backend would give it.
inline void use_reference_kernels(EngineContent& c, Plan& plan) {
  for (PlanStep& s : plan.steps) {
    for (Plan& block : s.blocks) use_reference_kernels(c, block);
    if (s.kernel.empty()) continue;
    s.kernel = std::string("ref.") + op_name(s.op);
    s.kernel_version = 1;
    int packed = s.op == OpId::kLinear ? 1 : s.op == OpId::kEmbedding ? 0 : -1;
    if (packed < 0) continue;
    Weight& w = c.weights[static_cast<size_t>(plan.values[static_cast<size_t>(s.inputs[static_cast<size_t>(packed)])].weight)];
    w.encoding = {};
    w.packing = "f32_rows";
    w.bytes = Buffer::of(std::vector<std::byte>(static_cast<size_t>(w.shape.count()) * sizeof(float)));
  }
}
inline EngineContent reference_sample() {
  EngineContent c = test::sample_content(1);
  c.required_isa.clear();
  for (auto& [name, plan] : c.functions) use_reference_kernels(c, plan);
  return c;
}

// What the step runner would give: two sequences of three and two tokens, the others' inputs zero.
inline void fill(const PlanValue& v, std::vector<std::byte>& bytes) {
  auto set = [&](std::vector<int32_t> values) { std::memcpy(bytes.data(), values.data(), std::min(bytes.size(), values.size() * 4)); };
  if (v.name == step_io::kIds) set({1, -2, 3, 0, 5});
  if (v.name == step_io::kPositions) set({0, 1, 2, 30, 31});
  if (v.name == step_io::kSeqStarts) set({0, 3, 5});
  if (v.name == step_io::kContextLens) set({3, 32});
  if (v.name == step_io::kBlockTables) set({1, 0, 0, 1});
  if (v.name == step_io::kLogitRows) set({2, 4});
  if (v.name == step_io::kSlots) set({0, 2});
}

inline std::optional<int64_t> size_of(const std::string& symbol) {
  if (symbol == "T") return kTokens;
  return symbol == "S" || symbol == "L" || symbol == "B" ? 2 : 3;
}

inline Status run_function(const std::shared_ptr<const LoadedEngine>& engine, const std::string& name, const Plan& plan) {
  auto temporaries = temporary_bytes(plan, size_of);
  if (!temporaries || *temporaries > kMostTemporaries) return {};
  BRISK_ASSIGN(auto executor, Executor::create(engine, name, {}));
  std::vector<std::vector<std::byte>> memory;  // one allocation each: the sanitizer sees every step outside
  memory.reserve(plan.states.size() + plan.inputs.size());
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const PlanState& s = plan.states[i];
    bool paged = s.kind == PlanState::Kind::kPagedKv;
    int64_t units = paged ? kBlocks : kSlots;
    if (s.unit_bytes() > kMostTemporaries) return {};
    memory.emplace_back(static_cast<size_t>(s.unit_bytes() * units));
    Dims shape = paged ? Dims{units, 2, s.kv_heads, kBlockTokens, s.head_dim} : Dims{units, s.width};
    executor->set_state(i, TensorView(memory.back().data(), s.dtype, shape));
  }
  std::vector<Dims> shapes;
  std::vector<TensorView> inputs;
  for (int32_t index : plan.inputs) {
    const PlanValue& v = plan.values[static_cast<size_t>(index)];
    Dims shape;
    for (const Dim& d : v.shape) shape.push(std::clamp<int64_t>(d.evaluate(size_of).value_or(3), 0, 64));
    auto count = checked_count({shape.begin(), shape.end()});
    if (!count || *count > kMostTemporaries) return {};
    memory.emplace_back(static_cast<size_t>(dtype_bytes(v.dtype, *count)));
    fill(v, memory.back());
    shapes.push_back(shape);
    inputs.emplace_back(memory.back().data(), v.dtype, shape);
  }
  BRISK_TRY(executor->bind(shapes));
  BRISK_TRY(executor->run(inputs));
  BRISK_TRY(engine->device().synchronize());
  unsigned sum = 0;
  for (const TensorView& out : executor->outputs())
    for (int64_t i = 0; i < out.bytes(); ++i) sum += static_cast<unsigned>(out.as<std::byte>()[i]);
  [[maybe_unused]] static volatile unsigned seen;  // the outputs' bytes are really read
  seen = sum;
  return {};
}

inline std::string written(const EngineContent& content) {
  const test::TemporaryPath file("fuzz-run.engine");
  if (!write_engine(content, file.path).ok()) return {};
  auto bytes = read_file(file.path);
  return bytes.ok() ? *bytes : std::string();
}

// True if the file was accepted and everything ran.
inline bool read_and_run(const std::string& bytes) {
  const MemoryFile file(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  auto content = read_engine(file.path(), registry());
  if (!content.ok()) return false;
  auto engine = LoadedEngine::create(*content, ref::make_device(), registry());
  if (!engine.ok()) return false;
  bool all = true;
  for (auto& [name, plan] : (*content)->functions) all = run_function(*engine, name, plan).ok() && all;
  return all;
}

}  // namespace brisk::fuzz
