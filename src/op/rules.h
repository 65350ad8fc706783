// Declarations of the shape rules that the operator table names; defined in infer_*.cpp, one file per group.
#pragma once
#include "op/op.h"

namespace brisk::rules {

Status infer_unary(InferContext&), infer_predicate(InferContext&), infer_cast(InferContext&), infer_bitcast(InferContext&), infer_binary(InferContext&),
    infer_compare(InferContext&), infer_where(InferContext&), infer_pointwise(InferContext&);

Status infer_embedding(InferContext&), infer_linear(InferContext&), infer_expert_linear(InferContext&), infer_norm(InferContext&), infer_rope(InferContext&),
    infer_paged_attention(InferContext&), infer_resolve_ids(InferContext&), infer_sample(InferContext&);

Status infer_shape(InferContext&), infer_reshape(InferContext&), infer_squeeze(InferContext&), infer_unsqueeze(InferContext&),
    infer_flatten(InferContext&), infer_range(InferContext&), infer_expand(InferContext&), infer_same(InferContext&);

Status infer_transpose(InferContext&), infer_concat(InferContext&), infer_slice(InferContext&), infer_split(InferContext&),
    infer_tile(InferContext&), infer_pad(InferContext&);

Status infer_gather(InferContext&), infer_gather_elements(InferContext&), infer_gather_nd(InferContext&),
    infer_one_hot(InferContext&), infer_top_k(InferContext&), infer_non_zero(InferContext&), infer_compress(InferContext&),
    infer_unique(InferContext&), infer_non_max_suppression(InferContext&), infer_tf_idf(InferContext&), infer_tree_ensemble(InferContext&);

Status infer_reduce(InferContext&), infer_arg(InferContext&);

Status infer_matmul(InferContext&), infer_gemm(InferContext&), infer_matmul_integer(InferContext&), infer_einsum(InferContext&),
    infer_det(InferContext&);

Status infer_conv(InferContext&), infer_conv_integer(InferContext&), infer_conv_transpose(InferContext&), infer_pool(InferContext&);

Status infer_max_unpool(InferContext&), infer_col2im(InferContext&), infer_deform_conv(InferContext&), infer_grid_sample(InferContext&),
    infer_roi(InferContext&);

Status infer_recurrent(InferContext&), infer_quantize(InferContext&), infer_dequantize(InferContext&),
    infer_dynamic_quantize(InferContext&), infer_resize(InferContext&), infer_sdpa(InferContext&),
    infer_linear_attention(InferContext&);

Status infer_if(InferContext&), infer_loop(InferContext&);

// --- what rules share (infer_util.cpp) ----------------------------------------------------------------------------------

// Can never be negative for symbols of 1 and more, as far as a few trials show.
bool seems_nonnegative(const Dim& d);
// max(d, 0), left out where it seems to change nothing.
Dim at_least_zero(const Dim& d);
// Shape of `n` fresh symbols; an error above kMaxRank.
Result<Shape> fresh_shape(InferContext& c, int64_t n, std::string_view prefix);
// The shape that an i64 operand holds: its elements, or fresh symbols if only their number is known, or nullopt.
Result<std::optional<Shape>> shape_operand(InferContext& c, int i, std::string_view prefix);
// Axes of ReduceAttrs or of operand 1, normalised to [0, rank), ascending; nullopt if not known yet.
Result<std::optional<std::vector<int>>> axes_of(InferContext& c, int rank);
// All dims as numbers.
std::optional<std::vector<int64_t>> constant_dims(const Shape& s);
// Elements of a broadcast operand spread over `to` (constant, at most kMaxTrackedElements); nullopt if it cannot be.
std::optional<std::vector<Dim>> spread_elements(const std::vector<Dim>& elements, const Shape& from, const Shape& to);
Status too_many_axes(size_t rank);
// Window lists that are given have one number for each of `axes` spatial axes, within bounds; strides and dilations are positive.
Status check_window(const WindowAttrs& a, size_t axes);

}  // namespace brisk::rules
