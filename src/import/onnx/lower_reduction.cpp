// Reductions and what is built from them.
#include "import/onnx/lower.h"

namespace brisk::onnx_import {
namespace {

using enum OpId;

// Axes became an operand at opset 13 (ReduceSum) or 18 (the others).
template <OpId op> void reduce(Lower& l) {
  ReduceAttrs a;
  a.keep_dims = l.i("keepdims", 1) != 0;
  a.axes = l.ints("axes");
  std::vector<ValueId> in = {l.in(0)};
  if (l.opset >= (op == kReduceSum ? 13 : 18) && l.has(1)) {
    if (auto n = l.numbers(l.in(1))) a.axes = *n;
    else in.push_back(l.in(1));
  }
  bool none = a.axes.empty() && in.size() == 1;
  if (none && l.i("noop_with_empty_axes", 0) != 0) {  // nothing is summed, but what is done to each element is
    if (op == kReduceSumSquare) return l.set(0, l.binary(kMul, l.in(0), l.in(0)));
    if (op == kReduceL1 || op == kReduceL2) return l.set(0, l.unary(kAbs, l.in(0)));
    return l.set(0, op == kReduceLogSum ? l.unary(kLog, l.in(0)) : l.in(0));
  }
  a.all = l.i("noop_with_empty_axes", 0) == 0 && a.axes.empty();
  l.set(0, l.add(op, a, in));
}

template <OpId op> void arg(Lower& l) {
  ReduceAttrs a;
  a.axes = {l.i("axis", 0)};
  a.keep_dims = l.i("keepdims", 1) != 0;
  a.select_last = l.i("select_last_index", 0) != 0;
  l.set(0, l.add(op, a, {l.in(0)}));
}

// Before opset 13: x seen as [axes before, axes from `axis` on], normalised over the second.
template <OpId op> void softmax(Lower& l) {
  ValueId x = l.in(0);
  if (l.opset >= 13) return l.set(0, l.add(op, AxisAttrs{l.i("axis", -1)}, {x}));
  int64_t axis = l.i("axis", 1);
  auto r = l.rank(x);
  if (r && axis == *r - 1) return l.set(0, l.add(op, AxisAttrs{-1}, {x}));
  ValueId flat = l.add(kFlatten, AxisAttrs{axis}, {x});
  l.set(0, l.binary(kReshape, l.add(op, AxisAttrs{1}, {flat}), l.shape_of(x)));
}

template <OpId op> void cumulate(Lower& l) {
  ModeAttrs a;
  a.flag = (l.i("exclusive", 0) ? 1 : 0) | (l.i("reverse", 0) ? 2 : 0);
  l.set(0, l.add(op, a, l.inputs()));
}

// Axes 2 and up; as an operand where the rank is not known.
template <OpId op> ValueId over_space(Lower& l, ValueId x) {
  if (auto r = l.rank(x)) {
    std::vector<int64_t> axes;
    for (int i = 2; i < *r; ++i) axes.push_back(i);
    return axes.empty() ? x : l.reduce(op, x, axes);
  }
  ValueId rank = l.squeeze(l.shape_of(l.shape_of(x)), {0});
  return l.add(op, ReduceAttrs{}, {x, l.add(kRange, NoAttrs{}, {l.i64_scalar(2), rank, l.i64_scalar(1)})});
}
template <OpId op> void global_pool(Lower& l) { l.set(0, over_space<op>(l, l.in(0))); }

void global_lp_pool(Lower& l) {
  int64_t p = l.i("p", 2);
  if (p == 1) return l.set(0, over_space<kReduceL1>(l, l.in(0)));
  if (p == 2) return l.set(0, over_space<kReduceL2>(l, l.in(0)));
  DType t = l.dtype(l.in(0));
  ValueId powers = l.binary(kPow, l.unary(kAbs, l.in(0)), l.scalar_of(t, static_cast<double>(p)));
  l.set(0, l.binary(kPow, over_space<kReduceSum>(l, powers), l.scalar_of(t, 1 / static_cast<double>(p))));
}

void lp_normalization(Lower& l) {
  int64_t axis = l.i("axis", -1), p = l.i("p", 2);
  ValueId norm = l.reduce(p == 1 ? kReduceL1 : kReduceL2, l.in(0), {axis});
  // A norm of 0 leaves zeros.
  ValueId zero = l.scalar_of(l.dtype(l.in(0)), 0), is_zero = l.binary(kEqual, norm, zero);
  ValueId safe = l.add(kWhere, NoAttrs{}, {is_zero, l.scalar_of(l.dtype(l.in(0)), 1), norm});
  l.set(0, l.binary(kDiv, l.in(0), safe));
}

void mean_variance_normalization(Lower& l) {
  std::vector<int64_t> axes = l.attribute("axes") ? l.ints("axes") : std::vector<int64_t>{0, 2, 3};
  ValueId x = l.in(0), mean = l.reduce(kReduceMean, x, axes), centered = l.binary(kSub, x, mean);
  ValueId variance = l.binary(kSub, l.reduce(kReduceMean, l.binary(kMul, x, x), axes), l.binary(kMul, mean, mean));
  l.set(0, l.binary(kDiv, centered, l.binary(kAdd, l.unary(kSqrt, variance), l.scalar_of(l.dtype(x), 1e-9))));
}

// -sum of weight[target] * log probability, over [N, C, ...] and targets [N, ...].
void loss_of(Lower& l, ValueId log_prob, ValueId target, ValueId weight) {
  std::string reduction = l.s("reduction", "mean");
  DType t = l.dtype(log_prob);
  target = l.cast(target, DType::kI64);
  bool ignores = l.attribute("ignore_index") != nullptr;
  ValueId ignored = ignores ? l.i64_scalar(l.i("ignore_index", 0)) : kNoValue;
  ValueId skip = ignores ? l.binary(kEqual, target, ignored) : kNoValue;
  ValueId safe = ignores ? l.add(kWhere, NoAttrs{}, {skip, l.i64_scalar(0), target}) : target;
  ValueId picked = l.squeeze(l.add(kGatherElements, AxisAttrs{1}, {log_prob, l.unsqueeze(safe, {1})}), {1});
  ValueId loss = l.unary(kNeg, picked);
  ValueId w = weight == kNoValue ? kNoValue : l.gather(weight, safe, 0);
  if (ignores) {
    ValueId zero = l.scalar_of(t, 0);
    ValueId base = w == kNoValue ? l.scalar_of(t, 1) : w;
    w = l.add(kWhere, NoAttrs{}, {skip, zero, base});
  }
  if (w != kNoValue) loss = l.binary(kMul, loss, w);
  ReduceAttrs all;
  all.all = true;
  all.keep_dims = false;
  if (reduction == "none") return l.set(0, loss);
  if (reduction == "sum") return l.set(0, l.add(kReduceSum, all, {loss}));
  if (w == kNoValue) return l.set(0, l.add(kReduceMean, all, {loss}));
  l.set(0, l.binary(kDiv, l.add(kReduceSum, all, {loss}), l.add(kReduceSum, all, {w})));
}

void nll_loss(Lower& l) { loss_of(l, l.in(0), l.in(1), l.in(2)); }
void softmax_cross_entropy(Lower& l) {
  ValueId log_prob = l.add(kLogSoftmax, AxisAttrs{1}, {l.in(0)});
  loss_of(l, log_prob, l.in(1), l.in(2));
  if (l.wants(1)) l.set(1, log_prob);
}

}  // namespace

void register_reduction(LowerTable& t) {
  t.insert({{"ReduceSum", reduce<kReduceSum>}, {"ReduceMean", reduce<kReduceMean>}, {"ReduceMax", reduce<kReduceMax>},
            {"ReduceMin", reduce<kReduceMin>}, {"ReduceProd", reduce<kReduceProd>}, {"ReduceL1", reduce<kReduceL1>},
            {"ReduceL2", reduce<kReduceL2>}, {"ReduceSumSquare", reduce<kReduceSumSquare>}, {"ReduceLogSum", reduce<kReduceLogSum>},
            {"ReduceLogSumExp", reduce<kReduceLogSumExp>}, {"ArgMax", arg<kArgMax>}, {"ArgMin", arg<kArgMin>},
            {"Softmax", softmax<kSoftmax>}, {"LogSoftmax", softmax<kLogSoftmax>}, {"Hardmax", softmax<kHardmax>},
            {"CumSum", cumulate<kCumSum>}, {"CumProd", cumulate<kCumProd>}, {"GlobalAveragePool", global_pool<kReduceMean>},
            {"GlobalMaxPool", global_pool<kReduceMax>}, {"GlobalLpPool", global_lp_pool}, {"LpNormalization", lp_normalization},
            {"MeanVarianceNormalization", mean_variance_normalization}, {"NegativeLogLikelihoodLoss", nll_loss},
            {"SoftmaxCrossEntropyLoss", softmax_cross_entropy}});
}

}  // namespace brisk::onnx_import
