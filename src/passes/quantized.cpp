// Q/DQ: products of quantised operands become integer products with the file's scales; weights that a file holds as codes
// beside float activations stay codes.
#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "passes/all.h"
#include "passes/problem.h"
#include "passes/rewrite.h"
#include "tensor/constant_ops.h"

namespace brisk::passes {
namespace {

constexpr const char* kWhat = "quantised weight";
constexpr const char* kQuantisedProduct = "product of quantised operands";  // computed in f32 where it is missed

// A matrix of codes with its scales, as the file wrote it, and whether its rows are K (as MatMul reads it) or N.
struct Codes {
  const Constant *codes = nullptr, *scale = nullptr, *zero = nullptr;
  QuantAttrs attrs;
  bool k_first = true;
  std::string name;
};

std::optional<Codes> codes_behind(const Round& r, ValueId v, bool k_first) {
  const Graph& g = r.g;
  const Node* n = r.index.producer(v);
  if (n && n->op == OpId::kTranspose && perm_of(g, *n) == std::vector<int64_t>{1, 0}) {
    n = r.index.producer(n->inputs[0]);
    k_first = !k_first;
  }
  if (!n || n->op != OpId::kDequantizeLinear || type_of(g, n->outputs[0]).dtype != DType::kF32) return std::nullopt;
  Codes c{g.constant(n->inputs[0]), g.constant(n->inputs[1]), g.constant(operand(*n, 2)), std::get<QuantAttrs>(n->attrs), k_first, n->name};
  if (!c.codes || !c.scale || c.codes->shape.rank != 2 || !c.codes->encoding.plain() || (operand(*n, 2) >= 0 && !c.zero)) return std::nullopt;
  return c;
}

// How scales lie: one, one for each output, or one for each block of K and output. Else why not.
struct Scales {
  int64_t group = 0;  // of K; 0: all
  int64_t groups = 1;
  std::string why;
};
Scales layout_of(const Codes& c, int64_t n, int64_t k) {
  Scales s;
  int64_t k_axis = c.k_first ? 0 : 1, axis = front_axis(c.attrs.axis, 2);
  if (c.scale->count() == 1) return s;
  if (c.attrs.block == 0) {
    if (c.scale->shape.rank != 1 || c.scale->count() != n || axis != 1 - k_axis) s.why = "a scale for each input";
    return s;
  }
  s.group = c.attrs.block;
  s.groups = (k + s.group - 1) / s.group;
  if (axis != k_axis || c.scale->shape.rank != 2 || c.scale->count() != n * s.groups) s.why = "blocks along outputs";
  return s;
}

// The weight [N, K]; null with the reason where its form is not one that Linear reads.
ConstantPtr weight_of(const Codes& c, std::string& why) {
  const Constant& q = *c.codes;
  int64_t n = q.shape[c.k_first ? 1 : 0], k = q.shape[c.k_first ? 0 : 1];
  int bits = static_cast<int>(dtype_bits(q.dtype));
  bool is_code = q.dtype == DType::kI8 || q.dtype == DType::kU8 || q.dtype == DType::kI4 || q.dtype == DType::kU4;
  if (!is_code || n < 1 || k < 1 || (bits == 4 && k % 2)) return why = "codes of type " + std::string(dtype_name(q.dtype)), nullptr;
  if (!is_float(c.scale->dtype) || c.scale->dtype == DType::kF64) return why = "scales of type " + std::string(dtype_name(c.scale->dtype)), nullptr;
  Scales s = layout_of(c, n, k);
  if (!s.why.empty()) return why = s.why, nullptr;
  auto at = [&](int64_t row, int64_t i, int64_t columns) { return c.k_first ? i * n + row : row * columns + i; };  // of [K, N] or [N, K]
  auto out = std::make_shared<Constant>();
  out->dtype = DType::kF32;
  out->shape = Dims{n, k};
  Encoding& e = out->encoding;
  e.bits = static_cast<uint8_t>(bits);
  e.code_dtype = q.dtype;
  e.scale_dtype = DType::kF32;
  e.group = static_cast<int32_t>(s.group);
  std::vector<std::byte> codes(static_cast<size_t>(n * k * bits / 8));
  for (int64_t row = 0; row < n; ++row)
    for (int64_t i = 0; i < k; ++i) {
      auto code = static_cast<unsigned>(load_int(q.data.bytes.data(), q.dtype, at(row, i, k)));
      if (bits == 8) codes[static_cast<size_t>(row * k + i)] = std::byte(code & 255);
      else codes[static_cast<size_t>((row * k + i) / 2)] |= std::byte((code & 15) << (i % 2 * 4));
    }
  std::vector<float> scales;
  std::vector<std::byte> zeros;
  bool offset = !is_integer(q.dtype) || q.dtype == DType::kU8 || q.dtype == DType::kU4;
  for (int64_t row = 0; row < n; ++row)
    for (int64_t b = 0; b < s.groups; ++b) {
      int64_t i = c.scale->count() == 1 ? 0 : c.attrs.block ? at(row, b, s.groups) : row;
      scales.push_back(load_float(c.scale->data.bytes.data(), c.scale->dtype, i));
      int64_t z = c.zero ? load_int(c.zero->data.bytes.data(), c.zero->dtype, c.zero->count() == 1 ? 0 : i) : 0;
      offset = offset || z != 0;
      zeros.push_back(std::byte(static_cast<unsigned>(z) & 255));
    }
  e.offset = offset ? Encoding::Offset::kZeroPoint : Encoding::Offset::kNone;
  out->data = Buffer::of(std::move(codes));
  std::vector<std::byte> scale_bytes(scales.size() * sizeof(float));
  std::memcpy(scale_bytes.data(), scales.data(), scale_bytes.size());
  out->scales = Buffer::of(std::move(scale_bytes));
  if (offset) out->offsets = Buffer::of(std::move(zeros));
  return out;
}

// ---- integer products ---------------------------------------------------------------------------------------------------------

// What DequantizeLinear reads: codes in bytes, one scale and zero point, or one for each index along an axis.
struct Dequantized {
  ValueId codes = kNoValue, zero = kNoValue;
  const Constant *scale = nullptr, *zero_value = nullptr;
  int64_t axis = 0;  // of scales that are no single number
};
std::optional<Dequantized> dequantized(const Round& r, ValueId v, std::string& why) {
  const Graph& g = r.g;
  const Node* n = r.index.producer(v, OpId::kDequantizeLinear);
  if (!n) return std::nullopt;
  const auto& a = std::get<QuantAttrs>(n->attrs);
  Dequantized d{n->inputs[0], operand(*n, 2), g.constant(n->inputs[1]), g.constant(operand(*n, 2)), 0};
  const Type& t = type_of(g, d.codes);
  if (a.to != DType::kF32 || !t.ranked || (t.dtype != DType::kI8 && t.dtype != DType::kU8)) return why = "codes of type " + std::string(dtype_name(t.dtype)), std::nullopt;
  if (!d.scale || d.scale->dtype != DType::kF32 || (d.zero >= 0 && !d.zero_value)) return why = "scales or zero points that are computed", std::nullopt;
  if (a.block != 0) return why = "scales for blocks", std::nullopt;
  if (d.scale->count() != 1 && (d.scale->shape.rank != 1 || (d.axis = front_axis(a.axis, t.rank())) < 0)) return why = "scales of shape " + to_string(d.scale->shape), std::nullopt;
  if (d.zero_value && d.zero_value->count() != d.scale->count()) return why = "scales and zero points of different shapes", std::nullopt;
  return d;
}

// The zero point as one number or a vector; kNoValue where all are 0.
ValueId zero_operand(Graph& g, const Dequantized& d) {
  if (!d.zero_value) return kNoValue;
  std::vector<int64_t> z = to_ints(d.zero_value->view());
  if (std::all_of(z.begin(), z.end(), [](int64_t i) { return i == 0; })) return kNoValue;
  auto c = std::make_shared<Constant>(*d.zero_value);
  c->shape = c->count() == 1 ? Dims{} : Dims{c->count()};
  return g.add_constant(g.value(d.zero).name + ".zero", std::move(c));
}

// Only where a kernel of the device beats the reference: elsewhere floats are faster.
bool has_kernel(const Round& r, OpId op, const Attrs& attrs, const std::vector<ValueId>& in) {
  Node n;
  n.op = op, n.attrs = attrs, n.inputs = in, n.outputs = {kNoValue};
  const KernelDesc* k = r.context.registry.best(describe_problem(r.g, n));
  return k && k->priority > 0;
}

// Float result of integer sums: times both scales, plus the bias. `axis`: of the result, along which outputs lie.
Status scaled_sums(Round& r, Node& root, ValueId sums, const Dequantized& x, const Dequantized& w, ValueId bias, int64_t axis) {
  Graph& g = r.g;
  const int64_t rank = type_of(g, sums).rank();
  Dims along;
  for (int64_t i = axis; i < rank; ++i) along.push(i == axis ? w.scale->count() : 1);
  std::vector<float> scale;
  for (int64_t i = 0; i < w.scale->count(); ++i) scale.push_back(x.scale->as<float>()[0] * w.scale->as<float>()[i]);
  if (w.scale->count() == 1) along = Dims{};
  ValueId factor = g.add_constant(root.name + ".scale", make_constant(DType::kF32, along, scale));
  CastAttrs real;
  BRISK_ASSIGN(ValueId y, r.add(root, OpId::kCast, real, {sums}));
  if (bias < 0) return r.replace(root, OpId::kMul, NoAttrs{}, {y, factor});
  BRISK_ASSIGN(y, r.add(root, OpId::kMul, NoAttrs{}, {y, factor}));
  if (axis < rank - 1) {
    std::vector<int64_t> shape(static_cast<size_t>(rank - axis), 1);
    shape[0] = -1;
    BRISK_ASSIGN(bias, r.add_view(root, bias, shape));
  }
  return r.replace(root, OpId::kAdd, NoAttrs{}, {y, bias});
}

// MatMul, Gemm or Conv of two dequantised operands, the second constant.
Status integer_product(Round& r, Node& n) {
  Graph& g = r.g;
  const auto* gemm = std::get_if<GemmAttrs>(&n.attrs);
  std::string why;
  auto x = dequantized(r, n.inputs[0], why), w = dequantized(r, n.inputs[1], why);
  const char* what = "integer product";
  if (!x && !w && why.empty()) return {};
  if (!x || !w) {
    if (why.empty()) why = w ? "its first operand is not quantised" : "its second operand is not quantised";
    return r.missed(n, what, why), Status();
  }
  const Constant* codes = g.constant(w->codes);
  if (!codes) return r.missed(n, kQuantisedProduct, "its second operand is computed"), Status();
  if (x->scale->count() != 1) return r.missed(n, kQuantisedProduct, "the first operand has scales for each index of an axis"), Status();
  const bool conv = n.op == OpId::kConv, flip = gemm && gemm->trans_b;
  const int64_t outputs = conv || flip ? 0 : 1;  // the weight's axis of outputs
  if (!conv && codes->shape.rank != 2) return r.missed(n, kQuantisedProduct, "a weight of rank " + std::to_string(codes->shape.rank)), Status();
  if (w->scale->count() != 1 && (w->axis != outputs || w->scale->count() != codes->shape[static_cast<int>(outputs)]))
    return r.missed(n, kQuantisedProduct, "the weight's scales lie along an axis that is summed over"), Status();
  if (gemm && (gemm->trans_a || gemm->alpha != 1 || (operand(n, 2) >= 0 && (gemm->beta != 1 || type_of(g, n.inputs[2]).rank() != 1))))
    return r.missed(n, kQuantisedProduct, "a Gemm with alpha, beta, a transposed operand or a bias that is no row"), Status();
  ValueId matrix = w->codes;
  if (flip) matrix = g.add_constant(g.value(matrix).name + ".T", transposed(*codes));
  std::vector<ValueId> in = {x->codes, matrix, zero_operand(g, *x), zero_operand(g, *w)};
  const OpId op = conv ? OpId::kConvInteger : OpId::kMatMulInteger;
  const Attrs attrs = conv ? n.attrs : Attrs(NoAttrs{});
  if (!has_kernel(r, op, attrs, in)) return r.missed(n, kQuantisedProduct, "this device has no kernel for it"), Status();
  const ValueId bias = conv || gemm ? operand(n, 2) : kNoValue;
  BRISK_ASSIGN(ValueId sums, r.add(n, op, attrs, std::move(in)));
  return scaled_sums(r, n, sums, *x, *w, bias, conv ? 1 : type_of(g, sums).rank() - 1);
}

Status step(Round& r, Node& n) {
  Graph& g = r.g;
  if (n.op == OpId::kMatMul || n.op == OpId::kGemm || n.op == OpId::kConv) BRISK_TRY(integer_product(r, n));
  if (n.op != OpId::kMatMul && n.op != OpId::kGemm) return {};
  const auto* gemm = std::get_if<GemmAttrs>(&n.attrs);
  auto c = codes_behind(r, n.inputs[1], !gemm || !gemm->trans_b);
  if (!c) return {};
  const Type& x = type_of(g, n.inputs[0]);
  std::string why;
  if (!x.ranked || x.rank() < 2 || x.dtype != DType::kF32) why = "its other operand is " + to_string(x);
  ValueId bias = gemm ? operand(n, 2) : kNoValue;
  if (gemm && (gemm->trans_a || gemm->alpha != 1 || (bias >= 0 && gemm->beta != 1))) why = "a Gemm with alpha, beta or a transposed operand";
  ConstantPtr w = why.empty() ? weight_of(*c, why) : nullptr;
  const Constant* b = g.constant(bias);
  if (w && bias >= 0 && (!b || b->shape.rank != 1 || b->dtype != DType::kF32 || b->count() != w->shape[0])) w = nullptr, why = "a bias that is no constant row";
  if (!w) {
    log(LogLevel::kWarning, std::string(kWhat) + " of '" + c->name + "' is widened to f32: " + why);
    return {};
  }
  std::vector<ValueId> in = {n.inputs[0], g.add_constant(c->name + ".codes", std::move(w))};
  if (bias >= 0) in.push_back(bias);
  return r.replace(n, OpId::kLinear, LinearAttrs{}, std::move(in));
}

}  // namespace

Result<int> fuse_quantized(Graph& g, PassContext& c) {
  BRISK_ASSIGN(int changed, until_stable(g, c, step));
  constexpr int kTold = 8;  // a model of many layers repeats itself
  int told = 0;
  for (const std::string& line : c.missed)
    if (line.starts_with(kQuantisedProduct) && told++ < kTold) log(LogLevel::kWarning, line + "; it is computed in f32");
  if (told > kTold) log(LogLevel::kWarning, std::to_string(told - kTold) + " more products of quantised operands are computed in f32 (--log-level verbose names them)");
  return changed;
}

}  // namespace brisk::passes
