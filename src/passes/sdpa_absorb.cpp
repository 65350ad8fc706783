// What Attention does by itself and graphs do round it: heads repeated for grouped queries, the past joined to keys and
// values, a mask expanded, heads moved in front of places.
#include "passes/all.h"
#include "passes/rewrite.h"

namespace brisk::passes {
namespace {

constexpr const char* kWhat = "attention";
const std::vector<int64_t> kHeadsMoved = {0, 2, 1, 3};

// [B, kv, T, d] behind its heads repeated to [B, H, T, d], each one `repeats` times in a row.
struct Repeated {
  ValueId base = kNoValue;
  int64_t repeats = 0;
};
std::optional<Repeated> repeated_heads(const Round& r, ValueId v) {
  const Graph& g = r.g;
  const Node* n = r.index.producer(v);
  if (!n || type_of(g, v).rank() != 4) return std::nullopt;
  const Shape& out = type_of(g, v).shape;
  if (n->op == OpId::kExpand) {  // from one head
    const Type& x = type_of(g, n->inputs[0]);
    auto h = out[1].constant();
    bool one = x.ranked && x.rank() == 4 && x.shape[1] == Dim(1) && x.shape[2] == out[2] && x.shape[3] == out[3] && x.shape[0] == out[0];
    return one && h ? std::optional(Repeated{n->inputs[0], *h}) : std::nullopt;
  }
  if (!is_view(g, *n)) return std::nullopt;
  const Node* e = r.index.producer(n->inputs[0], OpId::kExpand);
  if (!e) return std::nullopt;
  const Type &wide = type_of(g, e->outputs[0]), &narrow = type_of(g, e->inputs[0]);
  if (!wide.ranked || !narrow.ranked || wide.rank() != 5 || narrow.rank() != 5 || !(narrow.shape[2] == Dim(1))) return std::nullopt;
  for (size_t i : {0u, 1u, 3u, 4u})
    if (!(wide.shape[i] == narrow.shape[i])) return std::nullopt;
  auto kv = wide.shape[1].constant(), times = wide.shape[2].constant(), heads = out[1].constant();
  if (!kv || !times || !heads || *kv * *times != *heads || !(wide.shape[3] == out[2]) || !(wide.shape[4] == out[3])) return std::nullopt;
  const Node* view = r.index.producer(e->inputs[0]);
  if (!view || !is_view(g, *view)) return std::nullopt;
  const Shape& base = type_of(g, view->inputs[0]).shape;
  if (base.size() != 4 || !(base[1] == wide.shape[1]) || !(base[2] == out[2]) || !(base[3] == out[3])) return std::nullopt;
  return Repeated{view->inputs[0], *times};
}

Status take_grouped(Round& r, Node& n) {
  auto k = repeated_heads(r, n.inputs[1]), v = repeated_heads(r, n.inputs[2]);
  if (!k && !v) return {};
  if (!k || !v || k->repeats != v->repeats) return r.missed(n, kWhat, "heads of k and v are not repeated alike"), Status();
  if (operand(n, 4) >= 0) return {};
  std::vector<ValueId> in = n.inputs;
  in[1] = k->base;
  in[2] = v->base;
  return r.replace(n, OpId::kAttention, n.attrs, std::move(in));
}

// A Concat of [B, kv, P, d] and [B, kv, S, d] along places.
const Node* joined_past(const Round& r, ValueId v) {
  const Node* n = r.index.producer(v, OpId::kConcat);
  if (!n || n->inputs.size() != 2 || !type_of(r.g, v).ranked || type_of(r.g, v).rank() != 4) return nullptr;
  return front_axis(std::get<AxisAttrs>(n->attrs).axis, 4) == 2 ? n : nullptr;
}

Status take_past(Round& r, Node& n) {
  Graph& g = r.g;
  if (n.outputs.size() != 1 || n.inputs.size() > 4) return {};
  Node *k = const_cast<Node*>(joined_past(r, n.inputs[1])), *v = const_cast<Node*>(joined_past(r, n.inputs[2]));
  if (!k || !v || k == v) return {};
  const NodeId here = r.index.position(n);
  for (const Node* cat : {k, v})
    for (NodeId u : r.index.users(cat->outputs[0]))
      if (u < here) return r.missed(n, kWhat, "past and new keys together are read before it, by '" + g.nodes[static_cast<size_t>(u)].name + "'"), Status();
  const Type &pk = type_of(g, k->inputs[0]), &pv = type_of(g, v->inputs[0]);
  if (!pk.ranked || !pv.ranked || r.gone(*k) || r.gone(*v)) return {};
  // Symbols may differ in name: the product of probabilities and values wanted the lengths to be equal, as Attention does.
  if (auto a = pk.shape[2].constant(), b = pv.shape[2].constant(); a && b && *a != *b) return {};
  Node all = n;
  all.inputs.resize(6, kNoValue);
  all.inputs[1] = k->inputs[1], all.inputs[2] = v->inputs[1];
  all.inputs[4] = k->inputs[0], all.inputs[5] = v->inputs[0];
  all.outputs = {n.outputs[0], k->outputs[0], v->outputs[0]};
  for (Node* cat : {k, v}) cat->outputs[0] = g.add_value(cat->name + ".gone", type_of(g, cat->outputs[0]));
  return r.replace_with(n, std::move(all));
}

// The mask is broadcast anyway.
Status take_mask(Round& r, Node& n) {
  Graph& g = r.g;
  const Node* e = operand(n, 3) < 0 ? nullptr : r.index.producer(n.inputs[3], OpId::kExpand);
  if (!e) return {};
  const Type &x = type_of(g, e->inputs[0]), &wide = type_of(g, e->outputs[0]);
  if (!x.ranked || x.rank() < 1 || !(x.shape.back() == wide.shape.back())) return {};
  std::vector<ValueId> in = n.inputs;
  in[3] = e->inputs[0];
  return r.replace(n, OpId::kAttention, n.attrs, std::move(in));
}

// What [B, H, S, d] is as [B, S, H d]: a view of `from`.
struct Flat {
  ValueId from = kNoValue;
  int64_t heads = 0, size = 0;
  std::vector<int64_t> shape;
};
std::optional<Flat> flat_form(const Round& r, ValueId v) {
  const Graph& g = r.g;
  if (!type_of(g, v).ranked || type_of(g, v).rank() != 4) return std::nullopt;
  const Shape& s = type_of(g, v).shape;
  auto heads = s[1].constant(), size = s[3].constant();
  if (!heads || !size || *heads < 1 || *size < 1) return std::nullopt;
  const Node* t = r.index.producer(v, OpId::kTranspose);
  bool moved = t && perm_of(g, *t) == kHeadsMoved;
  if (!moved && *heads != 1) return std::nullopt;  // one head is in front of places and behind them
  Flat f{moved ? t->inputs[0] : v, *heads, *size, {}};
  Shape to{s[0], s[2], Dim(*heads * *size)};
  const Node* view = r.index.producer(f.from);
  if (view && is_view(g, *view) && type_of(g, view->inputs[0]).shape == to) return f.from = view->inputs[0], f;
  auto shape = reshape_operand(g, type_of(g, f.from).shape, to);
  if (!shape) return std::nullopt;
  f.shape = *shape;
  return f;
}
Result<ValueId> add_flat(Round& r, const Node& root, const Flat& f) {
  return f.shape.empty() ? Result<ValueId>(f.from) : r.add_view(root, f.from, f.shape);
}

// `root` becomes [B, H, S, d] of `y` [B, S, H d].
Status unflatten(Round& r, Node& root, ValueId y, int64_t heads, int64_t size) {
  BRISK_ASSIGN(ValueId four, r.add_view(root, y, {0, 0, heads, size}));
  TransposeAttrs moved;
  moved.perm = kHeadsMoved;
  return r.replace(root, OpId::kTranspose, moved, {four});
}

// A norm of each head, after heads were moved: before.
Status norm_before_move(Round& r, Node& n) {
  Graph& g = r.g;
  const Node* t = r.index.producer(n.inputs[0], OpId::kTranspose);
  if (!t || n.outputs.size() != 1 || perm_of(g, *t) != kHeadsMoved || !last_axis(g, n.inputs[0], std::get<NormAttrs>(n.attrs).axis)) return {};
  std::vector<ValueId> in = n.inputs;
  in[0] = t->inputs[0];
  TransposeAttrs moved;
  moved.perm = kHeadsMoved;
  BRISK_ASSIGN(ValueId y, r.add(n, n.op, n.attrs, std::move(in)));
  return r.replace(n, OpId::kTranspose, moved, {y});
}

Status flat_rotary(Round& r, Node& n) {
  Graph& g = r.g;
  if (type_of(g, n.inputs[0]).rank() != 4) return {};
  auto x = flat_form(r, n.inputs[0]);
  if (!x) return {};
  std::vector<ValueId> operands = n.inputs;
  BRISK_ASSIGN(operands[0], add_flat(r, n, *x));
  BRISK_ASSIGN(ValueId y, r.add(n, OpId::kRotaryEmbedding, n.attrs, std::move(operands)));
  return unflatten(r, n, y, x->heads, x->size);
}

Status flat_attention(Round& r, Node& n) {
  Graph& g = r.g;
  if (type_of(g, n.inputs[0]).rank() != 4) return {};
  std::vector<Flat> parts;
  for (size_t i = 0; i < 3; ++i) {
    auto f = flat_form(r, n.inputs[i]);
    if (!f) return r.missed(n, kWhat, std::string("heads stay in front of places: ") + "qkv"[i] + " is no transposed value of known sizes"), Status();
    parts.push_back(std::move(*f));
  }
  SdpaAttrs a = std::get<SdpaAttrs>(n.attrs);
  a.heads = parts[0].heads;
  a.kv_heads = parts[1].heads;
  int64_t size = parts[2].size;
  Node all = n;
  for (size_t i = 0; i < 3; ++i) {
    BRISK_ASSIGN(all.inputs[i], add_flat(r, n, parts[i]));
  }
  all.attrs = a;
  all.outputs[0] = g.add_value(n.name + ".flat");
  BRISK_TRY(infer_node(g, all));
  ValueId y = all.outputs[0];
  r.insert(n, std::move(all));
  n.outputs.resize(1);
  return unflatten(r, n, y, a.heads, size);
}

}  // namespace

Result<int> absorb_into_attention(Graph& g, PassContext& c) {
  int total = 0;
  // Repeated heads hide the past, and both hide how heads were moved: one after the other.
  for (auto* part : {take_grouped, take_past, take_mask}) {
    BRISK_ASSIGN(int n, until_stable(g, c, [part](Round& r, Node& n) { return n.op == OpId::kAttention ? part(r, n) : Status(); }));
    total += n;
  }
  const size_t said = c.missed.size();
  for (bool again = true; again;) {
    c.missed.resize(said);
    BRISK_ASSIGN(int rotary, until_stable(g, c, [](Round& r, Node& n) {
      if (n.op == OpId::kRmsNorm || n.op == OpId::kLayerNorm) return norm_before_move(r, n);
      return n.op == OpId::kRotaryEmbedding ? flat_rotary(r, n) : Status();
    }));
    BRISK_ASSIGN(int attention, until_stable(g, c, [](Round& r, Node& n) { return n.op == OpId::kAttention ? flat_attention(r, n) : Status(); }));
    BRISK_ASSIGN(int moved, simplify_movement(g, c));
    total += rotary + attention + moved;
    again = rotary + attention > 0;
  }
  return total;
}

}  // namespace brisk::passes
