#define BRISK_CPU_NS avx512
#define BRISK_CPU_LANES 16
#include "backend/cpu/kernels_all.h"

const brisk::cpu::KernelTable& brisk::cpu::kernels_avx512() {
  static const KernelTable table = avx512::make_table(Isa::kAvx512);
  return table;
}
