// Where an attention's keys and values come from: new ones, repeated over heads, behind a past that is an input.
#pragma once
#include "convert/recognise.h"

namespace brisk::convert {

struct KvSource {
  ValueId k = kNoValue, v = kNoValue;  // of the new tokens, [batch, kv heads, tokens, size] or [batch, tokens, kv heads * size]
  ValueId past_k = kNoValue, past_v = kNoValue;  // inputs; kNoValue where the graph keeps no past
  int64_t heads = 0, kv_heads = 0, size = 0;
};

// Of an Attention node. kUnsupported: keys that are neither new ones nor new ones behind a past input, or a past whose
// continuation is not a result.
Result<KvSource> kv_source(const Graph& g, const DecoderIo& io, const Node& attention);

}  // namespace brisk::convert
