// Declarations of the passes; one file each.
#pragma once
#include "passes/pass.h"

namespace brisk::passes {

Result<int> fold_constants(Graph&, PassContext&);
Result<int> remove_identity(Graph&, PassContext&);
Result<int> merge_common(Graph&, PassContext&);
Result<int> matmul_to_linear(Graph&, PassContext&);
Result<int> fold_batch_norm(Graph&, PassContext&);
Result<int> fold_channel_arithmetic(Graph&, PassContext&);
Result<int> expand_batch_norm(Graph&, PassContext&);
Result<int> fuse_conv_epilogue(Graph&, PassContext&);
Result<int> fuse_linear_activation(Graph&, PassContext&);
Result<int> recognize_silu(Graph&, PassContext&);
Result<int> gather_before_head(Graph&, PassContext&);
Result<int> fuse_rope(Graph&, PassContext&);
Result<int> merge_qkv(Graph&, PassContext&);
Result<int> fuse_gated_mlp(Graph&, PassContext&);
Result<int> fuse_bias(Graph&, PassContext&);
Result<int> fuse_residual(Graph&, PassContext&);
Result<int> fuse_norm(Graph&, PassContext&);
Result<int> fuse_pointwise(Graph&, PassContext&);
Result<int> remove_dead(Graph&, PassContext&);

}  // namespace brisk::passes
