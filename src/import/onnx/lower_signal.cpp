// Fourier transforms as products with tables of cosines and sines, and window functions.
#include "import/onnx/lower.h"

namespace brisk::onnx_import {
namespace {

using enum OpId;

constexpr double kTau = 6.283185307179586;

ValueId places(Lower& l, ValueId count) { return l.add(kRange, NoAttrs{}, {l.i64_scalar(0), count, l.i64_scalar(1)}); }
ValueId dim_scalar(Lower& l, ValueId x, int64_t axis) { return l.squeeze(l.shape_of(x, axis, axis + 1), {0}); }

struct Tables {
  ValueId cosine, sine;  // [n, bins] of 2 pi k m / period
};
// `n`, `bins` and `period` (n, unless given) are scalars, i64. The product k m is reduced while it is an integer.
Tables tables(Lower& l, ValueId n, ValueId bins, DType t, ValueId period = kNoValue) {
  if (period == kNoValue) period = n;
  ModeAttrs plain;
  ValueId km = l.binary(kMul, l.unsqueeze(places(l, n), {1}), l.unsqueeze(places(l, bins), {0}));
  ValueId turn = l.binary(kDiv, l.cast(l.add(kMod, plain, {km, period}), DType::kF64), l.cast(period, DType::kF64));
  ValueId angle = l.binary(kMul, turn, l.scalar_of(DType::kF64, kTau));
  return {l.cast(l.unary(kCos, angle), t), l.cast(l.unary(kSin, angle), t)};
}

struct Parts {  // of complex numbers on the last axis; imaginary: none if that axis is 1
  ValueId real = kNoValue, imaginary = kNoValue;
};
Parts split(Lower& l, ValueId x) {
  auto r = l.rank(x);
  if (!r || *r < 2) return l.refuse("a signal of unknown rank"), Parts{};
  auto parts = l.type(x).shape.back().constant();
  if (!parts || (*parts != 1 && *parts != 2)) return l.refuse("a last axis that is not 1 or 2"), Parts{};
  auto part = [&](int64_t i) { return l.squeeze(l.slice(x, *r - 1, i, i + 1), {*r - 1}); };
  return {part(0), *parts == 2 ? part(1) : kNoValue};
}

// x: [..., n, 1 or 2] -> [..., bins, 2], transformed along the axis before the last.
ValueId transform(Lower& l, ValueId x, bool inverse, bool onesided) {
  Parts in = split(l, x);
  if (l.failed()) return kNoValue;
  const int64_t last = *l.rank(x) - 1;
  DType t = l.dtype(x);
  ValueId n = dim_scalar(l, x, last - 1), bins = n;
  if (onesided) bins = l.binary(kAdd, l.binary(kDiv, n, l.i64_scalar(2)), l.i64_scalar(1));
  Tables e = tables(l, n, bins, t);
  ValueId re = l.binary(kMatMul, in.real, e.cosine), im = l.binary(kMatMul, in.real, e.sine);
  if (!inverse) im = l.unary(kNeg, im);
  if (in.imaginary != kNoValue) {
    ValueId ic = l.binary(kMatMul, in.imaginary, e.cosine), is = l.binary(kMatMul, in.imaginary, e.sine);
    re = l.binary(inverse ? kSub : kAdd, re, is);
    im = l.binary(kAdd, im, ic);
  }
  ValueId y = l.concat({l.unsqueeze(re, {last}), l.unsqueeze(im, {last})}, last);
  return inverse ? l.binary(kDiv, y, l.cast(n, t)) : y;
}

// x: one side of a spectrum, [..., n / 2 + 1, 1 or 2], of a real signal of length n -> [..., n, 1]. The bins that the other
// side mirrors (all but the first and, of an even n, the last) count twice.
ValueId real_inverse(Lower& l, ValueId x, ValueId n) {
  Parts in = split(l, x);
  if (l.failed()) return kNoValue;
  const int64_t last = *l.rank(x) - 1;
  DType t = l.dtype(x);
  ValueId bins = dim_scalar(l, x, last - 1), k = places(l, bins);
  Tables e = tables(l, bins, n, t, n);
  ValueId alone = l.binary(kOr, l.binary(kEqual, k, l.i64_scalar(0)), l.binary(kEqual, l.binary(kMul, k, l.i64_scalar(2)), n));
  ValueId weight = l.binary(kDiv, l.add(kWhere, NoAttrs{}, {alone, l.scalar_of(t, 1), l.scalar_of(t, 2)}), l.cast(n, t));
  ValueId y = l.binary(kMatMul, l.binary(kMul, in.real, weight), e.cosine);
  if (in.imaginary != kNoValue) y = l.binary(kSub, y, l.binary(kMatMul, l.binary(kMul, in.imaginary, weight), e.sine));
  return l.unsqueeze(y, {last});
}

ValueId as_scalar(Lower& l, ValueId v) {
  v = l.cast(v, DType::kI64);
  return l.rank(v) == 0 ? v : l.reshape(v, {});
}

// The axis before the last cut or filled up with zeros to a length (a scalar).
ValueId with_length(Lower& l, ValueId x, ValueId length) {
  const int64_t axis = *l.rank(x) - 2;
  ValueId end = l.unsqueeze(length, {0}), at = l.i64({axis});
  x = l.add(kSlice, NoAttrs{}, {x, l.i64({0}), end, at});
  ModeAttrs constant;
  constant.mode = "constant";
  ValueId missing = l.binary(kSub, end, l.shape_of(x, axis, axis + 1));
  return l.add(kPad, constant, {x, l.concat({l.i64({0}), missing}, 0), l.scalar_of(l.dtype(x), 0), at});
}

// The whole of DFT along the axis before the last.
ValueId dft_of(Lower& l, ValueId x) {
  auto r = l.rank(x);
  if (!r || *r < 2) return l.refuse("a signal of unknown rank");
  bool inverse = l.i("inverse", 0) != 0, onesided = l.i("onesided", 0) != 0;
  ValueId length = l.has(1) ? as_scalar(l, l.in(1)) : kNoValue;
  if (auto n = l.numbers(l.in(1)); n && n->size() == 1 && (*n)[0] < 1) return l.bad("a length of " + std::to_string((*n)[0]));
  if (inverse && onesided) {
    auto half = [&](ValueId n) { return l.binary(kAdd, l.binary(kDiv, n, l.i64_scalar(2)), l.i64_scalar(1)); };
    if (length == kNoValue) length = l.binary(kMul, l.binary(kSub, dim_scalar(l, x, *r - 2), l.i64_scalar(1)), l.i64_scalar(2));
    else x = with_length(l, x, half(length));
    return real_inverse(l, x, length);
  }
  if (length != kNoValue) x = with_length(l, x, length);
  return transform(l, x, inverse, onesided);
}

// An axis known at run time: x is seen as [before, n, behind, parts].
void dft_somewhere(Lower& l, ValueId x, int64_t rank) {
  ValueId axis = as_scalar(l, l.in(2)), shape = l.shape_of(x);
  std::vector<int64_t> all;
  for (int64_t i = 0; i + 1 < rank; ++i) all.push_back(i);
  ValueId axes = l.i64(all);
  axis = l.add(kWhere, NoAttrs{}, {l.binary(kLess, axis, l.i64_scalar(0)), l.binary(kAdd, axis, l.i64_scalar(rank)), axis});
  ValueId signal = l.slice(shape, 0, 0, rank - 1), one = l.i64_scalar(1);
  auto product_where = [&](OpId compare) {
    ValueId which = l.binary(compare, axes, axis);
    return l.reduce(kReduceProd, l.add(kWhere, NoAttrs{}, {which, signal, one}), {0});
  };
  auto parts = l.type(x).shape.back().constant();
  if (!parts) return void(l.refuse("a last axis that is not 1 or 2"));
  ValueId split_up = l.concat({product_where(kLess), product_where(kEqual), product_where(kGreater), l.i64({*parts})}, 0);
  ValueId seen = l.transpose(l.binary(kReshape, x, split_up), {0, 2, 1, 3});
  ValueId y = dft_of(l, l.reshape(seen, {0, 0, 0, *parts}));  // said once more, for the rule of shapes
  y = l.transpose(y, {0, 2, 1, 3});
  ValueId bins = dim_scalar(l, y, 1), last = l.shape_of(y, 3, 4);
  ValueId result = l.add(kWhere, NoAttrs{}, {l.binary(kEqual, axes, axis), bins, signal});
  l.set(0, l.binary(kReshape, y, l.concat({result, last}, 0)));
}

void dft(Lower& l) {
  auto r = l.rank(l.in(0));
  if (!r) return void(l.refuse("x of unknown rank"));
  int64_t axis = l.opset < 20 ? l.i("axis", 1) : -2;
  if (l.opset >= 20 && l.has(2)) {
    auto given = l.numbers(l.in(2));
    if (!given) return dft_somewhere(l, l.in(0), *r);
    if (given->size() != 1) return void(l.bad("the axis is not one number"));
    axis = (*given)[0];
  }
  if (axis < 0) axis += *r;
  if (axis < 0 || axis >= *r - 1) return void(l.bad("axis outside the signal"));
  std::vector<int64_t> perm;
  for (int64_t i = 0; i < *r; ++i) perm.push_back(i);
  std::swap(perm[static_cast<size_t>(axis)], perm[static_cast<size_t>(*r - 2)]);
  l.set(0, l.transpose(dft_of(l, l.transpose(l.in(0), perm)), perm));
}

// Frames of the signal, windowed, each transformed: [B, frames, bins, 2].
void stft(Lower& l) {
  ValueId signal = l.in(0), step = l.cast(l.in(1), DType::kI64);
  if (l.rank(signal) == 2) signal = l.unsqueeze(signal, {2});
  ValueId length = l.has(3) ? l.cast(l.in(3), DType::kI64) : l.has(2) ? dim_scalar(l, l.in(2), 0) : l.bad("neither window nor frame_length");
  step = as_scalar(l, step);
  length = as_scalar(l, length);
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

// Triangles over the bins of a spectrum, even on the mel scale: [bins, triangles]. Column i rises from edge i to edge i + 1
// and falls to edge i + 2; mel(f) = 2595 log10(1 + f / 700).
void mel_weight_matrix(Lower& l) {
  auto t = dtype_of_onnx(static_cast<int32_t>(l.i("output_datatype", 1)));
  if (!t) return void(l.refuse("output_datatype " + onnx_dtype_name(static_cast<int32_t>(l.i("output_datatype", 1)))));
  auto real = [&](ValueId v) { return l.cast(v, DType::kF64); };
  auto number = [&](double v) { return l.scalar_of(DType::kF64, v); };
  auto scaled = [&](ValueId v, double by) { return l.binary(kMul, v, number(by)); };
  constexpr double kPerMel = 2.302585092994046 / 2595;  // ln 10 / 2595
  ValueId count = as_scalar(l, l.in(0)), length = as_scalar(l, l.in(1)), rate = as_scalar(l, l.in(2)), one = l.i64_scalar(1);
  auto mel = [&](ValueId hertz) { return scaled(l.unary(kLog, l.binary(kAdd, scaled(l.reshape(real(hertz), {}), 1.0 / 700), number(1))), 1 / kPerMel); };
  ValueId low = mel(l.in(3)), high = mel(l.in(4)), points = l.binary(kAdd, count, l.i64_scalar(2));
  ValueId step = l.binary(kDiv, l.binary(kSub, high, low), real(points));
  ValueId mels = l.binary(kAdd, l.binary(kMul, real(places(l, points)), step), low);
  ValueId hertz = scaled(l.binary(kSub, l.unary(kExp, scaled(mels, kPerMel)), number(1)), 700);
  ValueId edges = l.unary(kFloor, l.binary(kDiv, l.binary(kMul, real(l.binary(kAdd, length, one)), hertz), real(rate)));
  auto edge = [&](int64_t from) {  // [1, triangles]
    ValueId first = l.i64({from}), end = l.binary(kAdd, l.unsqueeze(count, {0}), first);
    return l.unsqueeze(l.add(kSlice, NoAttrs{}, {edges, first, end, l.i64({0})}), {0});
  };
  ValueId left = edge(0), centre = edge(1), right = edge(2);
  ValueId bins = l.binary(kAdd, l.binary(kDiv, length, l.i64_scalar(2)), one), j = l.unsqueeze(real(places(l, bins)), {1});
  auto within = [&](OpId above, ValueId from, OpId below, ValueId to) { return l.binary(kAnd, l.binary(above, j, from), l.binary(below, j, to)); };
  auto ratio = [&](ValueId a, ValueId b) { return l.binary(kDiv, a, l.binary(kMax, b, number(1))); };  // edges are whole numbers
  ValueId rise = ratio(l.binary(kSub, j, left), l.binary(kSub, centre, left)), fall = ratio(l.binary(kSub, right, j), l.binary(kSub, right, centre));
  ValueId none = number(0);
  ValueId y = l.add(kWhere, NoAttrs{}, {within(kGreaterOrEqual, left, kLess, centre), rise, none});
  y = l.add(kWhere, NoAttrs{}, {within(kGreater, centre, kLess, right), fall, y});
  l.set(0, l.cast(l.add(kWhere, NoAttrs{}, {l.binary(kEqual, j, centre), number(1), y}), *t));
}

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
  t.insert({{"DFT", dft}, {"STFT", stft}, {"HannWindow", hann}, {"HammingWindow", hamming}, {"BlackmanWindow", blackman}, {"AffineGrid", affine_grid}, {"MelWeightMatrix", mel_weight_matrix}});
}

}  // namespace brisk::onnx_import
