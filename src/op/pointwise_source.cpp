#include "op/pointwise_source.h"

#include <cstdio>

namespace brisk {
namespace {

const char* storage_name(DType t) {
  switch (t) {
    case DType::kF32: return "float";
    case DType::kF16: return "__half";
    case DType::kBF16: return "__nv_bfloat16";
    case DType::kI64: return "long long";
    case DType::kI32: return "int";
    case DType::kBool: return "unsigned char";
    default: return nullptr;
  }
}
const char* register_name(DType t) { return t == DType::kBool ? "bool" : storage_name(t); }

// Every digit that a float needs, in a form that C reads as a float.
std::string number(float v) {
  if (v != v) return "__int_as_float(0x7fc00000)";
  if (v - v != 0) return v > 0 ? "__int_as_float(0x7f800000)" : "__int_as_float(0xff800000)";
  char text[40];
  std::snprintf(text, sizeof text, "%.9gf", static_cast<double>(v));
  std::string s = text;
  if (s.find_first_of(".e") == std::string::npos) s.insert(s.size() - 1, ".0");
  return s;
}

std::string call(const char* function, const std::string& a) { return std::string(function) + "(" + a + ")"; }

// Functions of one float.
std::string float_function(OpId op, const std::string& x, float alpha, float beta) {
  std::string k = number(alpha), d = number(beta), sigmoid = "1.0f / (1.0f + expf(-" + x + "))", softplus = "fmaxf(" + x + ", 0.0f) + log1pf(expf(-fabsf(" + x + ")))";
  switch (op) {
    case OpId::kAbs: return call("fabsf", x);
    case OpId::kNeg: return "0.0f - " + x;
    case OpId::kExp: return call("expf", x);
    case OpId::kLog: return call("logf", x);
    case OpId::kSqrt: return call("sqrtf", x);
    case OpId::kReciprocal: return "1.0f / " + x;
    case OpId::kSin: return call("sinf", x);
    case OpId::kCos: return call("cosf", x);
    case OpId::kTan: return call("tanf", x);
    case OpId::kAsin: return call("asinf", x);
    case OpId::kAcos: return call("acosf", x);
    case OpId::kAtan: return call("atanf", x);
    case OpId::kSinh: return call("sinhf", x);
    case OpId::kCosh: return call("coshf", x);
    case OpId::kTanh: return call("tanhf", x);
    case OpId::kAsinh: return call("asinhf", x);
    case OpId::kAcosh: return call("acoshf", x);
    case OpId::kAtanh: return call("atanhf", x);
    case OpId::kErf: return call("erff", x);
    case OpId::kFloor: return call("floorf", x);
    case OpId::kCeil: return call("ceilf", x);
    case OpId::kRound: return call("rintf", x);
    case OpId::kSign: return "(" + x + " > 0.0f ? 1.0f : 0.0f) - (" + x + " < 0.0f ? 1.0f : 0.0f)";
    case OpId::kRelu: return x + " < 0.0f ? 0.0f : " + x;
    case OpId::kSigmoid: return sigmoid;
    case OpId::kSilu: return x + " / (1.0f + expf(-" + x + "))";
    case OpId::kSoftplus: return softplus;
    case OpId::kSoftsign: return x + " / (1.0f + fabsf(" + x + "))";
    case OpId::kHardSwish: return x + " * fminf(fmaxf(" + x + " / 6.0f + 0.5f, 0.0f), 1.0f)";
    case OpId::kMish: return x + " * tanhf(" + softplus + ")";
    case OpId::kGelu:
      if (alpha == 1) return "0.5f * " + x + " * (1.0f + tanhf(0.797884561f * (" + x + " + 0.044715f * " + x + " * " + x + " * " + x + ")))";
      return "0.5f * " + x + " * (1.0f + erff(" + x + " * 0.707106781f))";
    case OpId::kLeakyRelu: return x + " < 0.0f ? " + k + " * " + x + " : " + x;
    case OpId::kElu: return x + " < 0.0f ? " + k + " * expm1f(" + x + ") : " + x;
    case OpId::kCelu: return "fmaxf(0.0f, " + x + ") + fminf(0.0f, " + k + " * expm1f(" + x + " / " + k + "))";
    case OpId::kSelu: return d + " * (" + x + " > 0.0f ? " + x + " : " + k + " * expm1f(" + x + "))";
    case OpId::kHardSigmoid: return "fminf(fmaxf(" + k + " * " + x + " + " + d + ", 0.0f), 1.0f)";
    case OpId::kThresholdedRelu: return x + " > " + k + " ? " + x + " : 0.0f";
    default: return "";
  }
}

std::string binary(const PointwiseStep& s, const std::string& a, const std::string& b) {
  bool wraps = s.in == DType::kI64 || s.in == DType::kI32;
  std::string type = register_name(s.in), u = s.in == DType::kI64 ? "unsigned long long" : "unsigned int";
  auto arithmetic = [&](const char* op) { return wraps ? "(" + type + ")((" + u + ")" + a + " " + op + " (" + u + ")" + b + ")" : a + " " + op + " " + b; };
  switch (s.op) {
    case OpId::kAdd: return arithmetic("+");
    case OpId::kSub: return arithmetic("-");
    case OpId::kMul: return arithmetic("*");
    case OpId::kDiv:
      if (!wraps) return a + " / " + b;
      return b + " == 0 ? 0 : " + b + " == -1 ? (" + type + ")(0 - (" + u + ")" + a + ") : " + a + " / " + b;
    case OpId::kPow: return "powf(" + a + ", " + b + ")";
    case OpId::kMin: return "(" + a + " < " + b + " || " + a + " != " + a + ") ? " + a + " : " + b;
    case OpId::kMax: return "(" + a + " > " + b + " || " + a + " != " + a + ") ? " + a + " : " + b;
    case OpId::kPRelu: return a + " < 0.0f ? " + a + " * " + b + " : " + a;
    case OpId::kAnd: return a + " && " + b;
    case OpId::kOr: return a + " || " + b;
    case OpId::kXor: return a + " != " + b;
    case OpId::kEqual: return a + " == " + b;
    case OpId::kLess: return a + " < " + b;
    case OpId::kLessOrEqual: return a + " <= " + b;
    case OpId::kGreater: return a + " > " + b;
    case OpId::kGreaterOrEqual: return a + " >= " + b;
    default: return "";
  }
}

std::string unary(const PointwiseStep& s, const std::string& x) {
  if (s.op == OpId::kNot) return "!" + x;
  if (s.op == OpId::kIsNaN) return x + " != " + x;
  if (s.op == OpId::kCast) {
    if (s.type == DType::kBool) return x + (s.in == DType::kBool ? "" : s.in == DType::kF32 ? " != 0.0f" : " != 0");
    std::string type = register_name(s.type);
    // Floats beyond 64 bits become the nearest end of the range, NaN 0; fewer bits wrap.
    return s.in == DType::kF32 && s.type != DType::kF32 ? "(" + type + ")brisk_integer(" + x + ")" : "(" + type + ")" + x;
  }
  if (s.in == DType::kF32) return float_function(s.op, x, s.alpha, s.beta);
  std::string type = register_name(s.in), minus = "(" + type + ")(0 - (" + (s.in == DType::kI64 ? "unsigned long long" : "unsigned int") + ")" + x + ")";
  switch (s.op) {
    case OpId::kAbs: return x + " < 0 ? " + minus + " : " + x;
    case OpId::kNeg: return minus;
    case OpId::kSign: return "(" + x + " > 0) - (" + x + " < 0)";
    case OpId::kRelu: return x + " < 0 ? 0 : " + x;
    default: return "";
  }
}

std::string loaded(DType t, const std::string& element) {
  if (t == DType::kF16) return "__half2float(" + element + ")";
  if (t == DType::kBF16) return "__bfloat162float(" + element + ")";
  return t == DType::kBool ? element + " != 0" : element;
}
std::string stored(DType t, const std::string& reg) {
  if (t == DType::kF16) return "__float2half_rn(" + reg + ")";
  if (t == DType::kBF16) return "__float2bfloat16_rn(" + reg + ")";
  return t == DType::kBool ? reg + " ? 1 : 0" : reg;
}

}  // namespace

Result<std::string> pointwise_source(const PointwiseAttrs& p, std::span<const DType> operands, const std::string& name) {
  BRISK_ASSIGN(auto steps, decode_program(p, operands));
  bool half = p.result == DType::kF16, bfloat = p.result == DType::kBF16, integers = false;
  for (DType t : operands) {
    if (!storage_name(t)) return unsupported("a pointwise kernel over " + std::string(dtype_name(t)));
    half |= t == DType::kF16, bfloat |= t == DType::kBF16;
  }
  for (const PointwiseStep& s : steps) integers |= s.op == OpId::kCast && s.in == DType::kF32;
  std::string count = std::to_string(operands.size()), text;
  if (half) text += "#include <cuda_fp16.h>\n";
  if (bfloat) text += "#include <cuda_bf16.h>\n";
  text += "struct BriskPointwiseShape {\n  long long count;\n  int rank;\n  long long size[8];\n  long long stride[" + count + "][8];\n};\n";
  if (integers)
    text += "static __device__ long long brisk_integer(float v) {\n  if (v >= 9223372036854775808.0f) return 9223372036854775807LL;\n"
            "  if (v < -9223372036854775808.0f) return -9223372036854775807LL - 1;\n  return v == v ? (long long)v : 0;\n}\n";
  text += "extern \"C\" __global__ void " + name + "(";
  for (size_t i = 0; i < operands.size(); ++i) text += std::string("const ") + storage_name(operands[i]) + "* __restrict__ in" + std::to_string(i) + ", ";
  text += std::string(storage_name(p.result)) + "* out, BriskPointwiseShape shape) {\n";
  text += "  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < shape.count; i += (long long)gridDim.x * blockDim.x) {\n";
  text += "    long long rest = i, at[" + count + "] = {};\n    for (int d = shape.rank - 1; d >= 0; --d) {\n";
  text += "      long long place = rest % shape.size[d];\n      rest /= shape.size[d];\n";
  text += "      for (int k = 0; k < " + count + "; ++k) at[k] += place * shape.stride[k][d];\n    }\n";
  auto reg = [](int64_t r) { return "r" + std::to_string(r); };
  for (size_t i = 0; i < operands.size(); ++i)
    text += std::string("    ") + register_name(register_type(operands[i])) + " " + reg(static_cast<int64_t>(i)) + " = " +
            loaded(operands[i], "in" + std::to_string(i) + "[at[" + std::to_string(i) + "]]") + ";\n";
  for (size_t i = 0; i < steps.size(); ++i) {
    const PointwiseStep& s = steps[i];
    std::string value = s.op == OpId::kWhere ? reg(s.a) + " ? " + reg(s.b) + " : " + reg(s.c) : s.b >= 0 ? binary(s, reg(s.a), reg(s.b)) : unary(s, reg(s.a));
    if (value.empty()) return unsupported(std::string("no source for ") + op_name(s.op));
    text += std::string("    ") + register_name(s.type) + " " + reg(static_cast<int64_t>(operands.size() + i)) + " = " + value + ";\n";
  }
  return text + "    out[i] = " + stored(p.result, reg(static_cast<int64_t>(operands.size() + steps.size() - 1))) + ";\n  }\n}\n";
}

}  // namespace brisk
