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
  const int32_t* offset = nullptr; // where k's 32 values lie, in floats from w on, for tiles that read no panel
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
  UnaryCall act;
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

// Consecutive lanes of a panel of 32 places, all in one vector, that a tap of a window reads from one row of a plane: lane i
// in [low, high) reads x[offset + step * (i - first lane of its vector)]. Lanes of no piece are in the padding: 0.
struct WindowPiece {
  int low = 0, high = 0, step = 1;
  int64_t offset = 0;  // of the vector's first lane, which itself need not be inside the plane
};
// A tap for some channels: out[channel][32].
struct WindowPackCall {
  const float* x = nullptr;  // plane of the first channel
  int64_t plane = 0, channels = 0;
  const WindowPiece* pieces = nullptr;  // by rising lanes
  int count = 0;
  float* out = nullptr;
};
// Ends of products whose rows are channels: y[r][j] = act(acc[r][j] * scale + row_bias[r] + column_bias[j] + residual[r][j]),
// or the residual after the activation, j < n.
struct FinishCall {
  const float* acc = nullptr;  // read in whole vectors
  int64_t ld_acc = 32;
  int rows = 0;
  int64_t n = 0;
  float scale = 1;
  const float* row_bias = nullptr;
  const float* column_bias = nullptr;
  const float* residual = nullptr;  // strides of y
  bool residual_last = false;
  UnaryCall act;
  float* y = nullptr;
  int64_t ldy = 0;
};

// Ends of integer products: v = acc[r][j] + row_add[r] + column_add[j] + row_factor[r] * column_factor[j] (wrapping; what is
// null is 0), stored as it is or as v * scale * column_scale[j] + row_bias[r] + column_bias[j].
struct IntegerFinishCall {
  const float* acc = nullptr;       // [rows][32], integers in truth
  int rows = 0, n = 0;              // n of 32 columns
  const int32_t* row_add = nullptr;
  const int32_t* column_add = nullptr;
  const int32_t* row_factor = nullptr;     // both or none
  const int32_t* column_factor = nullptr;
  int32_t* integers = nullptr;      // one of the two
  float* y = nullptr;
  int64_t ldy = 0;
  float scale = 1;
  const float* column_scale = nullptr;
  const float* row_bias = nullptr;
  const float* column_bias = nullptr;
};

struct KernelTable {
  Isa isa;
  int lanes;                                // floats a vector
  TileKernel scattered;                     // f32 by TileCall::offset
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
  void (*unary)(const UnaryCall& f, const float* x, int64_t n, float* out);
  void (*to_bf16)(const float* x, int64_t n, uint16_t* out);
  void (*to_f16)(const float* x, int64_t n, uint16_t* out);
  void (*rope_angles)(const float* frequency, int n, float position, float magnitude, float* cos, float* sin);
  void (*rope_rotate)(const float* x, int head_dim, int dim, bool interleaved, const float* cos, const float* sin,
                      float scale, float* out);
  void (*attend_softmax)(const SoftmaxCall&);
  void (*attend_merge)(const MergeCall&);
  void (*attend_finish)(const float* acc, float sum, int n, float* out);
  void (*pack_window)(const WindowPackCall&);
  void (*finish)(const FinishCall&);
  // Panels [k][32] of b[k][columns], or of b[columns][k] (32 columns at most, zeros beyond).
  void (*pack_straight)(const float* b, int64_t ldb, int columns, int64_t k, float* out);
  void (*pack_transposed)(const float* b, int64_t ldb, int columns, int64_t k, float* out);
  // y[i] = start + sum of w[t] * x[offset[t] + i], or the largest x[offset[t] + i], for i < n rounded up to 16.
  void (*correlate)(const float* x, const int32_t* offset, const float* w, int taps, float start, int64_t n, float* y);
  void (*largest_of)(const float* x, const int32_t* offset, int taps, int64_t n, float* y);
  // acc[rows][gates][16] += h[rows][k] * w[k][gates][16], 1 to 4 gates.
  void (*gate_sums)(int gates, const float* h, int64_t ldh, int rows, int64_t k, const float* w, float* acc);
  // Words of four bytes: rows unsigned and panel signed, or the other way round.
  TileKernel bytes_by_signed, signed_by_bytes;
  void (*finish_integers)(const IntegerFinishCall&);
  // out[i] = x[i] ^ flip, zeros up to `padded`; the sum of out.
  // out[j][i] = rows[i][j], four rows of 32.
  void (*interleave_bytes)(const uint8_t* rows, uint8_t* out);
  int32_t (*prepare_bytes)(const uint8_t* x, int64_t k, int flip, uint8_t* out, int64_t padded);
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
