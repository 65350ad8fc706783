// com.microsoft operators of quantised and generative models, and newer stateful operators of ai.onnx.
#include <cmath>

#include "import/onnx/importer.h"

namespace brisk::onnx_import {
namespace {

using enum OpId;

// Weights of MatMulNBits and GatherBlockQuantized: 4-bit codes two to a byte, rows of K in blocks, scales [rows, blocks].
ConstantPtr blocks_of(Lower& l, ValueId codes, ValueId scales, ValueId zeros, int64_t rows, int64_t k, int64_t bits, int64_t block) {
  const Constant *c = l.constant(codes), *s = l.constant(scales), *z = zeros == kNoValue ? nullptr : l.constant(zeros);
  if (!c || !s || (zeros != kNoValue && !z)) return l.refuse("weights, scales and zero points that are not constants"), nullptr;
  if ((bits != 4 && bits != 8) || block < 1 || rows < 1 || k < 1 || k % 2) return l.refuse("bits " + std::to_string(bits) + ", block_size " + std::to_string(block)), nullptr;
  int64_t blocks = (k + block - 1) / block, padded = blocks * block, per_row = padded * bits / 8;
  if (c->stored_bytes() != rows * per_row || s->count() != rows * blocks) return l.bad("weights or scales do not fit " + std::to_string(rows) + " rows of " + std::to_string(k)), nullptr;
  auto w = std::make_shared<Constant>();
  w->dtype = DType::kF32;
  w->shape = Dims{rows, k};
  Encoding& e = w->encoding;
  e.bits = static_cast<uint8_t>(bits);
  e.code_dtype = bits == 4 ? DType::kU4 : DType::kU8;
  e.scale_dtype = s->dtype;
  e.offset = Encoding::Offset::kZeroPoint;
  e.group = static_cast<int32_t>(block);
  // Rows without the padding of the last block.
  std::vector<std::byte> data(static_cast<size_t>(rows * k * bits / 8));
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(data.data() + r * k * bits / 8, c->data.bytes.data() + r * per_row, static_cast<size_t>(k * bits / 8));
  std::vector<std::byte> offsets(static_cast<size_t>(rows * blocks), std::byte{static_cast<unsigned char>(bits == 4 ? 8 : 128)});
  if (z) {  // one for each block, packed like the codes and padded to whole bytes a row
    if (is_float(z->dtype)) return l.refuse("zero points in floating point"), nullptr;
    int64_t zero_row = (blocks * bits + 7) / 8;
    if (z->stored_bytes() != rows * zero_row) return l.bad("zero points do not fit"), nullptr;
    auto* p = reinterpret_cast<const uint8_t*>(z->data.bytes.data());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t b = 0; b < blocks; ++b) {
        uint8_t v = bits == 4 ? static_cast<uint8_t>(p[r * zero_row + b / 2] >> (b % 2 * 4) & 15) : p[r * zero_row + b];
        offsets[static_cast<size_t>(r * blocks + b)] = std::byte{v};
      }
  }
  w->data = Buffer::of(std::move(data));
  w->scales = s->data;
  w->offsets = Buffer::of(std::move(offsets));
  return w;
}

// Codes of 2, 4 or 8 bits, low bits first, in rows of `per_row` bytes.
struct Codes {
  const uint8_t* bytes;
  int64_t per_row, bits;
  int64_t at(int64_t row, int64_t i) const {
    int64_t per = 8 / bits;
    return bytes[row * per_row + i / per] >> (i % per * bits) & ((1 << bits) - 1);
  }
};

// The same weights as plain numbers [rows, k], for what Encoding cannot say: groups by an index, zero points in floating point,
// other widths. `group_of`: the block of each of the k places; empty: place / block.
ConstantPtr plain_weights(Lower& l, ValueId codes, ValueId scales, ValueId zeros, int64_t rows, int64_t k, int64_t bits, int64_t block,
                          const std::vector<int64_t>& group_of) {
  const Constant *c = l.constant(codes), *s = l.constant(scales), *z = zeros == kNoValue ? nullptr : l.constant(zeros);
  if (!c || !s || (zeros != kNoValue && !z)) return l.refuse("weights, scales and zero points that are not constants"), nullptr;
  if ((bits != 2 && bits != 4 && bits != 8) || block < 8 || block % 8 || block > 1 << 20 || rows < 1 || k < 1 || rows > INT32_MAX || k > INT32_MAX)
    return l.refuse("bits " + std::to_string(bits) + ", block_size " + std::to_string(block)), nullptr;
  const int64_t blocks = (k + block - 1) / block, zero_row = (blocks * bits + 7) / 8;
  const Codes code{reinterpret_cast<const uint8_t*>(c->data.bytes.data()), blocks * block * bits / 8, bits};
  if (c->stored_bytes() != rows * code.per_row || s->count() != rows * blocks) return l.bad("weights or scales do not fit " + std::to_string(rows) + " rows of " + std::to_string(k)), nullptr;
  const bool real_zeros = z && is_float(z->dtype);
  if (z && (real_zeros ? z->count() != rows * blocks : z->stored_bytes() != rows * zero_row)) return l.bad("zero points do not fit"), nullptr;
  const Codes zero{z ? reinterpret_cast<const uint8_t*>(z->data.bytes.data()) : nullptr, zero_row, bits};
  std::vector<float> w(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i) {
      const int64_t g = group_of.empty() ? i / block : group_of[static_cast<size_t>(i)], at = r * blocks + g;
      if (g < 0 || g >= blocks) return l.bad("g_idx holds " + std::to_string(g) + ", allowed 0 to " + std::to_string(blocks - 1)), nullptr;
      float offset = static_cast<float>(1 << (bits - 1));
      if (real_zeros) offset = load_float(z->data.bytes.data(), z->dtype, at);
      else if (z) offset = static_cast<float>(zero.at(r, g));
      w[static_cast<size_t>(r * k + i)] = (static_cast<float>(code.at(r, i)) - offset) * load_float(s->data.bytes.data(), s->dtype, at);
    }
  return make_constant<float>(DType::kF32, {rows, k}, w);
}

// (x [..., K], weight, scales, zero points?, group index?, bias?).
void matmul_nbits(Lower& l) {
  const int64_t n = l.i("N", 0), k = l.i("K", 0), bits = l.i("bits", 4), block = l.i("block_size", 0);
  std::vector<int64_t> groups;
  if (l.has(4)) {
    auto given = l.numbers(l.in(4));
    if (!given) return void(l.refuse("a group index (g_idx) that is not a constant"));
    if (static_cast<int64_t>(given->size()) != k) return void(l.bad("g_idx has " + std::to_string(given->size()) + " numbers, wanted " + std::to_string(k)));
    for (int64_t i = 0; block > 0 && i < k; ++i)
      if ((*given)[static_cast<size_t>(i)] != i / block) groups = *given;
  }
  const Constant* zeros = l.constant(l.in(3));
  bool plain = !groups.empty() || (zeros && is_float(zeros->dtype)) || bits == 2 || k % 2 != 0;
  ConstantPtr w = plain ? plain_weights(l, l.in(1), l.in(2), l.in(3), n, k, bits, block, groups) : blocks_of(l, l.in(1), l.in(2), l.in(3), n, k, bits, block);
  if (!w) return;
  DType t = l.dtype(l.in(0));
  std::vector<ValueId> in = {l.cast(l.in(0), DType::kF32), l.constant_value(w)};
  if (l.has(5)) in.push_back(l.cast(l.in(5), DType::kF32));
  l.set(0, l.cast(l.add(kLinear, LinearAttrs{}, in), t));
}

// (data [V, K / 2], indices, scales, zero points?): rows picked and dequantised.
void gather_block_quantized(Lower& l) {
  ValueId data = l.through_view(l.in(0));
  const Constant* c = l.constant(data);
  int64_t bits = l.i("bits", 4), block = l.i("block_size", 128);
  if (!c || c->shape.rank != 2 || l.i("gather_axis", 0) != 0) return void(l.refuse("data that is not a constant of rank 2, gathered along axis 0"));
  if (int64_t axis = l.i("quantize_axis", 1); axis != 1 && axis != -1) return void(l.refuse("quantize_axis " + std::to_string(axis)));
  if (dtype_bits(c->dtype) != 8 || bits < 1 || bits > 8) {
    // Elements of 4 bits: codes minus zero points, which are of the data's type and 0 unless given.
    QuantAttrs a;
    a.axis = 1;
    a.block = block;
    a.to = l.dtype(l.in(2));
    if (block < 1) return void(l.bad("block_size " + std::to_string(block)));
    ValueId table = l.add(kDequantizeLinear, a, {data, l.in(2), l.in(3)});
    return l.set(0, l.gather(table, l.cast(l.in(1), DType::kI64), 0));
  }
  ConstantPtr w = blocks_of(l, data, l.in(2), l.in(3), c->shape[0], c->shape[1] * 8 / bits, bits, block);
  if (!w) return;
  l.set(0, l.cast(l.add(kEmbedding, NoAttrs{}, {l.constant_value(w), l.cast(l.in(1), DType::kI32)}), l.dtype(l.in(2))));
}

// An activation by its ONNX name, with the numbers that the fused operators carry.
ValueId activated(Lower& l, ValueId x, const std::string& name, float alpha, float beta) {
  AlphaBetaAttrs a;
  a.alpha = alpha;
  a.beta = beta;
  if (name.empty()) return x;
  if (name == "Relu") return l.unary(kRelu, x);
  if (name == "Tanh") return l.unary(kTanh, x);
  if (name == "Sigmoid") return l.unary(kSigmoid, x);
  if (name == "LeakyRelu") return l.add(kLeakyRelu, a, {x});
  if (name == "HardSigmoid") return l.add(kHardSigmoid, a, {x});
  if (name == "Clip") return l.binary(kMin, l.binary(kMax, x, l.scalar_of(l.dtype(x), static_cast<double>(alpha))), l.scalar_of(l.dtype(x), static_cast<double>(beta)));
  return l.refuse("activation '" + name + "'");
}

// (x, weight, bias?, added before the activation?).
void fused_conv(Lower& l) {
  ValueId y = l.add(kConv, window_attrs(l), {l.in(0), l.in(1), l.in(2)});
  if (l.has(3)) y = l.binary(kAdd, y, l.in(3));
  std::vector<float> p = l.floats("activation_params");
  p.resize(2, 0.0f);
  l.set(0, activated(l, y, l.s("activation", ""), p[0], p[1]));
}
void fused_gemm(Lower& l) {
  GemmAttrs a;
  a.alpha = l.f("alpha", 1);
  a.beta = l.f("beta", 1);
  a.trans_a = l.i("transA", 0) != 0;
  a.trans_b = l.i("transB", 0) != 0;
  ValueId y = l.add(kGemm, a, l.inputs());
  std::string name = l.s("activation", "");
  l.set(0, activated(l, y, name, l.f("activation_alpha", name == "LeakyRelu" ? 0.01f : 0.2f), l.f("activation_beta", 0.5f)));
}

// The operator of ai.onnx that another domain's has become; `opset` is the version whose form it has.
void as_standard(Lower& l, const std::string& op, int64_t opset) {
  LowerFn f = find_lowering("", op);
  if (!f) return void(l.refuse("no such operator"));
  Lower standard(l.importer, l.scope, l.node, opset, l.inputs(), l.node.name);
  f(standard);
  if (standard.error()) return void(l.fail(*standard.error()));
  for (size_t i = 0; i < standard.results().size(); ++i) l.set(i, standard.results()[i]);
}

// An LSTM whose weights are int8, [D, in, 4h], with a scale per direction or per gate row. Before products x is quantised as a
// whole and the state each step, as onnxruntime does: durations that a model rounds depend on it.
void dynamic_quantize_lstm(Lower& l) {
  auto weight = [&](size_t codes, size_t scale, size_t zero) {
    ValueId w = l.cast(l.in(codes), DType::kF32);
    auto per = [&](ValueId v) {  // [D] -> [D, 1, 1], [D, 4h] -> [D, 1, 4h]
      return l.rank(v) == 2 ? l.unsqueeze(v, {1}) : l.rank(v) == 1 ? l.unsqueeze(v, {1, 2}) : v;
    };
    if (l.has(zero)) w = l.binary(kSub, w, per(l.cast(l.in(zero), DType::kF32)));
    return l.transpose(l.binary(kMul, w, per(l.in(scale))), {0, 2, 1});
  };
  RecurrentAttrs a;
  a.direction = l.s("direction", "forward");
  a.hidden = l.i("hidden_size", 0);
  a.activations = l.strings("activations");
  a.activation_alpha = l.floats("activation_alpha");
  a.activation_beta = l.floats("activation_beta");
  a.clip = l.f("clip", 0);
  a.input_forget = l.i("input_forget", 0) != 0;
  a.round_state = true;
  for (int d = 0; l.strings("activations").empty() && d < (a.direction == "bidirectional" ? 2 : 1); ++d)
    a.activations.insert(a.activations.end(), {"Sigmoid", "Tanh", "Tanh"});
  auto codes = l.add_n(kDynamicQuantizeLinear, NoAttrs{}, {l.in(0)}, 3);
  QuantAttrs back;
  back.to = DType::kF32;
  ValueId x = l.add(kDequantizeLinear, back, {codes[0], codes[1], codes[2]});
  auto out = l.add_n(kLstm, a, {x, weight(1, 8, 9), weight(2, 10, 11), l.in(3), l.in(4), l.in(5), l.in(6), l.in(7)}, 3);
  for (size_t i = 0; i < 3; ++i) l.set(i, out[i]);
}

ValueId dim(Lower& l, ValueId x, int64_t axis) { return l.shape_of(x, axis, axis + 1); }

// Each head normalised by itself; x: [B, S, heads * size].
ValueId head_norm(Lower& l, ValueId x, ValueId weight, int64_t size) {
  NormAttrs a;
  a.epsilon = l.f("qk_norm_epsilon", 1e-6f);
  ValueId y = l.add(kRmsNorm, a, {l.reshape(x, {0, 0, -1, size}), weight});
  return l.binary(kReshape, y, l.shape_of(x));
}

// Operands: 0 q or packed qkv, 1 k, 2 v, 3 past k, 4 past v, 5 last place of each row, 6 total, 7 cos, 8 sin,
// 9 positions, 10 bias, 11 sink, 14 and 15 norms of q and k. The past is [B, kv heads, P, size]; a row's new keys follow what
// it really holds of it (5), so rows may be of different lengths, and P may be a buffer longer than any of them.
void group_query_attention(Lower& l) {
  int64_t heads = l.i("num_heads", 0), kv = l.i("kv_num_heads", 0);
  if (heads < 1 || kv < 1) return void(l.bad("num_heads " + std::to_string(heads) + ", kv_num_heads " + std::to_string(kv)));
  for (size_t i : {11, 12, 13})
    if (l.has(i)) return void(l.refuse("operand " + std::to_string(i)));
  if (l.i("smooth_softmax", 0) > 0) return void(l.refuse("smooth_softmax"));
  if (!l.has(5) || !l.has(6)) return void(l.bad("seqlens_k and total_sequence_length are wanted"));
  ValueId q = l.in(0), k = l.in(1), v = l.in(2);
  ValueId valid = l.binary(kAdd, l.reshape(l.cast(l.in(5), DType::kI64), {-1}), l.i64({1}));
  auto width = l.rank(q) == 3 ? l.type(q).shape[2].constant() : std::nullopt;
  if (!width) return void(l.refuse("q of unknown width"));
  int64_t size = *width / (l.has(1) ? heads : heads + 2 * kv);
  if (!l.has(1)) {
    SliceAttrs parts;
    parts.axis = 2;
    parts.sizes = {heads * size, kv * size, kv * size};
    auto out = l.add_n(kSplit, parts, {q}, 3);
    q = out[0], k = out[1], v = out[2];
  }
  if (l.has(14)) q = head_norm(l, q, l.in(14), size);
  if (l.has(15)) k = head_norm(l, k, l.in(15), size);
  if (l.i("do_rotary", 0)) {
    ValueId positions = l.in(9);
    if (positions == kNoValue) {
      ValueId past = l.binary(kMax, l.binary(kSub, valid, dim(l, q, 1)), l.i64({0}));
      ValueId steps = l.add(kRange, NoAttrs{}, {l.i64_scalar(0), l.squeeze(dim(l, q, 1), {0}), l.i64_scalar(1)});
      positions = l.binary(kAdd, l.unsqueeze(past, {1}), l.unsqueeze(steps, {0}));
    }
    RopeAttrs a;
    a.head_dim = size;
    a.interleaved = l.i("rotary_interleaved", 0) != 0;
    auto half = l.rank(l.in(7)) == 2 ? l.type(l.in(7)).shape[1].constant() : std::nullopt;
    if (!half) return void(l.refuse("tables of unknown width"));
    a.dim = *half * 2;
    q = l.add(kRotaryEmbedding, a, {q, l.in(7), l.in(8), positions});
    k = l.add(kRotaryEmbedding, a, {k, l.in(7), l.in(8), positions});
  }
  SdpaAttrs a;
  a.heads = heads;
  a.kv_heads = kv;
  a.scale = l.f("scale", 0);
  a.softcap = l.f("softcap", 0);
  a.causal = true;
  int64_t window = l.i("local_window_size", -1);
  if (window > 0) a.left_window = window - 1;
  ValueId length = l.reshape(l.cast(l.in(6), DType::kI64), {});
  auto out = l.add_n(kAttention, a, {q, k, v, l.in(10), l.in(3), l.in(4), valid, length}, l.wants(1) || l.wants(2) ? 3 : 1);
  for (size_t i = 0; i < out.size(); ++i) l.set(i, out[i]);
}

// ai.onnx.preview: softmax(score_mod(scale q k^T)) v with functions given as graphs.
void flex_attention(Lower& l) {
  ValueId q = l.in(0), k = l.in(1), v = l.in(2);
  auto heads = l.rank(q) == 4 ? l.type(q).shape[1].constant() : std::nullopt;
  auto kv = l.rank(k) == 4 ? l.type(k).shape[1].constant() : std::nullopt;
  auto size = l.rank(q) == 4 ? l.type(q).shape[3].constant() : std::nullopt;
  if (!heads || !kv || !size || *kv < 1 || *heads % *kv) return void(l.refuse("numbers of heads that are not known"));
  auto repeated = [&](ValueId x) {  // [B, kv, S, d] -> [B, heads, S, d]
    if (*heads == *kv) return x;
    ValueId shape = l.concat({dim(l, x, 0), l.i64({*kv, *heads / *kv}), l.shape_of(x, 2, 4)}, 0);
    ValueId wide = l.add(kExpand, NoAttrs{}, {l.unsqueeze(x, {2}), shape});
    return l.binary(kReshape, wide, l.concat({dim(l, x, 0), l.i64({*heads}), l.shape_of(x, 2, 4)}, 0));
  };
  auto changed = [&](const char* name, ValueId x) {
    const Attribute* a = l.attribute(name);
    if (!a || !a->graph || l.failed()) return x;
    auto r = l.importer.inline_graph(l.scope, *a->graph, {x}, l.scope.prefix + l.node.name + "/" + name + "/");
    if (!r.ok()) return l.fail(std::move(r).error());
    return r->size() == 1 ? (*r)[0] : l.bad(std::string(name) + " must have one result");
  };
  DType t = l.dtype(q), work = t == DType::kF64 ? t : DType::kF32;
  float scale = l.f("scale", 0);
  double factor = scale != 0 ? static_cast<double>(scale) : 1 / std::sqrt(static_cast<double>(*size));
  ValueId scores = l.binary(kMatMul, l.cast(q, work), l.transpose(l.cast(repeated(k), work), {0, 1, 3, 2}));
  scores = l.cast(l.binary(kMul, scores, l.scalar_of(work, factor)), t);
  ValueId p = changed("prob_mod", l.add(kSoftmax, AxisAttrs{-1}, {changed("score_mod", scores)}));
  l.set(0, l.binary(kMatMul, p, repeated(v)));
}

// Rows of `update` put into the cache at write_indices along the axis, for each batch row.
void tensor_scatter(Lower& l) {
  auto r = l.rank(l.in(0));
  if (!r) return void(l.refuse("a cache of unknown rank"));
  int64_t axis = l.i("axis", -2);
  if (axis < 0) axis += *r;
  ValueId update = l.in(1), steps = l.squeeze(dim(l, update, axis), {0});
  ValueId at = l.add(kRange, NoAttrs{}, {l.i64_scalar(0), steps, l.i64_scalar(1)});
  std::vector<int64_t> behind, rest;
  for (int64_t i = axis + 1; i < *r; ++i) behind.push_back(i - axis);
  for (int64_t i = 1; i < *r; ++i) rest.push_back(i);
  if (!behind.empty()) at = l.unsqueeze(at, behind);
  if (l.has(2)) at = l.binary(kAdd, at, l.unsqueeze(l.in(2), rest));
  ModeAttrs plain, scatter;
  if (l.s("mode", "linear") == "circular") at = l.add(kMod, plain, {at, l.squeeze(dim(l, l.in(0), axis), {0})});
  scatter.mode = "none";
  scatter.axis = axis;
  ValueId everywhere = l.add(kExpand, NoAttrs{}, {at, l.shape_of(update)});
  l.set(0, l.add(kScatterElements, scatter, {l.in(0), everywhere, update}));
}

// A convolution of each channel over its past: (input [B, C, L], weight [C, 1, K], bias?, past [B, C, K - 1]?).
void causal_conv(Lower& l) {
  auto k = l.rank(l.in(1)) == 3 ? l.type(l.in(1)).shape[2].constant() : std::nullopt;
  auto channels = l.rank(l.in(1)) == 3 ? l.type(l.in(1)).shape[0].constant() : std::nullopt;
  if (!k || !channels || l.rank(l.in(0)) != 3) return void(l.refuse("operands that are not of rank 3"));
  ModeAttrs zeros;
  zeros.mode = "constant";
  ValueId x = l.has(3) ? l.concat({l.in(3), l.in(0)}, 2) : l.add(kPad, zeros, {l.in(0), l.i64({0, 0, *k - 1, 0, 0, 0})});
  WindowAttrs w;
  w.kernel = {*k};
  w.group = *channels;
  ValueId y = l.add(kConv, w, {x, l.in(1), l.in(2)});
  std::string activation = l.s("activation", "none");
  if (activation == "silu" || activation == "swish") y = l.unary(kSilu, y);
  else if (activation != "none") return void(l.refuse("activation '" + activation + "'"));
  l.set(0, y);
  if (l.wants(1)) l.set(1, *k > 1 ? l.slice(x, 2, -(*k - 1), INT64_MAX) : l.slice(x, 2, 0, 0));
}

}  // namespace

void register_contrib(LowerTable& t) {
  t.insert({{"com.microsoft::MatMulNBits", matmul_nbits}, {"com.microsoft::GatherBlockQuantized", gather_block_quantized},
            {"com.microsoft::DynamicQuantizeLSTM", dynamic_quantize_lstm}, {"com.microsoft::GroupQueryAttention", group_query_attention},
            {"com.microsoft::FusedConv", fused_conv}, {"com.microsoft::FusedGemm", fused_gemm},
            {"com.microsoft::Trilu", [](Lower& l) { as_standard(l, "Trilu", 14); }}, {"com.microsoft::Unique", [](Lower& l) { as_standard(l, "Unique", 11); }},
            {"com.microsoft::GridSample", [](Lower& l) { as_standard(l, "GridSample", 16); }}, {"com.microsoft::Range", [](Lower& l) { as_standard(l, "Range", 11); }},
            {"com.microsoft::Pad", [](Lower& l) { as_standard(l, "Pad", 13); }},
            {"ai.onnx.preview::FlexAttention", flex_attention}, {"TensorScatter", tensor_scatter}, {"CausalConvWithState", causal_conv}});
}

}  // namespace brisk::onnx_import
