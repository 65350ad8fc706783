#include "ir/step_frame.h"

#include "op/step_io.h"

namespace brisk {
namespace {

ValueId input(Graph& g, const char* name, DType t, Shape shape) { return g.add_input(name, Type{t, true, std::move(shape), {}}); }

ValueId slots_state(Graph& g, const char* name, DType t, int64_t width) {
  StateSpec s;
  s.name = name, s.kind = StateSpec::Kind::kSlots, s.dtype = t, s.width = width;
  return g.add_state(s);
}

}  // namespace

Result<StepFrame> begin_step(Graph& g, int64_t vocab) {
  g.name = "step";
  Dim T = Dim::symbol("T"), S = Dim::symbol("S"), L = Dim::symbol("L"), B = Dim::symbol("B");
  StepFrame f;
  ValueId ids = input(g, step_io::kIds, DType::kI32, {T});
  f.positions = input(g, step_io::kPositions, DType::kI32, {T});
  f.seq_starts = input(g, step_io::kSeqStarts, DType::kI32, {S + Dim(1)});
  f.context_lens = input(g, step_io::kContextLens, DType::kI32, {S});
  f.block_tables = input(g, step_io::kBlockTables, DType::kI32, {S, B});
  f.logit_rows = input(g, step_io::kLogitRows, DType::kI32, {L});
  f.sample_params = input(g, step_io::kSampleParams, DType::kU8, {L, Dim(static_cast<int64_t>(sizeof(SampleParams)))});
  f.slots = input(g, step_io::kSlots, DType::kI32, {L});
  g.symbols["L"].min = 0;  // a step may hold only chunks of prompts
  f.last_ids = slots_state(g, step_io::kLastIds, DType::kI32, 1);
  f.token_counts = slots_state(g, step_io::kTokenCounts, DType::kU16, vocab);
  BRISK_ASSIGN(f.ids, g.add(OpId::kResolveIds, NoAttrs{}, {ids, f.last_ids}, "resolved_ids"));
  return f;
}

ValueId add_kv_state(Graph& g, int64_t layer, int64_t kv_heads, int64_t head_dim) {
  StateSpec s;
  s.name = "kv." + std::to_string(layer);
  s.kv_heads = kv_heads, s.head_dim = head_dim, s.width = 2 * kv_heads * head_dim;
  return g.add_state(s);
}

Status end_step(Graph& g, const StepFrame& f, ValueId x) {
  BRISK_ASSIGN(ValueId logits, g.add(OpId::kGather, AxisAttrs{0}, {x, f.logit_rows}, step_io::kLogits));
  BRISK_ASSIGN(auto sampled, g.add_node(OpId::kSample, NoAttrs{}, {logits, f.sample_params, f.slots, f.token_counts, f.last_ids}, 4, "sample"));
  const char* names[] = {step_io::kNextIds, step_io::kLogprob, step_io::kTopIds, step_io::kTopLogprobs};
  g.outputs = {logits};
  for (size_t i = 0; i < sampled.size(); ++i) {
    g.value(sampled[i]).name = names[i];
    g.outputs.push_back(sampled[i]);
  }
  return {};
}

}  // namespace brisk
