#include "convert/convert.h"

#include "convert/check.h"
#include "convert/proof.h"
#include "convert/rewrite.h"

namespace brisk {

bool may_be_decoder(const Graph& g) { return convert::is_candidate(g); }

Status prepare_decoder(Graph& g, bool single) {
  if (single)
    for (ValueId v : g.inputs)
      if (Type& t = g.value(v).type; t.ranked && !t.shape.empty()) t.shape[0] = 1;
  auto io = convert::recognise(g);
  return io.ok() ? Status() : Status(std::move(io).error());
}

Result<DecoderConversion> convert_decoder(const Graph& source, int64_t max_context, Evaluator& evaluator, Evaluator& whole) {
  using namespace convert;
  Graph g = source;
  BRISK_ASSIGN(DecoderIo io, recognise(g));
  Geometry geometry(g, io, evaluator);
  BRISK_ASSIGN(Facts facts, find_facts(g, io, geometry, max_context > 0 ? max_context : INT64_MAX));
  BRISK_TRY(prove(g, io, facts));
  if (facts.attention.empty()) return unsupported("no attention was recognised");
  DecoderConversion c;
  BRISK_ASSIGN(c.step, rewrite(g, io, facts, geometry));
  BRISK_TRY(verify(c.step, "decoder conversion"));
  BRISK_TRY(check(g, io, facts, c.step, whole, c.difference));
  c.limit = facts.limit;
  return c;
}

}  // namespace brisk
