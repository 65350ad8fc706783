// The proof that a node computes each token's part of its results from that token's part of its operands.
#pragma once
#include "convert/facts.h"

namespace brisk::convert {

// For every node of facts.nodes. The error names the first node that mixes positions, or is not known not to, and says how.
Status prove(const Graph& g, const DecoderIo& io, const Facts& facts);

}  // namespace brisk::convert
