// Linear, Embedding and the row norms on weights in any encoding.
#include <cmath>
#include <vector>

#include "backend/ref/groups.h"
#include "base/checked.h"
#include "op/activation.h"
#include "op/experts.h"

namespace brisk::ref {
namespace {

// Every weight is packed as dequantised f32 rows: the encoding's meaning is Constant's, written down once.
Result<std::vector<std::byte>> pack_floats(const ProblemDesc&, const Constant& c) {
  auto f = to_floats(c);
  std::vector<std::byte> out(f.size() * sizeof(float));
  if (!f.empty()) std::memcpy(out.data(), f.data(), out.size());
  return out;
}
int64_t packed_bytes(const ProblemDesc&, const OperandDesc& o) {
  int64_t n = 4;
  for (const Dim& d : o.type.shape) n *= d.constant_or(0);
  return n;
}

// RMS norm (Zhang and Sennrich, 2019) of one row.
void rms_norm_row(const float* x, const float* w, int64_t k, float epsilon, float* y) {
  double sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += static_cast<double>(x[i]) * x[i];
  auto scale = static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(k) + epsilon));
  for (int64_t i = 0; i < k; ++i) y[i] = x[i] * scale * w[i];
}

// What dynamic int8 quantisation keeps of a row: see LinearAttrs::act_group and act_terms.
void fake_quantize_row(float* x, int64_t k, int64_t group, int64_t terms) {
  for (int64_t g = 0; g < k; g += group) {
    int64_t end = std::min(g + group, k);
    float largest = 0;
    for (int64_t i = g; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
    float scale = largest / 127.0f, inverse = largest > 0 ? 127.0f / largest : 0.0f;
    float largest_rest = 0;
    std::vector<float> rest;
    for (int64_t i = g; i < end; ++i) {
      float kept = std::nearbyint(x[i] * inverse) * scale;
      largest_rest = std::max(largest_rest, std::fabs(rest.emplace_back(x[i] - kept)));
      x[i] = kept;
    }
    if (terms < 2 || largest_rest == 0) continue;
    float rest_scale = largest_rest / 127.0f;
    for (int64_t i = g; i < end; ++i) x[i] += std::nearbyint(rest[static_cast<size_t>(i - g)] / rest_scale) * rest_scale;
  }
}

// Rows of one matrix [n, k] and its bias, one at a time.
struct Matrix {
  const LinearAttrs& attrs;
  const float *weights, *bias;
  int64_t n, k;
  std::vector<float> row = std::vector<float>(static_cast<size_t>(k)), y = std::vector<float>(static_cast<size_t>(n));

  int64_t columns() const { return attrs.gated ? n / 2 : n; }
  // `row` holds the operand, out the residual's sum or nothing.
  void multiply(const float* residual, float* out) {
    if (attrs.act_group) fake_quantize_row(row.data(), k, attrs.act_group, attrs.act_terms);
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += static_cast<double>(row[static_cast<size_t>(i)]) * weights[j * k + i];
      y[static_cast<size_t>(j)] = static_cast<float>(sum) + (bias ? bias[j] : 0.0f);
    }
    Activation act = attrs.gated && attrs.act.empty() ? Activation::kSilu : activation_from_name(attrs.act).value_or(Activation::kNone);
    for (int64_t j = 0; j < columns(); ++j) {
      auto at = static_cast<size_t>(attrs.gated ? 2 * j : j);
      float v = activate(act, y[at], attrs.act_alpha, attrs.act_beta) * (attrs.gated ? y[at + 1] : 1.0f);
      out[j] = v + (residual ? residual[j] : 0.0f);
    }
  }
};

Status linear(KernelContext&, const KernelArgs& a) {
  const TensorView &x = a.in[0], &w = a.in[1];
  Matrix m{a.get<LinearAttrs>(), w.as<float>(), a.has(2) ? a.in[2].as<float>() : nullptr, w.shape[0], w.shape[1]};
  for (int64_t r = 0, rows = m.k ? x.count() / m.k : 0; r < rows; ++r) {
    const float* source = x.as<float>() + r * m.k;
    if (a.has(4)) rms_norm_row(source, a.in[4].as<float>(), m.k, m.attrs.norm_epsilon, m.row.data());
    else std::copy(source, source + m.k, m.row.data());
    m.multiply(a.has(3) ? a.in[3].as<float>() + r * m.columns() : nullptr, a.out[0].as<float>() + r * m.columns());
  }
  return {};
}

Status expert_linear(KernelContext&, const KernelArgs& a) {
  const TensorView &x = a.in[0], &w = a.in[2];
  int64_t experts = w.shape[0], n = w.shape[1], k = w.shape[2];
  for (int64_t r = 0; r < x.shape[0]; ++r) {
    BRISK_ASSIGN(int64_t e, expert_of(a.in[1].as<int64_t>()[r], experts));
    Matrix m{a.get<LinearAttrs>(), w.as<float>() + e * n * k, a.has(3) ? a.in[3].as<float>() + e * n : nullptr, n, k};
    std::copy_n(x.as<float>() + r * k, k, m.row.data());
    m.multiply(nullptr, a.out[0].as<float>() + r * m.columns());
  }
  return {};
}

Status embedding(KernelContext&, const KernelArgs& a) {
  int64_t vocab = a.in[0].shape[0], width = a.in[0].shape[1];
  for (int64_t t = 0; t < a.in[1].count(); ++t) {
    int32_t id = a.in[1].as<int32_t>()[t];
    if (id < 0 || id >= vocab) return invalid("token id " + std::to_string(id) + " outside [0, " + std::to_string(vocab) + ")");
    std::memcpy(a.out[0].as<float>() + t * width, a.in[0].as<float>() + id * width, static_cast<size_t>(width) * 4);
  }
  return {};
}

// Computed in f32, whatever the operands are stored as.
Status rms_norm(KernelContext&, const KernelArgs& a) {
  int64_t k = a.in[1].count(), rows = k ? a.in[0].count() / k : 0;
  if (a.in[0].dtype != DType::kF32 || a.in[1].dtype != DType::kF32) {
    std::vector<float> x(static_cast<size_t>(k)), y(x), w(x);
    for (int64_t i = 0; i < k; ++i) w[static_cast<size_t>(i)] = load_float(a.in[1].data, a.in[1].dtype, i);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < k; ++i) x[static_cast<size_t>(i)] = load_float(a.in[0].data, a.in[0].dtype, r * k + i);
      rms_norm_row(x.data(), w.data(), k, a.get<NormAttrs>().epsilon, y.data());
      for (int64_t i = 0; i < k; ++i) store_float(a.out[0].data, a.out[0].dtype, r * k + i, y[static_cast<size_t>(i)]);
    }
    return {};
  }
  for (int64_t r = 0; r < rows; ++r)
    rms_norm_row(a.in[0].as<float>() + r * k, a.in[1].as<float>(), k, a.get<NormAttrs>().epsilon, a.out[0].as<float>() + r * k);
  return {};
}

bool f32_operand(const ProblemDesc& p, size_t i) { return !p.has(i) || p.inputs[i].type.dtype == DType::kF32; }
bool constant_weight(const ProblemDesc& p) { return p.inputs[0].constant; }
bool linear_problem(const ProblemDesc& p) {
  return f32_operand(p, 0) && p.inputs[1].constant && f32_operand(p, 2) && f32_operand(p, 3) && f32_operand(p, 4);
}
bool expert_problem(const ProblemDesc& p) { return f32_operand(p, 0) && p.inputs[2].constant && f32_operand(p, 3); }
bool rms_problem(const ProblemDesc& p) {
  auto plain = [&](size_t i) { return is_float(p.inputs[i].type.dtype) && p.inputs[i].encoding.plain() && dtype_bits(p.inputs[i].type.dtype) <= 32; };
  return plain(0) && plain(1);
}

}  // namespace

void add_linear(Registry& r) {
  auto packed = [&](OpId op, KernelFn run, bool (*accepts)(const ProblemDesc&), int weight) {
    KernelDesc d;
    d.id = std::string("ref.") + op_name(op);
    d.op = op;
    d.run = run;
    d.accepts = accepts;
    d.packings = {{weight, "f32_rows", pack_floats, packed_bytes}};
    r.add(std::move(d));
  };
  packed(OpId::kLinear, linear, linear_problem, 1);
  packed(OpId::kExpertLinear, expert_linear, expert_problem, 2);
  packed(OpId::kEmbedding, embedding, constant_weight, 0);
  add(r, OpId::kRmsNorm, rms_norm, rms_problem);
}

}  // namespace brisk::ref
