#include "backend/cpu/kernel_table.h"

namespace brisk::cpu {

const KernelTable& kernels(Isa isa) {
  switch (isa) {
    case Isa::kAvx2: return kernels_avx2();
    case Isa::kAvx2Vnni: return kernels_avx2_vnni();
    case Isa::kAvx512: return kernels_avx512();
    case Isa::kAvx512Vnni: return kernels_avx512_vnni();
    case Isa::kAvx512Bf16: return kernels_avx512_bf16();
  }
  return kernels_avx2();
}

}  // namespace brisk::cpu
