// Rules of operators with blocks. The types of the blocks' results follow those of the operands.
#include "op/rules.h"

namespace brisk::rules {
namespace {

// What holds for both.
Type join(InferContext& c, const Type& a, const Type& b) {
  Type t{a.dtype, a.ranked && b.ranked && a.rank() == b.rank(), {}, {}};
  if (!t.ranked) return t;
  for (size_t i = 0; i < a.shape.size(); ++i) t.shape.push_back(a.shape[i] == b.shape[i] ? a.shape[i] : c.fresh("branch"));
  return t;
}

}  // namespace

Status infer_if(InferContext& c) {
  int n = c.output_count(), first = c.input_count() - 2 * n;
  if (first < 1) return internal("If without the types of its blocks");
  if (c.in(0).dtype != DType::kBool) return invalid("the condition is " + to_string(c.in(0)) + ", wanted bool");
  for (int i = 0; i < n; ++i) {
    const Type &a = c.in(first + i), &b = c.in(first + n + i);
    if (a.dtype != b.dtype) return invalid("result " + std::to_string(i) + " is " + to_string(a) + " in one branch, " + to_string(b) + " in the other");
    c.out(i) = join(c, a, b);
  }
  return {};
}

// The block's results: condition, then one for each result of the node (states, then scan elements). How many of them
// are states shows in ModeAttrs::flag.
Status infer_loop(InferContext& c) {
  int n = c.output_count(), states = static_cast<int>(c.attrs<ModeAttrs>().flag);
  int first = c.input_count() - n - 1;
  if (states > n || first < 2 + states) return internal("Loop without the types of its block");
  auto trips = c.has(0) ? c.elements(0) : std::nullopt;
  bool counted = trips && trips->size() == 1 && c.attrs<ModeAttrs>().mode == "counted";
  Dim count = counted ? at_least_zero((*trips)[0]) : c.fresh("loop");
  for (int i = 0; i < n; ++i) {
    const Type& inner = c.in(first + 1 + i);
    if (i < states) {
      if (c.in(2 + i).dtype != inner.dtype) return invalid("state " + std::to_string(i) + " changes its element type");
      c.out(i) = join(c, c.in(2 + i), inner);
      continue;
    }
    c.out(i) = Type{inner.dtype, inner.ranked, inner.shape, {}};
    // Sizes that differ from step to step cannot be stacked; so the element's own symbols may stay.
    c.out(i).shape.insert(c.out(i).shape.begin(), count);
  }
  return {};
}

}  // namespace brisk::rules
