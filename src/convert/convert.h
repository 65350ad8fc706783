// From any decoder graph to a ragged, paged `step` function.
//
// recognise.h finds the roles of inputs and results, geometry.h separates what depends on sizes and positions only from
// what depends on the tokens, predicate.h turns masks and tables into closed forms, states.h finds the keys and values that
// are kept, proof.h shows that everything else treats each position alone, rewrite.h collapses batch and tokens into one
// ragged axis, and check.h compares the result with its source.
#pragma once
#include "ir/graph.h"

namespace brisk {

struct DecoderConversion {
  Graph step;                       // as import/decoder/builder.h would write it
  int64_t limit = INT64_MAX;        // positions for which masks and tables were examined, or that tables have
  double difference = 0;            // of the check: largest difference over the largest logit
};

// Worth trying: token ids go in, floats [batch, tokens, n] come out.
bool may_be_decoder(const Graph& g);

// Before any pass: inputs get shapes in the symbols batch, tokens and past, so that shape arithmetic is over nothing else.
// `single`: batch is 1, for files that have written it into their reshapes while they declare any. kUnsupported: inputs or
// results that no decoder has.
Status prepare_decoder(Graph& g, bool single);

// `source` has gone through the passes that recognise attention, rotary embedding and norms. `evaluator` runs single nodes,
// `whole` whole graphs. kUnsupported: not a decoder that can be converted; the message names node and reason. kInternal:
// it was converted, and the check failed.
Result<DecoderConversion> convert_decoder(const Graph& source, int64_t max_context, Evaluator& evaluator, Evaluator& whole);

}  // namespace brisk
