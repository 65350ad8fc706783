#define BRISK_CPU_NS light_avx512
#define BRISK_CPU_LANES 16
#include "backend/cpu/light_all.h"

const brisk::cpu::LightTable& brisk::cpu::light_table_avx512() {
  static const LightTable table = light_avx512::make_table();
  return table;
}
