#include "convert/states.h"

#include <algorithm>

namespace brisk::convert {
namespace {

class Tracer {
 public:
  Tracer(const Graph& g, const DecoderIo& io) : g_(g), io_(io), producer_(g.producers()) {}

  // From what attention reads back to the new keys (or values). `repeat` is multiplied by how often heads are repeated.
  Status trace(ValueId& v, ValueId& past, int64_t& repeat) const {
    for (int depth = 0; depth < 8; ++depth) {
      const Node* n = producer(v);
      if (!n) break;
      if (n->op == OpId::kIdentity) { v = n->inputs[0]; continue; }
      if (auto from = repeated(*n, repeat); from >= 0) { v = from; continue; }
      if (auto from = one_head(*n); from >= 0) { v = from; continue; }
      if (n->op != OpId::kConcat || n->inputs.size() != 2 || !is_past(n->inputs[0])) break;
      const Type& t = g_.value(n->outputs[0]).type;
      int64_t axis = std::get<AxisAttrs>(n->attrs).axis;
      if (past >= 0 || !t.ranked || (axis != 2 && axis != 2 - t.rank())) break;
      past = n->inputs[0];
      BRISK_TRY(continued(past, v));
      v = n->inputs[1];
    }
    return {};
  }

  // The cache `now` must be a result: what is fed back is what was read.
  Status continued(ValueId past, ValueId now) const {
    bool result = std::any_of(io_.present.begin(), io_.present.end(), [&](ValueId p) {
      for (int depth = 0; depth < 4 && p != now; ++depth) {
        const Node* n = producer(p);
        if (!n || n->op != OpId::kIdentity) break;
        p = n->inputs[0];
      }
      return p == now;
    });
    if (!result) return unsupported("the cache that continues '" + g_.value(past).name + "' is not a result");
    return {};
  }

  bool is_past(ValueId v) const { return std::find(io_.past.begin(), io_.past.end(), v) != io_.past.end(); }

 private:
  const Node* producer(ValueId v) const {
    if (v < 0 || producer_[static_cast<size_t>(v)] < 0) return nullptr;
    return &g_.nodes[static_cast<size_t>(producer_[static_cast<size_t>(v)])];
  }
  bool is_view(OpId op) const { return op == OpId::kReshape || op == OpId::kUnsqueeze || op == OpId::kSqueeze; }

  // x [b, 1, s, d] of a view as [b, s, d].
  ValueId one_head(const Node& n) const {
    if (!is_view(n.op)) return kNoValue;
    const Type &x = g_.value(n.inputs[0]).type, &y = g_.value(n.outputs[0]).type;
    bool same = x.ranked && y.ranked && x.rank() == 4 && y.rank() == 3 && x.shape[1] == Dim(1) && x.shape[0] == y.shape[0] &&
                x.shape[2] == y.shape[1] && x.shape[3] == y.shape[2];
    return same ? n.inputs[0] : kNoValue;
  }

  // x of Reshape(Expand(view of x as [b, h, 1, s, d], [b, h, r, s, d]), [b, h * r, s, d]); kNoValue if it is none.
  ValueId repeated(const Node& join, int64_t& repeat) const {
    const Node* expand = is_view(join.op) ? producer(join.inputs[0]) : nullptr;
    if (!expand || expand->op != OpId::kExpand) return kNoValue;
    const Node* split = producer(expand->inputs[0]);
    if (!split || !is_view(split->op)) return kNoValue;
    const Type &x = g_.value(split->inputs[0]).type, &five = g_.value(split->outputs[0]).type;
    const Type &wide = g_.value(expand->outputs[0]).type, &y = g_.value(join.outputs[0]).type;
    if (!x.ranked || !y.ranked || x.rank() != 4 || five.rank() != 5 || wide.rank() != 5 || y.rank() != 4) return kNoValue;
    auto r = wide.shape[2].constant(), kv = x.shape[1].constant(), all = y.shape[1].constant();
    if (!r || !kv || !all || *kv * *r != *all || !(five.shape[2] == Dim(1))) return kNoValue;
    for (size_t i : {0u, 1u, 3u, 4u})
      if (size_t j = i < 2 ? i : i - 1; !(five.shape[i] == x.shape[j]) || !(wide.shape[i] == x.shape[j]) || (j != 1 && !(y.shape[j] == x.shape[j])))
        return kNoValue;
    repeat *= *r;
    return split->inputs[0];
  }

  const Graph& g_;
  const DecoderIo& io_;
  std::vector<NodeId> producer_;
};

}  // namespace

Result<KvSource> kv_source(const Graph& g, const DecoderIo& io, const Node& n) {
  const auto& a = std::get<SdpaAttrs>(n.attrs);
  const Type &q = g.value(n.inputs[0]).type, &k = g.value(n.inputs[1]).type, &v = g.value(n.inputs[2]).type;
  Tracer tracer(g, io);
  KvSource s;
  s.k = n.inputs[1], s.v = n.inputs[2];
  bool flat = q.ranked && q.rank() == 3;
  auto heads = flat ? std::optional(a.heads) : q.shape[1].constant(), read = flat ? std::optional(a.kv_heads) : k.shape[1].constant();
  auto width = q.shape.back().constant(), v_width = v.shape.back().constant();
  if (!heads || !read || !width || !v_width || *heads < 1 || *read < 1) return unsupported("numbers of heads or their size are not known");
  s.heads = *heads;
  s.size = flat ? *width / s.heads : *width;
  if ((flat ? *v_width / *read : *v_width) != s.size) return unsupported("values have " + std::to_string(*v_width) + " elements a head, keys " + std::to_string(s.size));
  int64_t k_repeat = 1, v_repeat = 1;
  if (n.inputs.size() > 5 && n.inputs[4] >= 0) {
    s.past_k = n.inputs[4], s.past_v = n.inputs[5];
    if (!tracer.is_past(s.past_k) || !tracer.is_past(s.past_v)) return unsupported("its past is not an input");
    for (size_t i : {1u, 2u}) {
      if (n.outputs.size() <= i || n.outputs[i] < 0) return unsupported("the cache that continues its past is not a result");
      BRISK_TRY(tracer.continued(i == 1 ? s.past_k : s.past_v, n.outputs[i]));
    }
  } else {
    BRISK_TRY(tracer.trace(s.k, s.past_k, k_repeat));
    BRISK_TRY(tracer.trace(s.v, s.past_v, v_repeat));
    if ((s.past_k < 0) != (s.past_v < 0) || k_repeat != v_repeat) return unsupported("keys and values are kept in different ways");
  }
  s.kv_heads = *read / k_repeat;
  auto of_tokens = [&](ValueId x) {
    const Type& t = g.value(x).type;
    return t.ranked && (t.rank() == 3 || t.rank() == 4) && t.shape[t.rank() == 3 ? 1 : 2] == Dim::symbol(kTokens);
  };
  if (!of_tokens(s.k) || !of_tokens(s.v)) return unsupported("its keys " + to_string(k) + " are not those of the tokens, nor those behind a past");
  return s;
}

}  // namespace brisk::convert
