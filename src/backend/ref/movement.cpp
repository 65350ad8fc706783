// Operators that copy elements from one place to another.
#include <algorithm>
#include <cmath>

#include "backend/ref/util.h"

namespace brisk::ref {
namespace {

Status strided_copy(const KernelArgs& k, const Dims& shape, const Dims& strides, int64_t base) {
  return dispatch_width(k.in[0].dtype, [&]<class T>(Tag<T>) -> Status {
    const T* x = k.in[0].as<T>() + base;
    T* y = k.out[0].as<T>();
    Dims only[] = {strides};
    walk(shape, only, [&](int64_t i) { *y++ = x[i]; });
    return {};
  });
}

Status run_transpose(KernelContext&, const KernelArgs& k) {
  const auto& perm = k.get<TransposeAttrs>().perm;
  const Dims& shape = k.out[0].shape;
  Dims own = strides_of(k.in[0].shape), strides;
  for (int i = 0; i < shape.rank; ++i) strides.push(own[perm.empty() ? shape.rank - 1 - i : static_cast<int>(perm[static_cast<size_t>(i)])]);
  return strided_copy(k, shape, strides, 0);
}

Status run_expand(KernelContext&, const KernelArgs& k) {
  return strided_copy(k, k.out[0].shape, broadcast_strides(k.in[0].shape, k.out[0].shape), 0);
}

Status run_concat(KernelContext&, const KernelArgs& k) {
  const TensorView& y = k.out[0];
  int axis = axis_of(k.get<AxisAttrs>().axis, y.shape.rank);
  int64_t outer = y.shape.count(0, axis), size = dtype_bits(y.dtype) / 8;
  if (size == 0) return no_dtype(y.dtype);
  char* out = y.as<char>();
  for (int64_t o = 0; o < outer; ++o)
    for (const TensorView& x : k.in) {
      auto bytes = static_cast<size_t>(x.shape.count(axis, x.shape.rank) * size);
      if (bytes) std::memcpy(out, x.as<char>() + o * static_cast<int64_t>(bytes), bytes);
      out += bytes;
    }
  return {};
}

Status run_split(KernelContext&, const KernelArgs& k) {
  const TensorView& x = k.in[0];
  int axis = axis_of(k.get<SliceAttrs>().axis, x.shape.rank);
  int64_t outer = x.shape.count(0, axis), size = dtype_bits(x.dtype) / 8;
  if (size == 0) return no_dtype(x.dtype);
  int64_t sum = 0;
  for (const TensorView& y : k.out) sum += y.present ? y.shape[axis] : 0;
  if (sum != x.shape[axis]) return invalid("Split: parts of " + std::to_string(sum) + " in all, the axis has " + std::to_string(x.shape[axis]));
  const char* in = x.as<char>();
  for (int64_t o = 0; o < outer; ++o)
    for (TensorView& y : k.out) {
      auto bytes = static_cast<size_t>(y.shape.count(axis, y.shape.rank) * size);
      if (bytes) std::memcpy(y.as<char>() + o * static_cast<int64_t>(bytes), in, bytes);
      in += bytes;
    }
  return {};
}

// Start and step along each axis, by the same clamping as the shape rule.
Status run_slice(KernelContext&, const KernelArgs& k) {
  const TensorView& x = k.in[0];
  auto starts = to_ints(k.in[1]);
  std::vector<int64_t> axes, steps(starts.size(), 1);
  if (k.has(3)) axes = to_ints(k.in[3]);
  else for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (k.has(4)) steps = to_ints(k.in[4]);
  Dims own = strides_of(x.shape), strides = own;
  int64_t base = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    int axis = axis_of(axes[i], x.shape.rank);
    int64_t n = x.shape[axis], s = starts[i] < -n ? (steps[i] > 0 ? 0 : -1) : starts[i] < 0 ? starts[i] + n : starts[i];
    s = steps[i] > 0 ? std::clamp<int64_t>(s, 0, n) : std::clamp<int64_t>(s, -1, n - 1);
    // An empty result reads nothing, wherever it starts.
    base += s * own[axis];
    strides[axis] = k.out[0].shape[axis] > 1 ? own[axis] * steps[i] : own[axis];
  }
  if (k.out[0].count() == 0) return {};
  return strided_copy(k, k.out[0].shape, strides, base);
}

Status run_tile(KernelContext&, const KernelArgs& k) {
  const Dims &in = k.in[0].shape, &out = k.out[0].shape;
  return dispatch_width(k.in[0].dtype, [&]<class T>(Tag<T>) -> Status {
    Dims own = strides_of(in), places = strides_of(out);
    for (int64_t i = 0, n = out.count(); i < n; ++i) {
      int64_t at = 0;
      for (int d = 0; d < out.rank; ++d) at += i / places[d] % out[d] % in[d] * own[d];
      k.out[0].as<T>()[i] = k.in[0].as<T>()[at];
    }
    return {};
  });
}

// Where position i of a padded axis comes from; -1: the padding value.
int64_t pad_source(const std::string& mode, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  if (mode == "edge") return i < 0 ? 0 : n - 1;
  if (mode == "wrap") return (i % n + n) % n;
  if (mode == "reflect") {
    if (n == 1) return 0;
    int64_t period = 2 * (n - 1), r = (i % period + period) % period;
    return r < n ? r : period - r;
  }
  return -1;
}

Status run_pad(KernelContext&, const KernelArgs& k) {
  BRISK_TRY(same_dtype(k, {0, 2}));
  const auto& a = k.get<ModeAttrs>();
  const TensorView &x = k.in[0], &y = k.out[0];
  auto pads = to_ints(k.in[1]);
  std::vector<int64_t> begin(static_cast<size_t>(x.shape.rank), 0), axes;
  if (k.has(3)) axes = to_ints(k.in[3]);
  else for (int i = 0; i < x.shape.rank; ++i) axes.push_back(i);
  for (size_t i = 0; i < axes.size(); ++i) begin[static_cast<size_t>(axis_of(axes[i], x.shape.rank))] = pads[i];
  if (a.mode != "constant" && x.count() == 0 && y.count() != 0) return invalid("Pad: mode " + a.mode + " of an empty axis");
  return dispatch_width(x.dtype, [&]<class T>(Tag<T>) -> Status {
    T value = k.has(2) && k.in[2].count() > 0 ? k.in[2].as<T>()[0] : T(0);
    Dims own = strides_of(x.shape), places = strides_of(y.shape);
    for (int64_t i = 0, n = y.count(); i < n; ++i) {
      int64_t at = 0;
      for (int d = 0; d < y.shape.rank && at >= 0; ++d) {
        int64_t from = pad_source(a.mode, i / places[d] % y.shape[d] - begin[static_cast<size_t>(d)], x.shape[d]);
        at = from < 0 ? -1 : at + from * own[d];
      }
      y.as<T>()[i] = at < 0 ? value : x.as<T>()[at];
    }
    return {};
  });
}

Status run_trilu(KernelContext&, const KernelArgs& k) {
  const TensorView& x = k.in[0];
  if (x.shape.rank < 2) return invalid("Trilu: rank " + std::to_string(x.shape.rank));
  bool upper = k.get<ModeAttrs>().flag != 0;
  int64_t diagonal = k.has(1) ? load_int(k.in[1].data, k.in[1].dtype, 0) : 0, rows = x.shape[x.shape.rank - 2], columns = x.shape[x.shape.rank - 1];
  return dispatch_width(x.dtype, [&]<class T>(Tag<T>) -> Status {
    for (int64_t i = 0, n = x.count(); i < n; ++i) {
      int64_t row = i / columns % rows, column = i % columns;
      bool keep = upper ? column - row >= diagonal : column - row <= diagonal;
      k.out[0].as<T>()[i] = keep ? x.as<T>()[i] : T(0);
    }
    return {};
  });
}

Status run_reverse_sequence(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<ModeAttrs>();
  const TensorView& x = k.in[0];
  if (x.shape.rank < 2) return invalid("ReverseSequence: rank " + std::to_string(x.shape.rank));
  int time = axis_of(a.axis, x.shape.rank), batch = axis_of(a.flag, x.shape.rank);
  auto lengths = to_ints(k.in[1]);
  if (time < 0 || batch < 0 || time >= x.shape.rank || batch >= x.shape.rank || static_cast<int64_t>(lengths.size()) != x.shape[batch])
    return invalid("ReverseSequence: lengths do not fit the batch axis");
  for (int64_t n : lengths)
    if (n < 0 || n > x.shape[time]) return invalid("ReverseSequence: length " + std::to_string(n) + " outside [0, " + std::to_string(x.shape[time]) + "]");
  return dispatch_width(x.dtype, [&]<class T>(Tag<T>) -> Status {
    Dims own = strides_of(x.shape);
    for (int64_t i = 0, n = x.count(); i < n; ++i) {
      int64_t t = i / own[time] % x.shape[time], length = lengths[static_cast<size_t>(i / own[batch] % x.shape[batch])];
      int64_t from = t < length ? length - 1 - t : t;
      k.out[0].as<T>()[i] = x.as<T>()[i + (from - t) * own[time]];
    }
    return {};
  });
}

Status run_shape(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<ShapeAttrs>();
  const Dims& s = k.in[0].shape;
  int64_t start = std::clamp<int64_t>(a.start < 0 ? a.start + s.rank : a.start, 0, s.rank);
  for (int64_t i = 0; i < k.out[0].count(); ++i) k.out[0].as<int64_t>()[i] = s[static_cast<int>(start + i)];
  return {};
}

Status run_range(KernelContext&, const KernelArgs& k) {
  BRISK_TRY(same_dtype(k, {0, 1, 2}));
  for (const TensorView& v : k.in)
    if (v.count() != 1) return invalid("Range: start, limit and delta are scalars");
  return dispatch_number(k.out[0].dtype, [&]<class T>(Tag<T>) -> Status {
    auto start = static_cast<Acc<T>>(k.in[0].as<T>()[0]), step = static_cast<Acc<T>>(k.in[2].as<T>()[0]);
    for (int64_t i = 0; i < k.out[0].count(); ++i) k.out[0].as<T>()[i] = static_cast<T>(static_cast<Acc<T>>(start + static_cast<Acc<T>>(i) * step));
    return {};
  });
}

}  // namespace

void add_movement(Registry& r) {
  add_plain(r, OpId::kTranspose, run_transpose);
  add_plain(r, OpId::kExpand, run_expand);
  add_plain(r, OpId::kConcat, run_concat);
  add_plain(r, OpId::kSplit, run_split);
  add_plain(r, OpId::kSlice, run_slice);
  add_plain(r, OpId::kTile, run_tile);
  add_plain(r, OpId::kPad, run_pad);
  add_plain(r, OpId::kTrilu, run_trilu);
  add_plain(r, OpId::kReverseSequence, run_reverse_sequence);
  add_plain(r, OpId::kShape, run_shape);
  add_plain(r, OpId::kRange, run_range);
}

}  // namespace brisk::ref
