// Names of the unary functions that kernels can apply.
#pragma once
#include <cstdint>

namespace brisk::cpu {

enum class Unary : uint8_t { kIdentity, kRelu, kSigmoid, kSilu, kTanh, kGeluTanh, kGeluErf, kExp, kErf };

}  // namespace brisk::cpu
