// From an operator's activation attributes to the function that the kernels of this folder know.
#pragma once
#include <string>

#include "backend/cpu/pointwise.h"
#include "op/activation.h"

namespace brisk::cpu {

// A name that the shape rule has admitted.
inline UnaryCall unary_of(const std::string& act, float alpha, float beta) {
  switch (activation_from_name(act).value_or(Activation::kNone)) {
    case Activation::kNone: return {};
    case Activation::kRelu: return Unary::kRelu;
    case Activation::kClip: return {Unary::kClip, alpha, beta};
    case Activation::kLeakyRelu: return {Unary::kLeakyRelu, alpha};
    case Activation::kSigmoid: return Unary::kSigmoid;
    case Activation::kSilu: return Unary::kSilu;
    case Activation::kHardSwish: return Unary::kHardSwish;
    case Activation::kHardSigmoid: return {Unary::kHardSigmoid, alpha, beta};
    case Activation::kTanh: return Unary::kTanh;
    case Activation::kGelu: return alpha == 1 ? Unary::kGeluTanh : Unary::kGeluErf;
  }
  return {};
}

}  // namespace brisk::cpu
