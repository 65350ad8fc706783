// Shape rules of selections that count what data hold, and of n-gram counts.
#include "op/rules.h"
#include "op/select.h"

namespace brisk::rules {

Status infer_unique(InferContext& c) {
  const Type& x = c.in(0);
  const auto& a = c.attrs<ModeAttrs>();
  bool flat = a.mode == "flat";
  int axis = -1;
  if (!flat && x.ranked) {
    BRISK_ASSIGN(axis, normalize_axis(a.axis, x.rank()));
  }
  Dim groups = c.fresh("unique"), slices = c.fresh("slices");
  const TensorView* v = x.ranked ? c.data(0) : nullptr;
  if (v) groups = static_cast<int64_t>(unique_groups(*v, axis, true).first.size());
  if (axis >= 0) slices = x.shape[static_cast<size_t>(axis)];
  if (flat && x.ranked) {
    slices = 1;
    for (const Dim& d : x.shape) slices = slices * d;
  }
  Type& y = c.out();
  y.dtype = x.dtype;
  y.ranked = flat || x.ranked;
  if (flat) y.shape = {groups};
  else if (x.ranked) y.shape = x.shape, y.shape[static_cast<size_t>(axis)] = groups;
  for (int i = 1; i < c.output_count(); ++i) c.out(i) = Type{DType::kI64, true, {i == 2 ? slices : groups}, {}};
  return {};
}

Status infer_non_max_suppression(InferContext& c) {
  const Type &boxes = c.in(0), &scores = c.in(1);
  if ((boxes.ranked && boxes.rank() != 3) || (scores.ranked && scores.rank() != 3))
    return invalid("boxes " + to_string(boxes) + " and scores " + to_string(scores) + ", wanted [B, N, 4] and [B, C, N]");
  Dim n = c.fresh("boxes");
  auto data = [&](int i) { return c.has(i) ? c.data(i) : nullptr; };
  bool known = data(0) && data(1);
  for (int i = 2; i < c.input_count(); ++i) known = known && (!c.has(i) || data(i));
  if (known) {
    BRISK_ASSIGN(auto chosen, non_max_suppression({data(0), data(1), data(2), data(3), data(4)}, c.attrs<ModeAttrs>().flag != 0));
    n = static_cast<int64_t>(chosen.size());
  }
  c.out() = Type{DType::kI64, true, {n, 3}, {}};
  return {};
}

Status infer_tf_idf(InferContext& c) {
  const Type& x = c.in(0);
  const auto& a = c.attrs<NgramAttrs>();
  BRISK_ASSIGN(int64_t columns, ngram_columns(a));
  BRISK_TRY(ngrams_of(a));
  if (x.dtype != DType::kI32 && x.dtype != DType::kI64) return unsupported("n-grams of " + to_string(x));
  Type& y = c.out();
  y.ranked = x.ranked;
  if (!x.ranked) return {};
  if (x.rank() != 1 && x.rank() != 2) return invalid("x is " + to_string(x) + ", wanted rank 1 or 2");
  if (x.rank() == 2) y.shape = {x.shape[0]};
  y.shape.push_back(columns);
  return {};
}

}  // namespace brisk::rules
