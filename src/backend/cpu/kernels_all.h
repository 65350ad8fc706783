// Body of kernels_<isa>.cpp: expects BRISK_CPU_NS (a namespace of its own for the set, so that no inline function
// compiled with its flags can be picked by the linker for another one) and BRISK_CPU_LANES. For the same reason nothing
// here uses functions of the standard library.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/quantize_act.h"

#define BRISK_INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#define BRISK_UNROLL _Pragma("unroll")
#define BRISK_UNROLL_BY(n) BRISK_PRAGMA(clang loop unroll_count(n))
#else
#define BRISK_UNROLL _Pragma("GCC unroll 16")
#define BRISK_UNROLL_BY(n) BRISK_PRAGMA(GCC unroll n)
#endif
#define BRISK_PRAGMA(text) _Pragma(#text)

namespace brisk::cpu::BRISK_CPU_NS {
namespace {

#if BRISK_CPU_LANES == 16
#include "backend/cpu/vec_avx512.h"
#else
#include "backend/cpu/vec_avx2.h"
#endif
#include "backend/cpu/math_kernels.h"

#include "backend/cpu/gemm_tiles.h"
#include "backend/cpu/attention_kernels.h"
#include "backend/cpu/epilogue_kernels.h"
#include "backend/cpu/gemm_fp32.h"
#include "backend/cpu/gemm_int4.h"
#include "backend/cpu/gemm_int8.h"
#include "backend/cpu/integer_kernels.h"
#include "backend/cpu/norm_kernels.h"
#include "backend/cpu/quantize_kernels.h"
#include "backend/cpu/recurrent_kernels.h"
#include "backend/cpu/rope_kernels.h"
#include "backend/cpu/window_kernels.h"

KernelTable make_table(Isa isa) {
  KernelTable t{};
  t.isa = isa;
  t.lanes = kLanes;
  t.f32 = tile_kernel<TileF32>();
  t.scattered = tile_kernel<TileScattered>();
  t.bf16 = tile_kernel<TileBf16>();
  t.f16 = tile_kernel<TileF16>();
#if defined(BRISK_HAS_BF16_DOT)
  t.bf16_dot = tile_kernel<TileBf16Dot>();
#endif
  t.int8w[0] = tile_kernel<TileInt8wChannel>();
  t.int8w[1] = tile_kernel<TileInt8wGroup<32>>();
  t.int8w[2] = tile_kernel<TileInt8wGroup<64>>();
  t.int8[0] = tile_kernel<TileInt8<64, false>>();
  t.int8[1] = tile_kernel<TileInt8<32, true>>();
  t.int8[2] = tile_kernel<TileInt8<64, true>>();
  t.int4[0][0] = tile_kernel<TileInt4<32, GroupTerm::kSymmetric>>();
  t.int4[0][1] = tile_kernel<TileInt4<64, GroupTerm::kSymmetric>>();
  t.int4[0][2] = tile_kernel<TileInt4<128, GroupTerm::kSymmetric>>();
  t.int4[1][0] = tile_kernel<TileInt4<32, GroupTerm::kZero>>();
  t.int4[1][1] = tile_kernel<TileInt4<64, GroupTerm::kZero>>();
  t.int4[1][2] = tile_kernel<TileInt4<128, GroupTerm::kZero>>();
  t.int4[2][0] = tile_kernel<TileInt4<32, GroupTerm::kMinimum>>();
  t.int4[2][1] = tile_kernel<TileInt4<64, GroupTerm::kMinimum>>();
  t.int4[2][2] = tile_kernel<TileInt4<128, GroupTerm::kMinimum>>();
  t.epilogue = &epilogue;
  t.quantize_row = &quantize_row;
  t.rms_norm = &rms_norm;
  t.layer_norm = &layer_norm;
  t.softmax = &softmax;
  t.argmax = &argmax;
  t.unary = &unary;
  t.to_bf16 = &to_bf16;
  t.to_f16 = &to_f16;
  t.rope_angles = &rope_angles;
  t.rope_rotate = &rope_rotate;
  t.attend_softmax = &attend_softmax;
  t.attend_merge = &attend_merge;
  t.attend_finish = &attend_finish;
  t.round_row_bf16 = &round_row_bf16;
  t.gate_sums = &gate_sums;
  t.bytes_by_signed = tile_kernel<TileBytes<true>>();
  t.signed_by_bytes = tile_kernel<TileBytes<false>>();
  t.finish_integers = &finish_integers;
  t.prepare_bytes = &prepare_bytes;
  t.interleave_bytes = &interleave_bytes;
  t.pack_window = &pack_window;
  t.finish = &finish;
  t.pack_straight = &pack_straight;
  t.pack_transposed = &pack_transposed;
  t.correlate = &correlate;
  t.largest_of = &largest_of;
  return t;
}

}  // namespace
}  // namespace brisk::cpu::BRISK_CPU_NS
