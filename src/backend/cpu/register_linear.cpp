// Linear and Embedding of the operator table on packed weights.
#include <atomic>
#include <optional>

#include "backend/cpu/cpu.h"
#include "backend/cpu/activation.h"
#include "backend/cpu/linear.h"
#include "backend/cpu/norm.h"
#include "base/checked.h"
#include "base/half.h"
#include "op/experts.h"

namespace brisk::cpu {
namespace {

// One kernel: a form of weight and an arithmetic. Kernels with equal packing names read the same bytes.
struct Variant {
  const char* name;
  const char* packing;
  WeightKind kind;
  int group;
  GroupTerm term;
  Arithmetic arithmetic;
  int priority;
};
constexpr Variant kVariants[] = {
    {"f32", "cpu.f32", WeightKind::kF32, 0, GroupTerm::kSymmetric, Arithmetic::kFloat, 10},
    {"f16", "cpu.f16", WeightKind::kF16, 0, GroupTerm::kSymmetric, Arithmetic::kFloat, 20},
    {"bf16", "cpu.bf16", WeightKind::kBf16, 0, GroupTerm::kSymmetric, Arithmetic::kFloat, 20},
    {"bf16dot", "cpu.bf16", WeightKind::kBf16, 0, GroupTerm::kSymmetric, Arithmetic::kBf16Dot, 30},
    {"int8w", "cpu.i8", WeightKind::kInt8, 0, GroupTerm::kSymmetric, Arithmetic::kFloat, 20},
    {"int8w.g32", "cpu.i8g32", WeightKind::kInt8, 32, GroupTerm::kSymmetric, Arithmetic::kFloat, 20},
    {"int8w.g64", "cpu.i8g64", WeightKind::kInt8, 64, GroupTerm::kSymmetric, Arithmetic::kFloat, 20},
    {"int8", "cpu.i8", WeightKind::kInt8, 0, GroupTerm::kSymmetric, Arithmetic::kInt8, 20},
    {"int8.g32", "cpu.i8g32", WeightKind::kInt8, 32, GroupTerm::kSymmetric, Arithmetic::kInt8, 20},
    {"int8.g64", "cpu.i8g64", WeightKind::kInt8, 64, GroupTerm::kSymmetric, Arithmetic::kInt8, 20},
    {"int4.g32", "cpu.i4g32", WeightKind::kInt4, 32, GroupTerm::kSymmetric, Arithmetic::kInt8, 20},
    {"int4.g64", "cpu.i4g64", WeightKind::kInt4, 64, GroupTerm::kSymmetric, Arithmetic::kInt8, 20},
    {"int4.g128", "cpu.i4g128", WeightKind::kInt4, 128, GroupTerm::kSymmetric, Arithmetic::kInt8, 20},
    {"int4z.g32", "cpu.i4zg32", WeightKind::kInt4, 32, GroupTerm::kZero, Arithmetic::kInt8, 20},
    {"int4z.g64", "cpu.i4zg64", WeightKind::kInt4, 64, GroupTerm::kZero, Arithmetic::kInt8, 20},
    {"int4z.g128", "cpu.i4zg128", WeightKind::kInt4, 128, GroupTerm::kZero, Arithmetic::kInt8, 20},
    {"int4m.g32", "cpu.i4mg32", WeightKind::kInt4, 32, GroupTerm::kMinimum, Arithmetic::kInt8, 20},
    {"int4m.g64", "cpu.i4mg64", WeightKind::kInt4, 64, GroupTerm::kMinimum, Arithmetic::kInt8, 20},
    {"int4m.g128", "cpu.i4mg128", WeightKind::kInt4, 128, GroupTerm::kMinimum, Arithmetic::kInt8, 20}};
constexpr int kVariantCount = static_cast<int>(std::size(kVariants));

// Whether a variant holds a weight of this type and encoding without loss. fp32 holds all, widened.
bool holds(const Variant& v, const Type& type, const Encoding& e) {
  if (v.kind == WeightKind::kF32) return true;
  if (v.kind == WeightKind::kF16) return e.plain() && type.dtype == DType::kF16;
  if (v.kind == WeightKind::kBf16) return e.plain() && type.dtype == DType::kBF16;
  if (v.kind == WeightKind::kInt8)
    return e.bits == 8 && e.code_dtype == DType::kI8 && e.offset == Encoding::Offset::kNone && e.group == v.group &&
           (e.group == 0 || e.scale_dtype == DType::kF16);
  if (e.bits != 4 || e.group != v.group || e.scale_dtype != DType::kF16) return false;
  bool is_unsigned = e.code_dtype == DType::kU4;
  switch (v.term) {
    case GroupTerm::kSymmetric: return e.offset == Encoding::Offset::kNone && !is_unsigned;
    case GroupTerm::kZero:
      return e.offset == Encoding::Offset::kZeroPoint || (e.offset == Encoding::Offset::kNone && is_unsigned);
    case GroupTerm::kMinimum: return e.offset == Encoding::Offset::kMinimum && is_unsigned;
  }
  return false;
}

WeightLayout layout_for(const Variant& v, bool gated, int64_t n, int64_t k) { return {v.kind, n, k, v.group, v.term, gated}; }

bool fixed_matrix(const OperandDesc& o) {
  return o.present && o.constant && o.type.rank() == 2 && o.type.shape[0].constant_or(0) > 0 &&
         o.type.shape[1].constant_or(0) > 0;
}
WeightLayout layout_for(const Variant& v, bool gated, const OperandDesc& o) {
  return layout_for(v, gated, o.type.shape[0].constant_or(0), o.type.shape[1].constant_or(0));
}

// The planes of a constant as pack_weight wants them.
Result<std::vector<std::byte>> pack_constant(const Variant& v, bool gated, const Constant& c) {
  int64_t n = c.shape[0], k = c.shape[1], groups = v.group ? ceil_div(k, v.group) : 1;
  WeightLayout layout = layout_for(v, gated, n, k);
  std::vector<float> widened, scales, terms;
  std::vector<uint8_t> codes;
  LogicalWeight from;
  from.rows = c.data.bytes.data();
  if (v.kind == WeightKind::kF32 && !(c.encoding.plain() && c.dtype == DType::kF32)) {
    widened = to_floats(c);
    from.rows = widened.data();
  }
  if (v.kind == WeightKind::kInt4) {
    int flip = c.encoding.code_dtype == DType::kI4 ? 8 : 0;  // -8..7 becomes 0..15
    codes.resize(static_cast<size_t>(n * k));
    for (int64_t i = 0; i < n * k; i++) {
      int b = static_cast<int>(c.data.bytes[static_cast<size_t>(i / 2)]);
      codes[static_cast<size_t>(i)] = static_cast<uint8_t>((i % 2 ? b >> 4 : b & 15) ^ flip);
    }
    from.rows = codes.data();
    if (v.term != GroupTerm::kSymmetric) {
      terms.assign(static_cast<size_t>(n * groups), 0.0f);
      bool zero_points = c.encoding.offset == Encoding::Offset::kZeroPoint;
      DType t = !zero_points ? c.encoding.scale_dtype : flip ? DType::kI8 : DType::kU8;
      for (size_t i = 0; i < terms.size() && !c.offsets.bytes.empty(); i++)
        terms[i] = load_float(c.offsets.bytes.data(), t, static_cast<int64_t>(i)) + static_cast<float>(zero_points ? flip : 0);
      from.terms = terms.data();
    }
  }
  if (!c.encoding.plain() && v.kind != WeightKind::kF32) {
    scales.resize(static_cast<size_t>(n * groups));
    for (size_t i = 0; i < scales.size(); i++)
      scales[i] = load_float(c.scales.bytes.data(), c.encoding.scale_dtype, static_cast<int64_t>(i));
    from.scales = scales.data();
  }
  std::vector<std::byte> out(static_cast<size_t>(layout.bytes()));
  BRISK_TRY(pack_weight(layout, from, out));
  return out;
}

// --- Linear ---------------------------------------------------------------------------------------------------------

bool optional_f32(const ProblemDesc& p, size_t i) { return !p.has(i) || p.inputs[i].type.dtype == DType::kF32; }

bool accepts_linear(const Variant& v, bool gated, const ProblemDesc& p) {
  const auto& a = p.get<LinearAttrs>();
  if (v.arithmetic == Arithmetic::kBf16Dot && a.act_terms > 1) return false;
  if (a.gated != gated || a.act_group != (v.arithmetic == Arithmetic::kInt8 ? 64 : 0)) return false;
  for (size_t i : {0, 2, 3, 4})
    if (!optional_f32(p, i)) return false;
  if (!fixed_matrix(p.inputs[1]) || !holds(v, p.inputs[1].type, p.inputs[1].encoding)) return false;
  return check_layout(layout_for(v, gated, p.inputs[1])).ok();
}

PrepareCall prepare_call(const Variant& v, const WeightLayout& layout, const KernelArgs& a) {
  PrepareCall c;
  c.x = a.in[0].as<float>();
  c.k = c.ldx = layout.k;
  c.m = a.in[0].count() / layout.k;
  if (a.has(4)) c.norm = a.in[4].as<float>();
  c.epsilon = a.get<LinearAttrs>().norm_epsilon;
  c.arithmetic = v.arithmetic;
  if (v.arithmetic == Arithmetic::kInt8) c.form = act_form(layout, static_cast<int>(a.get<LinearAttrs>().act_terms));
  return c;
}

int64_t linear_workspace(const Variant& v, bool gated, const KernelArgs& a) {
  return prepared_bytes(prepare_call(v, layout_for(v, gated, a.in[1].shape[0], a.in[1].shape[1]), a));
}

UnaryCall activation_of(const LinearAttrs& a) {  // of the gate if there is one
  return a.gated && a.act.empty() ? UnaryCall(Unary::kSilu) : unary_of(a.act, a.act_alpha, a.act_beta);
}

Status run_linear(const Variant& v, bool gated, KernelContext& kc, const KernelArgs& a) {
  Context ctx = context_of(kc);
  WeightLayout layout = layout_for(v, gated, a.in[1].shape[0], a.in[1].shape[1]);
  PrepareCall prepare = prepare_call(v, layout, a);
  LinearCall c;
  c.layout = &layout;
  c.weight = a.in[1].as<std::byte>();
  c.arithmetic = v.arithmetic;
  c.m = prepare.m;
  if (!find_tile_kernel(ctx.table, layout, v.arithmetic))
    return environment("kernel cpu.Linear." + std::string(v.name) + " needs an instruction set that is not there");
  prepare_rows(ctx.table, prepare, a.workspace, ctx.pool, c);
  if (a.has(2)) c.bias = a.in[2].as<float>();
  if (a.has(3)) c.residual = a.in[3].as<float>();
  const auto& attrs = a.get<LinearAttrs>();
  c.act = activation_of(attrs);
  c.y = a.out[0].as<float>();
  c.ldy = c.ld_residual = layout.outputs();
  linear(ctx.table, c, ctx.pool);
  return {};
}

// KernelDesc holds plain functions, so each variant gets its own by template.
template <int I, bool kGated>
KernelDesc linear_desc() {
  constexpr const Variant& v = kVariants[I];
  KernelDesc d;
  d.id = std::string("cpu.Linear.") + v.name + (kGated ? ".gated" : "");
  d.op = OpId::kLinear;
  d.requires_isa = {v.arithmetic == Arithmetic::kBf16Dot ? "avx512_bf16" : "avx2"};
  d.priority = v.priority;
  if (v.arithmetic == Arithmetic::kBf16Dot && !bf16_dot_pays(kernels(*active_isa()))) d.priority = 15;  // below widening
  d.numerics = std::string("cpu.") + v.name;
  d.in_place = 1 << 3;  // the residual, read where the sum is written
  d.accepts = [](const ProblemDesc& p) { return accepts_linear(kVariants[I], kGated, p); };
  d.run = [](KernelContext& c, const KernelArgs& a) { return run_linear(kVariants[I], kGated, c, a); };
  d.workspace = [](const KernelArgs& a) { return linear_workspace(kVariants[I], kGated, a); };
  d.packings = {{1, std::string(v.packing) + (kGated ? ".gated" : ""),
                 [](const ProblemDesc&, const Constant& c) { return pack_constant(kVariants[I], kGated, c); },
                 [](const ProblemDesc&, const OperandDesc& o) { return layout_for(kVariants[I], kGated, o).bytes(); }}};
  return d;
}

// --- ExpertLinear: the rows of one expert after those of another --------------------------------------------------------

WeightLayout layout_of_expert(const Variant& v, bool gated, const OperandDesc& o) {
  return layout_for(v, gated, o.type.shape[1].constant_or(0), o.type.shape[2].constant_or(0));
}
int64_t expert_bytes(const WeightLayout& l) { return align_up(l.bytes(), int64_t{64}); }

bool accepts_experts(const Variant& v, bool gated, const ProblemDesc& p) {
  const auto& a = p.get<LinearAttrs>();
  const OperandDesc& w = p.inputs[2];
  if (a.gated != gated || a.act_group != (v.arithmetic == Arithmetic::kInt8 ? 64 : 0)) return false;
  if (!optional_f32(p, 0) || !optional_f32(p, 3) || !w.constant || w.type.rank() != 3 || !holds(v, w.type, w.encoding)) return false;
  for (const Dim& d : w.type.shape)
    if (d.constant_or(0) < 1) return false;
  return check_layout(layout_of_expert(v, gated, w)).ok();
}

// One expert's part of the planes.
Constant expert_part(const Constant& c, int64_t e) {
  Constant part = c;
  part.shape = {c.shape[1], c.shape[2]};
  for (Buffer Constant::*plane : {&Constant::data, &Constant::scales, &Constant::offsets}) {
    size_t each = (c.*plane).bytes.size() / static_cast<size_t>(c.shape[0]);
    (part.*plane).bytes = (c.*plane).bytes.subspan(static_cast<size_t>(e) * each, each);
  }
  return part;
}
Result<std::vector<std::byte>> pack_experts(const Variant& v, bool gated, const Constant& c) {
  int64_t each = expert_bytes(layout_for(v, gated, c.shape[1], c.shape[2]));
  std::vector<std::byte> out(static_cast<size_t>(c.shape[0] * each));
  for (int64_t e = 0; e < c.shape[0]; e++) {
    BRISK_ASSIGN(auto packed, pack_constant(v, gated, expert_part(c, e)));
    std::copy(packed.begin(), packed.end(), out.begin() + e * each);
  }
  return out;
}

// Workspace: operand rows in the order of experts, their results, and what the product prepares of the rows.
struct ExpertSpace {
  WeightLayout layout;
  int64_t rows, x_bytes, y_bytes;
  PrepareCall prepare;
  ExpertSpace(const Variant& v, bool gated, const KernelArgs& a) : layout(layout_for(v, gated, a.in[2].shape[1], a.in[2].shape[2])), rows(a.in[0].shape[0]) {
    x_bytes = align_up(rows * layout.k * 4, int64_t{64}), y_bytes = align_up(rows * layout.outputs() * 4, int64_t{64});
    prepare.k = prepare.ldx = layout.k;
    prepare.m = rows;
    prepare.arithmetic = v.arithmetic;
    if (v.arithmetic == Arithmetic::kInt8) prepare.form = act_form(layout, 1);
  }
  int64_t bytes() const { return x_bytes + y_bytes + prepared_bytes(prepare); }
};

Status run_experts(const Variant& v, bool gated, KernelContext& kc, const KernelArgs& a) {
  Context ctx = context_of(kc);
  ExpertSpace s(v, gated, a);
  const int64_t experts = a.in[2].shape[0], k = s.layout.k, columns = s.layout.outputs();
  if (!find_tile_kernel(ctx.table, s.layout, v.arithmetic))
    return environment("kernel cpu.ExpertLinear." + std::string(v.name) + " needs an instruction set that is not there");
  thread_local std::vector<int64_t> first, order;  // where each expert's rows begin, and which they are
  first.assign(static_cast<size_t>(experts) + 1, 0);
  order.resize(static_cast<size_t>(s.rows));
  const auto* chosen = a.in[1].as<int64_t>();
  for (int64_t r = 0; r < s.rows; r++) {
    BRISK_ASSIGN(int64_t e, expert_of(chosen[r], experts));
    first[static_cast<size_t>(e) + 1]++;
  }
  for (size_t e = 1; e < first.size(); e++) first[e] += first[e - 1];
  for (int64_t r = 0; r < s.rows; r++) order[static_cast<size_t>(first[static_cast<size_t>(chosen[r] < 0 ? chosen[r] + experts : chosen[r])]++)] = r;
  auto* x = static_cast<float*>(a.workspace);
  auto* y = reinterpret_cast<float*>(static_cast<std::byte*>(a.workspace) + s.x_bytes);
  auto* prepared = static_cast<std::byte*>(a.workspace) + s.x_bytes + s.y_bytes;
  const auto& attrs = a.get<LinearAttrs>();
  for (int64_t e = 0, begin = 0; e < experts; e++) {
    int64_t n = first[static_cast<size_t>(e)] - begin;  // `first` has moved on to the ends
    if (n == 0) continue;
    for (int64_t i = 0; i < n; i++) std::copy_n(a.in[0].as<float>() + order[static_cast<size_t>(begin + i)] * k, k, x + i * k);
    PrepareCall prepare = s.prepare;
    prepare.x = x;
    prepare.m = n;
    LinearCall c;
    c.layout = &s.layout;
    c.weight = a.in[2].as<std::byte>() + e * expert_bytes(s.layout);
    c.arithmetic = v.arithmetic;
    c.m = n;
    prepare_rows(ctx.table, prepare, prepared, ctx.pool, c);
    if (a.has(3)) c.bias = a.in[3].as<float>() + e * s.layout.n;
    c.act = activation_of(attrs);
    c.y = n == 1 ? a.out[0].as<float>() + order[static_cast<size_t>(begin)] * columns : y;
    c.ldy = columns;
    linear(ctx.table, c, ctx.pool);
    for (int64_t i = 0; n > 1 && i < n; i++) std::copy_n(y + i * columns, columns, a.out[0].as<float>() + order[static_cast<size_t>(begin + i)] * columns);
    begin += n;
  }
  return {};
}

template <int I, bool kGated>
KernelDesc experts_desc() {
  KernelDesc d = linear_desc<I, kGated>();
  d.id.replace(0, std::string("cpu.Linear").size(), "cpu.ExpertLinear");
  d.op = OpId::kExpertLinear;
  d.in_place = 0;
  d.accepts = [](const ProblemDesc& p) { return accepts_experts(kVariants[I], kGated, p); };
  d.run = [](KernelContext& c, const KernelArgs& a) { return run_experts(kVariants[I], kGated, c, a); };
  d.workspace = [](const KernelArgs& a) { return ExpertSpace(kVariants[I], kGated, a).bytes(); };
  d.packings = {{2, std::string(kVariants[I].packing) + (kGated ? ".gated" : "") + ".experts",
                 [](const ProblemDesc&, const Constant& c) { return pack_experts(kVariants[I], kGated, c); },
                 [](const ProblemDesc&, const OperandDesc& o) { return o.type.shape[0].constant_or(0) * expert_bytes(layout_of_expert(kVariants[I], kGated, o)); }}};
  return d;
}

// --- Embedding: rows are gathered from the packed form, so that a tied head is stored once -----------------------------

bool accepts_embedding(const Variant& v, const ProblemDesc& p) {
  return fixed_matrix(p.inputs[0]) && holds(v, p.inputs[0].type, p.inputs[0].encoding) &&
         p.inputs[1].type.dtype == DType::kI32 && check_layout(layout_for(v, false, p.inputs[0])).ok();
}

Status run_embedding(const Variant& v, KernelContext& kc, const KernelArgs& a) {
  WeightLayout layout = layout_for(v, false, a.in[0].shape[0], a.in[0].shape[1]);
  const int32_t* ids = a.in[1].as<int32_t>();
  int64_t tokens = a.in[1].count();
  for (int64_t t = 0; t < tokens; t++)
    if (ids[t] < 0 || ids[t] >= layout.n)
      return invalid("token id " + std::to_string(ids[t]) + " outside [0, " + std::to_string(layout.n) + ")");
  constexpr int64_t kPerChunk = 8;
  context_of(kc).pool.parallel_for(ceil_div(tokens, kPerChunk), [&](int64_t chunk, int) {
    for (int64_t t = chunk * kPerChunk; t < std::min(tokens, (chunk + 1) * kPerChunk); t++)
      unpack_row(layout, a.in[0].as<std::byte>(), ids[t], a.out[0].as<float>() + t * layout.k);
  });
  return {};
}

template <int I>
KernelDesc embedding_desc() {
  constexpr const Variant& v = kVariants[I];
  KernelDesc d;
  d.id = std::string("cpu.Embedding.") + v.name;
  d.op = OpId::kEmbedding;
  d.requires_isa = {"avx2"};
  d.priority = v.priority;
  d.numerics = "cpu.embedding";
  d.accepts = [](const ProblemDesc& p) { return accepts_embedding(kVariants[I], p); };
  d.run = [](KernelContext& c, const KernelArgs& a) { return run_embedding(kVariants[I], c, a); };
  d.packings = {{0, v.packing, [](const ProblemDesc&, const Constant& c) { return pack_constant(kVariants[I], false, c); },
                 [](const ProblemDesc&, const OperandDesc& o) { return layout_for(kVariants[I], false, o).bytes(); }}};
  return d;
}

// The first variant with a packing also gathers embeddings from it.
constexpr bool first_of_packing(int i) {
  for (int j = 0; j < i; j++)
    if (std::string_view(kVariants[j].packing) == kVariants[i].packing) return false;
  return true;
}

template <int I>
void add_variant(Registry& r) {
  r.add(linear_desc<I, false>());
  r.add(linear_desc<I, true>());
  r.add(experts_desc<I, false>());
  r.add(experts_desc<I, true>());
  if constexpr (first_of_packing(I)) r.add(embedding_desc<I>());
  if constexpr (I + 1 < kVariantCount) add_variant<I + 1>(r);
}

}  // namespace

void add_linear(Registry& registry) { add_variant<0>(registry); }

}  // namespace brisk::cpu
