// Operators that copy elements from one place to another, for elements of whole bytes.
#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/light.h"
#include "backend/cpu/movement.h"

namespace brisk::cpu {
namespace {

int bytes_of(const TensorView& v) { return dtype_bits(v.dtype) / 8; }

StridedCopy copy_of(const KernelArgs& k) {
  StridedCopy c;
  c.src = k.in[0].as<char>();
  c.dst = k.out[0].as<char>();
  c.bytes = bytes_of(k.in[0]);
  c.shape = k.out[0].shape;
  c.to = dense_strides(c.shape);
  return c;
}

Status run_transpose(KernelContext& kc, const KernelArgs& k) {
  const auto& perm = k.get<TransposeAttrs>().perm;
  StridedCopy c = copy_of(k);
  Dims own = dense_strides(k.in[0].shape);
  for (int i = 0; i < c.shape.rank; ++i) c.from.push(own[perm.empty() ? c.shape.rank - 1 - i : static_cast<int>(perm[static_cast<size_t>(i)])]);
  strided_copy(light_of_host(), c, pool_of(kc));
  return {};
}

Status run_expand(KernelContext& kc, const KernelArgs& k) {
  StridedCopy c = copy_of(k);
  Dims own = dense_strides(k.in[0].shape);
  int lead = c.shape.rank - k.in[0].shape.rank;
  for (int i = 0; i < c.shape.rank; ++i) c.from.push(i < lead || k.in[0].shape[i - lead] == 1 ? 0 : own[i - lead]);
  strided_copy(light_of_host(), c, pool_of(kc));
  return {};
}

// Start and step along each axis, by the same clamping as the shape rule. Integers of operand i into at most kMaxRank numbers.
struct Numbers {
  int64_t n = 0, v[kMaxRank] = {};
  explicit Numbers(const TensorView& view) {
    n = std::min<int64_t>(view.count(), kMaxRank);
    for (int64_t i = 0; i < n; ++i) v[i] = load_int(view.data, view.dtype, i);
  }
};

Status run_slice(KernelContext& kc, const KernelArgs& k) {
  const TensorView& x = k.in[0];
  if (k.out[0].count() == 0) return {};
  for (size_t i = 1; i < k.in.size(); ++i)
    if (k.has(i) && k.in[i].count() > kMaxRank) return invalid("Slice: more than " + std::to_string(kMaxRank) + " axes");
  Numbers starts(k.in[1]), axes(k.has(3) ? k.in[3] : TensorView(nullptr, DType::kI64, {0})), steps(k.has(4) ? k.in[4] : TensorView(nullptr, DType::kI64, {0}));
  StridedCopy c = copy_of(k);
  Dims own = dense_strides(x.shape);
  c.from = own;
  int64_t base = 0;
  for (int64_t i = 0; i < starts.n; ++i) {
    int axis = k.has(3) ? axis_in(axes.v[i], x.shape.rank) : static_cast<int>(i);
    int64_t step = k.has(4) ? steps.v[i] : 1, n = x.shape[axis], s = starts.v[i];
    s = s < -n ? (step > 0 ? 0 : -1) : s < 0 ? s + n : s;
    s = step > 0 ? std::clamp<int64_t>(s, 0, n) : std::clamp<int64_t>(s, -1, n - 1);
    base += s * own[axis];
    c.from[axis] = k.out[0].shape[axis] > 1 ? own[axis] * step : own[axis];
  }
  c.src += base * c.bytes;
  strided_copy(light_of_host(), c, pool_of(kc));
  return {};
}

Status run_concat(KernelContext& kc, const KernelArgs& k) {
  const TensorView& y = k.out[0];
  int axis = axis_in(k.get<AxisAttrs>().axis, y.shape.rank);
  int64_t outer = y.shape.count(0, axis), row = y.shape.count(axis, y.shape.rank) * bytes_of(y), at = 0;
  for (const TensorView& x : k.in) {
    int64_t bytes = x.shape.count(axis, x.shape.rank) * bytes_of(y);
    copy_rows(x.as<char>(), bytes, y.as<char>() + at, row, bytes, outer, pool_of(kc));
    at += bytes;
  }
  return {};
}

Status run_split(KernelContext& kc, const KernelArgs& k) {
  const TensorView& x = k.in[0];
  int axis = axis_in(k.get<SliceAttrs>().axis, x.shape.rank);
  int64_t outer = x.shape.count(0, axis), row = x.shape.count(axis, x.shape.rank) * bytes_of(x), at = 0, sum = 0;
  for (const TensorView& y : k.out) sum += y.present ? y.shape[axis] : 0;
  if (sum != x.shape[axis]) return invalid("Split: parts of " + std::to_string(sum) + " in all, the axis has " + std::to_string(x.shape[axis]));
  for (const TensorView& y : k.out) {
    int64_t bytes = y.shape.count(axis, y.shape.rank) * bytes_of(x);
    copy_rows(x.as<char>() + at, row, y.as<char>(), bytes, bytes, outer, pool_of(kc));
    at += bytes;
  }
  return {};
}

// Each axis of n becomes [repeats, n], the source standing still along the first.
Status run_tile(KernelContext& kc, const KernelArgs& k) {
  const Dims &in = k.in[0].shape, &out = k.out[0].shape;
  if (k.out[0].count() == 0) return {};
  StridedCopy c = copy_of(k);
  Dims own = dense_strides(in), places = dense_strides(out);
  c.shape = c.from = c.to = Dims();
  for (int d = 0; d < in.rank; ++d) {
    int64_t repeats = out[d] / in[d];
    if (repeats > 1 && in[d] > 1) {
      if (c.shape.rank + 1 + (in.rank - d) > kMaxRank) return invalid("Tile: too many axes");
      c.shape.push(repeats), c.from.push(0), c.to.push(in[d] * places[d]);
    }
    c.shape.push(in[d] == 1 ? repeats : in[d]), c.from.push(in[d] == 1 ? 0 : own[d]), c.to.push(places[d]);
  }
  strided_copy(light_of_host(), c, pool_of(kc));
  return {};
}
// More repeated axes than ranks are left are ref's.
bool accepts_tile(const ProblemDesc& p) { return whole_bytes(p) && p.inputs[0].type.ranked && p.inputs[0].type.rank() <= kMaxRank / 2; }

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

template <class T> void fill_value(char* to, const char* value, int64_t n) {
  T v;
  std::memcpy(&v, value, sizeof v);
  std::fill_n(reinterpret_cast<T*>(to), n, v);
}
void fill_value(char* to, const char* value, int bytes, int64_t n) {
  if (bytes == 1) fill_value<uint8_t>(to, value, n);
  else if (bytes == 2) fill_value<uint16_t>(to, value, n);
  else if (bytes == 4) fill_value<uint32_t>(to, value, n);
  else fill_value<uint64_t>(to, value, n);
}

// Row by row of the result: the inside of the last axis is one copy, its edges are single elements or the value.
Status run_pad(KernelContext& kc, const KernelArgs& k) {
  const auto& a = k.get<ModeAttrs>();
  const TensorView &x = k.in[0], &y = k.out[0];
  if (k.has(2) && k.in[2].dtype != x.dtype) return invalid("Pad: the value has another type");
  int rank = x.shape.rank, bytes = bytes_of(x);
  if (y.count() == 0) return {};
  if (a.mode != "constant" && x.count() == 0) return invalid("Pad: mode " + a.mode + " of an empty axis");
  int64_t begin[kMaxRank] = {};
  int64_t axes = k.has(3) ? k.in[3].count() : rank;
  for (int64_t i = 0; i < std::min<int64_t>(axes, kMaxRank); ++i)
    begin[k.has(3) ? axis_in(load_int(k.in[3].data, k.in[3].dtype, i), rank) : static_cast<int>(i)] = load_int(k.in[1].data, k.in[1].dtype, i);
  char value[8] = {};
  if (k.has(2) && k.in[2].count() > 0) std::memcpy(value, k.in[2].data, static_cast<size_t>(bytes));
  if (rank == 0) return std::memcpy(y.data, x.data, static_cast<size_t>(bytes)), Status();
  Dims own = dense_strides(x.shape);
  int64_t in_n = x.shape[rank - 1], out_n = y.shape[rank - 1], shift = begin[rank - 1], rows = y.count() / out_n;
  int64_t first = std::clamp<int64_t>(shift, 0, out_n), last = std::clamp<int64_t>(shift + in_n, first, out_n);
  for_ranges(pool_of(kc), rows, static_cast<double>(out_n) + 20, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      int64_t rest = r, from = 0;
      for (int d = rank - 2; d >= 0 && from >= 0; --d) {
        int64_t s = pad_source(a.mode, rest % y.shape[d] - begin[d], x.shape[d]);
        rest /= y.shape[d];
        from = s < 0 ? -1 : from + s * own[d];
      }
      char* out = y.as<char>() + r * out_n * bytes;
      const char* in = x.as<char>() + from * bytes;
      if (from < 0) {
        fill_value(out, value, bytes, out_n);
        continue;
      }
      auto edge = [&](int64_t i0, int64_t i1) {
        if (a.mode == "constant") return fill_value(out + i0 * bytes, value, bytes, i1 - i0);
        for (int64_t i = i0; i < i1; ++i) std::memcpy(out + i * bytes, in + pad_source(a.mode, i - shift, in_n) * bytes, static_cast<size_t>(bytes));
      };
      edge(0, first);
      if (last > first) std::memcpy(out + first * bytes, in + (first - shift) * bytes, static_cast<size_t>((last - first) * bytes));
      edge(last, out_n);
    }
  });
  return {};
}

Status run_trilu(KernelContext& kc, const KernelArgs& k) {
  const TensorView& x = k.in[0];
  if (x.shape.rank < 2) return invalid("Trilu: rank " + std::to_string(x.shape.rank));
  bool upper = k.get<ModeAttrs>().flag != 0;
  int64_t diagonal = k.has(1) ? load_int(k.in[1].data, k.in[1].dtype, 0) : 0, rows = x.shape[x.shape.rank - 2], columns = x.shape[x.shape.rank - 1];
  if (x.count() == 0) return {};
  diagonal = std::clamp<int64_t>(diagonal, -rows - 1, columns + 1);
  int bytes = bytes_of(x);
  for_ranges(pool_of(kc), x.count() / columns, static_cast<double>(columns) + 10, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      int64_t edge = std::clamp<int64_t>(r % rows + diagonal + (upper ? 0 : 1), 0, columns);  // kept from here on, or up to here
      const char* in = x.as<char>() + r * columns * bytes;
      char* out = k.out[0].as<char>() + r * columns * bytes;
      auto kept = static_cast<size_t>(edge * bytes), all = static_cast<size_t>(columns * bytes);
      if (upper) std::memset(out, 0, kept), std::memcpy(out + kept, in + kept, all - kept);
      else std::memcpy(out, in, kept), std::memset(out + kept, 0, all - kept);
    }
  });
  return {};
}

Status outside(const char* op, int64_t i, int64_t n) {
  return invalid(std::string(op) + ": index " + std::to_string(i) + " outside [" + std::to_string(-n) + ", " + std::to_string(n) + ")");
}

// Indices checked and made positive, in a list of this thread.
Result<const int64_t*> places(const char* op, const TensorView& ids, int64_t n) {
  thread_local std::vector<int64_t> list;
  int64_t count = ids.count();
  list.resize(static_cast<size_t>(count));
  for (int64_t j = 0; j < count; ++j) {
    int64_t i = ids.dtype == DType::kI64 ? ids.as<int64_t>()[j] : ids.dtype == DType::kI32 ? ids.as<int32_t>()[j] : load_int(ids.data, ids.dtype, j);
    if (i < -n || i >= n) return outside(op, i, n).error();
    list[static_cast<size_t>(j)] = i < 0 ? i + n : i;
  }
  return list.data();
}

template <class T> void gather_elements_of(const T* x, const int64_t* at, int64_t n, T* y) {
  for (int64_t j = 0; j < n; ++j) y[j] = x[at[j]];
}

Status run_gather(KernelContext& kc, const KernelArgs& k) {
  const TensorView &x = k.in[0], &ids = k.in[1], &y = k.out[0];
  int axis = axis_in(k.get<AxisAttrs>().axis, x.shape.rank), bytes = bytes_of(x);
  int64_t outer = x.shape.count(0, axis), n = x.shape[axis], count = ids.count(), width = x.shape.count(axis + 1, x.shape.rank) * bytes;
  BRISK_ASSIGN(const int64_t* at, places("Gather", ids, n));
  if (y.count() == 0) return {};
  if (width == 4 || width == 8) {
    for_ranges(pool_of(kc), outer, static_cast<double>(count) * 4, [&](int64_t first, int64_t last) {
      for (int64_t o = first; o < last; ++o) {
        if (width == 4) gather_elements_of(x.as<uint32_t>() + o * n, at, count, y.as<uint32_t>() + o * count);
        else gather_elements_of(x.as<uint64_t>() + o * n, at, count, y.as<uint64_t>() + o * count);
      }
    });
    return {};
  }
  for_ranges(pool_of(kc), outer * count, static_cast<double>(width) / 4 + 20, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r)
      std::memcpy(y.as<char>() + r * width, x.as<char>() + (r / count * n + at[r % count]) * width, static_cast<size_t>(width));
  });
  return {};
}

}  // namespace

void add_light_movement(Registry& r) {
  r.add(light_desc(OpId::kTranspose, run_transpose, whole_bytes));
  r.add(light_desc(OpId::kExpand, run_expand, whole_bytes));
  r.add(light_desc(OpId::kSlice, run_slice, whole_bytes));
  r.add(light_desc(OpId::kConcat, run_concat, whole_bytes));
  r.add(light_desc(OpId::kSplit, run_split, whole_bytes));
  r.add(light_desc(OpId::kTile, run_tile, accepts_tile));
  r.add(light_desc(OpId::kPad, run_pad, whole_bytes));
  r.add(light_desc(OpId::kTrilu, run_trilu, whole_bytes));
  r.add(light_desc(OpId::kGather, run_gather, whole_bytes));
}

}  // namespace brisk::cpu
