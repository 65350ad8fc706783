// Operators whose operands hold places: gathering and scattering by element or by coordinates, selection.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <vector>

#include "backend/cpu/light.h"
#include "backend/cpu/movement.h"

namespace brisk::cpu {
namespace {

template <class T> struct Element { using type = T; };
template <class F> Status with_width(DType t, F&& f) {
  switch (dtype_bits(t)) {
    case 8: return f(Element<uint8_t>{});
    case 16: return f(Element<uint16_t>{});
    case 32: return f(Element<uint32_t>{});
    default: return f(Element<uint64_t>{});
  }
}

Error outside(const char* op, int64_t i, int64_t n) {
  return invalid(std::string(op) + ": index " + std::to_string(i) + " outside [" + std::to_string(-n) + ", " + std::to_string(n) + ")");
}

// Indices of any integer type, widened where they are not i64, all inside [-n, n).
Result<const int64_t*> indices(const char* op, const TensorView& ids, int64_t n) {
  thread_local std::vector<int64_t> wide;
  const int64_t* list = ids.as<int64_t>();
  int64_t count = ids.count();
  if (ids.dtype != DType::kI64) {
    wide.resize(static_cast<size_t>(count));
    for (int64_t j = 0; j < count; ++j) wide[static_cast<size_t>(j)] = load_int(ids.data, ids.dtype, j);
    list = wide.data();
  }
  int64_t low = 0, high = -1;
  for (int64_t j = 0; j < count; ++j) low = std::min(low, list[j]), high = std::max(high, list[j]);
  if (low < -n || high >= n) return outside(op, low < -n ? low : high, n);
  return list;
}

// Rows along the last axis of an index tensor, with the offset in x that belongs to each (the axis itself not counted).
struct ElementRows {
  Dims shape, own;
  int axis;
  int64_t rows, width, along, last;  // strides in x of the axis and of the last one (0 if that is the axis)
  ElementRows(const Dims& ids, const Dims& x, int axis_) : shape(ids), own(dense_strides(x)), axis(axis_) {
    width = ids[ids.rank - 1];
    rows = width ? ids.count() / width : 0;
    along = own[axis];
    last = axis == ids.rank - 1 ? 0 : 1;
  }
  int64_t base(int64_t row) const {
    int64_t at = 0;
    for (int d = shape.rank - 2; d >= 0; --d) {
      if (d != axis) at += row % shape[d] * own[d];
      row /= shape[d];
    }
    return at;
  }
};
Status same_extent(const char* op, const Dims& ids, const Dims& x, int axis) {
  for (int d = 0; d < x.rank; ++d)
    if (d != axis && ids[d] > x[d]) return invalid(std::string(op) + ": indices are larger than x along axis " + std::to_string(d));
  return {};
}

Status run_gather_elements(KernelContext& kc, const KernelArgs& k) {
  const TensorView &x = k.in[0], &ids = k.in[1], &y = k.out[0];
  int axis = axis_in(k.get<AxisAttrs>().axis, x.shape.rank);
  if (y.count() == 0) return {};
  int64_t n = x.shape[axis];
  BRISK_ASSIGN(const int64_t* list, indices("GatherElements", ids, n));
  BRISK_TRY(same_extent("GatherElements", ids.shape, x.shape, axis));
  ElementRows r(ids.shape, x.shape, axis);
  return with_width(x.dtype, [&]<class T>(Element<T>) -> Status {
    for_ranges(pool_of(kc), r.rows, static_cast<double>(r.width) * 4 + 20, [&](int64_t first, int64_t end) {
      for (int64_t row = first; row < end; ++row) {
        const T* from = x.as<T>() + r.base(row);
        const int64_t* at = list + row * r.width;
        T* to = y.as<T>() + row * r.width;
        for (int64_t j = 0; j < r.width; ++j) to[j] = from[(at[j] < 0 ? at[j] + n : at[j]) * r.along + j * r.last];
      }
    });
    return {};
  });
}

enum class Update { kNone, kAdd, kMul, kMin, kMax };
Result<Update> update_of(const std::string& mode) {
  const char* names[] = {"none", "add", "mul", "min", "max"};
  for (int i = 0; i < 5; ++i)
    if (mode == names[i]) return static_cast<Update>(i);
  return unsupported("reduction '" + mode + "'");
}
template <Update u, class T> T combined(T have, T update) {
  if constexpr (u == Update::kAdd) return static_cast<T>(have + update);
  if constexpr (u == Update::kMul) return static_cast<T>(have * update);
  if constexpr (u == Update::kMin) return std::min(have, update);
  if constexpr (u == Update::kMax) return std::max(have, update);
  return update;
}
template <Update u> struct UpdateTag { static constexpr Update value = u; };

// f(element type, way of updating): by width where elements are only replaced, else for f32, i64 (wrapping) and i32.
template <class F> Status with_update(Update u, DType t, F&& f) {
  if (u == Update::kNone) return with_width(t, [&]<class T>(Element<T> e) { return f(e, UpdateTag<Update::kNone>{}); });
  auto typed = [&](auto e) -> Status {
    switch (u) {
      case Update::kAdd: return f(e, UpdateTag<Update::kAdd>{});
      case Update::kMul: return f(e, UpdateTag<Update::kMul>{});
      case Update::kMin: return f(e, UpdateTag<Update::kMin>{});
      default: return f(e, UpdateTag<Update::kMax>{});
    }
  };
  if (t == DType::kF32) return typed(Element<float>{});
  return unsupported("updates of type " + std::string(dtype_name(t)));
}
bool accepts_scatter(const ProblemDesc& p) {
  if (!whole_bytes(p) || !p.has(2) || p.inputs[2].type.dtype != p.inputs[0].type.dtype) return false;
  return p.get<ModeAttrs>().mode == "none" || p.inputs[0].type.dtype == DType::kF32;
}

// In the order of the updates: a place may be met more than once.
Status run_scatter_elements(KernelContext& kc, const KernelArgs& k) {
  const auto& a = k.get<ModeAttrs>();
  const TensorView &x = k.in[0], &ids = k.in[1], &u = k.in[2], &y = k.out[0];
  BRISK_ASSIGN(Update update, update_of(a.mode));
  if (ids.shape.rank != x.shape.rank || !(ids.shape == u.shape) || x.shape.rank == 0) return invalid("ScatterElements: x, indices and updates do not fit");
  int axis = axis_in(a.axis, x.shape.rank);
  if (axis < 0 || axis >= x.shape.rank) return invalid("ScatterElements: axis " + std::to_string(a.axis));
  int64_t n = x.shape[axis];
  BRISK_ASSIGN(const int64_t* list, indices("ScatterElements", ids, n));
  BRISK_TRY(same_extent("ScatterElements", ids.shape, x.shape, axis));
  copy_rows(x.as<char>(), x.bytes(), y.as<char>(), x.bytes(), x.bytes(), 1, pool_of(kc));
  ElementRows r(ids.shape, x.shape, axis);
  return with_update(update, x.dtype, [&]<class T, class U>(Element<T>, U) -> Status {
    for (int64_t row = 0; row < r.rows; ++row) {
      T* to = y.as<T>() + r.base(row);
      const int64_t* at = list + row * r.width;
      const T* from = u.as<T>() + row * r.width;
      for (int64_t j = 0; j < r.width; ++j) {
        T& slot = to[(at[j] < 0 ? at[j] + n : at[j]) * r.along + j * r.last];
        slot = combined<U::value>(slot, from[j]);
      }
    }
    return {};
  });
}

// Offset in x that coordinates ids[at, at + depth) name, axes counted from `first`.
Result<int64_t> offset_of(const char* op, const TensorView& x, const Dims& own, const TensorView& ids, int64_t at, int64_t depth, int first) {
  int64_t offset = 0;
  for (int64_t d = 0; d < depth; ++d) {
    int axis = first + static_cast<int>(d);
    int64_t i = ids.dtype == DType::kI64 ? ids.as<int64_t>()[at + d] : load_int(ids.data, ids.dtype, at + d), n = x.shape[axis];
    if (i < -n || i >= n) return outside(op, i, n);
    offset += (i < 0 ? i + n : i) * own[axis];
  }
  return offset;
}

Status run_scatter_nd(KernelContext& kc, const KernelArgs& k) {
  const TensorView &x = k.in[0], &ids = k.in[1], &u = k.in[2], &y = k.out[0];
  BRISK_ASSIGN(Update update, update_of(k.get<ModeAttrs>().mode));
  int64_t depth = ids.shape.rank ? ids.shape[ids.shape.rank - 1] : 0;
  if (ids.shape.rank < 1 || depth > x.shape.rank) return invalid("ScatterND: indices of " + std::to_string(depth) + " coordinates for x of rank " + std::to_string(x.shape.rank));
  int64_t rows = ids.shape.count(0, ids.shape.rank - 1), width = x.shape.count(static_cast<int>(depth), x.shape.rank);
  if (u.count() != rows * width) return invalid("ScatterND: updates have " + std::to_string(u.count()) + " elements, wanted " + std::to_string(rows * width));
  copy_rows(x.as<char>(), x.bytes(), y.as<char>(), x.bytes(), x.bytes(), 1, pool_of(kc));
  Dims own = dense_strides(x.shape);
  return with_update(update, x.dtype, [&]<class T, class U>(Element<T>, U) -> Status {
    for (int64_t r = 0; r < rows; ++r) {
      BRISK_ASSIGN(int64_t at, offset_of("ScatterND", x, own, ids, r * depth, depth, 0));
      T* to = y.as<T>() + at;
      const T* from = u.as<T>() + r * width;
      for (int64_t i = 0; i < width; ++i) to[i] = combined<U::value>(to[i], from[i]);
    }
    return {};
  });
}

Status run_gather_nd(KernelContext&, const KernelArgs& k) {
  const TensorView &x = k.in[0], &ids = k.in[1], &y = k.out[0];
  int batch = static_cast<int>(k.get<AxisAttrs>().axis);
  int64_t depth = ids.shape[ids.shape.rank - 1], rows = depth ? ids.count() / depth : 0, batches = ids.shape.count(0, batch);
  int64_t bytes = dtype_bits(x.dtype) / 8, width = x.shape.count(batch + static_cast<int>(depth), x.shape.rank) * bytes, per_batch = x.shape.count(batch, x.shape.rank);
  for (int d = 0; d < batch; ++d)
    if (ids.shape[d] != x.shape[d]) return invalid("GatherND: batch axis " + std::to_string(d) + " differs");
  Dims own = dense_strides(x.shape);
  for (int64_t r = 0; r < rows; ++r) {
    BRISK_ASSIGN(int64_t at, offset_of("GatherND", x, own, ids, r * depth, depth, batch));
    if (width) std::memcpy(y.as<char>() + r * width, x.as<char>() + (r / (rows / batches) * per_batch + at) * bytes, static_cast<size_t>(width));
  }
  return {};
}

// The first k of each row in order, equal ones by index; f32 without NaN sorts by value, with NaN as ref does.
Status run_top_k(KernelContext& kc, const KernelArgs& k) {
  const auto& a = k.get<ModeAttrs>();
  const TensorView& x = k.in[0];
  int axis = axis_in(a.axis, x.shape.rank);
  int64_t n = x.shape[axis], inner = x.shape.count(axis + 1, x.shape.rank), outer = x.shape.count(0, axis), want = k.out[0].shape[axis];
  if (want > n) return invalid("TopK: k is " + std::to_string(want) + ", the axis has " + std::to_string(n));
  for_ranges(pool_of(kc), outer * inner, static_cast<double>(n) * 20 + 50, [&](int64_t first, int64_t last) {
    std::vector<float> row(static_cast<size_t>(n));
    std::vector<int64_t> order(static_cast<size_t>(n));
    for (int64_t r = first; r < last; ++r) {
      const float* from = x.as<float>() + r / inner * n * inner + r % inner;
      bool nan = false;
      for (int64_t i = 0; i < n; ++i) {
        float v = from[i * inner];
        row[static_cast<size_t>(i)] = a.flag ? -v : v;
        nan |= v != v;
      }
      std::iota(order.begin(), order.end(), 0);
      auto before = [&](int64_t i, int64_t j) {
        float u = row[static_cast<size_t>(i)], v = row[static_cast<size_t>(j)];
        return u < v || (u == v && i < j);
      };
      if (nan) std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return row[static_cast<size_t>(i)] < row[static_cast<size_t>(j)]; });
      else std::partial_sort(order.begin(), order.begin() + want, order.end(), before);
      for (int64_t i = 0; i < want; ++i) {
        int64_t at = (r / inner * want + i) * inner + r % inner, source = order[static_cast<size_t>(i)];
        k.out[0].as<float>()[at] = from[source * inner];
        k.out[1].as<int64_t>()[at] = source;
      }
    }
  });
  return {};
}
bool accepts_top_k(const ProblemDesc& p) { return all_plain(p) && p.inputs[0].type.dtype == DType::kF32; }
bool accepts_elements(const ProblemDesc& p) { return whole_bytes(p) && p.inputs[0].type.ranked && p.inputs[0].type.rank() > 0; }

}  // namespace

void add_light_indexing(Registry& r) {
  r.add(light_desc(OpId::kGatherElements, run_gather_elements, accepts_elements));
  r.add(light_desc(OpId::kGatherND, run_gather_nd, whole_bytes));
  r.add(light_desc(OpId::kScatterElements, run_scatter_elements, accepts_scatter));
  r.add(light_desc(OpId::kScatterND, run_scatter_nd, accepts_scatter));
  r.add(light_desc(OpId::kTopK, run_top_k, accepts_top_k));
}

}  // namespace brisk::cpu
