#include "passes/rewrite.h"

#include <cmath>


namespace brisk::passes {

Result<ValueId> Round::add(const Node& root, OpId op, Attrs attrs, std::vector<ValueId> in, int outputs) {
  Node n;
  n.op = op;
  n.attrs = std::move(attrs);
  n.inputs = std::move(in);
  n.name = root.name;
  for (int i = 0; i < outputs; ++i)
    n.outputs.push_back(g.add_value((root.name.empty() ? "v" : root.name) + "." + op_name(op) + std::to_string(g.values.size())));
  BRISK_TRY(infer_node(g, n));
  ValueId first = n.outputs[0];
  before_[static_cast<size_t>(index.position(root))].push_back(std::move(n));
  return first;
}

ValueId Round::add_ints(const std::vector<int64_t>& v) {
  std::string name = "ints";
  for (int64_t i : v) name += "_" + std::to_string(i);
  return g.add_constant(name, make_constant(DType::kI64, {static_cast<int64_t>(v.size())}, v));
}

Result<ValueId> Round::add_view(const Node& root, ValueId x, const std::vector<int64_t>& shape) {
  ValueId s = add_ints(shape);
  return add(root, OpId::kReshape, NoAttrs{}, {x, s});
}

Status Round::replace(Node& root, OpId op, Attrs attrs, std::vector<ValueId> in) {
  Node n;
  n.op = op;
  n.attrs = std::move(attrs);
  n.inputs = std::move(in);
  n.outputs = root.outputs;
  n.name = root.name;
  return replace_with(root, std::move(n));
}

Status Round::replace_with(Node& root, Node n) {
  BRISK_TRY(infer_node(g, n));
  const bool computes = !op_def(n.op).is(kView | kMovement) && n.op != OpId::kShape;
  if (computes && n.op != root.op) context.fired.push_back(std::string(op_name(root.op)) + " '" + root.name + "' is " + op_name(n.op) + " now");
  root = std::move(n);
  ++changed_;
  return {};
}

void Round::rename_uses(ValueId from, ValueId to) {
  auto rename = [&](Node& n) {
    for (ValueId& in : n.inputs)
      if (in == from) in = to;
  };
  for (Node& n : g.nodes) rename(n);
  for (auto& list : before_)
    for (Node& n : list) rename(n);
}

bool Round::bypass(Node& root, ValueId v) {
  ValueId out = root.outputs[0];
  if (g.is_output(out)) {
    // The maker of `v` takes over the name, unless somebody else holds on to `v`, too.
    Node* maker = index.producer(v);
    if (!maker || gone(*maker) || g.is_output(v) || maker->outputs[0] != v || !(type_of(g, v).dtype == type_of(g, out).dtype)) return false;
    rename_uses(v, out);
    root.outputs[0] = g.add_value(g.value(v).name, type_of(g, out));
    maker->outputs[0] = out;
    index.set_producer(out, index.position(*maker));
  } else {
    rename_uses(out, v);
  }
  dead_.resize(g.nodes.size());
  dead_[static_cast<size_t>(index.position(root))] = true;
  ++changed_;
  return true;
}

void Round::missed(const Node& n, const std::string& what, const std::string& why) {
  missed_.push_back(what + ": node '" + n.name + "' not fused: " + why);
}

Result<int> Round::finish() {
  if (changed_ == 0) return 0;
  std::vector<Node> all;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (i < dead_.size() && dead_[i]) continue;
    for (Node& n : before_[i]) all.push_back(std::move(n));
    all.push_back(std::move(g.nodes[i]));
  }
  g.nodes = std::move(all);
  std::vector<bool> needed(g.values.size()), dead(g.nodes.size());
  for (ValueId v : g.outputs) needed[static_cast<size_t>(v)] = true;
  for (size_t i = g.nodes.size(); i-- > 0;) {
    bool keep = op_def(g.nodes[i].op).is(kStateful);
    for (ValueId v : g.nodes[i].outputs) keep |= v >= 0 && needed[static_cast<size_t>(v)];
    dead[i] = !keep;
    if (!keep) continue;
    for (ValueId v : g.nodes[i].inputs)
      if (v >= 0) needed[static_cast<size_t>(v)] = true;
  }
  g.compact(dead);
  BRISK_TRY(infer_graph(g));
  return changed_;
}

std::optional<std::pair<std::string, float>> gate_function(const Node* n) {
  if (n && n->op == OpId::kSilu) return std::pair("", 0.0f);
  if (n && n->op == OpId::kGelu) return std::pair("Gelu", std::get<AlphaBetaAttrs>(n->attrs).alpha);
  return std::nullopt;
}

Result<int> until_stable(Graph& g, PassContext& c, const std::function<Status(Round&, Node&)>& step) {
  constexpr int kMaxRounds = 64;  // each round makes the graph simpler; the bound is against a rule that does not
  int total = 0;
  for (int round = 0; round < kMaxRounds; ++round) {
    Round r(g, c);
    for (size_t i = g.nodes.size(); i-- > 0;)
      if (!r.gone(g.nodes[i])) BRISK_TRY(step(r, g.nodes[i]));
    BRISK_ASSIGN(int changed, r.finish());
    total += changed;
    if (changed > 0) continue;
    c.missed.insert(c.missed.end(), r.misses().begin(), r.misses().end());
    break;
  }
  return total;
}

bool is_view(const Graph& g, const Node& n) {
  return (n.op == OpId::kReshape || n.op == OpId::kSqueeze || n.op == OpId::kUnsqueeze || n.op == OpId::kFlatten) &&
         type_of(g, n.inputs[0]).ranked && type_of(g, n.outputs[0]).ranked;
}

std::vector<int64_t> perm_of(const Graph& g, const Node& n) {
  auto perm = std::get<TransposeAttrs>(n.attrs).perm;
  if (perm.empty())
    for (int64_t i = type_of(g, n.inputs[0]).rank(); i-- > 0;) perm.push_back(i);
  return perm;
}

std::optional<LastAxisPart> last_axis_part(const Round& r, ValueId v) {
  const Graph& g = r.g;
  const Node* n = r.index.producer(v);
  if (!n || !type_of(g, n->inputs[0]).ranked || !type_of(g, v).ranked || type_of(g, v).rank() == 0) return std::nullopt;
  const Type& x = type_of(g, n->inputs[0]);
  auto whole = x.shape.back().constant(), length = type_of(g, v).shape.back().constant();
  if (!whole || !length) return std::nullopt;
  if (n->op == OpId::kSplit) {
    if (!last_axis(g, n->inputs[0], std::get<SliceAttrs>(n->attrs).axis)) return std::nullopt;
    LastAxisPart p{n->inputs[0], 0, *length, 1};
    for (ValueId out : n->outputs) {
      if (out == v) return p;
      auto k = out < 0 ? std::nullopt : type_of(g, out).shape.back().constant();
      if (!k) return std::nullopt;
      p.start += *k;
    }
    return std::nullopt;
  }
  if (n->op != OpId::kSlice) return std::nullopt;
  auto starts = known_numbers(g, n->inputs[1]), axes = known_numbers(g, operand(*n, 3)), steps = known_numbers(g, operand(*n, 4));
  bool plain = operand(*n, 4) < 0;
  if (!starts || !axes || axes->size() != 1 || !last_axis(g, n->inputs[0], (*axes)[0]) || (!steps && !plain)) return std::nullopt;
  int64_t step = plain ? 1 : (*steps)[0], start = (*starts)[0] < 0 ? (*starts)[0] + *whole : (*starts)[0];
  if (step < 1 || start < 0 || start + (*length - 1) * step >= *whole) return std::nullopt;
  return LastAxisPart{n->inputs[0], start, *length, step};
}

std::optional<double> uniform(const Graph& g, ValueId v) {
  const Constant* c = g.constant(v);
  if (!c || !c->encoding.plain() || c->count() < 1) return std::nullopt;
  auto at = [&](int64_t i) {
    if (c->dtype == DType::kF64) return c->as<double>()[i];
    return is_float(c->dtype) ? static_cast<double>(load_float(c->data.bytes.data(), c->dtype, i))
                              : static_cast<double>(load_int(c->data.bytes.data(), c->dtype, i));
  };
  double first = at(0);
  for (int64_t i = 1; i < c->count(); ++i)
    if (at(i) != first) return std::nullopt;
  return std::isnan(first) ? std::nullopt : std::optional(first);
}

std::optional<std::vector<int64_t>> known_numbers(const Graph& g, ValueId v) {
  if (v < 0) return std::nullopt;
  if (const Constant* c = g.constant(v); c && c->encoding.plain() && is_integer(c->dtype)) return to_ints(c->view());
  const auto& e = g.value(v).type.elements;
  if (!e) return std::nullopt;
  std::vector<int64_t> out;
  for (const Dim& d : *e) {
    auto n = d.constant();
    if (!n) return std::nullopt;
    out.push_back(*n);
  }
  return out;
}

bool equal_shapes(const Graph& g, ValueId a, ValueId b) {
  const Type &x = g.value(a).type, &y = g.value(b).type;
  return x.ranked && y.ranked && x.shape == y.shape;
}

bool last_axis(const Graph& g, ValueId v, int64_t axis) {
  const Type& t = g.value(v).type;
  return t.ranked && t.rank() > 0 && (axis == -1 || axis == t.rank() - 1);
}

bool reduces_last(const Graph& g, const Node& n) {
  const auto* a = std::get_if<ReduceAttrs>(&n.attrs);
  if (!a || a->all || !a->keep_dims) return false;
  std::vector<int64_t> axes = a->axes;
  if (operand(n, 1) >= 0) {
    auto given = known_numbers(g, n.inputs[1]);
    if (!given) return false;
    axes = *given;
  }
  return axes.size() == 1 && last_axis(g, n.inputs[0], axes[0]);
}

bool positive(const Graph& g, const Dim& d) {
  if (auto c = d.constant()) return *c > 0;
  // Sums and products with positive coefficients grow with their symbols, so their least value is that of the least symbols.
  std::string text = d.to_string();
  if (text.find_first_of("-%/") != std::string::npos || text.find("min(") != std::string::npos) return false;
  auto least = d.evaluate([&](const std::string& name) -> std::optional<int64_t> {
    auto it = g.symbols.find(name);
    return it == g.symbols.end() ? 0 : it->second.min;
  });
  return least && *least > 0;
}

std::optional<std::vector<int64_t>> reshape_operand(const Graph& g, const Shape& from, const Shape& to) {
  std::vector<int64_t> out;
  int inferred = -1;
  bool others_positive = true;
  for (size_t i = 0; i < to.size(); ++i) {
    auto n = to[i].constant();
    if (i < from.size() && from[i] == to[i]) out.push_back(n && *n ? *n : 0);
    else if (n && *n != 0) out.push_back(*n);
    else if (n || inferred >= 0) return std::nullopt;
    else inferred = static_cast<int>(i), out.push_back(-1);
    if (out.back() != -1) others_positive = others_positive && positive(g, to[i]);
  }
  // With another dim of 0 the one left out could be anything.
  if (inferred >= 0 && !others_positive) return std::nullopt;
  return out;
}

}  // namespace brisk::passes
