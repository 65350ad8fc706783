// Which instruction set the kernels use: what the processor has, capped by the environment variable BRISK_MAX_ISA
// (avx2, avx2_vnni, avx512, avx512_vnni, avx512_bf16, native). Results may differ between levels, never inside one.
#pragma once
#include <optional>
#include <span>
#include <string_view>

namespace brisk::cpu {

enum class Isa { kAvx2, kAvx2Vnni, kAvx512, kAvx512Vnni, kAvx512Bf16 };  // AVX2 means AVX2 + FMA + F16C

std::string_view isa_name(Isa isa);
std::optional<Isa> isa_from_name(std::string_view name);  // "native" and unknown names give nothing

// Levels this processor can run, in rising order; empty on a processor without AVX2.
std::span<const Isa> present_isas();
// The best level present that BRISK_MAX_ISA allows (read once). Nothing if there is none.
std::optional<Isa> active_isa();

}  // namespace brisk::cpu
