// Reductions over any axes, places of extremes and running sums.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/light.h"

namespace brisk::cpu {
namespace {

struct ReduceRow {
  OpId op;
  Fold fold;
};
constexpr ReduceRow kReductions[] = {{OpId::kReduceSum, Fold::kSum}, {OpId::kReduceMean, Fold::kSum}, {OpId::kReduceMax, Fold::kMax}, {OpId::kReduceMin, Fold::kMin},
                                     {OpId::kReduceProd, Fold::kProd}, {OpId::kReduceL1, Fold::kAbsSum}, {OpId::kReduceL2, Fold::kSquares},
                                     {OpId::kReduceSumSquare, Fold::kSquares}, {OpId::kReduceLogSum, Fold::kSum}, {OpId::kReduceLogSumExp, Fold::kSumExp}};
constexpr Fold fold_of(OpId op) {
  for (const ReduceRow& r : kReductions)
    if (r.op == op) return r.fold;
  return Fold::kSum;
}

// x with neighbouring axes of one kind merged: alternately folded and kept.
struct FoldedAxes {
  Dims shape, strides;
  bool folded[kMaxRank] = {};
  int64_t count = 1;  // elements that become one

  explicit FoldedAxes(const KernelArgs& k) {
    const Dims& s = k.in[0].shape;
    const auto& a = k.get<ReduceAttrs>();
    bool fold[kMaxRank] = {};
    int64_t named = k.has(1) ? k.in[1].count() : static_cast<int64_t>(a.axes.size());
    for (int64_t i = 0; i < named; ++i) fold[axis_in(k.has(1) ? load_int(k.in[1].data, k.in[1].dtype, i) : a.axes[static_cast<size_t>(i)], s.rank)] = true;
    bool all = named == 0 && a.all;
    for (int d = 0; d < s.rank; ++d) {
      bool f = fold[d] || all;
      if (f) count *= s[d];
      if (s[d] == 1) continue;
      if (shape.rank > 0 && folded[shape.rank - 1] == f) shape[shape.rank - 1] *= s[d];
      else folded[shape.rank] = f, shape.push(s[d]);
    }
    strides.rank = shape.rank;
    int64_t n = 1;
    for (int d = shape.rank - 1; d >= 0; --d) strides[d] = n, n *= shape[d];
  }
  // Offset of the i-th index over the axes before the last that are of that kind.
  int64_t offset(int64_t i, bool kind) const {
    int64_t at = 0;
    for (int d = shape.rank - 2; d >= 0; --d) {
      if (folded[d] != kind) continue;
      at += i % shape[d] * strides[d];
      i /= shape[d];
    }
    return at;
  }
  int64_t outer(bool kind) const {
    int64_t n = 1;
    for (int d = 0; d + 1 < shape.rank; ++d)
      if (folded[d] == kind) n *= shape[d];
    return n;
  }
};

float finish(OpId op, double v, int64_t n) {
  switch (op) {
    case OpId::kReduceMean: return static_cast<float>(v / static_cast<double>(n));
    case OpId::kReduceL2: return static_cast<float>(std::sqrt(v));
    case OpId::kReduceLogSum: return static_cast<float>(std::log(v));
    default: return static_cast<float>(v);
  }
}
double join(Fold f, double a, float b) {
  switch (f) {
    case Fold::kMax: return b > a || b != b ? static_cast<double>(b) : a;
    case Fold::kMin: return b < a || b != b ? static_cast<double>(b) : a;
    case Fold::kProd: return a * static_cast<double>(b);
    default: return a + static_cast<double>(b);
  }
}

// One result from rows of n elements that begin at the folded axes' offsets; sums of pieces are added up in double.
double fold_rows(const LightTable& t, Fold f, const FoldedAxes& x, const float* from, int64_t rows, int64_t n, float shift) {
  constexpr int64_t kPiece = 4096;
  double all = fold_start(f);
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = from + x.offset(r, true);
    for (int64_t i = 0; i < n; i += kPiece) all = join(f, all, t.fold_row(f, row + i, std::min(kPiece, n - i), shift));
  }
  return all;
}

constexpr int64_t kColumns = 512, kFlush = 64;

// `width` results side by side. Sums of kFlush rows are taken for themselves first: long columns lose no digits.
void fold_column_block(const LightTable& t, Fold f, const FoldedAxes& x, const float* from, int64_t rows, int64_t width, const float* shift, float* acc) {
  bool sum = f != Fold::kMax && f != Fold::kMin && f != Fold::kProd;
  float part[kColumns];
  std::fill_n(acc, width, fold_start(f));
  for (int64_t r0 = 0; r0 < rows; r0 += kFlush) {
    float* to = sum && rows > kFlush ? part : acc;
    if (to == part) std::fill_n(part, width, 0.0f);
    for (int64_t r = r0; r < std::min(rows, r0 + kFlush); ++r) t.fold_columns(f, from + x.offset(r, true), width, shift, to);
    if (to == part) t.fold_columns(Fold::kSum, part, width, nullptr, acc);
  }
}

template <OpId op> Status run_reduce(KernelContext& kc, const KernelArgs& k) {
  constexpr Fold f = fold_of(op);
  const LightTable& t = light_of_host();
  const float* in = k.in[0].as<float>();
  float* out = k.out[0].as<float>();
  FoldedAxes x(k);
  int64_t results = k.out[0].count();
  if (results == 0) return {};
  if (x.count == 0 || k.in[0].count() == 0) {
    float none = op == OpId::kReduceMean ? NAN : op == OpId::kReduceLogSumExp ? -INFINITY : finish(op, static_cast<double>(fold_start(f)), 1);
    return std::fill_n(out, results, none), Status();
  }
  if (x.shape.rank == 0) x.shape.push(1), x.strides.push(1), x.folded[0] = true;
  int last = x.shape.rank - 1;
  int64_t n = x.shape[last], rows = x.outer(true), kept = x.outer(false);
  auto calm = [](float peak) { return std::isfinite(peak) ? peak : 0.0f; };
  if (x.folded[last]) {
    for_ranges(pool_of(kc), kept, static_cast<double>(rows * n) * (f == Fold::kSumExp ? 12 : 2) + 30, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) {
        const float* from = in + x.offset(i, false);
        float peak = 0;
        if (f == Fold::kSumExp) peak = calm(static_cast<float>(fold_rows(t, Fold::kMax, x, from, rows, n, 0)));
        double v = fold_rows(t, f, x, from, rows, n, peak);
        out[i] = f == Fold::kSumExp ? static_cast<float>(std::log(v) + static_cast<double>(peak)) : finish(op, v, x.count);
      }
    });
    return {};
  }
  int64_t blocks = ceil_div(n, kColumns);
  for_ranges(pool_of(kc), kept * blocks, static_cast<double>(rows * std::min(n, kColumns)) * (f == Fold::kSumExp ? 12 : 2) + 30, [&](int64_t first, int64_t end) {
    float peak[kColumns];
    for (int64_t i = first; i < end; ++i) {
      int64_t column = i % blocks * kColumns, width = std::min(kColumns, n - column);
      const float* from = in + x.offset(i / blocks, false) + column;
      float* to = out + i / blocks * n + column;
      if (f == Fold::kSumExp) {
        fold_column_block(t, Fold::kMax, x, from, rows, width, nullptr, peak);
        for (int64_t j = 0; j < width; ++j) peak[j] = calm(peak[j]);
      }
      fold_column_block(t, f, x, from, rows, width, peak, to);
      for (int64_t j = 0; j < width; ++j)
        to[j] = f == Fold::kSumExp ? std::log(to[j]) + peak[j] : finish(op, static_cast<double>(to[j]), x.count);
    }
  });
  return {};
}

// Integers: sums wrap, so the order is free.
template <OpId op, class T> void reduce_integers(const KernelArgs& k) {
  using U = std::make_unsigned_t<T>;
  FoldedAxes x(k);
  if (x.shape.rank == 0) x.shape.push(1), x.strides.push(1), x.folded[0] = true;
  int last = x.shape.rank - 1;
  int64_t n = x.shape[last], rows = x.outer(true), kept = x.outer(false);
  const T* in = k.in[0].as<T>();
  T* out = k.out[0].as<T>();
  constexpr bool extreme = op == OpId::kReduceMax || op == OpId::kReduceMin;
  constexpr T none = op == OpId::kReduceMax ? std::numeric_limits<T>::lowest() : op == OpId::kReduceMin ? std::numeric_limits<T>::max() : T(0);
  auto step = [](T a, T b) { return extreme ? (op == OpId::kReduceMax ? std::max(a, b) : std::min(a, b)) : static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); };
  std::fill_n(out, k.out[0].count(), none);
  if (k.in[0].count() == 0) return;
  for (int64_t i = 0; i < kept; ++i)
    for (int64_t r = 0; r < rows; ++r) {
      const T* from = in + x.offset(i, false) + x.offset(r, true);
      if (x.folded[last]) {
        T v = out[i];
        for (int64_t j = 0; j < n; ++j) v = step(v, from[j]);
        out[i] = v;
      } else {
        for (int64_t j = 0; j < n; ++j) out[i * n + j] = step(out[i * n + j], from[j]);
      }
    }
}
template <OpId op> Status run_reduce_integers(KernelContext&, const KernelArgs& k) {
  if (k.in[0].dtype == DType::kI64) reduce_integers<op, int64_t>(k);
  else reduce_integers<op, int32_t>(k);
  return {};
}

bool accepts_reduce(const ProblemDesc& p) { return all_plain(p) && p.inputs[0].type.dtype == DType::kF32; }
bool accepts_integers(const ProblemDesc& p) {
  return all_plain(p) && (p.inputs[0].type.dtype == DType::kI64 || p.inputs[0].type.dtype == DType::kI32);
}

// --- along one axis: x seen as [outer, n, inner] --------------------------------------------------------------------------

template <bool largest> Status run_arg(KernelContext& kc, const KernelArgs& k) {
  const auto& a = k.get<ReduceAttrs>();
  const TensorView& x = k.in[0];
  int axis = axis_in(a.axes[0], x.shape.rank);
  int64_t outer = x.shape.count(0, axis), n = x.shape[axis], inner = x.shape.count(axis + 1, x.shape.rank);
  int64_t* out = k.out[0].as<int64_t>();
  constexpr int64_t kBlock = 256;
  int64_t blocks = ceil_div(std::max<int64_t>(inner, 1), kBlock);
  if (k.out[0].count() == 0) return {};
  const LightTable& t = light_of_host();
  for_ranges(pool_of(kc), outer * blocks, static_cast<double>(n * std::min(inner, kBlock)) * 2, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      int64_t column = i % blocks * kBlock, width = std::min(kBlock, inner - column);
      const float* from = x.as<float>() + i / blocks * n * inner + column;
      int64_t* to = out + i / blocks * inner + column;
      if (inner == 1 && !a.select_last) {
        // The extreme first, then its place; a NaN hides it, then element by element.
        float best = t.fold_row(largest ? Fold::kMax : Fold::kMin, from, n, 0);
        if (best == best) {
          *to = std::find(from, from + n, best) - from;
          continue;
        }
      }
      float best[kBlock];
      std::copy_n(from, width, best);
      std::fill_n(to, width, 0);
      for (int64_t r = 1; r < n; ++r)
        for (int64_t j = 0; j < width; ++j) {
          float v = from[r * inner + j];
          if ((largest ? v > best[j] : v < best[j]) || (a.select_last && v == best[j])) best[j] = v, to[j] = r;
        }
    }
  });
  return {};
}

template <class T, class S> void running_sum(const KernelArgs& k, int axis, int64_t flag) {
  const TensorView& x = k.in[0];
  int64_t outer = x.shape.count(0, axis), n = x.shape[axis], inner = x.shape.count(axis + 1, x.shape.rank);
  std::vector<S> sum(static_cast<size_t>(inner));
  for (int64_t o = 0; o < outer; ++o) {
    std::fill(sum.begin(), sum.end(), S(0));
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = (o * n + (flag & 2 ? n - 1 - i : i)) * inner;
      const T* in = x.as<T>() + at;
      T* out = k.out[0].as<T>() + at;
      for (int64_t j = 0; j < inner; ++j) {
        S& s = sum[static_cast<size_t>(j)];
        S next = s + static_cast<S>(in[j]);
        out[j] = static_cast<T>(flag & 1 ? s : next);
        s = next;
      }
    }
  }
}
Status run_cumsum(KernelContext&, const KernelArgs& k) {
  int64_t named = load_int(k.in[1].data, k.in[1].dtype, 0);
  int rank = k.in[0].shape.rank;
  if (named < -rank || named >= rank) return invalid("axis " + std::to_string(named) + " outside the rank");
  int axis = axis_in(named, rank);
  int64_t flag = k.get<ModeAttrs>().flag;
  switch (k.in[0].dtype) {
    case DType::kF32: running_sum<float, double>(k, axis, flag); break;
    case DType::kI64: running_sum<int64_t, uint64_t>(k, axis, flag); break;
    default: running_sum<int32_t, uint64_t>(k, axis, flag); break;
  }
  return {};
}
bool accepts_cumsum(const ProblemDesc& p) { return accepts_reduce(p) || accepts_integers(p); }

template <OpId... ops> void add_reductions(Registry& r) { (r.add(light_desc(ops, run_reduce<ops>, accepts_reduce)), ...); }
template <OpId... ops> void add_integer_reductions(Registry& r) {
  auto add = [&](KernelDesc d) {
    d.id += ".int";
    r.add(std::move(d));
  };
  (add(light_desc(ops, run_reduce_integers<ops>, accepts_integers)), ...);
}

}  // namespace

void add_light_reductions(Registry& r) {
  using enum OpId;
  add_reductions<kReduceSum, kReduceMean, kReduceMax, kReduceMin, kReduceProd, kReduceL1, kReduceL2, kReduceSumSquare, kReduceLogSum, kReduceLogSumExp>(r);
  add_integer_reductions<kReduceSum, kReduceMax, kReduceMin>(r);
  r.add(light_desc(kArgMax, run_arg<true>, accepts_reduce));
  r.add(light_desc(kArgMin, run_arg<false>, accepts_reduce));
  r.add(light_desc(kCumSum, run_cumsum, accepts_cumsum));
}

}  // namespace brisk::cpu
