#define BRISK_CPU_NS avx2
#define BRISK_CPU_LANES 8
#include "backend/cpu/kernels_all.h"

const brisk::cpu::KernelTable& brisk::cpu::kernels_avx2() {
  static const KernelTable table = avx2::make_table(Isa::kAvx2);
  return table;
}
