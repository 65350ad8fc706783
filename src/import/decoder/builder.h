// Builds the `step` function of a decoder of the Llama family (op/step_io.h says what it takes and gives).
//
//   ids -> ResolveIds -> Embedding -> layers -> RmsNorm -> Linear (head) -> Gather (logit_rows) -> Sample
//   layer: x += Linear(PagedAttention(Rope(Linear(n)), ...)), n = RmsNorm(x);  x += Linear(act(Linear(m)) * Linear(m)), m = RmsNorm(x)
//
// Plain operators on purpose: merging q, k and v, gated MLPs, norms into products, and moving the Gather before the head
// are the passes' work, the same as for any other importer. Rotation is half-split in every format.
#pragma once
#include "import/decoder/weights.h"
#include "ir/graph.h"

namespace brisk {

// `config` has passed check_config, `weights` check() without problems.
Result<Graph> build_step(const DecoderConfig& config, const DecoderWeights& weights);

// What both importers do once they have a configuration and a store: check the weights, then build "step". Fills
// functions, max_context and metadata; `problems` holds what the caller found before. `where` names the file or folder.
Status build_model(Model& model, const DecoderConfig& config, const Family& family, WeightFormat format,
                   const TensorStore& store, Problems& problems, const std::string& where);

}  // namespace brisk
