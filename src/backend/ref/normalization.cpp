// BatchNorm, InstanceNorm, LayerNorm, local response normalisation. Statistics are taken in double.
#include <cmath>

#include "backend/ref/util.h"

namespace brisk::ref {
namespace {

double number(const TensorView& v, int64_t i) { return v.dtype == DType::kF64 ? v.as<double>()[i] : static_cast<double>(load_float(v.data, v.dtype, i)); }

Status one_per_channel(const KernelArgs& k) {
  if (k.in[0].shape.rank < 2) return invalid("x has rank " + std::to_string(k.in[0].shape.rank) + ", at least 2 wanted");
  for (size_t i = 1; i < k.in.size(); ++i)
    if (k.in[i].count() != k.in[0].shape[1]) return invalid("operand " + std::to_string(i) + " has " + std::to_string(k.in[i].count()) + " elements, x " + std::to_string(k.in[0].shape[1]) + " channels");
  return {};
}

Status run_batch_norm(KernelContext&, const KernelArgs& k) {
  const TensorView& flat = k.in[0];
  BRISK_TRY(one_per_channel(k));
  int64_t channels = flat.shape[1], inner = flat.shape.count(2, flat.shape.rank);
  auto epsilon = static_cast<double>(k.get<NormAttrs>().epsilon);
  return dispatch_float(flat.dtype, [&]<class T>(Tag<T>) -> Status {
    for (int64_t i = 0, n = flat.count(); i < n; ++i) {
      int64_t c = i / inner % channels;
      double v = (static_cast<double>(static_cast<Acc<T>>(flat.as<T>()[i])) - number(k.in[3], c)) / std::sqrt(number(k.in[4], c) + epsilon);
      k.out[0].as<T>()[i] = static_cast<T>(static_cast<Acc<T>>(v * number(k.in[1], c) + number(k.in[2], c)));
    }
    return {};
  });
}

struct Moments {
  double mean = 0, variance = 0;
};
template <class T> Moments moments(const T* x, int64_t n) {
  Moments m;
  for (int64_t i = 0; i < n; ++i) m.mean += static_cast<double>(static_cast<Acc<T>>(x[i]));
  m.mean /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) {
    double d = static_cast<double>(static_cast<Acc<T>>(x[i])) - m.mean;
    m.variance += d * d;
  }
  m.variance /= static_cast<double>(n);
  return m;
}

Status run_instance_norm(KernelContext&, const KernelArgs& k) {
  BRISK_TRY(one_per_channel(k));
  const TensorView& x = k.in[0];
  int64_t channels = x.shape[1], inner = x.shape.count(2, x.shape.rank);
  auto epsilon = static_cast<double>(k.get<NormAttrs>().epsilon);
  return dispatch_float(x.dtype, [&]<class T>(Tag<T>) -> Status {
    for (int64_t p = 0; p < x.shape[0] * channels; ++p) {
      const T* in = x.as<T>() + p * inner;
      Moments m = moments(in, inner);
      double scale = number(k.in[1], p % channels) / std::sqrt(m.variance + epsilon), bias = number(k.in[2], p % channels);
      for (int64_t i = 0; i < inner; ++i)
        k.out[0].as<T>()[p * inner + i] = static_cast<T>(static_cast<Acc<T>>((static_cast<double>(static_cast<Acc<T>>(in[i])) - m.mean) * scale + bias));
    }
    return {};
  });
}

Status run_layer_norm(KernelContext&, const KernelArgs& k) {
  const TensorView& x = k.in[0];
  const auto& a = k.get<NormAttrs>();
  int axis = axis_of(a.axis, x.shape.rank);
  if (axis < 0 || axis > x.shape.rank) return invalid("LayerNorm: axis " + std::to_string(a.axis));
  int64_t rows = x.shape.count(0, axis), inner = x.shape.count(axis, x.shape.rank);
  // Scale and bias are broadcast to the normalised axes.
  Dims normalised;
  for (int i = axis; i < x.shape.rank; ++i) normalised.push(x.shape[i]);
  for (size_t i = 1; i < k.in.size(); ++i)
    if (k.has(i) && k.in[i].shape.rank > normalised.rank) return invalid("LayerNorm: operand " + std::to_string(i) + " has rank " + std::to_string(k.in[i].shape.rank));
  Dims strides[] = {k.has(1) ? broadcast_strides(k.in[1].shape, normalised) : normalised, k.has(2) ? broadcast_strides(k.in[2].shape, normalised) : normalised};
  return dispatch_float(x.dtype, [&]<class T>(Tag<T>) -> Status {
    for (int64_t r = 0; r < rows && inner > 0; ++r) {
      const T* in = x.as<T>() + r * inner;
      T* out = k.out[0].as<T>() + r * inner;
      Moments m = moments(in, inner);
      double inverse = 1 / std::sqrt(m.variance + static_cast<double>(a.epsilon));
      walk(normalised, strides, [&](int64_t s, int64_t b) {
        double v = (static_cast<double>(static_cast<Acc<T>>(*in++)) - m.mean) * inverse;
        if (k.has(1)) v *= number(k.in[1], s);
        if (k.has(2)) v += number(k.in[2], b);
        *out++ = static_cast<T>(static_cast<Acc<T>>(v));
      });
      if (k.out.size() > 1 && k.out[1].present) store_float(k.out[1].data, k.out[1].dtype, r, static_cast<float>(m.mean));
      if (k.out.size() > 2 && k.out[2].present) store_float(k.out[2].data, k.out[2].dtype, r, static_cast<float>(inverse));
    }
    return {};
  });
}

Status run_lrn(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<LrnAttrs>();
  const TensorView& x = k.in[0];
  if (x.shape.rank < 2) return invalid("Lrn: rank " + std::to_string(x.shape.rank));
  int64_t channels = x.shape[1], inner = x.shape.count(2, x.shape.rank), before = (a.size - 1) / 2, after = a.size - 1 - before;
  return dispatch_float(x.dtype, [&]<class T>(Tag<T>) -> Status {
    for (int64_t i = 0, n = x.count(); i < n; ++i) {
      int64_t c = i / inner % channels;
      double sum = 0;
      for (int64_t j = std::max<int64_t>(0, c - before); j <= std::min(channels - 1, c + after); ++j) {
        auto v = static_cast<double>(static_cast<Acc<T>>(x.as<T>()[i + (j - c) * inner]));
        sum += v * v;
      }
      double scale = std::pow(static_cast<double>(a.bias) + static_cast<double>(a.alpha) / static_cast<double>(a.size) * sum, static_cast<double>(a.beta));
      k.out[0].as<T>()[i] = static_cast<T>(static_cast<Acc<T>>(static_cast<double>(static_cast<Acc<T>>(x.as<T>()[i])) / scale));
    }
    return {};
  });
}

}  // namespace

void add_normalization(Registry& r) {
  add_plain(r, OpId::kBatchNorm, run_batch_norm);
  add_plain(r, OpId::kInstanceNorm, run_instance_norm);
  add_plain(r, OpId::kLayerNorm, run_layer_norm);
  add_plain(r, OpId::kLrn, run_lrn);
}

}  // namespace brisk::ref
