#define BRISK_CPU_NS avx512_bf16
#define BRISK_CPU_LANES 16
#include "backend/cpu/kernels_all.h"

const brisk::cpu::KernelTable& brisk::cpu::kernels_avx512_bf16() {
  static const KernelTable table = avx512_bf16::make_table(Isa::kAvx512Bf16);
  return table;
}
