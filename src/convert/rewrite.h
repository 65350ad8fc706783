// The step graph: the source's nodes over one ragged axis of tokens, with paged attention.
#pragma once
#include "convert/facts.h"
#include "convert/geometry.h"

namespace brisk::convert {

// Wants prove(facts). All floats become f32 between nodes; weights keep their element type.
Result<Graph> rewrite(const Graph& g, const DecoderIo& io, const Facts& facts, Geometry& geometry);

}  // namespace brisk::convert
