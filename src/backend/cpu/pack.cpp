#include "backend/cpu/pack.h"

#include <cmath>
#include <cstring>
#include <string>

#include "base/checked.h"
#include "base/half.h"

namespace brisk::cpu {
namespace {

constexpr int kGranule = 64;

// Address of byte/word `e` (0..31 outputs) inside a pair of granules whose entries are `entry` bytes wide.
int slot(int e, int entry) { return e / 16 * kGranule + e % 16 * entry; }

bool f16_exact(float v) { return static_cast<float>(brisk::f16(v)) == v; }

struct Packer {
  const WeightLayout& l;
  const LogicalWeight& from;
  int64_t groups() const { return l.group ? ceil_div(l.k, l.group) : 1; }

  void f32(int64_t row, int j, std::byte* panel) const {
    const float* w = static_cast<const float*>(from.rows) + row * l.k;
    for (int64_t k = 0; k < l.k; k++) std::memcpy(panel + k * 128 + slot(j, 4), w + k, 4);
  }
  void f16(int64_t row, int j, std::byte* panel) const {
    const uint16_t* w = static_cast<const uint16_t*>(from.rows) + row * l.k;
    for (int64_t k = 0; k < l.k; k++) std::memcpy(panel + k * kGranule + j * 2, w + k, 2);
  }
  void bf16(int64_t row, int j, std::byte* panel) const {
    const uint16_t* w = static_cast<const uint16_t*>(from.rows) + row * l.k;
    for (int64_t k = 0; k < l.k; k++) std::memcpy(panel + k / 2 * 128 + slot(j, 4) + k % 2 * 2, w + k, 2);
  }
  void int8(int64_t row, int j, std::byte* panel) const {
    const int8_t* w = static_cast<const int8_t*>(from.rows) + row * l.k;
    int unit = l.unit_k(), head = l.group ? kGranule : 0;
    for (int64_t k = 0; k < l.k; k++) {
      std::byte* u = panel + k / unit * l.unit_bytes() + head;
      u[k % unit / 4 * 128 + slot(j, 4) + k % 4] = std::byte(uint8_t(w[k] + 128));
    }
  }
  void int4(int64_t row, int j, std::byte* panel) const {
    const uint8_t* w = static_cast<const uint8_t*>(from.rows) + row * l.k;
    int head = l.term == GroupTerm::kSymmetric ? kGranule : 2 * kGranule;
    for (int64_t k = 0; k < l.k; k++) {
      int in = static_cast<int>(k % l.group);
      std::byte* b = panel + k / l.group * l.unit_bytes() + head + in / 8 * 128 + slot(j, 4) + in % 4;
      *b |= std::byte(in % 8 < 4 ? w[k] & 15 : (w[k] & 15) << 4);
    }
  }
  Status group_values(int64_t row, int j, std::byte* panel) const {
    for (int64_t g = 0; g < groups(); g++) {
      std::byte* u = panel + g * l.unit_bytes();
      const float* values[2] = {from.scales, l.term == GroupTerm::kSymmetric ? nullptr : from.terms};
      for (int i = 0; i < 2; i++) {
        if (!values[i]) continue;
        float v = values[i][row * groups() + g];
        if (!f16_exact(v))
          return invalid("packing weights: the " + std::string(i ? "term" : "scale") + " of row " +
                               std::to_string(row) + ", group " + std::to_string(g) + " is not exact in fp16");
        brisk::f16 h(v);
        std::memcpy(u + i * kGranule + j * 2, &h, 2);
      }
    }
    return {};
  }
};

}  // namespace

int64_t WeightLayout::panels() const { return gated ? ceil_div(n / 2, kPanel / 2) : ceil_div(n, kPanel); }

int WeightLayout::unit_k() const {
  switch (kind) {
    case WeightKind::kF32:
    case WeightKind::kF16: return 1;
    case WeightKind::kBf16: return 2;
    case WeightKind::kInt8: return group ? group : 4;
    case WeightKind::kInt4: return group;
  }
  return 1;
}

int WeightLayout::unit_bytes() const {
  switch (kind) {
    case WeightKind::kF16: return kGranule;
    case WeightKind::kF32:
    case WeightKind::kBf16: return 128;
    case WeightKind::kInt8: return group ? kGranule + group * kPanel : 128;
    case WeightKind::kInt4: return (term == GroupTerm::kSymmetric ? 1 : 2) * kGranule + group * kPanel / 2;
  }
  return 0;
}

int64_t WeightLayout::padded_k() const {
  bool integer = kind == WeightKind::kInt8 || kind == WeightKind::kInt4;
  return align_up(k, integer ? (group > 64 ? group : 64) : unit_k());
}

int64_t WeightLayout::bytes() const {
  return scales_offset() + (channel_scales() ? panels() * kPanel * int64_t{4} : 0);
}

int64_t WeightLayout::row_of(int64_t p, int j) const {
  if (!gated) {
    int64_t row = p * kPanel + j;
    return row < n ? row : -1;
  }
  int64_t column = p * (kPanel / 2) + j % 16;
  return column < n / 2 ? column * 2 + j / 16 : -1;
}

Status check_layout(const WeightLayout& l) {
  auto bad = [](const std::string& what) { return invalid("weight layout: " + what); };
  constexpr int64_t kMax = int64_t{1} << 31;
  if (l.n < 1 || l.k < 1 || l.n > kMax || l.k > kMax)
    return bad("n " + std::to_string(l.n) + " or k " + std::to_string(l.k) + " outside 1.." + std::to_string(kMax));
  if (l.gated && l.n % 2) return bad("a gated weight needs an even number of rows, not " + std::to_string(l.n));
  bool group_ok = l.group == 0;
  if (l.kind == WeightKind::kInt8) group_ok = l.group == 0 || l.group == 32 || l.group == 64;
  if (l.kind == WeightKind::kInt4) group_ok = l.group == 32 || l.group == 64 || l.group == 128;
  if (!group_ok) return bad("no kernel for groups of " + std::to_string(l.group));
  if (l.kind != WeightKind::kInt4 && l.term != GroupTerm::kSymmetric) return bad("terms exist for 4-bit weights only");
  return {};
}

Status pack_weight(const WeightLayout& l, const LogicalWeight& from, std::span<std::byte> out) {
  BRISK_TRY(check_layout(l));
  if (static_cast<int64_t>(out.size()) != l.bytes())
    return invalid("packing weights: " + std::to_string(out.size()) + " bytes given, " +
                         std::to_string(l.bytes()) + " needed");
  std::memset(out.data(), 0, out.size());
  Packer packer{l, from};
  for (int64_t p = 0; p < l.panels(); p++) {
    std::byte* panel = out.data() + p * l.panel_bytes();
    for (int j = 0; j < kPanel; j++) {
      int64_t row = l.row_of(p, j);
      if (row < 0) continue;
      switch (l.kind) {
        case WeightKind::kF32: packer.f32(row, j, panel); break;
        case WeightKind::kF16: packer.f16(row, j, panel); break;
        case WeightKind::kBf16: packer.bf16(row, j, panel); break;
        case WeightKind::kInt8: packer.int8(row, j, panel); break;
        case WeightKind::kInt4: packer.int4(row, j, panel); break;
      }
      if (l.group) BRISK_TRY(packer.group_values(row, j, panel));
      if (l.channel_scales())
        std::memcpy(out.data() + l.scales_offset() + (p * kPanel + j) * 4, from.scales + row, 4);
    }
  }
  return {};
}

namespace {

float half_at(const std::byte* p) {
  brisk::f16 h;
  std::memcpy(&h, p, 2);
  return h;
}

void unpack_int8(const WeightLayout& l, const std::byte* panel, int j, float channel_scale, float* out) {
  int unit = l.unit_k(), head = l.group ? kGranule : 0;
  for (int64_t k0 = 0; k0 < l.k; k0 += unit, panel += l.unit_bytes()) {
    float scale = l.group ? half_at(panel + j * 2) : channel_scale;
    const std::byte* codes = panel + head + slot(j, 4);
    int n = static_cast<int>(l.k - k0 < unit ? l.k - k0 : unit);
    for (int i = 0; i < n; i++)
      out[k0 + i] = static_cast<float>(static_cast<int>(codes[i / 4 * 128 + i % 4]) - 128) * scale;
  }
}

void unpack_int4(const WeightLayout& l, const std::byte* panel, int j, float* out) {
  int head = l.term == GroupTerm::kSymmetric ? kGranule : 2 * kGranule;
  for (int64_t k0 = 0; k0 < l.k; k0 += l.group, panel += l.unit_bytes()) {
    float scale = half_at(panel + j * 2), term = l.term == GroupTerm::kSymmetric ? 8 : half_at(panel + kGranule + j * 2);
    const std::byte* codes = panel + head + slot(j, 4);
    int n = static_cast<int>(l.k - k0 < l.group ? l.k - k0 : l.group);
    for (int i = 0; i < n; i++) {
      int b = static_cast<int>(codes[i / 8 * 128 + i % 4]);
      float q = static_cast<float>(i % 8 < 4 ? b & 15 : b >> 4);
      out[k0 + i] = l.term == GroupTerm::kMinimum ? q * scale + term : (q - term) * scale;
    }
  }
}

}  // namespace

void unpack_row(const WeightLayout& l, const std::byte* packed, int64_t row, float* out) {
  const std::byte* panel = packed + row / kPanel * l.panel_bytes();
  int j = static_cast<int>(row % kPanel);
  switch (l.kind) {
    case WeightKind::kF32:
      for (int64_t k = 0; k < l.k; k++) std::memcpy(out + k, panel + k * 128 + slot(j, 4), 4);
      break;
    case WeightKind::kF16:
      for (int64_t k = 0; k < l.k; k++) out[k] = half_at(panel + k * kGranule + j * 2);
      break;
    case WeightKind::kBf16:
      for (int64_t k = 0; k < l.k; k++) {
        brisk::bf16 h;
        std::memcpy(&h, panel + k / 2 * 128 + slot(j, 4) + k % 2 * 2, 2);
        out[k] = h;
      }
      break;
    case WeightKind::kInt8: {
      float scale = 0;
      if (l.channel_scales()) std::memcpy(&scale, packed + l.scales_offset() + row * 4, 4);
      unpack_int8(l, panel, j, scale, out);
      break;
    }
    case WeightKind::kInt4: unpack_int4(l, panel, j, out); break;
  }
}

}  // namespace brisk::cpu
