// Packed weights of linear operators, and how they are made from logical row-major ones.
//
// A logical weight is W[n][k] (n outputs). Packed, it is a sequence of panels of 32 outputs, the last one padded; a
// panel is a sequence of units along K, and every unit is made of 64-byte granules that hold 16 outputs each, so that the
// outputs lie in the vector lanes and K runs sequentially. The same bytes serve every instruction set and every M.
//   kF32   unit = 1 k:  granule [16 outputs] float, two a unit (outputs 0-15, 16-31)
//   kF16   unit = 1 k:  [32 outputs] f16, one granule
//   kBf16  unit = 2 k:  granule [16 outputs][2 k] bf16, two a unit
//   kInt8, group 0 (a scale per output): unit = 4 k: granule [16 outputs][4 k] of value + 128, two a unit;
//          float scales [padded n] follow the last panel
//   kInt8, group g:     unit = g k (32 or 64): f16 scales [32 outputs] (64 bytes), then g / 4 times two granules as above
//   kInt4, group g:     unit = g k:  f16 scales [32], f16 terms [32] unless kSymmetric, then g / 8 times two granules
//          [16 outputs][4 bytes]: low nibbles hold k..k+3, high nibbles k+4..k+7; codes are 0..15
// A code q stands for: kSymmetric (q - 8) * scale; kZero (q - term) * scale; kMinimum q * scale + term.
// Padding: K is padded to a whole unit (int8/int4: also to 64) with codes whose activations are zero.
// gated: logical rows 2i and 2i + 1 are gate and up of result column i; a panel holds 16 gate outputs, then the 16 up
// outputs that belong to them, and the operator's result has n/2 columns.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "brisk/result.h"

namespace brisk::cpu {

enum class WeightKind : uint8_t { kF32, kF16, kBf16, kInt8, kInt4 };
enum class GroupTerm : uint8_t { kSymmetric, kZero, kMinimum };

inline constexpr int kPanel = 32;  // outputs a panel

struct WeightLayout {
  WeightKind kind = WeightKind::kF32;
  int64_t n = 0, k = 0;
  int group = 0;  // 0: none or one scale per output
  GroupTerm term = GroupTerm::kSymmetric;
  bool gated = false;

  bool operator==(const WeightLayout&) const = default;
  int64_t outputs() const { return gated ? n / 2 : n; }  // columns of the result
  int64_t panels() const;
  int64_t padded_k() const;
  int unit_k() const;
  int unit_bytes() const;
  int64_t panel_bytes() const { return padded_k() / unit_k() * unit_bytes(); }
  int64_t scales_offset() const { return panels() * panel_bytes(); }
  int64_t bytes() const;
  bool channel_scales() const { return kind == WeightKind::kInt8 && group == 0; }
  // Logical row of slot j (0..31) of panel p; -1 for padding.
  int64_t row_of(int64_t p, int j) const;
};

// Whether the layout is one of those above, with sizes in range.
Status check_layout(const WeightLayout& layout);

// Logical weights, row-major. `rows`: float, f16 or bf16 bits (uint16), int8 values, or 4-bit codes one a byte, by kind;
// `scales` [n] or [n][ceil(k / group)]; `terms` as scales, for kZero and kMinimum. Group scales and terms must be exact
// in f16, an error says which one is not.
struct LogicalWeight {
  const void* rows = nullptr;
  const float* scales = nullptr;
  const float* terms = nullptr;
};

// Packs into `out` (layout.bytes() bytes, 64-byte aligned).
Status pack_weight(const WeightLayout& layout, const LogicalWeight& from, std::span<std::byte> out);

// Reads logical row `row` back as k floats (tied embeddings are gathered from the packed head). Not for gated weights.
void unpack_row(const WeightLayout& layout, const std::byte* packed, int64_t row, float* out);

}  // namespace brisk::cpu
