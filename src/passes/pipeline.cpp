// The passes, in order. Adding one: write passes/<name>.cpp, declare it in passes/all.h, add a row here.
#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "passes/all.h"
#include "passes/pass.h"

namespace brisk {
namespace {

constexpr Pass kPipeline[] = {
    {"widen-floats", "16-bit floats are f32 between nodes where the device computes them so anyway", passes::widen_floats},
    {"fuse-quantized", "products of dequantised operands are integer products; codes of weights stay codes", passes::fuse_quantized},
    {"sink-constants", "constants that a block captures become its own", passes::sink_constants},
    {"fold-constants", "nodes whose operands are all constant become constants", passes::fold_constants},
    {"fold-shapes", "shape arithmetic over symbols ends in constants, or in dims of inputs", passes::fold_shapes},
    {"remove-identity", "nodes that change nothing disappear: x + 0, Cast to the same type, Expand to the own shape", passes::remove_identity},
    {"simplify-movement", "views and transposes cancel or merge", passes::simplify_movement},
    {"merge-common", "equal nodes on equal operands become one", passes::merge_common},
    {"recognize-norm", "LayerNorm and RmsNorm out of their parts", passes::recognize_norm},
    {"recognize-activation", "Gelu, HardSwish and Mish out of their parts", passes::recognize_activation},
    {"recognize-rotary", "rotary embedding out of slices, negations and tables", passes::recognize_rotary},
    {"recognize-attention", "softmax(q k^T scale + mask) v becomes one Attention", passes::recognize_attention},
    {"simplify-selection", "slices and splits come before views and transposes, and slices of a whole are one Split", passes::simplify_selection},
    {"absorb-into-attention", "grouped heads, past, broadcast masks and the order of heads are Attention's", passes::absorb_into_attention},
    {"merge-common", "equal nodes on equal operands become one", passes::merge_common},
    {"matmul-to-linear", "MatMul and Gemm by a constant matrix become Linear on packed weights", passes::matmul_to_linear},
    {"recognize-experts", "products by gathered matrices become ExpertLinear, which reads them in place", passes::recognize_experts},
    {"fuse-bias", "a constant row added to a Linear becomes its bias", passes::fuse_bias},
    {"linear-on-all-axes", "Linear of a view that joins leading axes reads the value itself", passes::linear_on_all_axes},
    {"order-packed-rows", "q, k and v packed within heads lie side by side in the product's weight", passes::order_packed_rows},
    {"simplify-movement", "views and transposes cancel or merge", passes::simplify_movement},
    {"sink-movement", "views and transposes go behind pointwise operators that a convolution, or their inverse, waits for", passes::sink_movement},
    {"simplify-movement", "views and transposes cancel or merge", passes::simplify_movement},
    {"fold-batch-norm", "BatchNorm after a convolution or Linear moves into its weights", passes::fold_batch_norm},
    {"fold-channel-arithmetic", "so do constants per channel that its result is multiplied by or added to", passes::fold_channel_arithmetic},
    {"expand-batch-norm", "what is left of BatchNorm is a product and a sum", passes::expand_batch_norm},
    {"recognize-silu", "x * Sigmoid(x) becomes Silu(x)", passes::recognize_silu},
    {"fuse-packed-mlp", "act(gate) * up of one product that was split into gate and up becomes one Linear with interleaved rows", passes::fuse_packed_mlp},
    {"gather-before-head", "rows that need logits are picked before the head, not after", passes::gather_before_head},
    {"fuse-rope", "rotary embedding of q and k moves into attention", passes::fuse_rope},
    {"merge-qkv", "the q, k and v projections become one Linear", passes::merge_qkv},
    {"keep-qkv-packed", "q, k and v that one product makes are read by attention where they are", passes::keep_qkv_packed},
    {"fuse-gated-mlp", "Silu or Gelu(gate) * up becomes one Linear with interleaved rows", passes::fuse_gated_mlp},
    {"merge-projections", "projections of one value for Attention become one Linear and a Split", passes::merge_projections},
    {"linear-to-integers", "Linear of a dequantised value by a weight of bytes is a product of integers", passes::linear_to_integers},
    {"fuse-integer-scale", "integer products take the scale and bias that follow", passes::fuse_integer_scale},
    {"fuse-conv-epilogue", "residual and activation are a convolution's last act", passes::fuse_conv_epilogue},
    {"fuse-linear-activation", "so is the activation of a Linear", passes::fuse_linear_activation},
    {"fuse-residual", "the residual is added by the Linear that feeds it", passes::fuse_residual},
    {"fuse-norm", "RmsNorm becomes the prologue of the Linear that reads it", passes::fuse_norm},
    {"fuse-pointwise", "chains of pointwise operators become one loop", passes::fuse_pointwise},
    {"remove-dead", "nodes whose results nobody reads disappear", passes::remove_dead},
};

int64_t count(const Graph& g) {
  auto n = static_cast<int64_t>(g.nodes.size());
  for (const Node& node : g.nodes)
    for (const Graph& b : node.blocks) n += count(b);
  return n;
}

Result<int> run_everywhere(const Pass& p, Graph& g, PassContext& c) {
  int total = 0;
  for (Node& n : g.nodes)
    for (Graph& b : n.blocks) {
      BRISK_ASSIGN(int inner, run_everywhere(p, b, c));
      total += inner;
    }
  BRISK_ASSIGN(int own, p.run(g, c));
  return total + own;
}

}  // namespace

std::span<const Pass> pipeline() { return kPipeline; }

Result<std::vector<PassReport>> run_pipeline(Graph& g, PassContext& c, const PipelineOptions& o) {
  auto known = [](const std::string& name) {
    return std::any_of(std::begin(kPipeline), std::end(kPipeline), [&](const Pass& p) { return name == p.name; });
  };
  for (auto& name : o.disabled)
    if (!known(name)) return invalid("no pass '" + name + "'");
  if (!o.dump_after.empty() && o.dump_after != "all" && !known(o.dump_after)) return invalid("no pass '" + o.dump_after + "'");

  BRISK_TRY(verify(g, "import"));
  if (o.dump && o.dump_after == "all") o.dump("import", print(g));
  std::vector<PassReport> reports;
  for (const Pass& p : kPipeline) {
    if (o.until == p.name) break;
    if (o.disabled.count(p.name)) continue;
    c.fired.clear();
    c.missed.clear();
    auto start = std::chrono::steady_clock::now();
    BRISK_ASSIGN(int rewrites, run_everywhere(p, g, c));
    BRISK_TRY(verify(g, p.name));
    std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    for (auto* lines : {&c.fired, &c.missed})
      for (auto& line : *lines) log(LogLevel::kVerbose, std::string(p.name) + ": " + line);
    reports.push_back({p.name, rewrites, count(g), ms.count(), c.fired, c.missed});
    if (o.dump && (o.dump_after == "all" || o.dump_after == p.name)) o.dump(p.name, print(g));
  }
  return reports;
}

}  // namespace brisk
