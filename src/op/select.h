// Selections whose number of results depends on data: the shape rule counts them, the kernel writes them down. And the
// n-grams of TfIdfVectorizer, which the rule checks and the kernel looks up.
#pragma once
#include <array>
#include <map>
#include <vector>

#include "brisk/result.h"
#include "op/attrs.h"
#include "tensor/tensor.h"

namespace brisk {

struct UniqueGroups {
  std::vector<int64_t> first;  // of each group: its first slice
  std::vector<int64_t> place;  // of each slice: its group
  std::vector<int64_t> count;  // of each group
};

// Groups of equal slices of x (host memory, dense) along `axis`, or of equal elements if it is -1. Sorted: ascending,
// slices compared element by element; else in the order in which they occur. NaNs are equal and come last, -0 is 0.
UniqueGroups unique_groups(const TensorView& x, int axis, bool sorted);

// The operands of NonMaxSuppression; null: absent. Host memory.
struct BoxOperands {
  const TensorView *boxes, *scores, *most, *iou, *score;
};
// (batch, class, box), of each batch and class the best first, equal scores by place. A box is left out if its IoU with a
// chosen one is above the threshold, or its score is not above the score threshold. No `most`: nothing.
Result<std::vector<std::array<int64_t, 3>>> non_max_suppression(const BoxOperands& o, bool centered);

// Column of each n-gram of the pool with a length between min_length and max_length; an error if the lists do not fit
// each other.
Result<std::map<std::vector<int64_t>, int64_t>> ngrams_of(const NgramAttrs& a);
// Columns of the result: the largest column + 1.
Result<int64_t> ngram_columns(const NgramAttrs& a);

}  // namespace brisk
