// Convolutions, pools and products of computed operands, of the operator table on float tensors.
#include <algorithm>

#include "backend/cpu/activation.h"
#include "backend/cpu/conv.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/pool.h"

namespace brisk::cpu {
namespace {

bool is_f32(const ProblemDesc& p, size_t i) { return !p.has(i) || (p.inputs[i].type.dtype == DType::kF32 && p.inputs[i].encoding.plain()); }
bool ranks_between(const ProblemDesc& p, size_t i, int low, int high) {
  return p.has(i) && p.inputs[i].type.ranked && p.inputs[i].type.rank() >= low && p.inputs[i].type.rank() <= high;
}
// The same where a rank that is not known at build time will be admitted by the operator's rule only if it is right.
bool maybe_between(const ProblemDesc& p, size_t i, int low, int high) { return p.has(i) && (!p.inputs[i].type.ranked || ranks_between(p, i, low, high)); }

// A constant weight all of whose sizes are known.
bool fixed_weight(const OperandDesc& o) {
  if (!o.present || !o.constant || !o.encoding.plain() || o.type.dtype != DType::kF32) return false;
  for (const Dim& d : o.type.shape)
    if (d.constant_or(0) < 1) return false;
  return true;
}
int64_t size(const OperandDesc& o, int axis) { return o.type.shape[static_cast<size_t>(axis)].constant_or(0); }
int64_t taps(const OperandDesc& w) {
  int64_t n = 1;
  for (int i = 2; i < w.type.rank(); i++) n *= size(w, i);
  return n;
}

KernelDesc desc(const char* id, OpId op, bool (*accepts)(const ProblemDesc&), KernelFn run) {
  KernelDesc d;
  d.id = id;
  d.op = op;
  d.requires_isa = {"avx2"};
  d.priority = 10;
  d.numerics = id;
  d.accepts = accepts;
  d.run = run;
  return d;
}

// --- Conv ---------------------------------------------------------------------------------------------------------------

bool is_depthwise(const OperandDesc& w, int64_t group) { return group > 1 && size(w, 1) == 1 && w.type.rank() <= 4 && taps(w) <= 256; }

bool conv_problem(const ProblemDesc& p) {
  if (!maybe_between(p, 0, 3, 5) || !ranks_between(p, 1, 3, 5) || !fixed_weight(p.inputs[1])) return false;
  for (size_t i : {0, 2, 3})
    if (!is_f32(p, i)) return false;
  return true;
}
template <bool depthwise> bool accepts_conv(const ProblemDesc& p) {
  return conv_problem(p) && is_depthwise(p.inputs[1], p.get<WindowAttrs>().group) == depthwise;
}

Result<ConvCall> conv_call(const KernelArgs& a) {
  const auto& attrs = a.get<WindowAttrs>();
  const TensorView &x = a.in[0], &w = a.in[1], &y = a.out[0];
  if (x.shape[1] != w.shape[1] * attrs.group || w.shape[0] % attrs.group != 0) return invalid("Conv: channels of x and of the weight do not fit");
  if (a.has(2) && a.in[2].count() != w.shape[0]) return invalid("Conv: the bias does not fit the weight");
  if (a.has(3) && !(a.in[3].shape == y.shape)) return invalid("Conv: the residual does not fit the result");
  ConvCall c{WindowSpace(attrs, x.shape, y.shape, w.shape.d + 2)};
  c.batch = x.shape[0];
  c.channels = x.shape[1];
  c.filters = w.shape[0];
  c.groups = attrs.group;
  c.x = x.as<float>();
  c.w = w.as<float>();
  if (a.has(2)) c.end.bias = a.in[2].as<float>();
  if (a.has(3)) c.end.residual = a.in[3].as<float>();
  c.end.residual_last = attrs.residual_last;
  c.end.act = unary_of(attrs.act, attrs.act_alpha, attrs.act_beta);
  c.y = y.as<float>();
  return c;
}

Status run_conv(KernelContext& kc, const KernelArgs& a) {
  BRISK_ASSIGN(ConvCall c, conv_call(a));
  Context x = context_of(kc);
  conv(x.table, x.pool, c);
  return {};
}

// Windows too large for a tile go through the general form; with one channel a group its packed rows are the filters,
// only further apart.
int64_t depthwise_workspace(const KernelArgs& a) {
  auto c = conv_call(a);
  return !c.ok() || depthwise_fits(c->space) ? 0 : c->filters * conv_row(1, c->space.taps) * 4;
}
Status run_depthwise(KernelContext& kc, const KernelArgs& a) {
  BRISK_ASSIGN(ConvCall c, conv_call(a));
  Context x = context_of(kc);
  if (depthwise_fits(c.space)) {
    conv_depthwise(x.table, x.pool, c);
  } else {
    auto* packed = static_cast<float*>(a.workspace);
    pack_conv(c.w, c.filters, 1, c.space.taps, packed);
    c.w = packed;
    conv(x.table, x.pool, c);
  }
  return {};
}

Result<std::vector<std::byte>> pack_conv_weight(const ProblemDesc&, const Constant& c) {
  int64_t n = c.shape.count(2, c.shape.rank);
  std::vector<std::byte> out(static_cast<size_t>(c.shape[0] * conv_row(c.shape[1], n)) * sizeof(float));
  pack_conv(c.as<float>(), c.shape[0], c.shape[1], n, reinterpret_cast<float*>(out.data()));
  return out;
}
int64_t packed_conv_bytes(const ProblemDesc&, const OperandDesc& w) { return size(w, 0) * conv_row(size(w, 1), taps(w)) * 4; }

// --- ConvTranspose ------------------------------------------------------------------------------------------------------

bool accepts_conv_transpose(const ProblemDesc& p) {
  return conv_problem(p) && size(p.inputs[1], 0) % p.get<WindowAttrs>().group == 0;
}

Result<ConvCall> transpose_call(const KernelArgs& a) {
  const auto& attrs = a.get<WindowAttrs>();
  const TensorView &x = a.in[0], &w = a.in[1], &y = a.out[0];
  int64_t filters = w.shape[1] * attrs.group;
  if (x.shape[1] != w.shape[0] || w.shape[0] % attrs.group != 0 || (a.has(2) && a.in[2].count() != filters))
    return invalid("ConvTranspose: channels of x, weight, bias and groups do not fit");
  ConvCall c{WindowSpace(attrs, x.shape, y.shape, w.shape.d + 2)};
  int axes = x.shape.rank - 2;
  for (int i = 0; i < axes; i++) {  // padding that follows from a given size of the result
    WindowAxis& v = c.space.w[3 - axes + i];
    v.begin = window_axis(attrs, static_cast<size_t>(i), v.kernel, axes, 0).begin;
    if (attrs.output_shape.empty() && !attrs.auto_pad.starts_with("SAME")) continue;
    int64_t extra = static_cast<size_t>(i) < attrs.output_padding.size() ? attrs.output_padding[static_cast<size_t>(i)] : 0;
    int64_t total = std::max<int64_t>(0, v.stride * (x.shape[2 + i] - 1) + extra + v.reach() - y.shape[2 + i]);
    v.begin = attrs.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
  }
  c.batch = x.shape[0];
  c.channels = x.shape[1];
  c.filters = filters;
  c.groups = attrs.group;
  c.x = x.as<float>();
  c.w = w.as<float>();
  if (a.has(2)) c.end.bias = a.in[2].as<float>();
  c.y = y.as<float>();
  return c;
}
Status run_conv_transpose(KernelContext& kc, const KernelArgs& a) {
  BRISK_ASSIGN(ConvCall c, transpose_call(a));
  Context x = context_of(kc);
  conv_transpose(x.table, x.pool, c, static_cast<float*>(a.workspace));
  return {};
}
int64_t transpose_workspace(const KernelArgs& a) {
  auto c = transpose_call(a);
  return c.ok() ? conv_transpose_workspace(*c) : 0;
}
int64_t packed_transpose_bytes(const ProblemDesc& p, const OperandDesc& w) {
  int64_t group = p.get<WindowAttrs>().group;
  return group * size(w, 1) * taps(w) * conv_row(size(w, 0) / group, 1) * 4;
}
Result<std::vector<std::byte>> pack_transpose_weight(const ProblemDesc& p, const Constant& c) {
  std::vector<std::byte> out(static_cast<size_t>(packed_transpose_bytes(p, p.inputs[1])));
  pack_conv_transpose(c.as<float>(), c.shape[0], c.shape[1], c.shape.count(2, c.shape.rank), p.get<WindowAttrs>().group, reinterpret_cast<float*>(out.data()));
  return out;
}

// --- pools --------------------------------------------------------------------------------------------------------------

bool accepts_pool(const ProblemDesc& p) {
  size_t axes = p.get<WindowAttrs>().kernel.size();
  return maybe_between(p, 0, 3, 4) && (axes == 1 || axes == 2) && is_f32(p, 0) && (p.outputs.size() < 2 || !p.outputs[1].ranked);
}

template <bool largest> Status run_pool(KernelContext& kc, const KernelArgs& a) {
  const auto& attrs = a.get<WindowAttrs>();
  const TensorView &x = a.in[0], &y = a.out[0];
  PoolCall c{WindowSpace(attrs, x.shape, y.shape, attrs.kernel.data())};
  c.planes = x.shape[0] * x.shape[1];
  c.largest = largest;
  c.count_include_pad = attrs.count_include_pad;
  c.x = x.as<float>();
  c.y = y.as<float>();
  Context k = context_of(kc);
  pool_planes(k.table, k.pool, c);
  return {};
}

// --- products -----------------------------------------------------------------------------------------------------------

bool accepts_matmul(const ProblemDesc& p) {
  return is_f32(p, 0) && is_f32(p, 1) && maybe_between(p, 0, 1, kMaxRank) && maybe_between(p, 1, 1, kMaxRank);
}

// Strides along the batch axes, which are the operand's own without its last two.
Dims batch_strides(const Dims& operand, const Dims& batch) {
  Dims r;
  for (int i = 0; i < batch.rank; i++) r.push(0);
  int64_t step = operand.rank < 2 ? operand[0] : operand[operand.rank - 1] * operand[operand.rank - 2];
  for (int i = operand.rank - 3, to = batch.rank - 1; i >= 0 && to >= 0; i--, to--) {
    r[to] = operand[i] == 1 ? 0 : step;
    step *= operand[i];
  }
  return r;
}

Status run_matmul(KernelContext& kc, const KernelArgs& args) {
  const TensorView &a = args.in[0], &b = args.in[1], &y = args.out[0];
  MatMulCall c;
  c.m = a.shape.rank > 1 ? a.shape[a.shape.rank - 2] : 1;
  c.k = a.shape[a.shape.rank - 1];
  c.n = b.shape.rank > 1 ? b.shape[b.shape.rank - 1] : 1;
  int64_t inner = b.shape[b.shape.rank > 1 ? b.shape.rank - 2 : 0];
  if (c.k != inner) return invalid("MatMul: inner sizes " + std::to_string(c.k) + " and " + std::to_string(inner));
  int axes = y.shape.rank - (a.shape.rank > 1) - (b.shape.rank > 1);
  if (b.shape.rank <= 2 && a.shape.rank > 2) {  // one matrix for all: the batch is more rows
    for (int i = 0; i < axes; i++) c.m *= y.shape[i];
  } else {
    for (int i = 0; i < axes; i++) c.batch.push(y.shape[i]);
  }
  c.a_strides = batch_strides(a.shape, c.batch);
  c.b_strides = batch_strides(b.shape, c.batch);
  c.a = a.as<float>();
  c.b = b.as<float>();
  c.y = y.as<float>();
  Context x = context_of(kc);
  matmul(x.table, x.pool, c);
  return {};
}

// Gemm: bias of a column, a row, or nothing, and A as it lies.
bool accepts_gemm(const ProblemDesc& p) {
  const auto& g = p.get<GemmAttrs>();
  if (!is_f32(p, 0) || !is_f32(p, 1) || !is_f32(p, 2) || g.trans_a || !ranks_between(p, 0, 2, 2) || !ranks_between(p, 1, 2, 2)) return false;
  return !p.has(2) || (g.beta == 1 && ranks_between(p, 2, 0, 2));
}
Status run_gemm(KernelContext& kc, const KernelArgs& args) {
  const auto& g = args.get<GemmAttrs>();
  const TensorView &a = args.in[0], &b = args.in[1], &y = args.out[0];
  MatMulCall c;
  c.m = y.shape[0];
  c.n = y.shape[1];
  c.k = a.shape[1];
  if (c.k != b.shape[g.trans_b ? 1 : 0]) return invalid("Gemm: inner sizes differ");
  c.alpha = g.alpha;
  c.trans_b = g.trans_b;
  c.a = a.as<float>();
  c.b = b.as<float>();
  c.y = y.as<float>();
  std::vector<float> spread;
  if (args.has(2)) {
    const Dims& s = args.in[2].shape;
    const auto* bias = args.in[2].as<float>();
    int64_t rows = s.rank == 2 ? s[0] : 1, columns = s.rank ? s[s.rank - 1] : 1;
    if (rows == c.m && columns == c.n && rows > 1) {
      c.residual = bias;
    } else if (columns == c.n && rows == 1) {
      c.column_bias = bias;
    } else if (columns == 1) {
      spread.assign(static_cast<size_t>(c.m), bias[0]);
      if (rows == c.m) std::copy(bias, bias + c.m, spread.begin());
      c.row_bias = spread.data();
    } else {
      return invalid("Gemm: c does not fit the result");
    }
  }
  Context x = context_of(kc);
  matmul(x.table, x.pool, c);
  return {};
}

}  // namespace

void add_dense(Registry& r) {
  constexpr uint32_t kResidual = 1 << 3;  // read where the sum is written
  KernelDesc d = desc("cpu.Conv.f32", OpId::kConv, accepts_conv<false>, run_conv);
  d.in_place = kResidual;
  d.packings = {{1, "cpu.conv.f32", pack_conv_weight, packed_conv_bytes}};
  r.add(std::move(d));
  d = desc("cpu.Conv.depthwise.f32", OpId::kConv, accepts_conv<true>, run_depthwise);
  d.in_place = kResidual;
  d.workspace = depthwise_workspace;
  r.add(std::move(d));
  d = desc("cpu.ConvTranspose.f32", OpId::kConvTranspose, accepts_conv_transpose, run_conv_transpose);
  d.packings = {{1, "cpu.conv_transpose.f32", pack_transpose_weight, packed_transpose_bytes}};
  d.workspace = transpose_workspace;
  r.add(std::move(d));
  r.add(desc("cpu.MaxPool.f32", OpId::kMaxPool, accepts_pool, run_pool<true>));
  r.add(desc("cpu.AveragePool.f32", OpId::kAveragePool, accepts_pool, run_pool<false>));
  r.add(desc("cpu.MatMul.f32", OpId::kMatMul, accepts_matmul, run_matmul));
  add_recurrent(r);
  add_integer(r);
  r.add(desc("cpu.Gemm.f32", OpId::kGemm, accepts_gemm, run_gemm));
}

}  // namespace brisk::cpu
