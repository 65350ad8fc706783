// Reductions over whole axes, softmax, running sums.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/ref/util.h"

namespace brisk::ref {
namespace {

// Which axes fold, from the attributes or operand 1.
std::vector<bool> folded_axes(const KernelArgs& k) {
  const auto& a = k.get<ReduceAttrs>();
  std::vector<bool> fold(static_cast<size_t>(k.in[0].shape.rank));
  std::vector<int64_t> axes = k.has(1) ? to_ints(k.in[1]) : a.axes;
  if (axes.empty() && a.all) fold.assign(fold.size(), true);
  for (int64_t axis : axes) fold[static_cast<size_t>(axis_of(axis, k.in[0].shape.rank))] = true;
  return fold;
}

// Sums of floats are taken in double; integers in themselves (they wrap, by way of the unsigned type).
template <class T> using Sum = std::conditional_t<std::is_floating_point_v<Acc<T>>, double, std::conditional_t<std::is_same_v<T, boolean>, bool, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>>;


template <OpId op, class T, class S> S start() {
  if constexpr (op == OpId::kReduceProd) return S(1);
  if constexpr (op == OpId::kReduceMax) return std::is_floating_point_v<S> ? static_cast<S>(-std::numeric_limits<double>::infinity()) : static_cast<S>(std::numeric_limits<T>::lowest());
  if constexpr (op == OpId::kReduceMin) return std::is_floating_point_v<S> ? static_cast<S>(std::numeric_limits<double>::infinity()) : static_cast<S>(std::numeric_limits<T>::max());
  return S(0);
}

template <OpId op, class S> S step(S have, S x) {
  using enum OpId;
  if constexpr (op == kReduceProd) return static_cast<S>(have * x);
  if constexpr (op == kReduceMax) return x > have || x != x ? x : have;
  if constexpr (op == kReduceMin) return x < have || x != x ? x : have;
  if constexpr (op == kReduceL1) return static_cast<S>(have + (x < S(0) ? static_cast<S>(S(0) - x) : x));
  if constexpr (op == kReduceL2 || op == kReduceSumSquare) return static_cast<S>(have + x * x);
  return static_cast<S>(have + x);
}

template <OpId op, class S> S finish(S v, int64_t n) {
  using enum OpId;
  if constexpr (op == kReduceMean) return n ? static_cast<S>(v / static_cast<S>(n)) : std::is_floating_point_v<S> ? static_cast<S>(NAN) : S(0);
  if constexpr (op == kReduceL2) return static_cast<S>(std::sqrt(static_cast<double>(v)));
  if constexpr (op == kReduceLogSum) return static_cast<S>(std::log(static_cast<double>(v)));
  return v;
}

template <OpId op, class T> void reduce_typed(const KernelArgs& k) {
  using S = Sum<T>;
  const TensorView &x = k.in[0], &y = k.out[0];
  auto fold = folded_axes(k);
  Dims to;  // strides of the result along x's axes
  to.rank = x.shape.rank;
  int64_t stride = 1, n = 1;
  for (int d = x.shape.rank - 1; d >= 0; --d) {
    to[d] = fold[static_cast<size_t>(d)] ? 0 : stride;
    (fold[static_cast<size_t>(d)] ? n : stride) *= x.shape[d];
  }
  auto results = static_cast<size_t>(y.count());
  std::vector<S> sums(results, start<op, T, S>()), peaks;
  Dims strides[] = {strides_of(x.shape), to};
  auto value = [&](int64_t i) { return static_cast<S>(static_cast<Acc<T>>(x.as<T>()[i])); };
  if constexpr (op == OpId::kReduceLogSumExp) {
    peaks.assign(results, start<OpId::kReduceMax, T, S>());
    walk(x.shape, strides, [&](int64_t i, int64_t j) { peaks[static_cast<size_t>(j)] = step<OpId::kReduceMax, S>(peaks[static_cast<size_t>(j)], value(i)); });
    for (S& p : peaks)
      if (!std::isfinite(static_cast<double>(p))) p = S(0);
    walk(x.shape, strides, [&](int64_t i, int64_t j) {
      sums[static_cast<size_t>(j)] += static_cast<S>(std::exp(static_cast<double>(value(i) - peaks[static_cast<size_t>(j)])));
    });
    for (size_t j = 0; j < results; ++j) sums[j] = static_cast<S>(std::log(static_cast<double>(sums[j])) + static_cast<double>(peaks[j]));
  } else {
    walk(x.shape, strides, [&](int64_t i, int64_t j) { sums[static_cast<size_t>(j)] = step<op, S>(sums[static_cast<size_t>(j)], value(i)); });
  }
  for (size_t j = 0; j < results; ++j) y.as<T>()[j] = static_cast<T>(static_cast<Acc<T>>(finish<op, S>(sums[j], n)));
}

template <OpId op> Status run_reduce(KernelContext&, const KernelArgs& k) {
  if constexpr (op == OpId::kReduceMax || op == OpId::kReduceMin) {
    if (k.in[0].dtype == DType::kBool) {
      const TensorView &x = k.in[0], &y = k.out[0];  // the same as of 0 and 1
      KernelArgs bytes = k;
      TensorView in[] = {TensorView(x.data, DType::kU8, x.shape), k.in.size() > 1 ? k.in[1] : TensorView()};
      TensorView out[] = {TensorView(y.data, DType::kU8, y.shape)};
      bytes.in = std::span<const TensorView>(in, k.in.size());
      bytes.out = out;
      reduce_typed<op, uint8_t>(bytes);
      for (int64_t i = 0; i < y.count(); ++i) y.as<uint8_t>()[i] = y.as<uint8_t>()[i] == 1;
      return {};
    }
  }
  return dispatch_number(k.in[0].dtype, [&]<class T>(Tag<T>) -> Status { return reduce_typed<op, T>(k), Status(); });
}

struct Rows {  // x seen as [outer, n, inner] round one axis
  int64_t outer, n, inner;
  Rows(const Dims& s, int axis) : outer(s.count(0, axis)), n(s[axis]), inner(s.count(axis + 1, s.rank)) {}
  int64_t count() const { return outer * inner; }
  int64_t start(int64_t r) const { return r / inner * n * inner + r % inner; }
};

template <bool largest> Status run_arg(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<ReduceAttrs>();
  const TensorView& x = k.in[0];
  Rows rows(x.shape, axis_of(a.axes[0], x.shape.rank));
  return dispatch_number(x.dtype, [&]<class T>(Tag<T>) -> Status {
    for (int64_t r = 0; r < rows.count(); ++r) {
      const T* row = x.as<T>() + rows.start(r);
      int64_t best = 0;
      for (int64_t i = 1; i < rows.n; ++i) {
        auto v = static_cast<Acc<T>>(row[i * rows.inner]), b = static_cast<Acc<T>>(row[best * rows.inner]);
        if ((largest ? v > b : v < b) || (a.select_last && v == b)) best = i;
      }
      k.out[0].as<int64_t>()[r] = best;
    }
    return {};
  });
}

enum class Soft { kSoftmax, kLog, kHard };

template <Soft kind> Status run_softmax(KernelContext&, const KernelArgs& k) {
  const TensorView& x = k.in[0];
  if (x.shape.rank == 0) return invalid("softmax of rank 0");
  int axis = axis_of(k.get<AxisAttrs>().axis, x.shape.rank);
  if (axis < 0 || axis >= x.shape.rank) return invalid("softmax: axis outside the rank");
  Rows rows(x.shape, axis);
  return dispatch_float(x.dtype, [&]<class T>(Tag<T>) -> Status {
    for (int64_t r = 0; r < rows.count() && rows.n > 0; ++r) {
      const T* row = x.as<T>() + rows.start(r);
      T* out = k.out[0].as<T>() + rows.start(r);
      auto value = [&](int64_t i) { return static_cast<double>(static_cast<Acc<T>>(row[i * rows.inner])); };
      int64_t best = 0;
      for (int64_t i = 1; i < rows.n; ++i)
        if (value(i) > value(best)) best = i;
      double peak = value(best), sum = 0;
      for (int64_t i = 0; i < rows.n; ++i) sum += std::exp(value(i) - peak);
      for (int64_t i = 0; i < rows.n; ++i) {
        double v = kind == Soft::kHard ? (i == best ? 1.0 : 0.0) : kind == Soft::kLog ? value(i) - peak - std::log(sum) : std::exp(value(i) - peak) / sum;
        out[i * rows.inner] = static_cast<T>(static_cast<Acc<T>>(v));
      }
    }
    return {};
  });
}

template <bool product> Status run_cumulate(KernelContext&, const KernelArgs& k) {
  const TensorView& x = k.in[0];
  int64_t flag = k.get<ModeAttrs>().flag, named = load_int(k.in[1].data, k.in[1].dtype, 0);
  if (named < -x.shape.rank || named >= x.shape.rank) return invalid("axis " + std::to_string(named) + " outside the rank");
  bool exclusive = flag & 1, reverse = flag & 2;
  Rows rows(x.shape, axis_of(named, x.shape.rank));
  return dispatch_number(x.dtype, [&]<class T>(Tag<T>) -> Status {
    using S = Sum<T>;
    for (int64_t r = 0; r < rows.count(); ++r) {
      S sum = product ? S(1) : S(0);
      for (int64_t i = 0; i < rows.n; ++i) {
        int64_t at = rows.start(r) + (reverse ? rows.n - 1 - i : i) * rows.inner;
        auto v = static_cast<S>(static_cast<Acc<T>>(x.as<T>()[at]));
        S next = product ? static_cast<S>(sum * v) : static_cast<S>(sum + v);
        k.out[0].as<T>()[at] = static_cast<T>(static_cast<Acc<T>>(exclusive ? sum : next));
        sum = next;
      }
    }
    return {};
  });
}

template <OpId... ops> void add_reduces(Registry& r) { (add_plain(r, ops, run_reduce<ops>), ...); }

}  // namespace

void add_reduction(Registry& r) {
  using enum OpId;
  add_reduces<kReduceSum, kReduceMean, kReduceMax, kReduceMin, kReduceProd, kReduceL1, kReduceL2, kReduceSumSquare, kReduceLogSum, kReduceLogSumExp>(r);
  add_plain(r, kArgMax, run_arg<true>);
  add_plain(r, kArgMin, run_arg<false>);
  add_plain(r, kSoftmax, run_softmax<Soft::kSoftmax>);
  add_plain(r, kLogSoftmax, run_softmax<Soft::kLog>);
  add_plain(r, kHardmax, run_softmax<Soft::kHard>);
  add_plain(r, kCumSum, run_cumulate<false>);
  add_plain(r, kCumProd, run_cumulate<true>);
}

}  // namespace brisk::ref
