// The last word: does the step graph say what the source graph says?
#pragma once
#include "convert/facts.h"

namespace brisk::convert {

// Two sequences of different lengths together in one ragged batch, in chunks and then token by token, against the source
// graph run on each alone and whole; all logits. `largest` gets the largest difference over the largest logit.
// kInternal: they differ by more than rounding explains.
Status check(const Graph& source, const DecoderIo& io, const Facts& facts, const Graph& step, Evaluator& evaluator, double& largest);

}  // namespace brisk::convert
