// Experts by number, as ExpertLinear's operand holds them.
#pragma once
#include <string>

#include "brisk/result.h"

namespace brisk {

// In [0, n); negative ones are counted from the end, as Gather does.
inline Result<int64_t> expert_of(int64_t number, int64_t n) {
  if (number < -n || number >= n) return invalid("expert " + std::to_string(number) + " outside [" + std::to_string(-n) + ", " + std::to_string(n) + ")");
  return number < 0 ? number + n : number;
}

}  // namespace brisk
