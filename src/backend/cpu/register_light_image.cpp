// Resize, and linear quantisation of whole tensors, in f32.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/light.h"
#include "op/byte_levels.h"
#include "op/resize.h"

namespace brisk::cpu {
namespace {

// The taps of one axis, `reach` for each result, missing ones with weight 0; `outside` marks results that have none.
struct TapTable {
  int reach = 1;
  std::vector<int64_t> index;
  std::vector<float> weight;
  std::vector<char> outside;
  bool copies = true;  // each result is one element as it is

  TapTable(const ResizeAttrs& a, const ResizeAxis& x) {
    std::vector<ResizeTaps> all;
    for (int64_t i = 0; i < x.out; ++i) {
      all.push_back(resize_taps(a, x, i));
      std::erase_if(all.back(), [&](const ResizeTap& t) { return t.weight == 0 && all.back().size() > 1; });
      reach = std::max(reach, static_cast<int>(all.back().size()));
    }
    for (const ResizeTaps& taps : all) {
      outside.push_back(taps.empty());
      copies &= taps.size() == 1 && taps[0].weight == 1;
      for (int t = 0; t < reach; ++t) {
        bool there = static_cast<size_t>(t) < taps.size();
        index.push_back(there ? taps[static_cast<size_t>(t)].index : 0);
        weight.push_back(there ? static_cast<float>(taps[static_cast<size_t>(t)].weight) : 0.0f);
      }
    }
  }
};

// x[outer, n, inner] -> y[outer, m, inner]
void resize_along(ThreadPool& pool, const LightTable& t, const TapTable& taps, const float* x, float* y, int64_t outer, int64_t n, int64_t m, int64_t inner, float fill) {
  int reach = taps.reach;
  if (inner == 1) {
    for_ranges(pool, outer, static_cast<double>(m * reach) * 4, [&](int64_t first, int64_t last) {
      for (int64_t o = first; o < last; ++o) {
        const float* row = x + o * n;
        float* to = y + o * m;
        if (taps.copies) {
          for (int64_t i = 0; i < m; ++i) to[i] = row[taps.index[static_cast<size_t>(i)]];
          continue;
        }
        for (int64_t i = 0; i < m; ++i) {
          float sum = taps.outside[static_cast<size_t>(i)] ? fill : 0.0f;
          for (int j = 0; j < reach; ++j) {
            auto at = static_cast<size_t>(i * reach + j);
            if (taps.weight[at] != 0) sum += taps.weight[at] * row[taps.index[at]];
          }
          to[i] = sum;
        }
      }
    });
    return;
  }
  for_ranges(pool, outer * m, static_cast<double>(inner * (1 + reach)) + 20, [&](int64_t first, int64_t last) {
    std::vector<const float*> rows(static_cast<size_t>(reach));
    std::vector<float> weights(static_cast<size_t>(reach));
    for (int64_t r = first; r < last; ++r) {
      int64_t o = r / m, i = r % m;
      float* to = y + r * inner;
      const float* from = x + o * n * inner;
      if (taps.outside[static_cast<size_t>(i)]) {
        std::fill_n(to, inner, fill);
      } else if (taps.copies) {
        std::copy_n(from + taps.index[static_cast<size_t>(i)] * inner, inner, to);
      } else {
        int used = 0;
        for (int j = 0; j < reach; ++j) {
          auto at = static_cast<size_t>(i * reach + j);
          if (taps.weight[at] == 0) continue;
          rows[static_cast<size_t>(used)] = from + taps.index[at] * inner;
          weights[static_cast<size_t>(used++)] = taps.weight[at];
        }
        t.weighted_rows(rows.data(), weights.data(), used, inner, to);
      }
    }
  });
}

Status run_resize(KernelContext& kc, const KernelArgs& k) {
  const auto& a = k.get<ResizeAttrs>();
  const TensorView &x = k.in[0], &y = k.out[0];
  if (y.count() == 0) return {};
  if (x.count() == 0) return invalid("Resize: x is empty");
  auto operand = [&](size_t i) { return k.has(i) ? k.in[i] : TensorView(); };
  auto axes = resize_axes(a, x.shape, y.shape, operand(1), operand(2), operand(3));
  // Axes that shrink the work first: the innermost one before others where it grows less than they do.
  std::vector<int> order;
  for (int d = 0; d < x.shape.rank; ++d)
    if (!axes[static_cast<size_t>(d)].plain()) order.push_back(d);
  bool grows = y.count() > x.count();
  if (grows) std::reverse(order.begin(), order.end());
  if (order.empty()) return std::copy_n(x.as<float>(), x.count(), y.as<float>()), Status();
  std::vector<float> now, next;
  const float* from = x.as<float>();
  Dims shape = x.shape;
  for (size_t i = 0; i < order.size(); ++i) {
    int d = order[i];
    const ResizeAxis& axis = axes[static_cast<size_t>(d)];
    int64_t outer = shape.count(0, d), inner = shape.count(d + 1, shape.rank);
    bool last = i + 1 == order.size();
    if (!last) next.resize(static_cast<size_t>(outer * axis.out * inner));
    resize_along(pool_of(kc), light_of_host(), TapTable(a, axis), from, last ? y.as<float>() : next.data(), outer, axis.in, axis.out, inner, a.extrapolation);
    shape[d] = axis.out;
    now.swap(next);
    from = now.data();
  }
  return {};
}
bool accepts_resize(const ProblemDesc& p) {
  const std::string& mode = p.get<ResizeAttrs>().mode;
  return all_plain(p) && p.inputs[0].type.dtype == DType::kF32 && (mode == "nearest" || mode == "linear" || mode == "cubic");
}

// --- quantisation: one scale, or one for each place of an axis ------------------------------------------------------------

// x as [outer, places, inner], a scale for each place; one place where there is one scale for all.
struct ScaleRows {
  int64_t outer = 1, places = 1, inner = 1;
  explicit ScaleRows(const KernelArgs& k) {
    const Dims& x = k.in[0].shape;
    inner = x.count();
    if (k.in[1].count() == 1 || x.rank == 0) return;
    int axis = std::clamp(axis_in(k.get<QuantAttrs>().axis, x.rank), 0, x.rank - 1);
    outer = x.count(0, axis), places = x[axis], inner = x.count(axis + 1, x.rank);
  }
  Status check(const KernelArgs& k) const {
    if (k.in[1].count() == places && (!k.has(2) || k.in[2].count() == places)) return {};
    return invalid("scale or zero point do not fit: " + std::to_string(places) + " elements wanted");
  }
  // f(place, first element, elements) over all of x, long rows in pieces.
  template <class F> void each(ThreadPool& pool, F&& f) const {
    constexpr int64_t kPiece = 8192;
    int64_t pieces = std::max<int64_t>(1, ceil_div(inner, kPiece));
    for_ranges(pool, outer * places * pieces, static_cast<double>(std::min(inner, kPiece)) * 3 + 5, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        int64_t row = i / pieces, at = i % pieces * kPiece;
        f(row % places, row * inner + at, std::min(kPiece, inner - at));
      }
    });
  }
};

Status run_quantize(KernelContext& kc, const KernelArgs& k) {
  ScaleRows rows(k);
  BRISK_TRY(rows.check(k));
  const LightTable& t = light_of_host();
  bool is_signed = k.out[0].dtype == DType::kI8;
  float low = is_signed ? -128.0f : 0.0f, high = is_signed ? 127.0f : 255.0f;
  rows.each(pool_of(kc), [&](int64_t place, int64_t at, int64_t n) {
    float zero = k.has(2) ? static_cast<float>(load_int(k.in[2].data, k.in[2].dtype, place)) : 0.0f;
    t.quantize_bytes(k.in[0].as<float>() + at, n, k.in[1].as<float>()[place], zero, low, high, k.out[0].as<uint8_t>() + at);
  });
  return {};
}
bool accepts_quantize(const ProblemDesc& p) {
  DType to = p.outputs.empty() ? DType::kF32 : p.outputs[0].dtype;
  return all_plain(p) && p.get<QuantAttrs>().block == 0 && p.inputs[0].type.dtype == DType::kF32 && p.inputs[1].type.dtype == DType::kF32 &&
         (to == DType::kI8 || to == DType::kU8);
}

Status run_dequantize(KernelContext& kc, const KernelArgs& k) {
  ScaleRows rows(k);
  BRISK_TRY(rows.check(k));
  const LightTable& t = light_of_host();
  int64_t bytes = dtype_bits(k.in[0].dtype) / 8;
  rows.each(pool_of(kc), [&](int64_t place, int64_t at, int64_t n) {
    auto zero = k.has(2) ? static_cast<int32_t>(load_int(k.in[2].data, k.in[2].dtype, place)) : 0;
    t.dequantize(k.in[0].as<char>() + at * bytes, n, k.in[0].dtype, zero, k.in[1].as<float>()[place], k.out[0].as<float>() + at);
  });
  return {};
}
bool accepts_dequantize(const ProblemDesc& p) {
  DType from = p.inputs[0].type.dtype;
  return all_plain(p) && p.get<QuantAttrs>().block == 0 && p.inputs[1].type.dtype == DType::kF32 && !p.outputs.empty() && p.outputs[0].dtype == DType::kF32 &&
         (from == DType::kI8 || from == DType::kU8 || (from == DType::kI32 && !p.has(2)));
}

Status run_dynamic_quantize(KernelContext& kc, const KernelArgs& k) {
  const float* x = k.in[0].as<float>();
  int64_t n = k.in[0].count();
  const LightTable& t = light_of_host();
  constexpr int64_t kPiece = 8192;
  int64_t pieces = ceil_div(n, kPiece);
  thread_local std::vector<float> extremes;
  extremes.resize(static_cast<size_t>(2 * pieces));
  float* found = extremes.data();
  for_ranges(pool_of(kc), pieces, kPiece, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      int64_t at = i * kPiece, m = std::min(kPiece, n - at);
      found[2 * i] = t.fold_row(Fold::kMin, x + at, m, 0);
      found[2 * i + 1] = t.fold_row(Fold::kMax, x + at, m, 0);
    }
  });
  float low = 0, high = 0;
  for (int64_t i = 0; i < pieces; ++i) low = std::min(low, found[2 * i]), high = std::max(high, found[2 * i + 1]);
  const auto [scale, zero] = ByteLevels(low, high);
  k.out[1].as<float>()[0] = scale;
  k.out[2].as<uint8_t>()[0] = static_cast<uint8_t>(zero);
  for_ranges(pool_of(kc), pieces, kPiece * 2, [&, scale = scale, zero = zero](int64_t first, int64_t last) {
    int64_t at = first * kPiece, end = std::min(n, last * kPiece);
    uint8_t* out = k.out[0].as<uint8_t>() + at;
    if (scale == 0) std::fill_n(out, end - at, uint8_t{0});
    else t.quantize_bytes(x + at, end - at, scale, zero, 0.0f, 255.0f, out);
  });
  return {};
}

}  // namespace

void add_light_images(Registry& r) {
  r.add(light_desc(OpId::kResize, run_resize, accepts_resize));
  r.add(light_desc(OpId::kQuantizeLinear, run_quantize, accepts_quantize));
  r.add(light_desc(OpId::kDequantizeLinear, run_dequantize, accepts_dequantize));
  r.add(light_desc(OpId::kDynamicQuantizeLinear, run_dynamic_quantize, all_f32));
}

}  // namespace brisk::cpu
