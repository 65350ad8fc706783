// Pointwise operators: each a small function of one, two or three elements, with numpy broadcasting.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/ref/util.h"
#include "base/int_of.h"
#include "op/pointwise_program.h"

namespace brisk::ref {
namespace {

template <class F> F softplus(F x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
template <class F> F sigmoid(F x) { return 1 / (1 + std::exp(-x)); }
template <class F> F clip01(F x) { return std::min(std::max(x, F(0)), F(1)); }

// Unary operators on floats; a and b are the attributes of those that have any.
template <class F> F unary(OpId op, F x, F a, F b) {
  switch (op) {
    case OpId::kExp: return std::exp(x);
    case OpId::kLog: return std::log(x);
    case OpId::kSqrt: return std::sqrt(x);
    case OpId::kReciprocal: return 1 / x;
    case OpId::kSin: return std::sin(x);
    case OpId::kCos: return std::cos(x);
    case OpId::kTan: return std::tan(x);
    case OpId::kAsin: return std::asin(x);
    case OpId::kAcos: return std::acos(x);
    case OpId::kAtan: return std::atan(x);
    case OpId::kSinh: return std::sinh(x);
    case OpId::kCosh: return std::cosh(x);
    case OpId::kTanh: return std::tanh(x);
    case OpId::kAsinh: return std::asinh(x);
    case OpId::kAcosh: return std::acosh(x);
    case OpId::kAtanh: return std::atanh(x);
    case OpId::kErf: return std::erf(x);
    case OpId::kFloor: return std::floor(x);
    case OpId::kCeil: return std::ceil(x);
    case OpId::kRound: return std::nearbyint(x);
    case OpId::kSigmoid: return sigmoid(x);
    case OpId::kSilu: return x * sigmoid(x);
    case OpId::kSoftplus: return softplus(x);
    case OpId::kSoftsign: return x / (1 + std::fabs(x));
    case OpId::kHardSwish: return x * clip01(x / 6 + F(0.5));
    case OpId::kMish: return x * std::tanh(softplus(x));
    case OpId::kGelu:
      if (a == 1) return F(0.5) * x * (1 + std::tanh(F(0.7978845608028654) * (x + F(0.044715) * x * x * x)));
      return F(0.5) * x * (1 + std::erf(x * F(0.7071067811865476)));
    case OpId::kElu: return x < 0 ? a * std::expm1(x) : x;
    case OpId::kCelu: return std::max(F(0), x) + std::min(F(0), a * std::expm1(x / a));
    case OpId::kSelu: return b * (x > 0 ? x : a * std::expm1(x));
    case OpId::kHardSigmoid: return clip01(a * x + b);
    default: return x;
  }
}

// Those that integers have as well.
template <class T> T any_unary(OpId op, T x, T a) {
  switch (op) {
    case OpId::kAbs: return x < T(0) ? static_cast<T>(T(0) - x) : (x == T(0) ? T(0) : x);
    case OpId::kNeg: return static_cast<T>(T(0) - x);
    case OpId::kSign: return static_cast<T>((x > T(0)) - (x < T(0)));
    case OpId::kRelu: return x < T(0) ? T(0) : x;
    case OpId::kLeakyRelu: return x < T(0) ? static_cast<T>(a * x) : x;
    case OpId::kThresholdedRelu: return x > a ? x : T(0);
    default: return x;
  }
}
bool is_any_unary(OpId op) {
  return op == OpId::kAbs || op == OpId::kNeg || op == OpId::kSign || op == OpId::kRelu || op == OpId::kLeakyRelu ||
         op == OpId::kThresholdedRelu;
}

template <OpId op> Status run_unary(KernelContext&, const KernelArgs& k) {
  const TensorView &x = k.in[0], &y = k.out[0];
  float alpha = 0, beta = 0;
  if (auto* p = std::get_if<AlphaBetaAttrs>(k.attrs)) alpha = p->alpha, beta = p->beta;
  int64_t n = y.count();
  auto loop = [&]<class T>(Tag<T>) -> Status {
    using A = Acc<T>;
    const T* in = x.as<T>();
    T* out = y.as<T>();
    for (int64_t i = 0; i < n; ++i) {
      A v = static_cast<A>(in[i]);
      if (is_any_unary(op)) out[i] = static_cast<T>(any_unary<A>(op, v, static_cast<A>(alpha)));
      else if constexpr (std::is_floating_point_v<A>) out[i] = static_cast<T>(unary<A>(op, v, A(alpha), A(beta)));
    }
    return {};
  };
  return is_any_unary(op) ? dispatch_number(x.dtype, loop) : dispatch_float(x.dtype, loop);
}

Status run_not(KernelContext&, const KernelArgs& k) {
  for (int64_t i = 0; i < k.out[0].count(); ++i) k.out[0].as<uint8_t>()[i] = !k.in[0].as<uint8_t>()[i];
  return {};
}
Status run_bitwise_not(KernelContext&, const KernelArgs& k) {
  for (int64_t i = 0; i < k.out[0].bytes(); ++i) k.out[0].as<uint8_t>()[i] = static_cast<uint8_t>(~k.in[0].as<uint8_t>()[i]);
  return {};
}

template <bool nan> Status run_predicate(KernelContext&, const KernelArgs& k) {
  int64_t sides = nan ? 0 : k.get<ModeAttrs>().flag;
  const TensorView& x = k.in[0];
  for (int64_t i = 0; i < x.count(); ++i) {
    double v = x.dtype == DType::kF64 ? x.as<double>()[i] : static_cast<double>(load_float(x.data, x.dtype, i));
    bool hit = nan ? std::isnan(v) : std::isinf(v) && ((v > 0 && (sides & 1)) || (v < 0 && (sides & 2)));
    k.out[0].as<uint8_t>()[i] = hit;
  }
  return {};
}

// --- Cast -------------------------------------------------------------------------------------------------------------

void store_int(void* p, DType t, int64_t i, int64_t v) {
  switch (t) {
    case DType::kBool: static_cast<uint8_t*>(p)[i] = v != 0; return;
    case DType::kI8: case DType::kU8: static_cast<uint8_t*>(p)[i] = static_cast<uint8_t>(v); return;
    case DType::kI16: case DType::kU16: static_cast<uint16_t*>(p)[i] = static_cast<uint16_t>(v); return;
    case DType::kI32: case DType::kU32: static_cast<uint32_t*>(p)[i] = static_cast<uint32_t>(v); return;
    case DType::kI64: case DType::kU64: static_cast<uint64_t*>(p)[i] = static_cast<uint64_t>(v); return;
    case DType::kF64: static_cast<double*>(p)[i] = static_cast<double>(v); return;
    case DType::kI4: case DType::kU4: case DType::kI2: case DType::kU2: store_float(p, t, i, static_cast<float>(v & 15)); return;
    default: store_float(p, t, i, static_cast<float>(v));
  }
}

// What is written for v when it is too large for fp8: the largest finite number if saturating, else infinity (E5M2) or NaN.
float fp8_input(float v, const CastAttrs& a) {
  struct { float top, round_up; } range;
  switch (a.to) {
    case DType::kF8E4M3: range = {448, 464}; break;
    case DType::kF8E4M3Fnuz: range = {240, 248}; break;
    case DType::kF8E5M2: case DType::kF8E5M2Fnuz: range = {57344, 61440}; break;
    default: return v;
  }
  if (std::isnan(v)) return v;
  if (a.saturate) return std::clamp(v, -range.top, range.top);
  bool over = a.to == DType::kF8E4M3 ? std::fabs(v) > range.round_up : std::fabs(v) >= range.round_up;  // halves to even
  if (!over) return v;
  return a.to == DType::kF8E5M2 ? std::copysign(INFINITY, v) : std::copysign(NAN, v);
}

// A power of two as f8e8m0: 2^(code - 127). ONNX rounds up unless told otherwise, and gives NaN for what is not finite.
uint8_t e8m0_code(float v, const CastAttrs& a) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  uint32_t exponent = bits >> 23 & 255, fraction = bits & 0x7fffffu;
  if (exponent == 255) return 255;
  bool up = a.round == "up" ? fraction > 0 : a.round == "nearest" && (fraction > 0x400000u || (fraction == 0x400000u && exponent > 0));
  if (up && !(a.saturate && exponent == 254)) ++exponent;
  return static_cast<uint8_t>(exponent);
}

void store_cast(const TensorView& y, int64_t i, float v, const CastAttrs& a) {
  if (y.dtype == DType::kF8E8M0) y.as<uint8_t>()[i] = e8m0_code(v, a);
  else store_float(y.data, y.dtype, i, fp8_input(v, a));
}

Status run_cast(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<CastAttrs>();
  const TensorView &x = k.in[0], &y = k.out[0];
  if (x.dtype == DType::kString || y.dtype == DType::kString) return no_dtype(DType::kString);
  int64_t n = y.count();
  bool to_float_type = is_float(y.dtype);
  for (int64_t i = 0; i < n; ++i) {
    if (!is_float(x.dtype)) {
      if (x.dtype == DType::kU64 && to_float_type) {
        auto v = static_cast<double>(x.as<uint64_t>()[i]);
        y.dtype == DType::kF64 ? void(y.as<double>()[i] = v) : store_cast(y, i, static_cast<float>(v), a);
        continue;
      }
      int64_t v = load_int(x.data, x.dtype, i);
      if (to_float_type && y.dtype != DType::kF64) store_cast(y, i, static_cast<float>(v), a);
      else store_int(y.data, y.dtype, i, v);
      continue;
    }
    double v = x.dtype == DType::kF64 ? x.as<double>()[i] : static_cast<double>(load_float(x.data, x.dtype, i));
    if (y.dtype == DType::kF64) y.as<double>()[i] = v;
    else if (to_float_type) store_cast(y, i, static_cast<float>(v), a);
    else if (y.dtype == DType::kBool) y.as<uint8_t>()[i] = v != 0;
    else if (y.dtype == DType::kU64 && v >= 9223372036854775808.0)
      y.as<uint64_t>()[i] = v >= 18446744073709551615.0 ? UINT64_MAX : static_cast<uint64_t>(v);
    else store_int(y.data, y.dtype, i, int_of(v));
  }
  return {};
}

Status run_bitcast(KernelContext&, const KernelArgs& k) {
  const TensorView &x = k.in[0], &y = k.out[0];
  std::memcpy(y.data, x.data, static_cast<size_t>(y.bytes()));
  for (int64_t i = 0; y.dtype == DType::kBool && i < y.count(); ++i) y.as<uint8_t>()[i] = x.as<uint8_t>()[i] != 0;
  return {};
}

// --- two operands -----------------------------------------------------------------------------------------------------

template <class T, class R, class F> void broadcast_binary(const KernelArgs& k, F&& f) {
  const TensorView &a = k.in[0], &b = k.in[1], &y = k.out[0];
  const T *x = a.as<T>(), *z = b.as<T>();
  R* out = y.as<R>();
  if (a.shape == y.shape && b.shape == y.shape) {
    for (int64_t i = 0, n = y.count(); i < n; ++i) out[i] = f(x[i], z[i]);
  } else {
    Dims strides[] = {broadcast_strides(a.shape, y.shape), broadcast_strides(b.shape, y.shape)};
    walk(y.shape, strides, [&](int64_t i, int64_t j) { *out++ = f(x[i], z[j]); });
  }
}

template <class A> A power(A a, A b) {
  if constexpr (std::is_floating_point_v<A>) return std::pow(a, b);
  else return static_cast<A>(int_of(std::pow(static_cast<double>(a), static_cast<double>(b))));
}

template <class A> A modulo(A a, A b, bool c_style) {
  if constexpr (std::is_floating_point_v<A>) {
    A r = std::fmod(a, b);
    if (c_style) return r;
    if (r == 0) return std::copysign(A(0), b);
    return (r < 0) != (b < 0) ? r + b : r;
  } else {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<A>) {
      if (b == A(-1)) return 0;
    }
    A r = static_cast<A>(a % b);
    if (!c_style && r != 0 && (r < 0) != (b < 0)) r = static_cast<A>(r + b);
    return r;
  }
}

// Integer arithmetic wraps (through the unsigned type); division by zero gives 0.
template <class A> A arithmetic(OpId op, A a, A b, bool flag) {
  constexpr bool fl = std::is_floating_point_v<A>;
  using U = typename std::conditional_t<fl, Tag<A>, std::conditional_t<(sizeof(A) < 4), Tag<uint32_t>, std::make_unsigned<std::conditional_t<fl, int, A>>>>::type;
  switch (op) {
    case OpId::kAdd: return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
    case OpId::kSub: return static_cast<A>(static_cast<U>(a) - static_cast<U>(b));
    case OpId::kMul: return static_cast<A>(static_cast<U>(a) * static_cast<U>(b));
    case OpId::kDiv:
      if constexpr (!fl) {
        if (b == 0) return 0;
        if constexpr (std::is_signed_v<A>) {
          if (b == A(-1)) return static_cast<A>(U(0) - static_cast<U>(a));
        }
      }
      return static_cast<A>(a / b);
    case OpId::kMod: return modulo(a, b, flag);
    case OpId::kPow: return power(a, b);
    case OpId::kMin:
      if constexpr (fl) { if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b; }
      return std::min(a, b);
    case OpId::kMax:
      if constexpr (fl) { if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b; }
      return std::max(a, b);
    case OpId::kPRelu: return a < A(0) ? static_cast<A>(a * b) : a;
    default: return a;
  }
}

template <OpId op> Status run_arithmetic(KernelContext&, const KernelArgs& k) {
  bool flag = false;
  if (auto* m = std::get_if<ModeAttrs>(k.attrs)) flag = m->flag != 0;
  return dispatch_number(k.in[0].dtype, [&]<class T>(Tag<T>) -> Status {
    using A = Acc<T>;
    broadcast_binary<T, T>(k, [&](T a, T b) { return static_cast<T>(arithmetic<A>(op, static_cast<A>(a), static_cast<A>(b), flag)); });
    return {};
  });
}

// The exponent may have another type than the base.
Status run_pow(KernelContext& c, const KernelArgs& k) {
  const TensorView &a = k.in[0], &b = k.in[1], &y = k.out[0];
  if (a.dtype == b.dtype) return run_arithmetic<OpId::kPow>(c, k);
  return dispatch_number(a.dtype, [&]<class T>(Tag<T>) -> Status {
    return dispatch_number(b.dtype, [&]<class E>(Tag<E>) -> Status {
      T* out = y.as<T>();
      Dims strides[] = {broadcast_strides(a.shape, y.shape), broadcast_strides(b.shape, y.shape)};
      walk(y.shape, strides, [&](int64_t i, int64_t j) {
        const double v = std::pow(static_cast<double>(a.as<T>()[i]), static_cast<double>(b.as<E>()[j]));
        if constexpr (std::is_integral_v<T>) *out++ = static_cast<T>(int_of(v));
        else *out++ = static_cast<T>(static_cast<Acc<T>>(v));
      });
      return {};
    });
  });
}

template <OpId op> Status run_compare(KernelContext&, const KernelArgs& k) {
  auto loop = [&]<class T>(Tag<T>) -> Status {
    using A = Acc<T>;
    broadcast_binary<T, uint8_t>(k, [](T a, T b) -> uint8_t {
      A x = static_cast<A>(a), y = static_cast<A>(b);
      switch (op) {
        case OpId::kEqual: return x == y;
        case OpId::kLess: return x < y;
        case OpId::kLessOrEqual: return x <= y;
        case OpId::kGreater: return x > y;
        default: return x >= y;
      }
    });
    return {};
  };
  if (k.in[0].dtype == DType::kBool) return loop(Tag<boolean>{});
  return dispatch_number(k.in[0].dtype, loop);
}

template <OpId op> Status run_logic(KernelContext&, const KernelArgs& k) {
  broadcast_binary<uint8_t, uint8_t>(k, [](uint8_t a, uint8_t b) -> uint8_t {
    bool x = a != 0, y = b != 0;
    return op == OpId::kAnd ? x && y : op == OpId::kOr ? x || y : x != y;
  });
  return {};
}

template <OpId op> Status run_bits(KernelContext&, const KernelArgs& k) {
  return dispatch_width(k.in[0].dtype, [&]<class T>(Tag<T>) -> Status {
    broadcast_binary<T, T>(k, [&](T a, T b) -> T {
      switch (op) {
        case OpId::kBitwiseAnd: return a & b;
        case OpId::kBitwiseOr: return a | b;
        default: return a ^ b;
      }
    });
    return {};
  });
}

// Right shifts of signed numbers repeat the sign; a count that is negative or too large shifts everything out.
Status run_shift(KernelContext&, const KernelArgs& k) {
  bool left = k.get<ModeAttrs>().mode == "LEFT";
  return dispatch_int(k.in[0].dtype, [&]<class T>(Tag<T>) -> Status {
    constexpr T kBits = sizeof(T) * 8;
    broadcast_binary<T, T>(k, [&](T a, T b) -> T {
      bool out = b < T(0) || b >= kBits;
      if (left) return out ? T(0) : static_cast<T>(static_cast<uint64_t>(a) << b);
      if (out) return a < T(0) ? static_cast<T>(-1) : T(0);
      return static_cast<T>(a >> b);
    });
    return {};
  });
}

Status run_where(KernelContext&, const KernelArgs& k) {
  BRISK_TRY(same_dtype(k, {1, 2}));
  const TensorView &c = k.in[0], &a = k.in[1], &b = k.in[2], &y = k.out[0];
  return dispatch_width(y.dtype, [&]<class T>(Tag<T>) -> Status {
    T* out = y.as<T>();
    Dims strides[] = {broadcast_strides(c.shape, y.shape), broadcast_strides(a.shape, y.shape), broadcast_strides(b.shape, y.shape)};
    walk(y.shape, strides, [&](int64_t i, int64_t j, int64_t l) { *out++ = c.as<uint8_t>()[i] ? a.as<T>()[j] : b.as<T>()[l]; });
    return {};
  });
}

// --- fused chains -----------------------------------------------------------------------------------------------------

// A register: floats in f, integers and bools in i.
struct Cell {
  float f = 0;
  int64_t i = 0;
};

template <class A> bool compared(OpId op, A a, A b) {
  switch (op) {
    case OpId::kEqual: return a == b;
    case OpId::kLess: return a < b;
    case OpId::kLessOrEqual: return a <= b;
    case OpId::kGreater: return a > b;
    default: return a >= b;
  }
}

Cell chain_step(const PointwiseStep& s, Cell a, Cell b, Cell c) {
  bool one = op_def(s.op).min_inputs == 1;
  if (s.op == OpId::kWhere) return a.i ? b : c;
  if (s.op == OpId::kCast) {
    if (s.in == DType::kF32 && s.type == DType::kF32) return a;
    if (s.in == DType::kF32 && s.type == DType::kBool) return {0, a.f != 0};
    int64_t v = s.in == DType::kF32 ? int_of(static_cast<double>(a.f)) : a.i;
    if (s.type == DType::kF32) return {static_cast<float>(v), 0};
    return {0, s.type == DType::kBool ? int64_t{v != 0} : s.type == DType::kI32 ? int64_t{static_cast<int32_t>(v)} : v};
  }
  if (s.op == OpId::kIsNaN) return {0, std::isnan(a.f)};
  if (s.type == DType::kBool && s.in != DType::kBool) return {0, s.in == DType::kF32 ? compared(s.op, a.f, b.f) : compared(s.op, a.i, b.i)};
  if (s.in == DType::kBool) {
    switch (s.op) {
      case OpId::kNot: return {0, !a.i};
      case OpId::kAnd: return {0, a.i && b.i};
      case OpId::kOr: return {0, a.i || b.i};
      case OpId::kXor: return {0, a.i != b.i};
      default: return {0, a.i == b.i};
    }
  }
  if (s.in == DType::kF32) {
    if (!one) return {arithmetic<float>(s.op, a.f, b.f, false), 0};
    return {is_any_unary(s.op) ? any_unary<float>(s.op, a.f, s.alpha) : unary<float>(s.op, a.f, s.alpha, s.beta), 0};
  }
  if (s.in == DType::kI32) {
    auto x = static_cast<int32_t>(a.i), y = static_cast<int32_t>(b.i);
    return {0, one ? any_unary<int32_t>(s.op, x, 0) : arithmetic<int32_t>(s.op, x, y, false)};
  }
  return {0, one ? any_unary<int64_t>(s.op, a.i, 0) : arithmetic<int64_t>(s.op, a.i, b.i, false)};
}

Status run_chain(KernelContext&, const KernelArgs& k) {
  std::vector<DType> operands;
  for (const TensorView& v : k.in) operands.push_back(v.dtype);
  BRISK_ASSIGN(auto steps, decode_program(k.get<PointwiseAttrs>(), operands));
  size_t inputs = k.in.size();
  const TensorView& y = k.out[0];
  std::vector<Dims> strides;
  for (const TensorView& v : k.in) strides.push_back(broadcast_strides(v.shape, y.shape));
  Dims own = strides_of(y.shape);
  std::vector<Cell> reg(inputs + steps.size());
  for (int64_t i = 0, n = y.count(); i < n; ++i) {
    for (size_t j = 0; j < inputs; ++j) {
      int64_t at = 0;
      for (int d = 0; d < y.shape.rank; ++d) at += i / own[d] % y.shape[d] * strides[j][d];
      if (is_float(operands[j])) reg[j].f = load_float(k.in[j].data, operands[j], at);
      else reg[j].i = load_int(k.in[j].data, operands[j], at);
    }
    auto at = [&](int64_t r) { return r < 0 ? Cell{} : reg[static_cast<size_t>(r)]; };
    for (size_t j = 0; j < steps.size(); ++j) reg[inputs + j] = chain_step(steps[j], at(steps[j].a), at(steps[j].b), at(steps[j].c));
    if (is_float(y.dtype)) store_float(y.data, y.dtype, i, reg.back().f);
    else store_int(y.data, y.dtype, i, reg.back().i);
  }
  return {};
}

// Element i of the result is written after element i of each operand of its shape was read.
void add_elementwise(Registry& r, OpId op, KernelFn run) { add_plain(r, op, run, KernelDesc::kAnyOperand); }

// THE LISTS of operators with a scalar form, each computed by one template.
using enum OpId;
constexpr OpId kUnaries[] = {kAbs, kNeg, kExp, kLog, kSqrt, kReciprocal, kSin, kCos, kTan, kAsin, kAcos, kAtan, kSinh, kCosh, kTanh,
                             kAsinh, kAcosh, kAtanh, kErf, kFloor, kCeil, kRound, kSign, kRelu, kSigmoid, kSilu, kSoftplus, kSoftsign,
                             kHardSwish, kMish, kGelu, kLeakyRelu, kElu, kCelu, kSelu, kHardSigmoid, kThresholdedRelu};
constexpr OpId kArithmetic[] = {kAdd, kSub, kMul, kDiv, kMod, kMin, kMax, kPRelu};
constexpr OpId kCompares[] = {kEqual, kLess, kLessOrEqual, kGreater, kGreaterOrEqual};
constexpr OpId kLogic[] = {kAnd, kOr, kXor};
constexpr OpId kBits[] = {kBitwiseAnd, kBitwiseOr, kBitwiseXor};

template <size_t... i> void add_lists(Registry& r, std::index_sequence<i...>) {
  auto each = [&]<size_t n>(const OpId (&)[n], auto add) { ((i < n ? add(std::integral_constant<size_t, (i < n ? i : 0)>()) : void()), ...); };
  each(kUnaries, [&](auto k) { add_elementwise(r, kUnaries[k], run_unary<kUnaries[k]>); });
  each(kArithmetic, [&](auto k) { add_elementwise(r, kArithmetic[k], run_arithmetic<kArithmetic[k]>); });
  each(kCompares, [&](auto k) { add_elementwise(r, kCompares[k], run_compare<kCompares[k]>); });
  each(kLogic, [&](auto k) { add_elementwise(r, kLogic[k], run_logic<kLogic[k]>); });
  each(kBits, [&](auto k) { add_elementwise(r, kBits[k], run_bits<kBits[k]>); });
}

// A chain may hold what has a scalar form: anything else would pass its operand through.
bool accept_chain(const ProblemDesc& p) {
  auto listed = [](const auto& list, OpId op) { return std::find(std::begin(list), std::end(list), op) != std::end(list); };
  constexpr OpId kOthers[] = {kNot, kIsNaN, kCast, kPow, kWhere};
  for (const std::string& name : p.get<PointwiseAttrs>().ops) {
    auto op = op_from_name(name);
    if (!op || (!listed(kUnaries, *op) && !listed(kArithmetic, *op) && !listed(kCompares, *op) && !listed(kLogic, *op) && !listed(kOthers, *op))) return false;
  }
  return accept_plain(p);
}

}  // namespace

void add_pointwise(Registry& r) {
  add_lists(r, std::make_index_sequence<std::size(kUnaries)>());
  add_elementwise(r, kNot, run_not);
  add_elementwise(r, kBitwiseNot, run_bitwise_not);
  add_plain(r, kBitCast, run_bitcast);
  add_elementwise(r, kIsNaN, run_predicate<true>);
  add_elementwise(r, kIsInf, run_predicate<false>);
  add_elementwise(r, kCast, run_cast);
  add_elementwise(r, kPow, run_pow);
  add_elementwise(r, kBitShift, run_shift);
  add_elementwise(r, kWhere, run_where);
  add(r, kPointwise, run_chain, accept_chain, KernelDesc::kAnyOperand);
}

}  // namespace brisk::ref
