// A small engine with everything in it that the file format knows, and the registry it was made for.
#pragma once
#include <unistd.h>

#include <string>

#include "engine/engine_file.h"
#include "op/step_io.h"

namespace brisk::test {

inline Status no_run(KernelContext&, const KernelArgs&) { return {}; }

inline KernelDesc sample_kernel(std::string id, OpId op) {
  KernelDesc k;
  k.id = std::move(id);
  k.op = op;
  k.run = no_run;
  return k;
}

inline Registry sample_registry() {
  Registry r;
  r.set_isa({"avx2", "fma"});
  KernelDesc linear = sample_kernel("t.linear", OpId::kLinear);
  linear.version = 3;
  linear.requires_isa = {"avx2"};
  linear.accepts = [](const ProblemDesc& p) {
    return p.inputs[0].type.dtype == DType::kF32 && p.inputs[1].constant && p.inputs[1].encoding.bits == 8;
  };
  linear.packings.push_back({1, "t.rows8", [](const ProblemDesc&, const Constant&) -> Result<std::vector<std::byte>> { return std::vector<std::byte>(); },
                             [](const ProblemDesc&, const OperandDesc& w) {
                               int64_t n = w.type.shape[0].constant_or(0), k = w.type.shape[1].constant_or(0);
                               return n * k + 4 * n;
                             }});
  r.add(linear);
  for (auto [id, op] : {std::pair{"t.embedding", OpId::kEmbedding}, {"t.add", OpId::kAdd}, {"t.concat", OpId::kConcat},
                        {"t.norm", OpId::kRmsNorm}, {"t.attention", OpId::kPagedAttention}, {"t.resolve", OpId::kResolveIds},
                        {"t.sample", OpId::kSample}, {"t.gather", OpId::kGather}})
    r.add(sample_kernel(id, op));
  return r;
}

class PlanBuilder {
 public:
  explicit PlanBuilder(EngineContent& content) : content_(content) {}
  Plan plan;

  int32_t value(PlanValue::Kind kind, std::string name, DType dtype, Shape shape) {
    PlanValue v;
    v.name = std::move(name);
    v.kind = kind;
    v.dtype = dtype;
    v.shape = std::move(shape);
    plan.values.push_back(std::move(v));
    return static_cast<int32_t>(plan.values.size() - 1);
  }
  int32_t input(std::string name, DType dtype, Shape shape) {
    plan.inputs.push_back(value(PlanValue::Kind::kInput, std::move(name), dtype, std::move(shape)));
    return plan.inputs.back();
  }
  int32_t state(PlanState s) {
    s.value = value(PlanValue::Kind::kState, s.name, s.dtype, {});
    plan.values.back().ranked = false;
    plan.states.push_back(s);
    return s.value;
  }
  int32_t weight(std::string name, DType dtype, Dims shape, std::string packing = "", int64_t bytes = -1) {
    Weight w;
    w.name = name;
    w.dtype = dtype;
    w.shape = shape;
    w.packing = std::move(packing);
    if (bytes < 0) bytes = dtype_bytes(dtype, shape.count());
    if (!w.packing.empty()) w.encoding = {.bits = 8, .axis = shape.rank - 1, .group = 0};
    std::vector<std::byte> data(static_cast<size_t>(bytes));
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 + content_.weights.size());
    w.bytes = Buffer::of(std::move(data));
    content_.weights.push_back(std::move(w));
    int32_t v = value(PlanValue::Kind::kWeight, std::move(name), dtype, Shape(shape.begin(), shape.end()));
    plan.values.back().weight = static_cast<int32_t>(content_.weights.size() - 1);
    return v;
  }
  int32_t view(std::string name, int32_t of, Shape shape) {
    int32_t v = value(PlanValue::Kind::kView, std::move(name), plan.values[static_cast<size_t>(of)].dtype, std::move(shape));
    plan.values.back().view_of = of;
    return v;
  }
  int32_t step(std::string kernel, OpId op, Attrs attrs, std::vector<int32_t> inputs, DType dtype, Shape shape) {
    bool is_view = op_def(op).is(kView);
    int32_t out = value(is_view ? PlanValue::Kind::kView : PlanValue::Kind::kArena, "v" + std::to_string(plan.values.size()), dtype, std::move(shape));
    if (is_view) plan.values.back().view_of = inputs[0];
    PlanStep s;
    s.kernel_version = kernel == "t.linear" ? 3 : 1;
    s.op = op;
    s.attrs = std::move(attrs);
    s.kernel = std::move(kernel);
    s.inputs = std::move(inputs);
    s.outputs = {out};
    s.name = "layers." + std::to_string(plan.steps.size());
    plan.steps.push_back(std::move(s));
    return out;
  }

 private:
  EngineContent& content_;
};

// A decoder: ids, embedding, `layers` of (norm, linear, attention, linear with residual), gather, head, sample.
inline Plan sample_decoder(EngineContent& content, int layers, int64_t hidden = 32, int64_t vocabulary = 64) {
  PlanBuilder b(content);
  b.plan.name = "step";
  b.plan.symbols = {{"T", 1, 8, 512}, {"S", 1, 4, 64}, {"L", 0, 4, 64}, {"B", 1, 4, 64}};
  Dim T = Dim::symbol("T"), S = Dim::symbol("S"), L = Dim::symbol("L"), B = Dim::symbol("B"), H = hidden;
  int32_t ids = b.input(step_io::kIds, DType::kI32, {T}), positions = b.input(step_io::kPositions, DType::kI32, {T});
  int32_t starts = b.input(step_io::kSeqStarts, DType::kI32, {S + 1}), lens = b.input(step_io::kContextLens, DType::kI32, {S});
  int32_t tables = b.input(step_io::kBlockTables, DType::kI32, {S, B}), rows = b.input(step_io::kLogitRows, DType::kI32, {L});
  int32_t params = b.input(step_io::kSampleParams, DType::kU8, {L, 48}), slots = b.input(step_io::kSlots, DType::kI32, {L});
  PlanState last{.name = step_io::kLastIds, .kind = PlanState::Kind::kSlots, .dtype = DType::kI32, .width = 1};
  PlanState counts{.name = step_io::kTokenCounts, .kind = PlanState::Kind::kSlots, .dtype = DType::kU16, .width = vocabulary};
  int32_t last_ids = b.state(last), token_counts = b.state(counts);
  int32_t frequencies = b.weight("rope", DType::kF32, {4});

  int32_t resolved = b.step("t.resolve", OpId::kResolveIds, NoAttrs{}, {ids, last_ids}, DType::kI32, {T});
  int32_t embedding = b.weight("embedding", DType::kF32, {vocabulary, hidden});
  int32_t x = b.step("t.embedding", OpId::kEmbedding, NoAttrs{}, {embedding, resolved}, DType::kF32, {T, H});
  for (int i = 0; i < layers; ++i) {
    std::string at = "layers." + std::to_string(i) + ".";
    PlanState kv{.name = at + "kv", .kind = PlanState::Kind::kPagedKv, .dtype = DType::kF32, .kv_heads = hidden / 16, .head_dim = 8};
    int32_t cache = b.state(kv), norm = b.weight(at + "norm", DType::kF32, {hidden});
    int32_t qkv_w = b.weight(at + "qkv", DType::kF32, {2 * hidden, hidden}, "t.rows8", 2 * hidden * hidden + 8 * hidden);
    int32_t out_w = b.weight(at + "out", DType::kF32, {hidden, hidden}, "t.rows8", hidden * hidden + 4 * hidden);
    int32_t n = b.step("t.norm", OpId::kRmsNorm, NormAttrs{}, {x, norm}, DType::kF32, {T, H});
    int32_t qkv = b.step("t.linear", OpId::kLinear, LinearAttrs{.act_group = 32}, {n, qkv_w}, DType::kF32, {T, 2 * hidden});
    AttentionAttrs attention{.heads = hidden / 8, .kv_heads = hidden / 16, .head_dim = 8, .rope_dim = 8};
    int32_t a = b.step("t.attention", OpId::kPagedAttention, attention, {qkv, -1, -1, cache, positions, starts, lens, tables, frequencies},
                       DType::kF32, {T, H});
    x = b.step("t.linear", OpId::kLinear, LinearAttrs{.act_group = 32}, {a, out_w, -1, x}, DType::kF32, {T, H});
  }
  int32_t picked = b.step("t.gather", OpId::kGather, AxisAttrs{}, {x, rows}, DType::kF32, {L, H});
  int32_t head = b.weight("head", DType::kF32, {vocabulary, hidden}, "t.rows8", vocabulary * hidden + 4 * vocabulary);
  int32_t logits = b.step("t.linear", OpId::kLinear, LinearAttrs{}, {picked, head}, DType::kF32, {L, vocabulary});
  int32_t next = b.step("t.sample", OpId::kSample, NoAttrs{}, {logits, params, slots, token_counts, last_ids}, DType::kI32, {L});
  int32_t logprob = b.value(PlanValue::Kind::kArena, "logprob", DType::kF32, {L});
  b.plan.values[static_cast<size_t>(logits)].name = step_io::kLogits;
  b.plan.values[static_cast<size_t>(next)].name = step_io::kNextIds;
  int32_t top_ids = b.value(PlanValue::Kind::kArena, "top_ids", DType::kI32, {L, kMaxTopLogprobs});
  int32_t top = b.value(PlanValue::Kind::kArena, "top_logprobs", DType::kF32, {L, kMaxTopLogprobs});
  b.plan.steps.back().outputs = {next, logprob, top_ids, top};
  b.plan.outputs = {logits, next, logprob, top_ids, top};
  return std::move(b.plan);
}

// A function whose shapes need floor division, a maximum and a run-time check.
inline Plan sample_function(EngineContent& content) {
  PlanBuilder b(content);
  b.plan.name = "main";
  b.plan.symbols = {{"n", 1, 3, 9}, {"m", 1, 3, 9}};
  Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  int32_t x = b.input("x", DType::kF32, {n * Dim(4), 2}), y = b.input("y", DType::kF32, {m});
  int32_t z = b.input("z", DType::kF32, {n});
  int32_t shape = b.weight("shape", DType::kI64, {2});
  int64_t target[2] = {4, -1};
  std::vector<std::byte> bytes(sizeof target);
  std::memcpy(bytes.data(), target, sizeof target);
  content.weights.back().bytes = Buffer::of(std::move(bytes));
  int32_t flat = b.view("flat", x, {Dim::floor_div(n * Dim(8), 2), 2});
  int32_t reshaped = b.step("", OpId::kReshape, NoAttrs{}, {flat, shape}, DType::kF32, {4, n * Dim(2)});
  int32_t sum = b.step("t.add", OpId::kAdd, NoAttrs{}, {y, z}, DType::kF32, {Dim::max(n, m)});
  int32_t joined = b.step("t.concat", OpId::kConcat, AxisAttrs{}, {y, z}, DType::kF32, {n + m});
  b.plan.outputs = {reshaped, sum, joined};
  return std::move(b.plan);
}

// An If over a captured input, and a step that takes the result as it comes.
inline Plan sample_choice(EngineContent& content) {
  PlanBuilder b(content);
  b.plan.name = "choose";
  b.plan.symbols = {{"n", 1, 3, 9}};
  Dim n = Dim::symbol("n");
  int32_t flag = b.input("flag", DType::kBool, {}), x = b.input("x", DType::kF32, {n});
  PlanStep choice;
  choice.op = OpId::kIf;
  choice.name = "choice";
  choice.inputs = {flag, x};
  choice.captures = 1;
  for (const char* name : {"then", "else"}) {
    PlanBuilder branch(content);
    branch.plan.name = name;
    int32_t inner = branch.input("x", DType::kF32, {n});
    branch.plan.outputs = {branch.step("t.add", OpId::kAdd, NoAttrs{}, {inner, inner}, DType::kF32, {n})};
    choice.blocks.push_back(std::move(branch.plan));
  }
  int32_t chosen = b.value(PlanValue::Kind::kDynamic, "chosen", DType::kF32, {Dim::symbol("?0")});
  choice.outputs = {chosen};
  b.plan.steps.push_back(std::move(choice));
  int32_t sum = b.step("t.add", OpId::kAdd, NoAttrs{}, {chosen, chosen}, DType::kF32, {Dim::symbol("?0")});
  b.plan.steps.back().dynamic = true;
  b.plan.values[static_cast<size_t>(sum)].kind = PlanValue::Kind::kDynamic;
  b.plan.outputs = {sum};
  return std::move(b.plan);
}

inline EngineContent sample_content(int layers = 2) {
  EngineContent c;
  c.functions["step"] = sample_decoder(c, layers);
  c.functions["main"] = sample_function(c);
  c.functions["choose"] = sample_choice(c);
  c.metadata = {{"architecture", "llama"}, {"label", "<v1>"}, {"precision", "int8"}};
  c.build_record = {{"inputs", "sha256:00"}, {"version", "0.1.0"}};
  c.tokenizer = std::string("tok\0en", 6);
  c.chat_template = "{{ messages }}";
  c.generation_config = "{}";
  c.max_context = 2048;
  c.device = "cpu";
  c.required_isa = {"avx2"};
  c.layer_loss = {{"layers.0.qkv", "i8/row/f32", 41.5f}, {"layers.0.out", "i8/row/f32", 39.25f}};
  return c;
}

// A path of this test process alone, removed at the end.
class TemporaryPath {
 public:
  explicit TemporaryPath(const std::string& name) : path("/tmp/brisk-" + std::to_string(::getpid()) + "-" + name) {}
  ~TemporaryPath() { ::unlink(path.c_str()); }
  const std::string path;
};

}  // namespace brisk::test
