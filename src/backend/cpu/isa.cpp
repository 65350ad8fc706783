#include "backend/cpu/isa.h"

#include <cstdlib>
#include <vector>

#include "base/log.h"

namespace brisk::cpu {
namespace {

struct Level {
  Isa isa;
  std::string_view name;
};
constexpr Level kLevels[] = {{Isa::kAvx2, "avx2"},
                             {Isa::kAvx2Vnni, "avx2_vnni"},
                             {Isa::kAvx512, "avx512"},
                             {Isa::kAvx512Vnni, "avx512_vnni"},
                             {Isa::kAvx512Bf16, "avx512_bf16"}};

// __builtin_cpu_supports also asks whether the operating system saves the registers.
std::vector<Isa> probe() {
  std::vector<Isa> out;
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  if (avx2) out.push_back(Isa::kAvx2);
  if (avx2 && __builtin_cpu_supports("avxvnni")) out.push_back(Isa::kAvx2Vnni);
  if (avx512) out.push_back(Isa::kAvx512);
  if (vnni) out.push_back(Isa::kAvx512Vnni);
  if (vnni && __builtin_cpu_supports("avx512bf16")) out.push_back(Isa::kAvx512Bf16);
#endif
  return out;
}

std::optional<Isa> choose() {
  std::span<const Isa> present = present_isas();
  if (present.empty()) return std::nullopt;
  const char* cap_text = std::getenv("BRISK_MAX_ISA");
  if (!cap_text || !*cap_text || std::string_view(cap_text) == "native") return present.back();
  std::optional<Isa> cap = isa_from_name(cap_text);
  if (!cap) {
    log(LogLevel::kWarning, "BRISK_MAX_ISA is not one of avx2, avx2_vnni, avx512, avx512_vnni, avx512_bf16, native: ignored");
    return present.back();
  }
  std::optional<Isa> best;
  for (Isa isa : present)
    if (isa <= *cap) best = isa;
  return best;
}

}  // namespace

std::string_view isa_name(Isa isa) { return kLevels[static_cast<int>(isa)].name; }

std::optional<Isa> isa_from_name(std::string_view name) {
  for (const Level& l : kLevels)
    if (l.name == name) return l.isa;
  return std::nullopt;
}

std::span<const Isa> present_isas() {
  static const std::vector<Isa> levels = probe();
  return levels;
}

std::optional<Isa> active_isa() {
  static const std::optional<Isa> isa = choose();
  return isa;
}

}  // namespace brisk::cpu
