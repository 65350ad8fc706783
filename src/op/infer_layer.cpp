// Shape rules of recurrence, quantisation, resizing and whole-tensor attention.
#include <cmath>

#include "base/int_of.h"
#include "op/rules.h"

namespace brisk::rules {

Status infer_recurrent(InferContext& c) {
  const Type &x = c.in(0), &r = c.in(2);
  const auto& a = c.attrs<RecurrentAttrs>();
  for (int i = 0; i < c.output_count(); ++i) c.out(i) = Type{x.dtype, x.ranked, {}, {}};
  if (!x.ranked) return {};
  if (x.rank() != 3) return invalid("x has rank " + std::to_string(x.rank()) + ", 3 wanted");
  if (a.hidden < 1 || (r.ranked && (r.rank() != 3 || r.shape[2].constant_or(a.hidden) != a.hidden)))
    return invalid("hidden size " + std::to_string(a.hidden) + ", R is " + to_string(r));
  if (a.round_state && c.op() != OpId::kLstm) return invalid("round_state is one of Lstm only");
  if (a.direction != "forward" && a.direction != "reverse" && a.direction != "bidirectional") return invalid("direction '" + a.direction + "'");
  if (auto in = x.shape[2].constant(), w = c.in(1).ranked && c.in(1).rank() == 3 ? c.in(1).shape[2].constant() : std::nullopt; in && w && *in != *w)
    return invalid("x has " + std::to_string(*in) + " features, W " + std::to_string(*w));
  int64_t d = a.direction == "bidirectional" ? 2 : 1;
  const Dim &time = x.shape[a.batch_first ? 1 : 0], &batch = x.shape[a.batch_first ? 0 : 1];
  c.out(0).shape = a.batch_first ? Shape{batch, time, d, a.hidden} : Shape{time, d, batch, a.hidden};
  for (int i = 1; i < c.output_count(); ++i) c.out(i).shape = a.batch_first ? Shape{batch, d, a.hidden} : Shape{d, batch, a.hidden};
  return {};
}

Status infer_quantize(InferContext& c) {
  c.out() = Type{c.attrs<QuantAttrs>().to, c.in(0).ranked, c.in(0).shape, {}};
  return {};
}

Status infer_dequantize(InferContext& c) { return infer_quantize(c); }

Status infer_dynamic_quantize(InferContext& c) {
  c.out(0) = Type{DType::kU8, c.in(0).ranked, c.in(0).shape, {}};
  c.out(1) = Type{DType::kF32, true, {}, {}};
  c.out(2) = Type{DType::kU8, true, {}, {}};
  return {};
}

Status infer_resize(InferContext& c) {
  const Type& x = c.in(0);
  const auto& a = c.attrs<ResizeAttrs>();
  Type& out = c.out();
  out.dtype = x.dtype;
  out.ranked = x.ranked;
  if (!x.ranked) return {};
  std::vector<int64_t> axes = a.axes;
  if (axes.empty())
    for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  out.shape = x.shape;
  std::optional<std::vector<Dim>> sizes;
  std::vector<float> scales;
  if (c.has(3)) sizes = c.elements(3);
  const TensorView* s = c.has(2) && !c.has(3) ? c.data(2) : nullptr;
  if (s)
    for (int64_t i = 0; i < s->count(); ++i) scales.push_back(load_float(s->data, s->dtype, i));
  if ((sizes && sizes->size() != axes.size()) || (s && scales.size() != axes.size())) return invalid("sizes or scales do not fit the axes");
  // "not_larger" and "not_smaller" keep the proportions: one scale for all axes, known only from numbers.
  std::optional<double> common;
  if (sizes && a.aspect != "stretch") {
    for (size_t i = 0; i < axes.size(); ++i) {
      auto want = (*sizes)[i].constant(), have = x.shape[static_cast<size_t>(axes[i] < 0 ? axes[i] + x.rank() : axes[i])].constant();
      if (!want || !have || *have == 0) { common.reset(); sizes.reset(); break; }
      double scale = static_cast<double>(*want) / static_cast<double>(*have);
      common = !common ? scale : a.aspect == "not_larger" ? std::min(*common, scale) : std::max(*common, scale);
    }
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    BRISK_ASSIGN(int axis, normalize_axis(axes[i], x.rank()));
    Dim& d = out.shape[static_cast<size_t>(axis)];
    auto n = d.constant();
    if (common) {
      d = int_of(std::floor(static_cast<double>(*n) * *common + 0.5));
    } else if (sizes) {
      d = (*sizes)[i];
    } else if (s) {
      double scale = static_cast<double>(scales[i]), whole = std::round(scale), inverse = std::round(1 / scale);
      if (!(scale > 0) || scale > 1e6) return invalid("scale " + std::to_string(scale) + " outside (0, 1000000]");
      if (n) d = int_of(static_cast<double>(std::floor(static_cast<float>(*n) * scales[i])));
      else if (scale == whole) d = d * Dim(static_cast<int64_t>(whole));
      else if (static_cast<float>(1 / inverse) == scales[i]) d = Dim::floor_div(d, static_cast<int64_t>(inverse));
      else d = c.fresh("resize");
    } else {
      d = c.fresh("resize");
    }
    if (auto v = d.constant(); v && *v < 0) return invalid("sizes holds " + std::to_string(*v));
  }
  return {};
}

Status infer_sdpa(InferContext& c) {
  const Type &q = c.in(0), &k = c.in(1), &v = c.in(2);
  const auto& a = c.attrs<SdpaAttrs>();
  for (int i = 0; i < c.output_count(); ++i) c.out(i) = Type{q.dtype, q.ranked && k.ranked && v.ranked, {}, {}};
  if (!c.out(0).ranked) return {};
  if (q.rank() != k.rank() || q.rank() != v.rank() || (q.rank() != 4 && (q.rank() != 3 || a.heads < 1 || a.kv_heads < 1)))
    return invalid("q, k, v are " + to_string(q) + ", " + to_string(k) + ", " + to_string(v) + "; wanted rank 4, or 3 with numbers of heads");
  bool flat = q.rank() == 3;
  const Dim batch = q.shape[0], heads = flat ? Dim(a.heads) : q.shape[1], kv_heads = flat ? Dim(a.kv_heads) : k.shape[1];
  const Dim seq = flat ? q.shape[1] : q.shape[2], new_keys = flat ? k.shape[1] : k.shape[2];
  const Dim size = flat ? Dim::floor_div(k.shape[2], a.kv_heads) : k.shape[3];
  const Dim v_size = flat ? Dim::floor_div(v.shape[2], a.kv_heads) : v.shape[3];
  if (auto h = heads.constant(), kv = kv_heads.constant(); h && kv && (*kv < 1 || *h % *kv != 0))
    return invalid(std::to_string(*h) + " heads over " + std::to_string(*kv) + " key heads");
  Dim keys = new_keys;
  if (c.has(4)) keys = c.in(4).ranked && c.in(4).rank() == 4 ? c.in(4).shape[2] + new_keys : c.fresh("keys");
  if (c.has(7)) {  // rows end where they end; the result holds the longest, or all that the past has room for
    if (!c.has(6)) return invalid("a cache's length comes with the rows' lengths");
    auto length = c.elements(7);
    if (length && length->size() != 1) return invalid("the cache's length is " + to_string(c.in(7)) + ", wanted one number");
    auto most = keys.constant(), wanted = length ? (*length)[0].constant() : std::nullopt;
    if (wanted && (*wanted < 1 || (most && *wanted > *most)))
      return invalid("a cache of length " + std::to_string(*wanted) + ", allowed 1 to past and new keys together: " + to_string(Shape{keys}));
    Dim room = c.has(4) && c.in(4).ranked && c.in(4).rank() == 4 ? c.in(4).shape[2] : Dim(0);
    keys = length ? Dim::max(room, (*length)[0]) : c.fresh("keys");
  }
  c.out(0).shape = flat ? Shape{batch, seq, Dim(a.heads) * v_size} : Shape{batch, heads, seq, v_size};
  if (c.output_count() > 1) c.out(1) = Type{k.dtype, true, {batch, kv_heads, keys, size}, {}};
  if (c.output_count() > 2) c.out(2) = Type{v.dtype, true, {batch, kv_heads, keys, v_size}, {}};
  if (c.output_count() > 3) c.out(3).shape = {batch, heads, seq, keys};
  return {};
}

Status infer_linear_attention(InferContext& c) {
  const Type &q = c.in(0), &k = c.in(1), &v = c.in(2);
  const auto& a = c.attrs<LinearAttentionAttrs>();
  if (a.kv_heads < 1 || a.heads < 1 || a.heads % a.kv_heads != 0) return invalid(std::to_string(a.heads) + " heads over " + std::to_string(a.kv_heads) + " key heads");
  if (a.gated != c.has(4)) return invalid(a.gated ? "a gated rule without a decay" : "a decay for a rule without one");
  if (a.delta != c.has(5)) return invalid(a.delta ? "a delta rule without a rate" : "a rate for a rule without one");
  for (int i : {0, 1, 2, 4, 5})
    if (c.has(i) && c.in(i).ranked && c.in(i).rank() != 3) return invalid("operand " + std::to_string(i) + " is " + to_string(c.in(i)) + ", wanted rank 3");
  Type& y = c.out();
  y.dtype = q.dtype;
  y.ranked = q.ranked && v.ranked;
  auto divides = [](const Type& t, int64_t heads) {
    auto n = t.ranked ? t.shape.back().constant() : std::nullopt;
    return !n || *n % heads == 0;
  };
  if (!divides(q, a.heads) || !divides(k, a.kv_heads) || !divides(v, a.kv_heads)) return invalid("the heads do not divide the last axis");
  Dim size = v.ranked ? Dim::floor_div(v.shape[2], a.kv_heads) : c.fresh("head");
  if (y.ranked) y.shape = {q.shape[0], q.shape[1], Dim(a.heads) * size};
  if (c.output_count() < 2) return {};
  DType kept = c.has(3) ? c.in(3).dtype : q.dtype;
  c.out(1) = Type{kept, true, {q.ranked ? q.shape[0] : c.fresh("batch"), a.kv_heads, q.ranked ? Dim::floor_div(q.shape[2], a.heads) : c.fresh("head"), size}, {}};
  return {};
}

}  // namespace brisk::rules
