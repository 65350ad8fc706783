// Products, convolution, pooling, normalisation, recurrence, resizing.
#include <algorithm>

#include "import/onnx/lower.h"

namespace brisk::onnx_import {
namespace {

using enum OpId;

void matmul(Lower& l) { lower_direct(l, kMatMul); }

void gemm(Lower& l) {
  GemmAttrs a;
  a.alpha = l.f("alpha", 1);
  a.beta = l.f("beta", 1);
  a.trans_a = l.i("transA", 0) != 0;
  a.trans_b = l.i("transB", 0) != 0;
  l.set(0, l.add(kGemm, a, l.inputs()));
}

// com.microsoft: MatMul of transposed operands, scaled.
void fused_matmul(Lower& l) {
  if (l.i("transBatchA", 0) || l.i("transBatchB", 0)) return void(l.refuse("transBatchA and transBatchB"));
  auto swapped = [&](ValueId v) {
    auto r = l.rank(v);
    if (!r) return l.refuse("an operand of unknown rank");
    if (*r < 2) return v;
    std::vector<int64_t> perm(static_cast<size_t>(*r));
    for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return l.transpose(v, perm);
  };
  ValueId a = l.i("transA", 0) ? swapped(l.in(0)) : l.in(0), b = l.i("transB", 0) ? swapped(l.in(1)) : l.in(1);
  ValueId y = l.binary(kMatMul, a, b);
  float alpha = l.f("alpha", 1);
  l.set(0, alpha == 1 ? y : l.binary(kMul, y, l.scalar_of(l.dtype(y), static_cast<double>(alpha))));
}

// Letters for every axis; "..." becomes '.', and a result that is not written out is: letters that occur once, sorted.
void einsum(Lower& l) {
  std::string given = l.s("equation", ""), text;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] == ' ') continue;
    if (given.compare(i, 3, "...") == 0) { text += '.', i += 2; continue; }
    bool letter = (given[i] >= 'a' && given[i] <= 'z') || (given[i] >= 'A' && given[i] <= 'Z');
    if (!letter && given[i] != ',' && given[i] != '-' && given[i] != '>') return void(l.bad("equation '" + given + "'"));
    text += given[i];
  }
  if (text.find("->") == std::string::npos) {
    std::map<char, int> seen;
    for (char c : text)
      if (c != ',') ++seen[c];
    text += "->";
    if (seen.count('.')) text += '.';
    for (auto [c, n] : seen)
      if (c != '.' && n == 1) text += c;
  }
  if (std::count(text.begin(), text.end(), ',') + 1 != static_cast<std::ptrdiff_t>(l.count())) return void(l.bad("equation '" + given + "' does not have a term for each operand"));
  ModeAttrs a;
  a.mode = text;
  l.set(0, l.add(kEinsum, a, l.inputs()));
}

template <OpId op> void convolution(Lower& l) { l.set(0, l.add(op, window_attrs(l), l.inputs())); }

template <OpId op> void pool(Lower& l) {
  WindowAttrs a = window_attrs(l);
  if (a.kernel.empty()) return void(l.bad("kernel_shape is missing"));
  auto out = l.add_n(op, a, {l.in(0)}, op == kMaxPool && l.wants(1) ? 2 : 1);
  for (size_t i = 0; i < out.size(); ++i) l.set(i, out[i]);
}

void batch_norm(Lower& l) {
  NormAttrs a;
  a.epsilon = l.f("epsilon", 1e-5f);
  if (l.opset < 7 && l.i("is_test", 0) == 0 && l.wants(1)) return void(l.refuse("training mode"));
  if (l.i("training_mode", 0) == 0) {
    std::vector<ValueId> in(l.inputs().begin(), l.inputs().begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(5, l.count())));
    return l.set(0, l.add(kBatchNorm, a, in));
  }
  // Statistics of this batch, and the running ones moved toward them.
  auto r = l.rank(l.in(0));
  if (!r || *r < 2) return void(l.refuse("training mode with x of unknown rank"));
  std::vector<int64_t> axes = {0};
  for (int i = 2; i < *r; ++i) axes.push_back(i);
  ValueId x = l.in(0), mean = l.reduce(kReduceMean, x, axes), centered = l.binary(kSub, x, mean);
  ValueId variance = l.reduce(kReduceMean, l.binary(kMul, centered, centered), axes, false);
  mean = l.reduce(kReduceMean, x, axes, false);
  l.set(0, l.add(kBatchNorm, a, {x, l.in(1), l.in(2), mean, variance}));
  auto moved = [&](ValueId running, ValueId now) {
    auto momentum = static_cast<double>(l.f("momentum", 0.9f));
    DType t = l.dtype(running);
    return l.binary(kAdd, l.binary(kMul, running, l.scalar_of(t, momentum)), l.binary(kMul, l.cast(now, t), l.scalar_of(t, 1 - momentum)));
  };
  if (l.wants(1)) l.set(1, moved(l.in(3), mean));
  if (l.wants(2)) l.set(2, moved(l.in(4), variance));
}

void instance_norm(Lower& l) {
  NormAttrs a;
  a.epsilon = l.f("epsilon", 1e-5f);
  l.set(0, l.add(kInstanceNorm, a, l.inputs()));
}

// Channels in groups, each group normalised as one channel; scale and bias per channel (from opset 21) or per group.
void group_norm(Lower& l) {
  ValueId x = l.in(0);
  int64_t groups = l.i("num_groups", 0);
  auto r = l.rank(x);
  if (groups < 1 || !r || *r < 2) return void(l.refuse("num_groups " + std::to_string(groups) + ", or x of unknown rank"));
  DType t = l.dtype(x);
  NormAttrs a;
  a.epsilon = l.f("epsilon", 1e-5f);
  auto filled = [&](double v) { return l.add(kExpand, NoAttrs{}, {l.scalar_of(t, v), l.i64({groups})}); };
  ValueId grouped = l.binary(kReshape, x, l.concat({l.shape_of(x, 0, 1), l.i64({groups, -1})}, 0));
  ValueId y = l.binary(kReshape, l.add(kInstanceNorm, a, {grouped, filled(1), filled(0)}), l.shape_of(x));
  auto per_channel = [&](ValueId v) {
    if (l.opset < 21) {  // one number a group, for each of its channels
      ValueId per = l.binary(kDiv, l.shape_of(x, 1, 2), l.i64({groups}));
      v = l.reshape(l.add(kExpand, NoAttrs{}, {l.unsqueeze(v, {1}), l.concat({l.i64({groups}), per}, 0)}), {-1});
    }
    std::vector<int64_t> axes;
    for (int i = 1; i < *r - 1; ++i) axes.push_back(i);
    return axes.empty() ? v : l.unsqueeze(v, axes);
  };
  l.set(0, l.binary(kAdd, l.binary(kMul, y, per_channel(l.in(1))), per_channel(l.in(2))));
}

void lrn(Lower& l) {
  LrnAttrs a;
  a.alpha = l.f("alpha", 1e-4f);
  a.beta = l.f("beta", 0.75f);
  a.bias = l.f("bias", 1);
  a.size = l.i("size", 1);
  l.set(0, l.add(kLrn, a, {l.in(0)}));
}

void layer_norm(Lower& l) {
  NormAttrs a;
  a.epsilon = l.f("epsilon", 1e-5f);
  a.axis = l.i("axis", -1);
  size_t outputs = l.wants(2) ? 3 : l.wants(1) ? 2 : 1;
  auto out = l.add_n(kLayerNorm, a, l.inputs(), outputs);
  for (size_t i = 0; i < outputs; ++i) l.set(i, out[i]);
}

template <OpId op> void recurrent(Lower& l, std::vector<std::string> defaults, size_t outputs) {
  RecurrentAttrs a;
  a.direction = l.s("direction", "forward");
  a.hidden = l.i("hidden_size", 0);
  if (a.hidden == 0 && l.rank(l.in(2)) == 3) a.hidden = l.type(l.in(2)).shape[2].constant_or(0);
  a.activations = l.strings("activations");
  a.activation_alpha = l.floats("activation_alpha");
  a.activation_beta = l.floats("activation_beta");
  a.clip = l.f("clip", 0);
  a.linear_before_reset = l.i("linear_before_reset", 0) != 0;
  a.input_forget = l.i("input_forget", 0) != 0;
  a.batch_first = l.i("layout", 0) != 0;
  if (a.activations.empty()) {
    a.activations = defaults;
    if (a.direction == "bidirectional") a.activations.insert(a.activations.end(), defaults.begin(), defaults.end());
  }
  auto out = l.add_n(op, a, l.inputs(), outputs);
  for (size_t i = 0; i < outputs; ++i) l.set(i, out[i]);
}
void lstm(Lower& l) { recurrent<kLstm>(l, {"Sigmoid", "Tanh", "Tanh"}, 3); }
void gru(Lower& l) { recurrent<kGru>(l, {"Sigmoid", "Tanh"}, 2); }
void rnn(Lower& l) { recurrent<kRnn>(l, {"Tanh"}, 2); }

// An operand that is there but has no elements counts as absent.
ValueId unless_empty(Lower& l, size_t i) {
  ValueId v = l.in(i);
  return v != kNoValue && l.rank(v) == 1 && l.type(v).shape[0] == Dim(0) ? kNoValue : v;
}

// Opset 10 takes the neighbour on the left where an axis grows, the one on the right where it shrinks.
void resize_of_opset_10(Lower& l, ResizeAttrs a) {
  const Constant* c = a.mode == "nearest" ? l.constant(l.in(1)) : nullptr;
  if (a.mode == "nearest" && (!c || c->dtype != DType::kF32)) return void(l.refuse("scales that are known only at run time"));
  if (!c) return l.set(0, l.add(kResize, a, {l.in(0), kNoValue, l.in(1)}));
  std::vector<float> grow(c->as<float>(), c->as<float>() + c->count()), shrink = grow;
  for (float& v : grow) v = v < 1 ? 1 : v;
  for (float& v : shrink) v = v < 1 ? v : 1;
  auto scales = [&](const std::vector<float>& v) { return l.constant_value(make_constant<float>(DType::kF32, {c->count()}, v)); };
  auto changes = [](const std::vector<float>& v) { return std::any_of(v.begin(), v.end(), [](float s) { return s != 1; }); };
  ValueId x = l.in(0);
  if (changes(grow) || !changes(shrink)) x = l.add(kResize, a, {x, kNoValue, scales(grow)});
  a.nearest = "ceil";
  if (changes(shrink)) x = l.add(kResize, a, {x, kNoValue, scales(shrink)});
  l.set(0, x);
}

void resize(Lower& l) {
  ResizeAttrs a;
  a.mode = l.s("mode", "nearest");
  a.coordinates = l.opset < 11 ? "asymmetric" : l.s("coordinate_transformation_mode", "half_pixel");
  a.nearest = l.opset < 11 ? "floor" : l.s("nearest_mode", "round_prefer_floor");
  a.aspect = l.s("keep_aspect_ratio_policy", "stretch");
  a.cubic_a = l.f("cubic_coeff_a", -0.75f);
  a.extrapolation = l.f("extrapolation_value", 0);
  a.exclude_outside = l.i("exclude_outside", 0) != 0;
  a.antialias = l.i("antialias", 0) != 0;
  a.axes = l.ints("axes");
  if (l.opset < 11) return resize_of_opset_10(l, a);
  l.set(0, l.add(kResize, a, {l.in(0), unless_empty(l, 1), unless_empty(l, 2), unless_empty(l, 3)}));
}

void upsample(Lower& l) {
  ResizeAttrs a;
  a.mode = l.s("mode", "nearest");
  if (a.mode == "bilinear") a.mode = "linear";
  a.coordinates = "asymmetric";
  a.nearest = "floor";
  ValueId scales = l.in(1);
  if (l.opset < 9) {
    auto given = l.opset < 7 ? std::vector<float>{1, 1, l.f("height_scale", 1), l.f("width_scale", 1)} : l.floats("scales");
    scales = l.constant_value(make_constant<float>(DType::kF32, {static_cast<int64_t>(given.size())}, given));
  }
  l.set(0, l.add(kResize, a, {l.in(0), kNoValue, scales}));
}

}  // namespace

void register_layers(LowerTable& t) {
  t.insert({{"MatMul", matmul}, {"Gemm", gemm}, {"com.microsoft::FusedMatMul", fused_matmul}, {"Einsum", einsum},
            {"Conv", convolution<kConv>}, {"ConvTranspose", convolution<kConvTranspose>}, {"ConvInteger", convolution<kConvInteger>},
            {"MaxPool", pool<kMaxPool>}, {"AveragePool", pool<kAveragePool>}, {"LpPool", pool<kLpPool>},
            {"BatchNormalization", batch_norm}, {"InstanceNormalization", instance_norm}, {"GroupNormalization", group_norm},
            {"LRN", lrn}, {"LayerNormalization", layer_norm}, {"LSTM", lstm}, {"GRU", gru}, {"RNN", rnn}, {"Resize", resize},
            {"Upsample", upsample}});
}

}  // namespace brisk::onnx_import
