// com.microsoft's attention over whole tensors (Attention, MultiHeadAttention, QAttention), its embeddings and rotation.
#include "import/onnx/lower.h"
#include "import/onnx/lower_integer.h"

namespace brisk::onnx_import {
namespace {

using enum OpId;

ValueId dim(Lower& l, ValueId x, int64_t axis) { return l.shape_of(x, axis, axis + 1); }

// What is added to the scores, broadcast to [B, heads, S, T]: `filter` where the padding mask says so, and a bias.
// mask: keys of each row [B], or keys seen [B, T], [B, S, T] or [B, 1, M, M] (a window of which is meant).
ValueId score_bias(Lower& l, ValueId mask, ValueId bias, ValueId batch_of, ValueId queries, ValueId keys, DType t) {
  if (mask == kNoValue) return bias;
  auto r = l.rank(mask);
  if (!r || *r < 1 || *r > 4) return l.refuse("a mask of unknown rank");
  ValueId seen = kNoValue;
  if (*r == 1) {
    if (l.type(batch_of).ranked && !(l.type(mask).shape[0] == l.type(batch_of).shape[0]))
      return l.refuse("a mask of rank 1 that is not one length for each row of the batch");
    ValueId places = l.add(kRange, NoAttrs{}, {l.i64_scalar(0), l.squeeze(keys, {0}), l.i64_scalar(1)});
    seen = l.unsqueeze(l.binary(kLess, l.unsqueeze(places, {0}), l.unsqueeze(l.cast(mask, DType::kI64), {1})), {1, 2});
  } else {
    if (*r == 4) {  // rows of the queries are those behind the past
      ValueId past = l.binary(kSub, keys, queries);
      mask = l.add(kSlice, NoAttrs{}, {mask, past, keys, l.i64({2})});
      mask = l.add(kSlice, NoAttrs{}, {mask, l.i64({0}), keys, l.i64({3})});
    }
    seen = l.binary(kGreater, l.cast(mask, DType::kI64), l.i64_scalar(0));
    if (*r == 2) seen = l.unsqueeze(seen, {1, 2});
    if (*r == 3) seen = l.unsqueeze(seen, {1});
  }
  double filter = static_cast<double>(l.f("mask_filter_value", -10000.0f));
  ValueId add = l.add(kWhere, NoAttrs{}, {seen, l.scalar_of(t, 0), l.scalar_of(t, filter)});
  return bias == kNoValue ? add : l.binary(kAdd, add, bias);
}

struct Heads {
  ValueId q, k, v;              // [B, S, heads * size]
  ValueId past_k = kNoValue, past_v = kNoValue;  // [B, heads, P, size]
  ValueId mask = kNoValue, bias = kNoValue;
};

// Results: y, present k, present v.
std::vector<ValueId> attend(Lower& l, const Heads& h, size_t outputs) {
  SdpaAttrs a;
  a.heads = a.kv_heads = l.i("num_heads", 0);
  a.scale = l.f("scale", 0);
  a.causal = l.i("unidirectional", 0) != 0;
  bool flat = l.rank(h.k) != 4;
  ValueId queries = dim(l, h.q, flat ? 1 : 2), keys = dim(l, h.k, flat ? 1 : 2);
  if (h.past_k != kNoValue) keys = l.binary(kAdd, keys, dim(l, h.past_k, 2));
  ValueId mask = score_bias(l, h.mask, h.bias, h.q, queries, keys, l.dtype(h.q));
  return l.add_n(kAttention, a, {h.q, h.k, h.v, mask, h.past_k, h.past_v}, outputs);
}

bool check_heads(Lower& l) {
  int64_t heads = l.i("num_heads", 0);
  if (heads < 1 || heads > 1 << 16) return l.bad("num_heads " + std::to_string(heads) + ", allowed 1 to 65536"), false;
  for (const char* name : {"do_rotary", "past_present_share_buffer"})
    if (l.i(name, 0)) return l.refuse(name), false;
  return true;
}

// Columns of one product: [B, S, q | k | v] -> three, of sizes from the attribute or equal ones.
bool split_packed(Lower& l, ValueId packed, Heads& h) {
  SliceAttrs parts;
  parts.axis = 2;
  parts.sizes = l.ints("qkv_hidden_sizes");
  if (parts.sizes.empty()) {
    auto width = l.rank(packed) == 3 ? l.type(packed).shape[2].constant() : std::nullopt;
    if (!width) return l.refuse("a width that is not known"), false;
    if (*width % 3) return l.bad("q, k and v together are " + std::to_string(*width) + " wide"), false;
    parts.sizes.assign(3, *width / 3);
  }
  if (parts.sizes.size() != 3) return l.bad("qkv_hidden_sizes has " + std::to_string(parts.sizes.size()) + " numbers, wanted 3"), false;
  for (int64_t size : parts.sizes)
    if (size < 1 || size % l.i("num_heads", 1)) return l.bad("a width of " + std::to_string(size) + " over " + std::to_string(l.i("num_heads", 1)) + " heads"), false;
  auto out = l.add_n(kSplit, parts, {packed}, 3);
  h.q = out[0], h.k = out[1], h.v = out[2];
  return true;
}

// Attention and QAttention behind their product: past and present are [2, B, heads, P, size].
void packed_attention(Lower& l, ValueId packed, ValueId mask, ValueId past, ValueId bias) {
  Heads h;
  if (!check_heads(l) || !split_packed(l, packed, h)) return;
  if (past != kNoValue) h.past_k = l.gather(past, l.i64_scalar(0), 0), h.past_v = l.gather(past, l.i64_scalar(1), 0);
  h.mask = mask;
  h.bias = bias;
  auto out = attend(l, h, l.wants(1) ? 3 : 1);
  l.set(0, out[0]);
  if (l.wants(1)) l.set(1, l.concat({l.unsqueeze(out[1], {0}), l.unsqueeze(out[2], {0})}, 0));
}

// (x [B, S, in], weight [in, q + k + v], bias?, mask?, past?, attention bias?).
void attention(Lower& l) {
  if (l.has(6)) return void(l.refuse("past_sequence_length"));
  ValueId packed = l.binary(kMatMul, l.in(0), l.in(1));
  if (l.has(2)) packed = l.binary(kAdd, packed, l.in(2));
  packed_attention(l, packed, l.in(3), l.in(4), l.in(5));
}

// (x, weight, bias, scale of x, scale of weight, mask?, zero of x?, zero of weight?, past?): integer product.
void quantized_attention(Lower& l) {
  packed_attention(l, integer_product(l, {l.in(0), l.in(1), l.in(3), l.in(4), l.in(6), l.in(7), l.in(2)}), l.in(5), l.in(8), kNoValue);
}

// (q, k?, v?, bias?, padding mask?, attention bias?, past k?, past v?). q alone may hold all as [B, S, heads, 3, size], k both
// as [B, L, heads, 2, size]; k and v of rank 4 are [B, heads, L, size].
void multi_head_attention(Lower& l) {
  if (!check_heads(l)) return;
  for (size_t i : {size_t{8}, size_t{9}})
    if (l.has(i)) return void(l.refuse("operand " + std::to_string(i)));
  if (l.wants(3)) return void(l.refuse("scores as a result"));
  int64_t heads = l.i("num_heads", 0);
  Heads h{l.in(0), l.in(1), l.in(2), l.in(6), l.in(7), l.in(4), l.in(5)};
  auto part = [&](ValueId x, int64_t i) {  // [B, S, heads, n, size] -> [B, S, heads * size]
    return l.reshape(l.gather(x, l.i64_scalar(i), 3), {0, 0, -1});
  };
  if (l.rank(h.q) == 5) h = {part(l.in(0), 0), part(l.in(0), 1), part(l.in(0), 2), h.past_k, h.past_v, h.mask, h.bias};
  else if (l.rank(h.k) == 5) h.k = part(l.in(1), 0), h.v = part(l.in(1), 1);
  if (h.k == kNoValue || h.v == kNoValue) return void(l.refuse("q without k and v"));
  bool cached = l.rank(h.k) == 4;
  if (l.rank(h.q) != 3 || (l.rank(h.k) != 3 && !cached) || l.rank(h.v) != l.rank(h.k)) return void(l.refuse("q, k, v of ranks that are not 3, 3, 3 or 3, 4, 4"));
  if (auto width = l.type(h.q).shape[2].constant(); width && (*width < heads || *width % heads))
    return void(l.bad("a width of " + std::to_string(*width) + " over " + std::to_string(heads) + " heads"));
  if (l.has(3)) {  // of q, k and v one behind the other
    if (cached) return void(l.refuse("a bias beside keys of rank 4"));
    auto wq = l.type(h.q).shape[2].constant(), wk = l.type(h.k).shape[2].constant();
    if (!wq || !wk) return void(l.refuse("a bias of heads of unknown width"));
    h.q = l.binary(kAdd, h.q, l.slice(l.in(3), 0, 0, *wq));
    h.k = l.binary(kAdd, h.k, l.slice(l.in(3), 0, *wq, *wq + *wk));
    h.v = l.binary(kAdd, h.v, l.slice(l.in(3), 0, *wq + *wk, INT64_MAX));
  }
  if (cached) h.q = l.transpose(l.reshape(h.q, {0, 0, heads, -1}), {0, 2, 1, 3});
  auto out = attend(l, h, l.wants(1) || l.wants(2) ? 3 : 1);
  l.set(0, cached ? l.reshape(l.transpose(out[0], {0, 2, 1, 3}), {0, 0, -1}) : out[0]);
  for (size_t i = 1; i < out.size(); ++i) l.set(i, out[i]);
}

// (x [B, S, H d] or [B, H, S, d], positions i64 [1] (of the first) or [B, S], cos [max, half], sin).
void rotary_embedding(Lower& l) {
  ValueId x = l.in(0), table = l.in(2);
  for (const char* name : {"is_packed_batching"})
    if (l.i(name, 0)) return void(l.refuse(name));
  if (l.attribute("scale") && l.f("scale", 1) != 1) return void(l.refuse("scale"));
  auto half = l.rank(table) == 2 ? l.type(table).shape[1].constant() : std::nullopt;
  auto r = l.rank(x);
  if (!half || !r || (*r != 3 && *r != 4)) return void(l.refuse("x or tables of unknown form"));
  RopeAttrs a;
  a.interleaved = l.i("interleaved", 0) != 0;
  a.dim = l.i("rotary_embedding_dim", 0);
  int64_t heads = l.i("num_heads", 0);
  auto width = l.type(x).shape.back().constant();
  a.head_dim = *r == 4 ? width.value_or(0) : heads > 0 ? width.value_or(0) / heads : *half * 2;
  if (a.dim == 0) a.dim = *half * 2;
  if (a.head_dim < 1 || a.dim < 0 || a.dim > a.head_dim || (*r == 3 && width && *width % a.head_dim))
    return void(l.bad("rotation of " + std::to_string(a.dim) + " elements of heads of " + std::to_string(a.head_dim)));
  l.set(0, l.add(kRotaryEmbedding, a, {x, table, l.in(3), l.in(1)}));
}

// (ids [B, S], segments?, words, positions, segment table?, gamma, beta, mask?, position ids?) -> y, keys of each row, sum.
void embed_layer_norm(Lower& l) {
  auto looked_up = [&](ValueId table, ValueId ids) { return l.gather(table, l.cast(ids, DType::kI64), 0); };
  ValueId ids = l.in(0), positions = l.in(8);
  if (positions == kNoValue) {
    ValueId steps = l.add(kRange, NoAttrs{}, {l.i64_scalar(0), l.squeeze(dim(l, ids, 1), {0}), l.i64_scalar(1)});
    positions = l.unsqueeze(steps, {0});
  }
  ValueId sum = l.binary(kAdd, looked_up(l.in(2), ids), looked_up(l.in(3), positions));
  if (l.has(1) && l.has(4)) sum = l.binary(kAdd, sum, looked_up(l.in(4), l.in(1)));
  NormAttrs a;
  a.epsilon = l.f("epsilon", 1e-12f);
  l.set(0, l.add(kLayerNorm, a, {sum, l.in(5), l.in(6)}));
  if (l.wants(1)) {
    if (l.has(7)) l.set(1, l.reduce(kReduceSum, l.cast(l.binary(kEqual, l.in(7), l.scalar_of(l.dtype(l.in(7)), 1)), DType::kI32), {1}, false));
    else l.set(1, l.add(kExpand, NoAttrs{}, {l.scalar_of(DType::kI32, 0), dim(l, ids, 0)}));
  }
  if (l.wants(2)) l.set(2, sum);
}

}  // namespace

void register_contrib_attention(LowerTable& t) {
  t.insert({{"com.microsoft::Attention", attention}, {"com.microsoft::QAttention", quantized_attention},
            {"com.microsoft::MultiHeadAttention", multi_head_attention}, {"com.microsoft::RotaryEmbedding", rotary_embedding},
            {"com.microsoft::EmbedLayerNormalization", embed_layer_norm}});
}

}  // namespace brisk::onnx_import
