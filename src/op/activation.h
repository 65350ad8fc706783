// The functions that products and convolutions apply to their result before it is written, by the name in their
// attributes (LinearAttrs::act, WindowAttrs::act) and two numbers.
#pragma once
#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

namespace brisk {

enum class Activation {
  kNone,         // ""
  kRelu,         // max(x, 0)
  kClip,         // min(max(x, alpha), beta)
  kLeakyRelu,    // x < 0 ? alpha x : x
  kSigmoid,      // 1 / (1 + e^-x)
  kSilu,         // x sigmoid(x)
  kHardSwish,    // x clip(x / 6 + 1/2, 0, 1)
  kHardSigmoid,  // clip(alpha x + beta, 0, 1)
  kTanh,
  kGelu          // x Phi(x); alpha = 1: tanh form
};

// Of a name of attributes: the operator's, or "". Nothing for other names.
inline std::optional<Activation> activation_from_name(std::string_view name) {
  constexpr const char* kNames[] = {"", "Relu", "Clip", "LeakyRelu", "Sigmoid", "Silu", "HardSwish", "HardSigmoid", "Tanh", "Gelu"};
  for (int i = 0; i < 10; ++i)
    if (name == kNames[i]) return static_cast<Activation>(i);
  return std::nullopt;
}

// The value, as the oracle computes it. F: float or double.
template <class F> F activate(Activation f, F x, F alpha, F beta) {
  auto clip01 = [](F v) { return std::clamp(v, F(0), F(1)); };
  switch (f) {
    case Activation::kNone: return x;
    case Activation::kRelu: return x < 0 ? F(0) : x;
    case Activation::kClip: return x < alpha ? std::min(alpha, beta) : x > beta ? beta : x;
    case Activation::kLeakyRelu: return x < 0 ? alpha * x : x;
    case Activation::kSigmoid: return 1 / (1 + std::exp(-x));
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kHardSwish: return x * clip01(x / 6 + F(0.5));
    case Activation::kHardSigmoid: return clip01(alpha * x + beta);
    case Activation::kTanh: return std::tanh(x);
    case Activation::kGelu:
      if (alpha == 1) return F(0.5) * x * (1 + std::tanh(F(0.7978845608028654) * (x + F(0.044715) * x * x * x)));
      return F(0.5) * x * (1 + std::erf(x * F(0.7071067811865476)));
  }
  return x;
}

}  // namespace brisk
