// MatMulInteger and ConvInteger of the operator table on packed weights.
#include "backend/cpu/cpu.h"
#include "backend/cpu/integer.h"

namespace brisk::cpu {
namespace {

bool is_bytes(const OperandDesc& o) { return o.encoding.plain() && (o.type.dtype == DType::kU8 || o.type.dtype == DType::kI8); }
bool fixed(const OperandDesc& o) {
  if (!o.present || !o.constant || !is_bytes(o) || !o.type.ranked) return false;
  for (const Dim& d : o.type.shape)
    if (d.constant_or(0) < 1) return false;
  return true;
}
int64_t size(const OperandDesc& o, int axis) { return o.type.shape[static_cast<size_t>(axis)].constant_or(0); }
int64_t count_from(const OperandDesc& o, int axis) {
  int64_t n = 1;
  for (int i = axis; i < o.type.rank(); i++) n *= size(o, i);
  return n;
}
bool is_f32(const ProblemDesc& p, size_t i) { return !p.has(i) || (p.inputs[i].type.dtype == DType::kF32 && p.inputs[i].encoding.plain()); }
// One number for all.
bool single(const ProblemDesc& p, size_t i) {
  if (!p.has(i)) return true;
  const Type& t = p.inputs[i].type;
  return is_bytes(p.inputs[i]) && t.ranked && (t.rank() == 0 || (t.rank() == 1 && t.shape[0].constant_or(0) == 1));
}
bool vector_or_single(const ProblemDesc& p, size_t i) { return !p.has(i) || (is_bytes(p.inputs[i]) && p.inputs[i].type.ranked && p.inputs[i].type.rank() <= 1); }

Result<std::vector<int32_t>> zeros(const KernelArgs& k, size_t i, int64_t n) {
  std::vector<int32_t> out;
  if (!k.has(i)) return std::vector<int32_t>{0};
  if (k.in[i].count() != 1 && k.in[i].count() != n) return invalid("zero points do not fit: " + std::to_string(k.in[i].count()));
  for (int64_t j = 0; j < k.in[i].count(); j++) out.push_back(static_cast<int32_t>(load_int(k.in[i].data, k.in[i].dtype, j)));
  return out;
}
int32_t zero_of(const KernelArgs& k, size_t i) { return k.has(i) ? static_cast<int32_t>(load_int(k.in[i].data, k.in[i].dtype, 0)) : 0; }

// --- MatMulInteger --------------------------------------------------------------------------------------------------------

bool accepts_matmul(const ProblemDesc& p) {
  return fixed(p.inputs[1]) && p.inputs[1].type.rank() == 2 && size(p.inputs[1], 0) <= 1 << 16 && is_bytes(p.inputs[0]) &&
         p.inputs[0].type.ranked && p.inputs[0].type.rank() >= 1 && single(p, 2) && vector_or_single(p, 3) && is_f32(p, 4) && is_f32(p, 5);
}
int64_t rows_of(const KernelArgs& k) { return k.in[1].shape[0] ? k.in[0].count() / k.in[1].shape[0] : 0; }

Status run_matmul(KernelContext& kc, const KernelArgs& k) {
  MatMulIntegerCall c;
  const Dims& a = k.in[0].shape;
  c.k = k.in[1].shape[0];
  c.n = k.in[1].shape[1];
  if (a[a.rank - 1] != c.k) return invalid("MatMulInteger: inner sizes " + std::to_string(a[a.rank - 1]) + " and " + std::to_string(c.k));
  c.m = rows_of(k);
  c.a = k.in[0].as<uint8_t>();
  c.a_signed = k.in[0].dtype == DType::kI8;
  c.b_signed = k.in[1].dtype == DType::kI8;
  c.b = k.in[1].as<std::byte>();
  c.a_zero = zero_of(k, 2);
  BRISK_ASSIGN(auto b_zeros, zeros(k, 3, c.n));
  c.b_zeros = b_zeros;
  if (k.has(4)) {
    if (k.in[4].count() != 1 && k.in[4].count() != c.n) return invalid("MatMulInteger: the scale does not fit the columns");
    c.scale = {k.in[4].as<float>(), static_cast<size_t>(k.in[4].count())};
    if (k.has(5)) c.bias = k.in[5].as<float>();
    c.y = k.out[0].as<float>();
  } else {
    c.integers = k.out[0].as<int32_t>();
  }
  Context x = context_of(kc);
  matmul_integer(x.table, x.pool, c, k.workspace);
  return {};
}

// --- ConvInteger ----------------------------------------------------------------------------------------------------------

bool accepts_conv(const ProblemDesc& p) {
  const Type& x = p.inputs[0].type;
  return fixed(p.inputs[1]) && is_bytes(p.inputs[0]) && x.ranked && x.rank() >= 3 && x.rank() <= 5 && p.inputs[1].type.rank() == x.rank() &&
         count_from(p.inputs[1], 1) <= 1 << 16 && single(p, 2) && vector_or_single(p, 3);
}
Result<ConvIntegerCall> conv_call(const KernelArgs& k) {
  const auto& a = k.get<WindowAttrs>();
  const TensorView &x = k.in[0], &w = k.in[1];
  if (x.shape[1] != w.shape[1] * a.group || w.shape[0] % a.group != 0) return invalid("ConvInteger: channels of x and of the weight do not fit");
  ConvIntegerCall c{WindowSpace(a, x.shape, k.out[0].shape, w.shape.d + 2)};
  c.batch = x.shape[0];
  c.channels = x.shape[1];
  c.filters = w.shape[0];
  c.groups = a.group;
  c.x = x.as<uint8_t>();
  c.x_signed = x.dtype == DType::kI8;
  c.w_signed = w.dtype == DType::kI8;
  c.w = w.as<std::byte>();
  c.x_zero = zero_of(k, 2);
  c.integers = k.out[0].as<int32_t>();
  return c;
}
Status run_conv(KernelContext& kc, const KernelArgs& k) {
  BRISK_ASSIGN(ConvIntegerCall c, conv_call(k));
  BRISK_ASSIGN(auto w_zeros, zeros(k, 3, c.filters));
  c.w_zeros = w_zeros;
  Context x = context_of(kc);
  conv_integer(x.table, x.pool, c, k.workspace);
  return {};
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
using Bytes = std::vector<std::byte>;

}  // namespace

void add_integer(Registry& r) {
  KernelDesc d = desc("cpu.MatMulInteger", OpId::kMatMulInteger, accepts_matmul, run_matmul);
  d.workspace = [](const KernelArgs& k) { return matmul_integer_workspace(rows_of(k), k.in[1].shape[1], k.in[1].shape[0]); };
  d.packings = {{1, "cpu.columns.i8",
                 [](const ProblemDesc&, const Constant& c) -> Result<Bytes> {
                   Bytes out(static_cast<size_t>(packed_columns_bytes(c.shape[0], c.shape[1])));
                   pack_columns(c.as<uint8_t>(), c.dtype == DType::kI8, c.shape[0], c.shape[1], out.data());
                   return out;
                 },
                 [](const ProblemDesc&, const OperandDesc& o) { return packed_columns_bytes(size(o, 0), size(o, 1)); }}};
  r.add(std::move(d));
  d = desc("cpu.ConvInteger", OpId::kConvInteger, accepts_conv, run_conv);
  d.workspace = [](const KernelArgs& k) {
    auto c = conv_call(k);
    return c.ok() ? conv_integer_workspace(*c) : 0;
  };
  d.packings = {{1, "cpu.filters.i8",
                 [](const ProblemDesc&, const Constant& c) -> Result<Bytes> {
                   int64_t taps = c.shape.count(2, c.shape.rank);
                   Bytes out(static_cast<size_t>(packed_filters_bytes(c.shape[0], c.shape[1], taps)));
                   pack_filters(c.as<uint8_t>(), c.dtype == DType::kI8, c.shape[0], c.shape[1], taps, out.data());
                   return out;
                 },
                 [](const ProblemDesc&, const OperandDesc& o) { return packed_filters_bytes(size(o, 0), size(o, 1), count_from(o, 2)); }}};
  r.add(std::move(d));
}

}  // namespace brisk::cpu
