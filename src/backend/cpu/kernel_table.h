// The functions that exist once per instruction set. Each kernels_<isa>.cpp, compiled with that set's flags, fills one
// table; everything else in this folder is compiled for the baseline and calls through it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cpu/isa.h"
#include "backend/cpu/pointwise.h"

namespace brisk::cpu {

// One register tile of a linear operator: `rows` rows of activations times one panel of 32 outputs over k elements of K
// (a whole number of units unless it ends K), added to acc[rows][32] (which starts from zero if `first`).
// Reduction order per output is K ascending, whatever the rows, so that every M gives the same bits.
struct TileCall {
  const void* a = nullptr;         // float, bf16 pairs or int8 rows, at the block's first k
  int64_t lda = 0;                 // elements from row to row
  const float* a_scale = nullptr;  // int8: scale of each 64 of k
  const void* a_sum = nullptr;     // int8: see ActSums in quantize_act.h
  int64_t ld_scale = 0, ld_sum = 0;
  const std::byte* w = nullptr;    // the panel, at the block's first k
  int64_t k = 0;
  float* acc = nullptr;
  int rows = 0;
  bool first = true;
  // The panel that will be wanted next, at the same k; the tiles of a panel share fetching it: this one takes from
  // next_first to next_last 256ths of every unit. Only a hint.
  const std::byte* next = nullptr;
  int next_first = 0, next_last = 0;
};
struct TileKernel {
  void (*run)(const TileCall&) = nullptr;
  int max_rows = 0;
};

// Finishes acc[rows][32] of one panel: v = act(acc * scale + bias), or act(gate) * up; y = v * out_scale + residual.
// The order of those steps is the same for every kernel. Columns at or beyond `n` are not written.
struct EpilogueCall {
  const float* acc = nullptr;
  int rows = 0, n = 0;               // n: columns of y in this panel, at most 32 (16 if gated)
  const float* scale = nullptr;      // [32] or null
  const float* bias = nullptr;       // [32] in panel order, or null
  const float* residual = nullptr;   // may be y itself
  int64_t ld_residual = 0;
  float* y = nullptr;
  int64_t ldy = 0;
  float out_scale = 1;
  Unary act = Unary::kIdentity;
  bool gated = false;
  bool stream = false;               // whole vectors of y go past the caches; y and ldy are multiples of 64 bytes
};

struct QuantizeRowCall {
  const float* x = nullptr;
  int64_t k = 0, padded_k = 0;  // padded_k a multiple of 64
  int8_t* q = nullptr;          // [padded_k], zero beyond k
  float* scale = nullptr;       // [padded_k / 64]
  void* sum = nullptr;          // [padded_k / sum_unit]
  int sum_unit = 64;            // 32 or 64
  int sum_form = 0;             // ActSums
  float* rest = nullptr;        // [padded_k]: x less what the codes stand for, if wanted
};

// Scores of some rows against a key block of some segments of 32 keys become probabilities, in place:
// s[segment][row][32]; row r sees keys lo[r] <= j < hi[r] of the block. max is -inf for a row that sees none.
struct SoftmaxCall {
  float* s = nullptr;
  int rows = 0, segments = 0;
  const int* lo = nullptr;
  const int* hi = nullptr;
  float softcap = 0;
  float* max = nullptr;
  float* sum = nullptr;
};
// Running result of rows (max, sum, acc[row][panels * 32]) joined by a key block's partial (part[panel][part_rows][32]);
// at most 16 rows.
struct MergeCall {
  int rows = 0, panels = 0, part_rows = 0;
  float* max = nullptr;
  float* sum = nullptr;
  float* acc = nullptr;
  const float* part_max = nullptr;
  const float* part_sum = nullptr;
  const float* part = nullptr;
};

struct KernelTable {
  Isa isa;
  TileKernel f32, bf16, f16, bf16_dot;      // bf16_dot.run is null where the instruction is missing
  TileKernel int8w[3];                      // [group 0 (a scale per output), 32, 64], float activations
  TileKernel int8[3];                       // the same, int8 activations
  TileKernel int4[3][3];                    // [GroupTerm][group 32, 64, 128], int8 activations
  void (*epilogue)(const EpilogueCall&);
  void (*quantize_row)(const QuantizeRowCall&);
  void (*rms_norm)(const float* x, const float* w, int64_t k, float epsilon, float* out);
  void (*layer_norm)(const float* x, const float* w, const float* b, int64_t k, float epsilon, float* out);  // w, b may be null
  void (*softmax)(const float* x, int64_t n, float* out);
  int64_t (*argmax)(const float* x, int64_t n);  // first of the largest; NaN never, 0 if there is nothing else
  void (*unary)(Unary f, const float* x, int64_t n, float* out);
  void (*to_bf16)(const float* x, int64_t n, uint16_t* out);
  void (*to_f16)(const float* x, int64_t n, uint16_t* out);
  void (*rope_angles)(const float* frequency, int n, float position, float magnitude, float* cos, float* sin);
  void (*rope_rotate)(const float* x, int head_dim, int dim, bool interleaved, const float* cos, const float* sin,
                      float scale, float* out);
  void (*attend_softmax)(const SoftmaxCall&);
  void (*attend_merge)(const MergeCall&);
  void (*attend_finish)(const float* acc, float sum, int n, float* out);
  void (*round_row_bf16)(const float* x, int64_t k, uint16_t* out);  // out [k rounded up to even], zero beyond k
};

// The table of a level that this processor has (see present_isas).
const KernelTable& kernels(Isa isa);

const KernelTable& kernels_avx2();
const KernelTable& kernels_avx2_vnni();
const KernelTable& kernels_avx512();
const KernelTable& kernels_avx512_vnni();
const KernelTable& kernels_avx512_bf16();

}  // namespace brisk::cpu
