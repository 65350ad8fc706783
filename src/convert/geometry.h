// Values that do not depend on what the tokens are: masks, positions, tables of sines. They follow from sizes, from the
// attention mask (all ones: a ragged batch has no padding), from position_ids (past, past + 1, ...) and from constants.
// That is told by dataflow; what they hold is computed, for any sizes, by running the nodes that make them.
#pragma once
#include <set>

#include "convert/recognise.h"

namespace brisk::convert {

struct Sizes {
  int64_t batch = 1, tokens = 1, past = 0;
};

class Geometry {
 public:
  // All are borrowed and outlive this.
  Geometry(const Graph& g, const DecoderIo& io, Evaluator& evaluator);

  bool has(ValueId v) const { return v < 0 || known_[static_cast<size_t>(v)]; }
  bool has_past() const { return !io_.past.empty(); }
  // The elements at these sizes. Wants has(v).
  Result<ConstantPtr> at(ValueId v, Sizes sizes);
  // The one value it has at all sizes; an error says that it depends on them.
  Result<ConstantPtr> fixed(ValueId v);
  // Whole numbers among the constants that v is made of, from 2 up to `most`: where a mask may change its form.
  std::set<int64_t> numbers(ValueId v, int64_t most) const;

 private:
  std::vector<size_t> makers(ValueId v) const;  // nodes, in order

  const Graph& g_;
  const DecoderIo& io_;
  Evaluator& evaluator_;
  std::vector<bool> known_;
  std::vector<NodeId> producer_;
};

}  // namespace brisk::convert
