// Fourier transforms as products with tables of cosines and sines, and window functions.
#include "import/onnx/lower.h"

namespace brisk::onnx_import {
namespace {

using enum OpId;

constexpr double kTau = 6.283185307179586;

ValueId places(Lower& l, ValueId count) { return l.add(kRange, NoAttrs{}, {l.i64_scalar(0), count, l.i64_scalar(1)}); }
ValueId dim_scalar(Lower& l, ValueId x, int64_t axis) { return l.squeeze(l.shape_of(x, axis, axis + 1), {0}); }

struct Tables {
  ValueId cosine, sine;  // [n, bins] of 2 pi k m / n
};
// `n` and `bins` are scalars, i64. The product k m is reduced mod n while it is an integer.
Tables tables(Lower& l, ValueId n, ValueId bins, DType t) {
  ModeAttrs plain;
  ValueId km = l.binary(kMul, l.unsqueeze(places(l, n), {1}), l.unsqueeze(places(l, bins), {0}));
  ValueId turn = l.binary(kDiv, l.cast(l.add(kMod, plain, {km, n}), DType::kF64), l.cast(n, DType::kF64));
  ValueId angle = l.binary(kMul, turn, l.scalar_of(DType::kF64, kTau));
  return {l.cast(l.unary(kCos, angle), t), l.cast(l.unary(kSin, angle), t)};
}

// x: [..., n, 1 or 2] -> [..., bins, 2], transformed along the axis before the last.
ValueId transform(Lower& l, ValueId x, bool inverse, bool onesided) {
  auto r = l.rank(x);
  if (!r || *r < 2) return l.refuse("a signal of unknown rank");
  auto parts = l.type(x).shape.back().constant();
  if (!parts || (*parts != 1 && *parts != 2)) return l.refuse("a last axis that is not 1 or 2");
  if (inverse && onesided) return l.refuse("an inverse transform of one side");
  DType t = l.dtype(x);
  ValueId n = dim_scalar(l, x, *r - 2), bins = n;
  if (onesided) bins = l.binary(kAdd, l.binary(kDiv, n, l.i64_scalar(2)), l.i64_scalar(1));
  Tables e = tables(l, n, bins, t);
  auto part = [&](int64_t i) { return l.squeeze(l.slice(x, *r - 1, i, i + 1), {*r - 1}); };
  ValueId real = part(0), re = l.binary(kMatMul, real, e.cosine), im = l.binary(kMatMul, real, e.sine);
  if (!inverse) im = l.unary(kNeg, im);
  if (*parts == 2) {
    ValueId imaginary = part(1), ic = l.binary(kMatMul, imaginary, e.cosine), is = l.binary(kMatMul, imaginary, e.sine);
    re = l.binary(inverse ? kSub : kAdd, re, is);
    im = l.binary(kAdd, im, ic);
  }
  ValueId y = l.concat({l.unsqueeze(re, {*r - 1}), l.unsqueeze(im, {*r - 1})}, *r - 1);
  return inverse ? l.binary(kDiv, y, l.cast(n, t)) : y;
}

void dft(Lower& l) {
  auto r = l.rank(l.in(0));
  if (!r) return void(l.refuse("x of unknown rank"));
  int64_t axis = l.opset < 20 ? l.i("axis", 1) : -2;
  if (l.opset >= 20 && l.has(2)) {
    auto given = l.numbers(l.in(2));
    if (!given || given->size() != 1) return void(l.refuse("an axis that is known only at run time"));
    axis = (*given)[0];
  }
  if (axis < 0) axis += *r;
  if (axis < 0 || axis >= *r - 1) return void(l.bad("axis outside the signal"));
  std::vector<int64_t> perm;
  for (int64_t i = 0; i < *r; ++i) perm.push_back(i);
  std::swap(perm[static_cast<size_t>(axis)], perm[static_cast<size_t>(*r - 2)]);
  ValueId x = l.transpose(l.in(0), perm);
  if (l.has(1)) {
    auto length = l.numbers(l.in(1));
    auto have = l.type(x).ranked ? l.type(x).shape[static_cast<size_t>(*r - 2)].constant() : std::nullopt;
    if (!length || length->size() != 1 || !have) return void(l.refuse("a length that is known only at run time"));
    if ((*length)[0] < *have) x = l.slice(x, *r - 2, 0, (*length)[0]);
    ModeAttrs constant;
    constant.mode = "constant";
    if ((*length)[0] > *have) x = l.add(kPad, constant, {x, l.i64({0, (*length)[0] - *have}), l.scalar_of(l.dtype(x), 0), l.i64({*r - 2})});
  }
  l.set(0, l.transpose(transform(l, x, l.i("inverse", 0) != 0, l.i("onesided", 0) != 0), perm));
}

// Frames of the signal, windowed, each transformed: [B, frames, bins, 2].
void stft(Lower& l) {
  ValueId signal = l.in(0), step = l.cast(l.in(1), DType::kI64);
  if (l.rank(signal) == 2) signal = l.unsqueeze(signal, {2});
  ValueId length = l.has(3) ? l.cast(l.in(3), DType::kI64) : l.has(2) ? dim_scalar(l, l.in(2), 0) : l.bad("neither window nor frame_length");
  auto as_scalar = [&](ValueId v) { return l.rank(v) == 1 ? l.squeeze(v, {0}) : v; };
  step = as_scalar(step);
  length = as_scalar(length);
  ValueId room = l.binary(kSub, dim_scalar(l, signal, 1), length);
  ValueId frames = l.binary(kAdd, l.binary(kDiv, room, step), l.i64_scalar(1));
  ValueId starts = l.unsqueeze(l.binary(kMul, places(l, frames), step), {1});
  ValueId cut = l.gather(signal, l.binary(kAdd, starts, l.unsqueeze(places(l, length), {0})), 1);
  if (l.has(2)) cut = l.binary(kMul, cut, l.unsqueeze(l.in(2), {1}));
  l.set(0, transform(l, cut, false, l.i("onesided", 1) != 0));
}

// a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N); N is the size, or one less for a symmetric window.
void window(Lower& l, double a0, double a1, double a2) {
  auto t = dtype_of_onnx(static_cast<int32_t>(l.i("output_datatype", 1)));
  if (!t) return void(l.refuse("output_datatype " + onnx_dtype_name(static_cast<int32_t>(l.i("output_datatype", 1)))));
  ValueId size = l.cast(l.in(0), DType::kI64);
  ValueId n = l.i("periodic", 1) ? size : l.binary(kSub, size, l.i64_scalar(1));
  auto number = [&](double v) { return l.scalar_of(DType::kF64, v); };
  ValueId turn = l.binary(kDiv, l.cast(places(l, size), DType::kF64), l.cast(n, DType::kF64));
  auto wave = [&](double turns, double scale) { return l.binary(kMul, l.unary(kCos, l.binary(kMul, turn, number(turns * kTau))), number(scale)); };
  ValueId y = l.binary(kSub, number(a0), wave(1, a1));
  if (a2 != 0) y = l.binary(kAdd, y, wave(2, a2));
  l.set(0, l.cast(y, *t));
}
void hann(Lower& l) { window(l, 0.5, 0.5, 0); }
void hamming(Lower& l) { window(l, 25.0 / 46, 21.0 / 46, 0); }
void blackman(Lower& l) { window(l, 0.42, 0.5, 0.08); }

// Places of a sampling grid along one axis: -1 to 1 through the corners, or through the centres of elements.
ValueId grid_places(Lower& l, ValueId size, int64_t which, bool corners) {
  ValueId n = l.gather(size, l.i64_scalar(which), 0), at = l.cast(places(l, n), DType::kF32), one = l.scalar_of(DType::kF32, 1), two = l.scalar_of(DType::kF32, 2);
  ValueId count = l.cast(n, DType::kF32);
  if (corners) return l.binary(kSub, l.binary(kDiv, l.binary(kMul, at, two), l.binary(kMax, l.binary(kSub, count, one), one)), one);
  return l.binary(kSub, l.binary(kDiv, l.binary(kAdd, l.binary(kMul, at, two), one), count), one);
}

// theta [N, d, d + 1], size [N, C, (D,) H, W] -> [N, (D,) H, W, d]: theta (x, y, (z,) 1).
void affine_grid(Lower& l) {
  ValueId theta = l.in(0), size = l.in(1);
  auto d = l.rank(theta) == 3 ? l.type(theta).shape[1].constant() : std::nullopt;
  if (!d || (*d != 2 && *d != 3)) return void(l.refuse("theta that is not [N, 2, 3] or [N, 3, 4]"));
  bool corners = l.i("align_corners", 0) != 0;
  ValueId spatial = l.slice(size, 0, 2, INT64_MAX);
  std::vector<ValueId> columns;
  for (int64_t axis = *d - 1; axis >= 0; --axis) {  // x is the last spatial axis
    std::vector<int64_t> others;
    for (int64_t i = 0; i < *d; ++i)
      if (i != axis) others.push_back(i);
    ValueId along = l.unsqueeze(grid_places(l, size, 2 + axis, corners), others);
    columns.push_back(l.reshape(l.add(kExpand, NoAttrs{}, {along, spatial}), {-1, 1}));
  }
  ValueId ones = l.add(kExpand, NoAttrs{}, {l.scalar_of(DType::kF32, 1), l.shape_of(columns[0])});
  columns.push_back(ones);
  ValueId base = l.cast(l.concat(columns, 1), l.dtype(theta));
  ValueId y = l.binary(kMatMul, base, l.transpose(theta, {0, 2, 1}));
  l.set(0, l.binary(kReshape, y, l.concat({l.slice(size, 0, 0, 1), spatial, l.i64({*d})}, 0)));
}

}  // namespace

void register_signal(LowerTable& t) {
  t.insert({{"DFT", dft}, {"STFT", stft}, {"HannWindow", hann}, {"HammingWindow", hamming}, {"BlackmanWindow", blackman}, {"AffineGrid", affine_grid}});
}

}  // namespace brisk::onnx_import
