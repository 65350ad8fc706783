// 256 levels of u8 between the extremes of some floats, 0 among them: scale = (high - low) / 255, zero = round(-low / scale)
// (ONNX DynamicQuantizeLinear, opset 11).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace brisk {

struct ByteLevels {
  float scale = 0, zero = 0;  // scale 0: all are 0

  ByteLevels(float low, float high) {
    low = std::min(low, 0.0f), high = std::max(high, 0.0f);
    scale = (high - low) / 255.0f;
    if (scale != 0) zero = std::nearbyint(std::clamp(-low / scale, 0.0f, 255.0f));
  }
  float code(float x) const { return scale == 0 ? 0.0f : std::clamp(std::nearbyint(x / scale) + zero, 0.0f, 255.0f); }
  float rounded(float x) const { return (code(x) - zero) * scale; }
};

}  // namespace brisk
