// Operators whose operands hold places: gathering, scattering, selection.
#include <algorithm>
#include <numeric>
#include <vector>

#include "backend/ref/util.h"
#include "op/tree.h"
#include "base/int_of.h"

namespace brisk::ref {
namespace {

Error outside(const char* op, int64_t i, int64_t n) {
  return invalid(std::string(op) + ": index " + std::to_string(i) + " outside [" + std::to_string(-n) + ", " + std::to_string(n) + ")");
}

Status run_gather(KernelContext&, const KernelArgs& k) {
  const TensorView &x = k.in[0], &ids = k.in[1], &y = k.out[0];
  int axis = axis_of(k.get<AxisAttrs>().axis, x.shape.rank);
  int64_t outer = x.shape.count(0, axis), n = x.shape[axis], width = x.shape.count(axis + 1, x.shape.rank), count = ids.count();
  return dispatch_width(x.dtype, [&]<class T>(Tag<T>) -> Status {
    T* out = y.as<T>();
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t j = 0; j < count; ++j) {
        int64_t i = load_int(ids.data, ids.dtype, j);
        if (i < -n || i >= n) return outside("Gather", i, n);
        const T* from = x.as<T>() + (o * n + (i < 0 ? i + n : i)) * width;
        out = std::copy(from, from + width, out);
      }
    return {};
  });
}

Status run_gather_elements(KernelContext&, const KernelArgs& k) {
  const TensorView &x = k.in[0], &ids = k.in[1], &y = k.out[0];
  int axis = axis_of(k.get<AxisAttrs>().axis, x.shape.rank);
  Dims own = strides_of(x.shape), places = strides_of(ids.shape);
  int64_t n = x.shape[axis];
  return dispatch_width(x.dtype, [&]<class T>(Tag<T>) -> Status {
    for (int64_t j = 0, count = ids.count(); j < count; ++j) {
      int64_t i = load_int(ids.data, ids.dtype, j), at = 0;
      if (i < -n || i >= n) return outside("GatherElements", i, n);
      for (int d = 0; d < x.shape.rank; ++d) {
        int64_t place = j / places[d] % ids.shape[d];
        if (d != axis && place >= x.shape[d]) return invalid("GatherElements: indices are larger than x along axis " + std::to_string(d));
        at += (d == axis ? (i < 0 ? i + n : i) : place) * own[d];
      }
      y.as<T>()[j] = x.as<T>()[at];
    }
    return {};
  });
}

// Offset in x that coordinates ids[0..depth) name, axes counted from `first`.
Result<int64_t> offset_of(const char* op, const TensorView& x, const TensorView& ids, int64_t at, int64_t depth, int first) {
  Dims own = strides_of(x.shape);
  int64_t offset = 0;
  for (int64_t d = 0; d < depth; ++d) {
    int axis = first + static_cast<int>(d);
    int64_t i = load_int(ids.data, ids.dtype, at + d), n = x.shape[axis];
    if (i < -n || i >= n) return outside(op, i, n);
    offset += (i < 0 ? i + n : i) * own[axis];
  }
  return offset;
}

Status run_gather_nd(KernelContext&, const KernelArgs& k) {
  const TensorView &x = k.in[0], &ids = k.in[1], &y = k.out[0];
  int batch = static_cast<int>(k.get<AxisAttrs>().axis);
  int64_t depth = ids.shape[ids.shape.rank - 1], rows = depth ? ids.count() / depth : 0, batches = ids.shape.count(0, batch);
  int64_t width = x.shape.count(batch + static_cast<int>(depth), x.shape.rank), per_batch = x.shape.count(batch, x.shape.rank);
  for (int d = 0; d < batch; ++d)
    if (ids.shape[d] != x.shape[d]) return invalid("GatherND: batch axis " + std::to_string(d) + " differs");
  return dispatch_width(x.dtype, [&]<class T>(Tag<T>) -> Status {
    T* out = y.as<T>();
    for (int64_t r = 0; r < rows; ++r) {
      BRISK_ASSIGN(int64_t at, offset_of("GatherND", x, ids, r * depth, depth, batch));
      const T* from = x.as<T>() + r / (rows / batches) * per_batch + at;
      out = std::copy(from, from + width, out);
    }
    return {};
  });
}

template <class T> T combine(const std::string& mode, T have, T update) {
  using A = Acc<T>;
  A a = static_cast<A>(have), b = static_cast<A>(update);
  if (mode == "add") return static_cast<T>(static_cast<A>(a + b));
  if (mode == "mul") return static_cast<T>(static_cast<A>(a * b));
  if (mode == "min") return static_cast<T>(std::min(a, b));
  if (mode == "max") return static_cast<T>(std::max(a, b));
  return update;
}

// By width where updates only replace, by element type where they are added up.
template <class F> Status dispatch_update(const std::string& mode, DType t, F&& f) {
  if (mode == "none") return dispatch_width(t, f);
  if (t == DType::kBool) return f(Tag<boolean>{});
  return dispatch_number(t, f);
}

Status known_reduction(const std::string& mode) {
  for (const char* m : {"none", "add", "mul", "min", "max"})
    if (mode == m) return {};
  return unsupported("reduction '" + mode + "'");
}

Status run_scatter_elements(KernelContext&, const KernelArgs& k) {
  BRISK_TRY(same_dtype(k, {0, 2}));
  const auto& a = k.get<ModeAttrs>();
  const TensorView &x = k.in[0], &ids = k.in[1], &u = k.in[2], &y = k.out[0];
  BRISK_TRY(known_reduction(a.mode));
  if (ids.shape.rank != x.shape.rank || !(ids.shape == u.shape)) return invalid("ScatterElements: x, indices and updates do not fit");
  int axis = axis_of(a.axis, x.shape.rank);
  if (axis < 0 || axis >= x.shape.rank) return invalid("ScatterElements: axis " + std::to_string(a.axis));
  Dims own = strides_of(x.shape), places = strides_of(ids.shape);
  int64_t n = x.shape[axis];
  if (x.bytes()) std::memcpy(y.data, x.data, static_cast<size_t>(x.bytes()));
  return dispatch_update(a.mode, x.dtype, [&]<class T>(Tag<T>) -> Status {
    for (int64_t j = 0, count = ids.count(); j < count; ++j) {
      int64_t i = load_int(ids.data, ids.dtype, j), at = 0;
      if (i < -n || i >= n) return outside("ScatterElements", i, n);
      for (int d = 0; d < x.shape.rank; ++d) {
        int64_t place = j / places[d] % ids.shape[d];
        if (d != axis && place >= x.shape[d]) return invalid("ScatterElements: indices are larger than x along axis " + std::to_string(d));
        at += (d == axis ? (i < 0 ? i + n : i) : place) * own[d];
      }
      T& slot = y.as<T>()[at];
      slot = a.mode == "none" ? u.as<T>()[j] : combine<T>(a.mode, slot, u.as<T>()[j]);
    }
    return {};
  });
}

Status run_scatter_nd(KernelContext&, const KernelArgs& k) {
  BRISK_TRY(same_dtype(k, {0, 2}));
  const auto& a = k.get<ModeAttrs>();
  const TensorView &x = k.in[0], &ids = k.in[1], &u = k.in[2], &y = k.out[0];
  BRISK_TRY(known_reduction(a.mode));
  int64_t depth = ids.shape.rank ? ids.shape[ids.shape.rank - 1] : 0;
  if (ids.shape.rank < 1 || depth > x.shape.rank) return invalid("ScatterND: indices of " + std::to_string(depth) + " coordinates for x of rank " + std::to_string(x.shape.rank));
  int64_t rows = ids.shape.count(0, ids.shape.rank - 1), width = x.shape.count(static_cast<int>(depth), x.shape.rank);
  if (u.count() != rows * width) return invalid("ScatterND: updates have " + std::to_string(u.count()) + " elements, wanted " + std::to_string(rows * width));
  if (x.bytes()) std::memcpy(y.data, x.data, static_cast<size_t>(x.bytes()));
  return dispatch_update(a.mode, x.dtype, [&]<class T>(Tag<T>) -> Status {
    for (int64_t r = 0; r < rows; ++r) {
      BRISK_ASSIGN(int64_t at, offset_of("ScatterND", x, ids, r * depth, depth, 0));
      for (int64_t i = 0; i < width; ++i) {
        T& slot = y.as<T>()[at + i];
        slot = a.mode == "none" ? u.as<T>()[r * width + i] : combine<T>(a.mode, slot, u.as<T>()[r * width + i]);
      }
    }
    return {};
  });
}

Status run_one_hot(KernelContext&, const KernelArgs& k) {
  const TensorView &ids = k.in[0], &values = k.in[2], &y = k.out[0];
  if (values.count() != 2) return invalid("OneHot: values must be two numbers");
  int axis = axis_of(k.get<AxisAttrs>().axis, y.shape.rank);
  int64_t depth = y.shape[axis], inner = y.shape.count(axis + 1, y.shape.rank);
  return dispatch_width(y.dtype, [&]<class T>(Tag<T>) -> Status {
    for (int64_t i = 0, n = y.count(); i < n; ++i) {
      int64_t outer = i / (inner * depth), place = i / inner % depth, j = outer * inner + i % inner;
      auto id = is_float(ids.dtype) ? int_of(static_cast<double>(load_float(ids.data, ids.dtype, j))) : load_int(ids.data, ids.dtype, j);
      if (id < 0) id += depth;
      y.as<T>()[i] = values.as<T>()[id == place ? 1 : 0];
    }
    return {};
  });
}

Status run_top_k(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<ModeAttrs>();
  const TensorView& x = k.in[0];
  int axis = axis_of(a.axis, x.shape.rank);
  int64_t n = x.shape[axis], inner = x.shape.count(axis + 1, x.shape.rank), outer = x.shape.count(0, axis), want = k.out[0].shape[axis];
  if (want > n) return invalid("TopK: k is " + std::to_string(want) + ", the axis has " + std::to_string(n));
  return dispatch_number(x.dtype, [&]<class T>(Tag<T>) -> Status {
    std::vector<int64_t> order(static_cast<size_t>(n));
    for (int64_t r = 0; r < outer * inner; ++r) {
      const T* row = x.as<T>() + r / inner * n * inner + r % inner;
      auto value = [&](int64_t i) { return static_cast<Acc<T>>(row[i * inner]); };
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return a.flag ? value(i) > value(j) : value(i) < value(j); });
      for (int64_t i = 0; i < want; ++i) {
        int64_t at = (r / inner * want + i) * inner + r % inner;
        k.out[0].as<T>()[at] = row[order[static_cast<size_t>(i)] * inner];
        k.out[1].as<int64_t>()[at] = order[static_cast<size_t>(i)];
      }
    }
    return {};
  });
}

Status run_non_zero(KernelContext&, const KernelArgs& k) {
  const TensorView &x = k.in[0], &y = k.out[0];
  Dims own = strides_of(x.shape);
  int64_t found = 0, columns = y.shape[1];
  for (int64_t i = 0, n = x.count(); i < n; ++i) {
    bool hit = is_float(x.dtype) ? load_float(x.data, x.dtype, i) != 0 : load_int(x.data, x.dtype, i) != 0;
    if (!hit) continue;
    for (int d = 0; d < x.shape.rank; ++d) y.as<int64_t>()[d * columns + found] = i / own[d] % x.shape[d];
    ++found;
  }
  return {};
}

Status run_compress(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<ModeAttrs>();
  const TensorView &x = k.in[0], &c = k.in[1], &y = k.out[0];
  int axis = a.flag ? 0 : axis_of(a.axis, x.shape.rank);
  int64_t n = a.flag ? x.count() : x.shape[axis], inner = a.flag ? 1 : x.shape.count(axis + 1, x.shape.rank), outer = a.flag ? 1 : x.shape.count(0, axis);
  if (c.count() > n) return invalid("Compress: " + std::to_string(c.count()) + " conditions for " + std::to_string(n) + " slices");
  return dispatch_width(x.dtype, [&]<class T>(Tag<T>) -> Status {
    T* out = y.as<T>();
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < c.count(); ++i)
        if (c.as<uint8_t>()[i]) {
          const T* from = x.as<T>() + (o * n + i) * inner;
          out = std::copy(from, from + inner, out);
        }
    return {};
  });
}

// --- trees --------------------------------------------------------------------------------------------------------------

Status run_tree_ensemble(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<ModeAttrs>();
  const TensorView &x = k.in[0], &roots = k.in[1], &nodes = k.in[2], &y = k.out[0];
  int64_t n = k.in[3].count(), features = x.shape[1], targets = y.shape[1];
  if (nodes.count() != 4 * n || k.in[4].count() != n * targets) return invalid("TreeEnsemble: nodes, splits and weights differ in number");
  return dispatch_float(x.dtype, [&]<class T>(Tag<T>) -> Status {
    using A = Acc<T>;
    for (int64_t r = 0; r < x.shape[0]; ++r)
      for (int64_t t = 0; t < roots.count(); ++t) {
        int64_t at = roots.as<int64_t>()[t];
        for (int64_t step = 0; step <= a.flag; ++step) {
          if (at < 0 || at >= n) return outside("TreeEnsemble: nodes", at, n);
          if (step == a.flag) break;
          const int64_t* node = nodes.as<int64_t>() + 4 * at;
          if (node[0] < 0 || node[0] >= features) return outside("TreeEnsemble: features", node[0], features);
          at = tree_holds<A>(node[3], static_cast<A>(x.as<T>()[r * features + node[0]]), static_cast<A>(k.in[3].as<T>()[at])) ? node[1] : node[2];
        }
        for (int64_t i = 0; i < targets; ++i) {
          A w = static_cast<A>(k.in[4].as<T>()[at * targets + i]), have = t ? static_cast<A>(y.as<T>()[r * targets + i]) : A(0);
          A joined = !t ? w : a.mode == "MIN" ? std::min(have, w) : a.mode == "MAX" ? std::max(have, w) : have + w;
          y.as<T>()[r * targets + i] = static_cast<T>(joined);
        }
      }
    if (roots.count() == 0 && y.bytes()) std::memset(y.data, 0, static_cast<size_t>(y.bytes()));
    return {};
  });
}

}  // namespace

void add_indexing(Registry& r) {
  add_plain(r, OpId::kGather, run_gather);
  add_plain(r, OpId::kGatherElements, run_gather_elements);
  add_plain(r, OpId::kGatherND, run_gather_nd);
  add_plain(r, OpId::kScatterElements, run_scatter_elements);
  add_plain(r, OpId::kScatterND, run_scatter_nd);
  add_plain(r, OpId::kOneHot, run_one_hot);
  add_plain(r, OpId::kTopK, run_top_k);
  add_plain(r, OpId::kNonZero, run_non_zero);
  add_plain(r, OpId::kCompress, run_compress);
  add_plain(r, OpId::kTreeEnsemble, run_tree_ensemble);
}

}  // namespace brisk::ref
