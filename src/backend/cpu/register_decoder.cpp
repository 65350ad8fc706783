// RmsNorm, Rope, PagedAttention and Sample of the operator table.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/attention.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/linear.h"
#include "backend/cpu/rope.h"
#include "base/checked.h"
#include "op/sampler.h"

namespace brisk::cpu {
namespace {

KernelDesc desc(OpId op, KernelFn run, bool (*accepts)(const ProblemDesc&)) {
  KernelDesc d;
  d.op = op;
  d.id = std::string("cpu.") + op_name(op);
  d.requires_isa = {"avx2"};
  d.priority = 20;
  d.numerics = "cpu";
  d.run = run;
  d.accepts = accepts;
  return d;
}
bool is_f32(const ProblemDesc& p, size_t i) { return !p.has(i) || p.inputs[i].type.dtype == DType::kF32; }

bool accepts_rms_norm(const ProblemDesc& p) { return is_f32(p, 0) && is_f32(p, 1); }
Status run_rms_norm(KernelContext& kc, const KernelArgs& a) {
  Context ctx = context_of(kc);
  int64_t k = a.in[1].count(), rows = k ? a.in[0].count() / k : 0, per_chunk = std::max<int64_t>(1, 16384 / std::max<int64_t>(k, 1));
  float epsilon = a.get<NormAttrs>().epsilon;
  ctx.pool.parallel_for(ceil_div(rows, per_chunk), [&](int64_t chunk, int) {
    for (int64_t r = chunk * per_chunk; r < std::min(rows, (chunk + 1) * per_chunk); r++)
      ctx.table.rms_norm(a.in[0].as<float>() + r * k, a.in[1].as<float>(), k, epsilon, a.out[0].as<float>() + r * k);
  });
  return {};
}

bool accepts_rope(const ProblemDesc& p) {
  const auto& r = p.get<RopeAttrs>();
  return is_f32(p, 0) && is_f32(p, 2) && r.head_dim > 0 && r.head_dim <= kMaxHeadDim && r.dim <= r.head_dim && r.dim % 2 == 0;
}
Status run_rope(KernelContext& kc, const KernelArgs& a) {
  Context ctx = context_of(kc);
  const auto& p = a.get<RopeAttrs>();
  int64_t tokens = a.in[1].count(), width = tokens ? a.in[0].count() / tokens : 0;
  int dim = static_cast<int>(p.head_dim);
  RopeSpec spec{static_cast<int>(p.dim), p.interleaved, p.magnitude, a.in[2].as<float>()};
  constexpr int64_t kPerChunk = 8;
  ctx.pool.parallel_for(ceil_div(tokens, kPerChunk), [&](int64_t chunk, int) {
    for (int64_t t = chunk * kPerChunk; t < std::min(tokens, (chunk + 1) * kPerChunk); t++) {
      RopeAngles angles(ctx.table, spec, a.in[1].as<int32_t>()[t]);
      for (int64_t i = t * width; i < (t + 1) * width; i += dim)
        angles.rotate(a.in[0].as<float>() + i, dim, 1.0f, a.out[0].as<float>() + i);
    }
  });
  return {};
}

// --- attention: operands q or packed qkv, k, v, state, positions, seq_starts, context_lens, block_tables, frequencies ----

bool accepts_attention(const ProblemDesc& p) {
  const auto& a = p.get<AttentionAttrs>();
  DType state = p.inputs[3].type.dtype;
  if (state != DType::kF32 && state != DType::kBF16 && state != DType::kF16) return false;
  for (size_t i : {0, 1, 2, 8})
    if (!is_f32(p, i)) return false;
  bool even = a.head_dim % 2 == 0 && a.rope_dim % 2 == 0;
  return a.head_dim <= kMaxHeadDim && a.rope_dim <= a.head_dim && (state != DType::kBF16 || even) && a.rope_dim % 2 == 0;
}

AttentionCall attention_call(const KernelArgs& a) {
  const auto& p = a.get<AttentionAttrs>();
  DType type = a.in[3].dtype;
  AttentionCall c;
  c.layout.type = type == DType::kF32 ? CacheType::kF32 : type == DType::kBF16 ? CacheType::kBf16 : CacheType::kF16;
  c.layout.kv_heads = static_cast<int>(p.kv_heads);
  c.layout.head_dim = static_cast<int>(p.head_dim);
  c.heads = static_cast<int>(p.heads);
  c.scale = p.scale;
  c.window = p.window;
  c.softcap = p.softcap;
  c.rope = {static_cast<int>(p.rope_dim), p.rope_interleaved, p.rope_magnitude, a.has(8) ? a.in[8].as<float>() : nullptr};
  c.state = a.in[3].data;
  c.q = a.in[0].as<float>();
  c.ld_q = a.has(1) ? p.heads * p.head_dim : (p.heads + 2 * p.kv_heads) * p.head_dim;
  c.positions = a.in[4].as<int32_t>();
  c.seq_starts = a.in[5].as<int32_t>();
  c.sequences = a.in[5].count() - 1;
  c.block_tables = a.in[7].as<int32_t>();
  c.table_columns = a.in[7].shape[a.in[7].shape.rank - 1];
  c.out = a.out[0].as<float>();
  c.ld_out = p.heads * p.head_dim;
  return c;
}
bool accepts_attention_bf16(const ProblemDesc& p) {
  return accepts_attention(p) && p.inputs[3].type.dtype == DType::kBF16;
}
int64_t attention_scratch(const KernelArgs& a) { return attention_workspace(attention_call(a)); }

template <bool kBf16Dot>
Status run_attention(KernelContext& kc, const KernelArgs& a) {
  Context ctx = context_of(kc);
  const auto& p = a.get<AttentionAttrs>();
  AttentionCall c = attention_call(a);
  c.bf16_dot = kBf16Dot;
  KvWriteCall w;
  w.layout = c.layout;
  w.rope = c.rope;
  w.state = a.in[3].data;
  w.k = a.has(1) ? a.in[1].as<float>() : c.q + p.heads * p.head_dim;
  w.v = a.has(1) ? a.in[2].as<float>() : w.k + p.kv_heads * p.head_dim;
  w.ld_k = w.ld_v = a.has(1) ? p.kv_heads * p.head_dim : c.ld_q;
  w.positions = c.positions;
  w.seq_starts = c.seq_starts;
  w.sequences = c.sequences;
  w.block_tables = c.block_tables;
  w.table_columns = c.table_columns;
  write_kv(ctx.table, w, ctx.pool);
  attention(ctx.table, c, a.workspace, ctx.pool);
  return {};
}

// --- Sample: logits, params, slots, counts state, last_ids state --------------------------------------------------------

bool greedy(const SampleParams& p) {
  return p.temperature <= 0 && p.repetition_penalty == 1 && p.presence_penalty == 0 && p.frequency_penalty == 0 &&
         p.top_logprobs < 0;
}

Status run_sample(KernelContext& kc, const KernelArgs& a) {
  Context ctx = context_of(kc);
  int64_t rows = a.in[0].shape[0], vocab = a.in[0].shape[1], slots = a.in[4].count();
  for (int64_t r = 0; r < rows; r++) {
    int32_t slot = a.in[2].as<int32_t>()[r];
    if (slot < 0 || slot >= slots) return internal("slot " + std::to_string(slot) + " outside [0, " + std::to_string(slots) + ")");
  }
  ctx.pool.parallel_for(rows, [&](int64_t r, int) {
    int32_t slot = a.in[2].as<int32_t>()[r];
    const float* logits = a.in[0].as<float>() + r * vocab;
    int32_t* top_ids = a.out[2].as<int32_t>() + r * kMaxTopLogprobs;
    float* top_logprobs = a.out[3].as<float>() + r * kMaxTopLogprobs;
    std::span<uint16_t> counts(a.in[3].as<uint16_t>() + slot * vocab, static_cast<size_t>(vocab));
    SampleParams p;
    std::memcpy(&p, a.in[1].as<char>() + r * static_cast<int64_t>(sizeof p), sizeof p);
    SampledRow row;
    if (greedy(p)) {
      row.id = static_cast<int32_t>(ctx.table.argmax(logits, vocab));
      if (!(logits[row.id] > -INFINITY)) row.id = -1;  // as sample_row()
      std::fill(top_ids, top_ids + kMaxTopLogprobs, -1);
      std::fill(top_logprobs, top_logprobs + kMaxTopLogprobs, -INFINITY);
    } else {
      thread_local std::vector<float> scratch;
      row = sample_row({logits, static_cast<size_t>(vocab)}, counts, p, scratch, top_ids, top_logprobs);
    }
    count_token(counts, row.id);
    a.in[4].as<int32_t>()[slot] = std::max(row.id, 0);  // a step that is on its way already still reads a token
    a.out[0].as<int32_t>()[r] = row.id;
    a.out[1].as<float>()[r] = row.logprob;
  });
  return {};
}

}  // namespace

void add_decoder(Registry& r) {
  r.add(desc(OpId::kRmsNorm, run_rms_norm, accepts_rms_norm));
  r.add(desc(OpId::kRope, run_rope, accepts_rope));
  KernelDesc attend = desc(OpId::kPagedAttention, run_attention<false>, accepts_attention);
  attend.workspace = attention_scratch;
  r.add(attend);
  attend.id += ".bf16dot";
  attend.numerics += ".bf16dot";
  attend.requires_isa = {"avx512_bf16"};
  attend.priority = bf16_dot_pays(kernels(*active_isa())) ? 30 : 15;
  attend.run = run_attention<true>;
  attend.accepts = accepts_attention_bf16;
  r.add(attend);
  r.add(desc(OpId::kSample, run_sample, [](const ProblemDesc& p) { return is_f32(p, 0); }));
}

}  // namespace brisk::cpu
