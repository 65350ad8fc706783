// Body of light_<isa>.cpp, under the same rules as kernels_all.h: a namespace of its own, nothing of the standard library.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "backend/cpu/light_table.h"
#include "backend/cpu/pointwise.h"

#define BRISK_INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#define BRISK_UNROLL _Pragma("unroll")
#else
#define BRISK_UNROLL _Pragma("GCC unroll 16")
#endif

namespace brisk::cpu::BRISK_CPU_NS {
namespace {

#if BRISK_CPU_LANES == 16
#include "backend/cpu/vec_avx512.h"
#else
#include "backend/cpu/vec_avx2.h"
#endif
#include "backend/cpu/math_kernels.h"
#include "backend/cpu/norm_kernels.h"

#include "backend/cpu/light_math.h"
#include "backend/cpu/light_pointwise_kernels.h"
#include "backend/cpu/light_row_kernels.h"

LightTable make_table() {
  LightTable t{};
  t.pointwise = &pointwise;
  t.convert = &convert;
  t.softmax = &softmax;
  t.log_softmax = &log_softmax;
  t.softmax_columns = &softmax_columns;
  t.layer_norm = &layer_norm;
  t.fold_row = &fold_row;
  t.fold_columns = &fold_columns;
  t.scale_shift = &scale_shift;
  t.squares_about = &squares_about;
  t.weighted_rows = &weighted_rows;
  t.transpose32 = &transpose32;
  t.rotate_halves = &rotate_halves;
  t.quantize_bytes = &quantize_bytes;
  t.dequantize = &dequantize;
  return t;
}

}  // namespace
}  // namespace brisk::cpu::BRISK_CPU_NS
