// Which inputs and results of a graph make it a decoder, and the sizes of all of them in three symbols.
#pragma once
#include "ir/graph.h"

namespace brisk::convert {

// Symbols of the source graph's shapes after recognise(): ids are [batch, tokens], caches hold `past` keys.
inline constexpr const char* kBatch = "batch";
inline constexpr const char* kTokens = "tokens";
inline constexpr const char* kPast = "past";

struct DecoderIo {
  ValueId ids = kNoValue;                       // integers [batch, tokens]
  ValueId mask = kNoValue, positions = kNoValue;  // [batch, past + tokens], [batch, tokens]; may be absent
  ValueId logits = kNoValue;                    // [batch, tokens or 1, vocab]
  std::vector<ValueId> past;                    // inputs [batch, heads, past, size]
  std::vector<ValueId> present;                 // results that continue them
  int64_t vocab = 0;
  Dim batch = Dim::symbol(kBatch);              // 1 where the file says so
};

// Has it token ids as an input, and floats of rank 3 as a result? Graphs that have not are no candidates.
bool is_candidate(const Graph& g);

// Finds the roles by name and shape, gives the inputs shapes in the three symbols, and runs all shape rules again.
// kUnsupported: what does not belong to a decoder, by name.
Result<DecoderIo> recognise(Graph& g);

}  // namespace brisk::convert
