// Pointwise operators.
#include <cmath>

#include "import/onnx/lower.h"

namespace brisk::onnx_import {
namespace {

using enum OpId;

template <OpId op> void direct(Lower& l) { lower_direct(l, op); }

// Before opset 7 the second operand was stretched only on request, its axes set against `axis` of the first.
ValueId legacy_operand(Lower& l) {
  ValueId b = l.in(1);
  if (l.opset >= 7 || l.i("broadcast", 0) == 0) return b;
  auto ra = l.rank(l.in(0)), rb = l.rank(b);
  if (!l.attribute("axis") || !ra || !rb) return b;
  int64_t axis = l.i("axis", 0), trailing = *ra - (axis < 0 ? axis + *ra : axis) - *rb;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < trailing; ++i) axes.push_back(*rb + i);
  return axes.empty() ? b : l.unsqueeze(b, axes);
}

template <OpId op> void binary(Lower& l) { l.set(0, l.binary(op, l.in(0), legacy_operand(l))); }

template <OpId op> void variadic(Lower& l) {
  if (l.count() == 0) return void(l.bad("no operands"));
  ValueId v = l.in(0);
  for (size_t i = 1; i < l.count(); ++i) v = l.binary(op, v, l.in(i));
  l.set(0, v);
}

void mean(Lower& l) {
  variadic<kAdd>(l);
  if (l.failed()) return;
  l.set(0, l.binary(kDiv, l.results()[0], l.scalar_of(l.dtype(l.in(0)), static_cast<double>(l.count()))));
}

void mod(Lower& l) {
  ModeAttrs a;
  a.flag = l.i("fmod", 0);
  l.set(0, l.add(kMod, a, l.inputs()));
}

void bit_shift(Lower& l) {
  ModeAttrs a;
  a.mode = l.s("direction", "LEFT");
  l.set(0, l.add(kBitShift, a, l.inputs()));
}

void is_inf(Lower& l) {
  ModeAttrs a;
  a.flag = (l.i("detect_positive", 1) ? 1 : 0) | (l.i("detect_negative", 1) ? 2 : 0);
  l.set(0, l.add(kIsInf, a, l.inputs()));
}

// Operator with up to two numbers: attribute names and their defaults.
ValueId parameterised(Lower& l, OpId op, float alpha, float beta = 0) {
  AlphaBetaAttrs a;
  a.alpha = alpha;
  a.beta = beta;
  return l.add(op, a, {l.in(0)});
}
void leaky_relu(Lower& l) { l.set(0, parameterised(l, kLeakyRelu, l.f("alpha", 0.01f))); }
void elu(Lower& l) { l.set(0, parameterised(l, kElu, l.f("alpha", 1))); }
void celu(Lower& l) { l.set(0, parameterised(l, kCelu, l.f("alpha", 1))); }
void hard_sigmoid(Lower& l) { l.set(0, parameterised(l, kHardSigmoid, l.f("alpha", 0.2f), l.f("beta", 0.5f))); }
void thresholded_relu(Lower& l) { l.set(0, parameterised(l, kThresholdedRelu, l.f("alpha", 1))); }
void gelu(Lower& l) { l.set(0, parameterised(l, kGelu, l.s("approximate", "none") == "tanh" ? 1.0f : 0.0f)); }
void selu(Lower& l) {
  bool old = l.opset < 6;
  l.set(0, parameterised(l, kSelu, l.f("alpha", old ? 1.6732f : 1.67326319217681884765625f), l.f("gamma", old ? 1.0507f : 1.05070102214813232421875f)));
}

void prelu(Lower& l) {
  ValueId slope = l.in(1);
  auto rx = l.rank(l.in(0)), rs = l.rank(slope);
  // Up to opset 6 a slope of rank 1 belongs to the channels.
  if (l.opset < 7 && rs == 1 && rx && *rx > 2 && !(l.type(slope).shape[0] == Dim(1))) {
    std::vector<int64_t> axes;
    for (int i = 1; i < *rx - 1; ++i) axes.push_back(i);
    slope = l.unsqueeze(slope, axes);
  }
  l.set(0, l.binary(kPRelu, l.in(0), slope));
}

void clip(Lower& l) {
  ValueId x = l.in(0), low = l.in(1), high = l.in(2);
  if (l.opset < 11) {
    if (l.attribute("min")) low = l.scalar_of(l.dtype(x), static_cast<double>(l.f("min", 0)));
    if (l.attribute("max")) high = l.scalar_of(l.dtype(x), static_cast<double>(l.f("max", 0)));
  }
  if (low != kNoValue) x = l.binary(kMax, x, low);
  if (high != kNoValue) x = l.binary(kMin, x, high);
  l.set(0, x);
}

CastAttrs cast_attrs(Lower& l) {
  CastAttrs a;
  a.saturate = l.i("saturate", 1) != 0;
  a.round = l.s("round_mode", "up");
  if (a.round != "up" && a.round != "down" && a.round != "nearest") l.bad("round_mode '" + a.round + "', allowed are up, down, nearest");
  return a;
}

void cast(Lower& l) {
  CastAttrs a = cast_attrs(l);
  int64_t to = l.i("to", 0);
  if (l.opset < 6) {  // a name
    static const std::map<std::string, int64_t> names = {{"FLOAT", 1}, {"UINT8", 2}, {"INT8", 3}, {"UINT16", 4}, {"INT16", 5}, {"INT32", 6},
        {"INT64", 7}, {"BOOL", 9}, {"FLOAT16", 10}, {"DOUBLE", 11}, {"UINT32", 12}, {"UINT64", 13}};
    if (auto it = names.find(l.s("to", "")); it != names.end()) to = it->second;
  }
  auto t = dtype_of_onnx(static_cast<int32_t>(to));
  if (!t) return void(l.refuse("Cast to " + onnx_dtype_name(static_cast<int32_t>(to))));
  a.to = *t;
  if (l.dtype(l.in(0)) == a.to) return l.set(0, l.in(0));
  l.set(0, l.add(kCast, a, {l.in(0)}));
}

void cast_like(Lower& l) {
  CastAttrs a = cast_attrs(l);
  a.to = l.dtype(l.in(1));
  l.set(0, a.to == l.dtype(l.in(0)) ? l.in(0) : l.add(kCast, a, {l.in(0)}));
}

void bitcast(Lower& l) {
  auto t = dtype_of_onnx(static_cast<int32_t>(l.i("to", 0)));
  if (!t) return void(l.refuse("BitCast to " + onnx_dtype_name(static_cast<int32_t>(l.i("to", 0)))));
  CastAttrs a;
  a.to = *t;
  l.set(0, l.add(kBitCast, a, {l.in(0)}));
}

void identity(Lower& l) { l.set(0, l.in(0)); }

void dropout(Lower& l) {
  if (l.has(2)) {
    auto training = l.scalar(l.in(2));
    if (!training) return void(l.refuse("a training mode that is not a constant"));
    if (*training != 0 && l.scalar(l.in(1)).value_or(0.5f) != 0) return void(l.refuse("training mode"));
  }
  l.set(0, l.in(0));
  if (l.wants(1)) l.set(1, l.add(kExpand, NoAttrs{}, {l.scalar_of(l.opset < 10 ? l.dtype(l.in(0)) : DType::kBool, 1), l.shape_of(l.in(0))}));
}

void swish(Lower& l) {
  float alpha = l.f("alpha", 1);
  if (alpha == 1) return l.set(0, l.unary(kSilu, l.in(0)));
  ValueId scaled = l.binary(kMul, l.in(0), l.scalar_of(l.dtype(l.in(0)), static_cast<double>(alpha)));
  l.set(0, l.binary(kMul, l.in(0), l.unary(kSigmoid, scaled)));
}

// swish(a) * b.
void swiglu(Lower& l) {
  swish(l);
  if (!l.failed()) l.set(0, l.binary(kMul, l.results()[0], l.in(1)));
}

// x < -lambd: x + bias; x > lambd: x - bias; else 0.
void shrink(Lower& l) {
  ValueId x = l.in(0);
  DType t = l.dtype(x);
  auto number = [&](float v) { return l.scalar_of(t, static_cast<double>(v)); };
  float bias = l.f("bias", 0), lambd = l.f("lambd", 0.5f);
  ValueId above = l.add(kWhere, NoAttrs{}, {l.binary(kGreater, x, number(lambd)), l.binary(kSub, x, number(bias)), number(0)});
  l.set(0, l.add(kWhere, NoAttrs{}, {l.binary(kLess, x, number(-lambd)), l.binary(kAdd, x, number(bias)), above}));
}

// com.microsoft: an optional bias first.
template <int tanh_form> void biased_gelu(Lower& l) {
  AlphaBetaAttrs a;
  a.alpha = tanh_form;
  l.set(0, l.add(kGelu, a, {l.has(1) ? l.binary(kAdd, l.in(0), l.in(1)) : l.in(0)}));
}
void quick_gelu(Lower& l) {
  ValueId scaled = l.binary(kMul, l.in(0), l.scalar_of(l.dtype(l.in(0)), static_cast<double>(l.f("alpha", 1.702f))));
  l.set(0, l.binary(kMul, l.in(0), l.unary(kSigmoid, scaled)));
}

}  // namespace

void register_pointwise(LowerTable& t) {
  t.insert({{"Abs", direct<kAbs>}, {"Neg", direct<kNeg>}, {"Exp", direct<kExp>}, {"Log", direct<kLog>}, {"Sqrt", direct<kSqrt>},
            {"Reciprocal", direct<kReciprocal>}, {"Sin", direct<kSin>}, {"Cos", direct<kCos>}, {"Tan", direct<kTan>},
            {"Asin", direct<kAsin>}, {"Acos", direct<kAcos>}, {"Atan", direct<kAtan>}, {"Sinh", direct<kSinh>},
            {"Cosh", direct<kCosh>}, {"Tanh", direct<kTanh>}, {"Asinh", direct<kAsinh>}, {"Acosh", direct<kAcosh>},
            {"Atanh", direct<kAtanh>}, {"Erf", direct<kErf>}, {"Floor", direct<kFloor>}, {"Ceil", direct<kCeil>},
            {"Round", direct<kRound>}, {"Sign", direct<kSign>}, {"Relu", direct<kRelu>}, {"Sigmoid", direct<kSigmoid>},
            {"Softplus", direct<kSoftplus>}, {"Softsign", direct<kSoftsign>}, {"HardSwish", direct<kHardSwish>},
            {"Mish", direct<kMish>}, {"Not", direct<kNot>}, {"BitwiseNot", direct<kBitwiseNot>}, {"IsNaN", direct<kIsNaN>},
            {"BitwiseAnd", direct<kBitwiseAnd>}, {"BitwiseOr", direct<kBitwiseOr>}, {"BitwiseXor", direct<kBitwiseXor>},
            {"Where", direct<kWhere>}});
  t.insert({{"Add", binary<kAdd>}, {"Sub", binary<kSub>}, {"Mul", binary<kMul>}, {"Div", binary<kDiv>}, {"Pow", binary<kPow>},
            {"And", binary<kAnd>}, {"Or", binary<kOr>}, {"Xor", binary<kXor>}, {"Equal", binary<kEqual>}, {"Less", binary<kLess>},
            {"Greater", binary<kGreater>}, {"LessOrEqual", binary<kLessOrEqual>}, {"GreaterOrEqual", binary<kGreaterOrEqual>},
            {"Min", variadic<kMin>}, {"Max", variadic<kMax>}, {"Sum", variadic<kAdd>}, {"Mean", mean}});
  t.insert({{"Mod", mod}, {"BitShift", bit_shift}, {"IsInf", is_inf}, {"LeakyRelu", leaky_relu}, {"Elu", elu}, {"Celu", celu},
            {"HardSigmoid", hard_sigmoid}, {"ThresholdedRelu", thresholded_relu}, {"Gelu", gelu}, {"Selu", selu}, {"PRelu", prelu},
            {"Clip", clip}, {"Cast", cast}, {"CastLike", cast_like}, {"BitCast", bitcast}, {"Identity", identity}, {"Dropout", dropout},
            {"Swish", swish}, {"SwiGLU", swiglu}, {"Shrink", shrink}, {"com.microsoft::Gelu", biased_gelu<0>},
            {"com.microsoft::BiasGelu", biased_gelu<0>}, {"com.microsoft::FastGelu", biased_gelu<1>}, {"com.microsoft::QuickGelu", quick_gelu}});
}

}  // namespace brisk::onnx_import
