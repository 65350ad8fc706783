// Names of the unary functions that kernels can apply.
#pragma once
#include <cstdint>

namespace brisk::cpu {

// kClip, kLeakyRelu and kHardSigmoid have parameters: as in op/activation.h.
enum class Unary : uint8_t {
  kIdentity, kRelu, kSigmoid, kSilu, kTanh, kGeluTanh, kGeluErf, kExp, kErf, kHardSwish, kClip, kLeakyRelu, kHardSigmoid
};

// A function with its parameters.
struct UnaryCall {
  Unary f = Unary::kIdentity;
  float alpha = 0, beta = 0;
  UnaryCall() = default;
  UnaryCall(Unary function, float a = 0, float b = 0) : f(function), alpha(a), beta(b) {}
};

}  // namespace brisk::cpu
