#define BRISK_CPU_NS avx2_vnni
#define BRISK_CPU_LANES 8
#include "backend/cpu/kernels_all.h"

const brisk::cpu::KernelTable& brisk::cpu::kernels_avx2_vnni() {
  static const KernelTable table = avx2_vnni::make_table(Isa::kAvx2Vnni);
  return table;
}
