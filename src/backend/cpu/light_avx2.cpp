#define BRISK_CPU_NS light_avx2
#define BRISK_CPU_LANES 8
#include "backend/cpu/light_all.h"

const brisk::cpu::LightTable& brisk::cpu::light_table_avx2() {
  static const LightTable table = light_avx2::make_table();
  return table;
}
