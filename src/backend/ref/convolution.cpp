// Convolutions and pools over any number of spatial axes. x: [N, C, spatial...].
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/ref/util.h"
#include "op/activation.h"
#include "op/window.h"

namespace brisk::ref {
namespace {

constexpr int kMaxSpatial = kMaxRank - 2;

// The spatial part of one problem: sizes of x and of the result, and the window along each axis.
struct Space {
  int axes = 0;
  int64_t in[kMaxSpatial] = {}, out[kMaxSpatial] = {};
  WindowAxis w[kMaxSpatial];
  int64_t in_count = 1, out_count = 1, taps = 1;

  Space(const WindowAttrs& a, const Dims& x, const Dims& y, const int64_t* kernel) {
    axes = x.rank - 2;
    for (int i = 0; i < axes; ++i) {
      in[i] = x[2 + i];
      out[i] = y[2 + i];
      w[i] = window_axis(a, static_cast<size_t>(i), kernel[i], axes, in[i]);
      in_count *= in[i], out_count *= out[i], taps *= kernel[i];
    }
  }
  // Flat index in x of tap t of the window at result place o; -1 in the padding.
  int64_t source(int64_t o, int64_t t) const {
    int64_t at = 0, stride = 1;
    for (int i = axes - 1; i >= 0; --i) {
      int64_t p = o % out[i] * w[i].stride - w[i].begin + t % w[i].kernel * w[i].dilation;
      if (p < 0 || p >= in[i]) return -1;
      at += p * stride;
      stride *= in[i];
      o /= out[i], t /= w[i].kernel;
    }
    return at;
  }
  // Is the tap inside x and its declared padding (and not beyond, where only ceil_mode leads)?
  bool in_padding(int64_t o, int64_t t) const {
    for (int i = axes - 1; i >= 0; --i) {
      int64_t p = o % out[i] * w[i].stride - w[i].begin + t % w[i].kernel * w[i].dilation;
      if (p >= in[i] + w[i].end) return false;
      o /= out[i], t /= w[i].kernel;
    }
    return true;
  }
  // The table of source() for all taps and places: [taps, out_count].
  std::vector<int64_t> sources() const {
    std::vector<int64_t> s(static_cast<size_t>(out_count * taps));
    for (int64_t t = 0; t < taps; ++t)
      for (int64_t o = 0; o < out_count; ++o) s[static_cast<size_t>(t * out_count + o)] = source(o, t);
    return s;
  }
};

Space space_of_weight(const KernelArgs& k) { return Space(k.get<WindowAttrs>(), k.in[0].shape, k.out[0].shape, k.in[1].shape.d + 2); }

// act(sum + residual), or act(sum) + residual.
template <class S> struct Epilogue {
  Activation act;
  S alpha, beta;
  bool last;
  explicit Epilogue(const WindowAttrs& a)
      : act(activation_from_name(a.act).value_or(Activation::kNone)), alpha(static_cast<S>(a.act_alpha)),
        beta(static_cast<S>(a.act_beta)), last(a.residual_last) {}
  S operator()(S sum, S residual) const {
    return last ? activate(act, sum, alpha, beta) + residual : activate(act, sum + residual, alpha, beta);
  }
};

// f32 sums in float, as the formula says. Four filters share the reading of x; the inner loop runs over all places.
template <class T, class S> void convolve(const KernelArgs& k, const Space& s, int64_t group) {
  constexpr int64_t kFilters = 4;
  const TensorView &x = k.in[0], &w = k.in[1], &y = k.out[0];
  int64_t channels = x.shape[1], filters = w.shape[0], per = w.shape[1], per_group = filters / group;
  const Epilogue<S> end(k.get<WindowAttrs>());
  const T* residual = k.has(3) ? k.in[3].as<T>() : nullptr;
  std::vector<int64_t> from = s.sources();
  std::vector<S> sum(static_cast<size_t>(s.out_count * kFilters));
  for (int64_t n = 0; n < x.shape[0]; ++n)
    for (int64_t m = 0, some = 0; m < filters; m += some) {
      some = std::min(kFilters, per_group - m % per_group);
      for (int64_t j = 0; j < some; ++j) {
        S bias = k.has(2) ? static_cast<S>(static_cast<Acc<T>>(k.in[2].as<T>()[m + j])) : S(0);
        for (int64_t o = 0; o < s.out_count; ++o) sum[static_cast<size_t>(o * kFilters + j)] = bias;
      }
      for (int64_t c = 0; c < per; ++c) {
        const T* plane = x.as<T>() + (n * channels + m / per_group * per + c) * s.in_count;
        for (int64_t t = 0; t < s.taps; ++t) {
          S v[kFilters] = {};
          for (int64_t j = 0; j < some; ++j) v[j] = static_cast<S>(static_cast<Acc<T>>(w.as<T>()[((m + j) * per + c) * s.taps + t]));
          const int64_t* source = from.data() + t * s.out_count;
          for (int64_t o = 0; o < s.out_count; ++o) {
            if (source[o] < 0) continue;
            S value = static_cast<S>(static_cast<Acc<T>>(plane[source[o]]));
            S* to = sum.data() + o * kFilters;
            for (int64_t j = 0; j < kFilters; ++j) to[j] += v[j] * value;
          }
        }
      }
      for (int64_t j = 0; j < some; ++j) {
        int64_t first = (n * filters + m + j) * s.out_count;
        T* out = y.as<T>() + first;
        for (int64_t o = 0; o < s.out_count; ++o) {
          S rest = residual ? static_cast<S>(static_cast<Acc<T>>(residual[first + o])) : S(0);
          out[o] = static_cast<T>(static_cast<Acc<T>>(end(sum[static_cast<size_t>(o * kFilters + j)], rest)));
        }
      }
    }
}

Status run_conv(KernelContext&, const KernelArgs& k) {
  BRISK_TRY(same_dtype(k, {0, 1, 2, 3}));
  if (k.has(3) && !(k.in[3].shape == k.out[0].shape)) return invalid("Conv: the residual does not fit the result");
  if (k.has(2) && k.in[2].count() != k.in[1].shape[0]) return invalid("Conv: the bias does not fit the weight");
  Space s = space_of_weight(k);
  int64_t group = k.get<WindowAttrs>().group;
  if (k.in[0].shape[1] != k.in[1].shape[1] * group) return invalid("Conv: channels of x and of the weight do not fit");
  return dispatch_float(k.in[0].dtype, [&]<class T>(Tag<T>) -> Status {
    return convolve<T, Acc<T>>(k, s, group), Status();
  });
}

Status run_conv_integer(KernelContext&, const KernelArgs& k) {
  const TensorView &x = k.in[0], &w = k.in[1], &y = k.out[0];
  Space s = space_of_weight(k);
  int64_t channels = x.shape[1], filters = w.shape[0], per = w.shape[1], per_group = filters / k.get<WindowAttrs>().group;
  if (channels != per * k.get<WindowAttrs>().group) return invalid("ConvInteger: channels of x and of the weight do not fit");
  for (size_t i : {2, 3})
    if (k.has(i) && k.in[i].count() != 1 && k.in[i].count() != filters) return invalid("ConvInteger: zero points do not fit");
  auto zero = [&](size_t i, int64_t m) { return k.has(i) ? static_cast<int32_t>(load_int(k.in[i].data, k.in[i].dtype, k.in[i].count() == 1 ? 0 : m)) : 0; };
  std::vector<int64_t> from = s.sources();
  std::vector<int32_t> values(static_cast<size_t>(x.count())), sum(static_cast<size_t>(s.out_count));
  int32_t zx = zero(2, 0);  // padding holds x's zero point, so it adds nothing
  for (int64_t i = 0; i < x.count(); ++i) values[static_cast<size_t>(i)] = static_cast<int32_t>(load_int(x.data, x.dtype, i)) - zx;
  for (int64_t n = 0; n < x.shape[0]; ++n)
    for (int64_t m = 0; m < filters; ++m) {
      int32_t zw = zero(3, m);
      std::fill(sum.begin(), sum.end(), 0);
      for (int64_t c = 0; c < per; ++c) {
        const int32_t* plane = values.data() + (n * channels + m / per_group * per + c) * s.in_count;
        for (int64_t t = 0; t < s.taps; ++t) {
          int32_t tap = static_cast<int32_t>(load_int(w.data, w.dtype, (m * per + c) * s.taps + t)) - zw;
          const int64_t* source = from.data() + t * s.out_count;
          for (int64_t o = 0; o < s.out_count; ++o)
            if (source[o] >= 0) sum[static_cast<size_t>(o)] += tap * plane[source[o]];
        }
      }
      std::copy(sum.begin(), sum.end(), y.as<int32_t>() + (n * filters + m) * s.out_count);
    }
  return {};
}

// Each element of x adds its weighted window to the result. With a given result size the padding follows from it.
Status run_conv_transpose(KernelContext&, const KernelArgs& k) {
  BRISK_TRY(same_dtype(k, {0, 1, 2}));
  const auto& a = k.get<WindowAttrs>();
  const TensorView &x = k.in[0], &w = k.in[1], &y = k.out[0];
  int axes = x.shape.rank - 2;
  int64_t begin[kMaxSpatial], taps = 1, in_count = 1, out_count = 1;
  WindowAxis v[kMaxSpatial];
  for (int i = 0; i < axes; ++i) {
    v[i] = window_axis(a, static_cast<size_t>(i), w.shape[2 + i], axes, 0);
    begin[i] = v[i].begin;
    taps *= w.shape[2 + i], in_count *= x.shape[2 + i], out_count *= y.shape[2 + i];
    int64_t extra = static_cast<size_t>(i) < a.output_padding.size() ? a.output_padding[static_cast<size_t>(i)] : 0;
    if (!a.output_shape.empty() || a.auto_pad.starts_with("SAME")) {
      int64_t total = v[i].stride * (x.shape[2 + i] - 1) + extra + v[i].reach() - y.shape[2 + i];
      if (total < 0) total = 0;
      begin[i] = a.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    }
  }
  int64_t channels = x.shape[1], per = w.shape[1], in_group = channels / a.group, filters = per * a.group;
  if (in_group < 1 || channels % a.group != 0 || w.shape[0] != channels || (k.has(2) && k.in[2].count() != filters))
    return invalid("ConvTranspose: channels of x, weight, bias and groups do not fit");
  return dispatch_float(x.dtype, [&]<class T>(Tag<T>) -> Status {
    using S = Acc<T>;
    std::vector<S> sum(static_cast<size_t>(filters * out_count));
    for (int64_t n = 0; n < x.shape[0]; ++n) {
      for (int64_t m = 0; m < filters; ++m)
        std::fill_n(sum.begin() + m * out_count, out_count, k.has(2) ? static_cast<S>(k.in[2].as<T>()[m]) : S(0));
      for (int64_t i = 0; i < in_count; ++i)
        for (int64_t t = 0; t < taps; ++t) {
          int64_t to = 0, stride = 1, place = i, tap = t;
          for (int d = axes - 1; d >= 0 && to >= 0; --d) {
            int64_t p = place % x.shape[2 + d] * v[d].stride + tap % w.shape[2 + d] * v[d].dilation - begin[d];
            to = p < 0 || p >= y.shape[2 + d] ? -1 : to + p * stride;
            stride *= y.shape[2 + d];
            place /= x.shape[2 + d], tap /= w.shape[2 + d];
          }
          if (to < 0) continue;
          for (int64_t c = 0; c < channels; ++c) {
            S value = static_cast<S>(x.as<T>()[(n * channels + c) * in_count + i]);
            for (int64_t m = 0; m < per; ++m)
              sum[static_cast<size_t>((c / in_group * per + m) * out_count + to)] += value * static_cast<S>(w.as<T>()[(c * per + m) * taps + t]);
          }
        }
      for (int64_t i = 0; i < filters * out_count; ++i) y.as<T>()[n * filters * out_count + i] = static_cast<T>(sum[static_cast<size_t>(i)]);
    }
    return {};
  });
}

// Index of a place of x inside its plane; column-major: the first spatial axis runs fastest.
int64_t stored_index(const Space& s, int64_t at, bool column_major) {
  if (!column_major) return at;
  int64_t index[kMaxSpatial], out = 0, stride = 1;
  for (int i = s.axes - 1; i >= 0; --i) index[i] = at % s.in[i], at /= s.in[i];
  for (int i = 0; i < s.axes; ++i) out += index[i] * stride, stride *= s.in[i];
  return out;
}

Status run_max_pool(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<WindowAttrs>();
  const TensorView &x = k.in[0], &y = k.out[0];
  Space s(a, x.shape, y.shape, a.kernel.data());
  std::vector<int64_t> from = s.sources();
  bool indices = k.out.size() > 1 && k.out[1].present;
  return dispatch_number(x.dtype, [&]<class T>(Tag<T>) -> Status {
    for (int64_t p = 0, planes = x.shape[0] * x.shape[1]; p < planes; ++p)
      for (int64_t o = 0; o < s.out_count; ++o) {
        int64_t best = -1;
        const T* plane = x.as<T>() + p * s.in_count;
        for (int64_t t = 0; t < s.taps; ++t) {
          int64_t at = from[static_cast<size_t>(t * s.out_count + o)];
          if (at >= 0 && (best < 0 || static_cast<Acc<T>>(plane[at]) > static_cast<Acc<T>>(plane[best]))) best = at;
        }
        int64_t to = p * s.out_count + o;
        using Limit = std::numeric_limits<Acc<T>>;
        y.as<T>()[to] = best >= 0 ? plane[best] : static_cast<T>(Limit::has_infinity ? -Limit::infinity() : Limit::lowest());
        if (indices) k.out[1].as<int64_t>()[to] = best < 0 ? -1 : p * s.in_count + stored_index(s, best, a.column_major);
      }
    return {};
  });
}

template <bool norm> Status run_mean_pool(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<WindowAttrs>();
  const TensorView &x = k.in[0], &y = k.out[0];
  Space s(a, x.shape, y.shape, a.kernel.data());
  std::vector<int64_t> from = s.sources();
  auto p = static_cast<double>(a.p);
  return dispatch_float(x.dtype, [&]<class T>(Tag<T>) -> Status {
    for (int64_t plane = 0, planes = x.shape[0] * x.shape[1]; plane < planes; ++plane)
      for (int64_t o = 0; o < s.out_count; ++o) {
        double sum = 0;
        int64_t count = 0;
        for (int64_t t = 0; t < s.taps; ++t) {
          int64_t at = from[static_cast<size_t>(t * s.out_count + o)];
          if (at < 0) { count += a.count_include_pad && s.in_padding(o, t); continue; }
          auto v = static_cast<double>(static_cast<Acc<T>>(x.as<T>()[plane * s.in_count + at]));
          sum += norm ? std::pow(std::fabs(v), p) : v;
          ++count;
        }
        double v = norm ? std::pow(sum, 1 / p) : count ? sum / static_cast<double>(count) : 0;
        y.as<T>()[plane * s.out_count + o] = static_cast<T>(static_cast<Acc<T>>(v));
      }
    return {};
  });
}

}  // namespace

void add_convolution(Registry& r) {
  add_plain(r, OpId::kConv, run_conv);
  add_plain(r, OpId::kConvInteger, run_conv_integer);
  add_plain(r, OpId::kConvTranspose, run_conv_transpose);
  add_plain(r, OpId::kMaxPool, run_max_pool);
  add_plain(r, OpId::kAveragePool, run_mean_pool<false>);
  add_plain(r, OpId::kLpPool, run_mean_pool<true>);
}

}  // namespace brisk::ref
