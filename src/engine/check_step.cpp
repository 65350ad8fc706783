// The `step` function of a generative engine: its caller (StepRunner) makes buffers by op/step_io.h, so inputs, outputs
// and states of those names must be exactly of the types that stand there.
#include <map>

#include "engine/check.h"
#include "op/step_io.h"

namespace brisk {
namespace {

using namespace step_io;

struct Wanted {
  DType dtype;
  Shape shape;
};

Status expect(const PlanValue& v, const char* as, const Wanted& w) {
  if (v.dtype == w.dtype && v.ranked && v.shape == w.shape) return {};
  auto text = [](DType t, const Shape& s) { return std::string(dtype_name(t)) + to_string(s); };
  return invalid(std::string(as) + " '" + v.name + "' is " + text(v.dtype, v.shape) + ", wanted " + text(w.dtype, w.shape));
}

}  // namespace

Status check_step_signature(const Plan& plan) {
  auto value = [&](int32_t v) -> const PlanValue& { return plan.values[static_cast<size_t>(v)]; };
  const Dim T = Dim::symbol("T"), S = Dim::symbol("S"), L = Dim::symbol("L"), B = Dim::symbol("B");
  const std::map<std::string, Wanted> inputs = {
      {kIds, {DType::kI32, {T}}},           {kPositions, {DType::kI32, {T}}},      {kSeqStarts, {DType::kI32, {S + Dim(1)}}},
      {kContextLens, {DType::kI32, {S}}},   {kBlockTables, {DType::kI32, {S, B}}}, {kLogitRows, {DType::kI32, {L}}},
      {kSlots, {DType::kI32, {L}}},         {kSampleParams, {DType::kU8, {L, static_cast<int64_t>(sizeof(SampleParams))}}}};
  for (int32_t v : plan.inputs) {
    auto wanted = inputs.find(value(v).name);
    if (wanted == inputs.end()) return invalid("input '" + value(v).name + "' is none of a step");
    BRISK_TRY(expect(value(v), "input", wanted->second));
  }
  std::map<std::string, const PlanValue*> found;
  for (int32_t v : plan.outputs) found[value(v).name] = &value(v);
  auto logits = found.find(kLogits);
  auto vocabulary = logits == found.end() || logits->second->shape.size() != 2 ? std::nullopt : logits->second->shape[1].constant();
  if (!vocabulary || *vocabulary <= 0 || *vocabulary > INT32_MAX) return invalid("no output 'logits' of a fixed vocabulary");
  const std::map<std::string, Wanted> outputs = {{kLogits, {DType::kF32, {L, *vocabulary}}},
                                                 {kNextIds, {DType::kI32, {L}}},
                                                 {kLogprob, {DType::kF32, {L}}},
                                                 {kTopIds, {DType::kI32, {L, kMaxTopLogprobs}}},
                                                 {kTopLogprobs, {DType::kF32, {L, kMaxTopLogprobs}}}};
  for (auto& [name, wanted] : outputs) {
    auto it = found.find(name);
    if (it == found.end()) return invalid("no output '" + name + "'");
    BRISK_TRY(expect(*it->second, "output", wanted));
  }
  for (const PlanState& s : plan.states)
    if (s.name == kTokenCounts && (s.kind != PlanState::Kind::kSlots || s.dtype != DType::kU16 || s.width != *vocabulary))
      return invalid(std::string("state '") + kTokenCounts + "' does not hold a count for each of " + std::to_string(*vocabulary) + " tokens");
  return {};
}

}  // namespace brisk
