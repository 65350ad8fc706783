// Declarations of the shape rules that the operator table names; defined in infer_*.cpp, one file per group.
#pragma once
#include "op/op.h"

namespace brisk::rules {

Status infer_unary(InferContext&), infer_predicate(InferContext&), infer_cast(InferContext&), infer_binary(InferContext&),
    infer_compare(InferContext&), infer_where(InferContext&), infer_pointwise(InferContext&);

Status infer_embedding(InferContext&), infer_linear(InferContext&), infer_norm(InferContext&), infer_rope(InferContext&),
    infer_paged_attention(InferContext&), infer_resolve_ids(InferContext&), infer_sample(InferContext&);

Status infer_reshape(InferContext&), infer_transpose(InferContext&), infer_gather(InferContext&),
    infer_concat(InferContext&), infer_matmul(InferContext&);

}  // namespace brisk::rules
