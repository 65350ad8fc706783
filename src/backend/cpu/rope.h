// Rotary position embedding: pairs (i, i + dim / 2), or (2i, 2i + 1) if interleaved, of the first `dim` elements of a head
// are turned by position * frequency[i]; cos and sin are scaled by `magnitude` (Su et al., RoFormer, 2021).
#pragma once
#include <cstdint>

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/kv_cache.h"

namespace brisk::cpu {

inline constexpr int kMaxHeadDim = 1024;

// cos and sin of one position, for all heads of a token.
class RopeAngles {
 public:
  RopeAngles(const KernelTable& t, const RopeSpec& spec, int32_t position) : t_(t), spec_(spec) {
    if (spec.dim) t.rope_angles(spec.frequencies, spec.dim / 2, static_cast<float>(position), spec.magnitude, cos_, sin_);
  }
  // out[head_dim] = rotated x times scale; out may be x.
  void rotate(const float* x, int head_dim, float scale, float* out) const {
    t_.rope_rotate(x, head_dim, spec_.dim, spec_.interleaved, cos_, sin_, scale, out);
  }

 private:
  const KernelTable& t_;
  const RopeSpec& spec_;
  alignas(64) float cos_[kMaxHeadDim / 2], sin_[kMaxHeadDim / 2];
};

}  // namespace brisk::cpu
