// Shape rules of convolutions and pools.
#include "op/activation.h"
#include "op/rules.h"
#include "op/window.h"

namespace brisk {

WindowAxis window_axis(const WindowAttrs& a, size_t i, int64_t kernel, int64_t axes, int64_t n) {
  WindowAxis w;
  w.kernel = kernel;
  if (i < a.strides.size()) w.stride = a.strides[i];
  if (i < a.dilations.size()) w.dilation = a.dilations[i];
  if (a.auto_pad == "SAME_UPPER" || a.auto_pad == "SAME_LOWER") {
    int64_t count = (n + w.stride - 1) / w.stride;
    int64_t total = std::max<int64_t>(0, (count - 1) * w.stride + w.reach() - n);
    w.begin = a.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.end = total - w.begin;
  } else if (a.auto_pad != "VALID" && a.pads.size() == static_cast<size_t>(2 * axes)) {
    w.begin = a.pads[i];
    w.end = a.pads[i + static_cast<size_t>(axes)];
  }
  return w;
}

Dim window_count(const WindowAttrs& a, size_t i, int64_t kernel, int64_t axes, const Dim& n) {
  WindowAxis w = window_axis(a, i, kernel, axes, 0);
  bool same = a.auto_pad == "SAME_UPPER" || a.auto_pad == "SAME_LOWER";
  if (same) return Dim::floor_div(n + Dim(w.stride - 1), w.stride);
  Dim room = n + Dim(w.begin + w.end - w.reach());
  if (!a.ceil_mode) return Dim::floor_div(room, w.stride) + Dim(1);
  // A last window that would start in the end padding is not counted.
  if (auto k = n.constant()) {
    int64_t r = *k + w.begin + w.end - w.reach();
    int64_t count = (r + w.stride - 1) / w.stride + 1;
    if ((count - 1) * w.stride >= *k + w.begin) --count;
    return count;
  }
  Dim count = Dim::floor_div(room + Dim(w.stride - 1), w.stride) + Dim(1);
  return Dim::min(count, Dim::floor_div(n + Dim(w.begin - 1), w.stride) + Dim(1));
}

}  // namespace brisk

namespace brisk::rules {

Status check_window(const WindowAttrs& a, size_t axes) {
  auto list = [&](const char* what, const std::vector<int64_t>& v, size_t n, int64_t lowest) -> Status {
    if (!v.empty() && v.size() != n) return invalid(std::string(what) + " has " + std::to_string(v.size()) + " numbers, wanted " + std::to_string(n));
    for (int64_t x : v)
      if (x < lowest || x > INT32_MAX) return invalid(std::string(what) + " holds " + std::to_string(x));
    return {};
  };
  BRISK_TRY(list("strides", a.strides, axes, 1));
  BRISK_TRY(list("dilations", a.dilations, axes, 1));
  BRISK_TRY(list("pads", a.pads, 2 * axes, INT32_MIN));
  return list("kernel", a.kernel, axes, 1);
}

namespace {

Status positive(const Dim& d, size_t axis) {
  auto v = d.constant();
  if (v && *v < 0) return invalid("the window is larger than spatial axis " + std::to_string(axis));
  return {};
}

// A residual has the result's type and shape.
Status check_residual(const Type& r, const Type& out) {
  bool fits = r.dtype == out.dtype && r.ranked && out.ranked && r.shape.size() == out.shape.size();
  for (size_t i = 0; fits && i < r.shape.size(); ++i) {
    auto a = r.shape[i].constant(), b = out.shape[i].constant();
    fits = !a || !b || *a == *b;
  }
  if (!fits) return invalid("residual is " + to_string(r) + ", the result " + to_string(out));
  return {};
}

// Both convolutions: the result's shape, of x's type.
Status infer_window(InferContext& c) {
  const Type &x = c.in(0), &w = c.in(1);
  const auto& a = c.attrs<WindowAttrs>();
  Type& out = c.out();
  out.dtype = x.dtype;
  out.ranked = x.ranked;
  if (!x.ranked) return {};
  if (x.rank() < 2) return invalid("x has rank " + std::to_string(x.rank()) + ", at least 2 wanted");
  size_t axes = static_cast<size_t>(x.rank()) - 2;
  BRISK_TRY(check_window(a, axes));
  if (w.ranked && w.rank() != x.rank()) return invalid("x has rank " + std::to_string(x.rank()) + ", the weight " + std::to_string(w.rank()));
  if (a.group < 1) return invalid("group is " + std::to_string(a.group));
  out.shape = {x.shape[0], w.ranked ? w.shape[0] : c.fresh("conv")};
  if (w.ranked) {
    auto channels = x.shape[1].constant(), per = w.shape[1].constant(), m = w.shape[0].constant();
    if (channels && per && *channels != *per * a.group)
      return invalid("x has " + std::to_string(*channels) + " channels, the weight " + std::to_string(*per) + " for each of " + std::to_string(a.group) + " groups");
    if (m && *m % a.group != 0) return invalid(std::to_string(*m) + " results do not divide into " + std::to_string(a.group) + " groups");
  }
  for (size_t i = 0; i < axes; ++i) {
    auto k = w.ranked ? w.shape[2 + i].constant() : i < a.kernel.size() ? std::optional(a.kernel[i]) : std::nullopt;
    out.shape.push_back(k ? window_count(a, i, *k, static_cast<int64_t>(axes), x.shape[2 + i]) : c.fresh("conv"));
    BRISK_TRY(positive(out.shape.back(), i));
  }
  return {};
}

}  // namespace

Status infer_conv(InferContext& c) {
  BRISK_TRY(infer_window(c));
  if (auto& act = c.attrs<WindowAttrs>().act; !activation_from_name(act)) return invalid("activation '" + act + "'");
  return c.has(3) ? check_residual(c.in(3), c.out()) : Status();
}

Status infer_conv_integer(InferContext& c) {
  BRISK_TRY(infer_window(c));
  c.out().dtype = DType::kI32;
  return {};
}

// ONNX: size = stride * (n - 1) + output padding + reach - pads, or output_shape, which then gives the pads.
Status infer_conv_transpose(InferContext& c) {
  const Type &x = c.in(0), &w = c.in(1);
  const auto& a = c.attrs<WindowAttrs>();
  Type& out = c.out();
  out.dtype = x.dtype;
  out.ranked = x.ranked && w.ranked;
  if (!out.ranked) return {};
  if (x.rank() < 2 || w.rank() != x.rank()) return invalid("x has rank " + std::to_string(x.rank()) + ", the weight " + std::to_string(w.rank()));
  size_t axes = static_cast<size_t>(x.rank()) - 2;
  BRISK_TRY(check_window(a, axes));
  if (a.group < 1) return invalid("group is " + std::to_string(a.group));
  auto channels = x.shape[1].constant(), rows = w.shape[0].constant();
  if (channels && rows && *channels != *rows) return invalid("x has " + std::to_string(*channels) + " channels, the weight " + std::to_string(*rows));
  out.shape = {x.shape[0], w.shape[1] * Dim(a.group)};
  for (size_t i = 0; i < axes; ++i) {
    const Dim& n = x.shape[2 + i];
    auto k = w.shape[2 + i].constant();
    if (a.output_shape.size() >= axes) {
      out.shape.push_back(a.output_shape[a.output_shape.size() - axes + i]);
    } else if (!k) {
      out.shape.push_back(c.fresh("conv"));
    } else {
      WindowAxis v = window_axis(a, i, *k, static_cast<int64_t>(axes), 0);
      int64_t extra = i < a.output_padding.size() ? a.output_padding[i] : 0;
      bool same = a.auto_pad.starts_with("SAME");
      out.shape.push_back(same ? n * Dim(v.stride) : (n - Dim(1)) * Dim(v.stride) + Dim(extra + v.reach() - v.begin - v.end));
    }
    BRISK_TRY(positive(out.shape.back(), i));
  }
  return {};
}

Status infer_pool(InferContext& c) {
  const Type& x = c.in(0);
  const auto& a = c.attrs<WindowAttrs>();
  Type& out = c.out(0);
  out.dtype = x.dtype;
  out.ranked = x.ranked;
  if (x.ranked) {
    size_t axes = a.kernel.size();
    if (static_cast<size_t>(x.rank()) != axes + 2) return invalid("a window of " + std::to_string(axes) + " axes over x of rank " + std::to_string(x.rank()));
    BRISK_TRY(check_window(a, axes));
    out.shape = {x.shape[0], x.shape[1]};
    for (size_t i = 0; i < axes; ++i) {
      out.shape.push_back(window_count(a, i, a.kernel[i], static_cast<int64_t>(axes), x.shape[2 + i]));
      BRISK_TRY(positive(out.shape.back(), i));
    }
  }
  if (c.output_count() > 1) {
    c.out(1) = c.out(0);
    c.out(1).dtype = DType::kI64;
  }
  return {};
}

}  // namespace brisk::rules
