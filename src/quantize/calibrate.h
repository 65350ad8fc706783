// Calibration of a generative model's 4-bit weights: token sequences go through the `step` graph from node to node, and
// each Linear is quantised (gptq.h) for the inputs that reach it, so that later layers see what earlier ones became.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "ir/graph.h"
#include "quantize/quantize.h"

namespace brisk {

struct CalibrateOptions {
  int threads = 1;  // of the mathematics; changes no bit
  std::function<void(double)> progress;  // fraction in [0, 1], on the calling thread
};

// Encodings of all weights of `step`, a graph as importers give it, for QuantizeOptions::encoded. `sequences`: token ids
// [tokens] each, none empty, which start at position 0. The evaluator should run passes. Memory: what one cut of the graph
// holds for all tokens (for a decoder the residual stream and the widest input of a Linear), and one matrix of second
// moments and its factor, [K, K] f32 each. kInvalid: a token that the model has no embedding for, inputs that are not finite.
Result<std::map<const Constant*, ConstantPtr>> calibrate_int4(const Graph& step, const QuantizeOptions& options,
                                                              const std::vector<std::vector<int32_t>>& sequences,
                                                              Evaluator& evaluator, const CalibrateOptions& how);

// Is there a weight that calibration would encode?
bool calibration_pays(const Graph& g, const QuantizeOptions& options);

}  // namespace brisk
