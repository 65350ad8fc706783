// Declarations of the passes; one file each. What the recognisers leave behind is what later passes, and the conversion
// of decoders, may rely on.
#pragma once
#include "passes/pass.h"

namespace brisk::passes {

// Leaves: f32 wherever a node on f16 or bf16 has a better kernel in f32, and wherever such a value is read on; inputs, results
// and the file's own Casts keep their types.
Result<int> widen_floats(Graph&, PassContext&);
// Narrow inputs that are only converted to f32, and results that are only converted from it, become f32: for a graph whose
// interface is not the file's any more.
void widen_interface(Graph&);
// Leaves: where both operands of MatMul, Gemm or Conv are dequantised (one scale for the first, one or one an output for the
// constant second) and the device has a kernel: MatMulInteger or ConvInteger, Cast, Mul by both scales, Add of the bias.
// Else, for constant codes beside floats: Linear on a weight with an Encoding (8 or 4 bits; one scale, one a row, or blocks
// of K), activations as they are. Forms that Linear does not read are folded to f32 by fold_constants, with a warning.
Result<int> fuse_quantized(Graph&, PassContext&);
Result<int> sink_constants(Graph&, PassContext&);
Result<int> fold_constants(Graph&, PassContext&);
// Leaves: Reshape, Expand and Slice with constant operands wherever their result can be written so; what else is left of
// shape arithmetic reads graph inputs only (Shape{a, a + 1} of the first input that has the symbol), never an intermediate.
Result<int> fold_shapes(Graph&, PassContext&);
Result<int> remove_identity(Graph&, PassContext&);
// Leaves: no view of a view, no Transpose of a Transpose, where one can say it.
Result<int> simplify_movement(Graph&, PassContext&);
Result<int> merge_common(Graph&, PassContext&);
// Leaves: RmsNorm(x, weight), LayerNorm(x, weight, bias?) over the last axis; a missing weight is a constant of ones.
// Narrow floats go in and come out as they are: the casts round the norm are the operator's.
Result<int> recognize_norm(Graph&, PassContext&);
// Leaves: Gelu{alpha: 1 = tanh form}, HardSwish, Mish. x * Sigmoid(1.702 x) stays a pointwise chain.
Result<int> recognize_activation(Graph&, PassContext&);
// Leaves: RotaryEmbedding{head_dim, dim}(x [B, H, S, d], cos, sin [B or 1, S, dim / 2]): the tables without their repeated
// half, computed from the same positions and frequencies as before, once for all layers (merge-common). A rotation of the
// first elements of each head only is one node, too.
Result<int> recognize_rotary(Graph&, PassContext&);
// Leaves: Attention{scale, softcap, heads = kv_heads = 0}(q, k, v [B, H, S, d], mask?). The scale is all numbers on q, k and
// their product multiplied. The mask is what was added (several are summed first), or bool, true = seen, where it chose
// between scores and -inf; it broadcasts to [B, H, S, T]. causal is never set here: masks stay as the graph computes them.
// Rows that see no key: zeros, where the graph may have had NaN (a mask of -inf without the exporters' IsNaN) or,
// where a finite number was put in place of scores, some mean of values. Nobody may rely on such rows.
Result<int> recognize_attention(Graph&, PassContext&);
// Leaves: Slice and Split of packed projections on [B, S, width], along the last axis, heads seen and moved afterwards.
Result<int> simplify_selection(Graph&, PassContext&);
// For those and for Attention of the file itself. Leaves: k, v with their own number of heads (no repetition); a past
// joined along places as operands 4, 5 and the joined values as results 1, 2, [B, kv, past + S, d]; no Expand of the mask;
// where q, k and v were [B, S, H d] with heads moved in front: operands of rank 3, {heads, kv_heads} set, result [B, S, H d],
// RotaryEmbedding on rank 3 likewise.
Result<int> absorb_into_attention(Graph&, PassContext&);
Result<int> matmul_to_linear(Graph&, PassContext&);
// Leaves: ExpertLinear(x [R, K], experts i64 [R], weights [E, N, K], bias?) and a view of its result, where rows were multiplied
// by matrices gathered for each.
Result<int> recognize_experts(Graph&, PassContext&);
Result<int> linear_to_integers(Graph&, PassContext&);
Result<int> fuse_integer_scale(Graph&, PassContext&);
Result<int> sink_movement(Graph&, PassContext&);
Result<int> fold_batch_norm(Graph&, PassContext&);
Result<int> fold_channel_arithmetic(Graph&, PassContext&);
Result<int> expand_batch_norm(Graph&, PassContext&);
Result<int> fuse_conv_epilogue(Graph&, PassContext&);
Result<int> fuse_linear_activation(Graph&, PassContext&);
// Leaves: Split of a Linear's last axis where parts were taken out of each head (GPT-NeoX); the weight's rows are permuted.
Result<int> order_packed_rows(Graph&, PassContext&);
// Leaves: Linear on [..., K] where the file had Reshape to [rows, K], a product and Reshape back (GPT-2's Conv1D).
Result<int> linear_on_all_axes(Graph&, PassContext&);
Result<int> recognize_silu(Graph&, PassContext&);
Result<int> gather_before_head(Graph&, PassContext&);
Result<int> fuse_rope(Graph&, PassContext&);
Result<int> merge_qkv(Graph&, PassContext&);
// Leaves: PagedAttention with packed q, k, v in operand 0 where a Split in that order fed it.
Result<int> keep_qkv_packed(Graph&, PassContext&);
// Leaves: Linear{gated} with interleaved rows, also where gate and up came out of one product (Phi-3).
Result<int> fuse_packed_mlp(Graph&, PassContext&);
Result<int> fuse_gated_mlp(Graph&, PassContext&);
Result<int> fuse_bias(Graph&, PassContext&);
// Leaves: one Linear of the rows of two or three, and a Split of its result along the last axis.
Result<int> merge_projections(Graph&, PassContext&);
Result<int> fuse_residual(Graph&, PassContext&);
Result<int> fuse_norm(Graph&, PassContext&);
Result<int> fuse_pointwise(Graph&, PassContext&);
Result<int> remove_dead(Graph&, PassContext&);

}  // namespace brisk::passes
