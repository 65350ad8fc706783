#define BRISK_CPU_NS avx512_vnni
#define BRISK_CPU_LANES 16
#include "backend/cpu/kernels_all.h"

const brisk::cpu::KernelTable& brisk::cpu::kernels_avx512_vnni() {
  static const KernelTable table = avx512_vnni::make_table(Isa::kAvx512Vnni);
  return table;
}
