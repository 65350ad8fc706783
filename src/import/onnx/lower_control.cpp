// If, Loop, Scan.
#include "import/onnx/importer.h"

namespace brisk::onnx_import {
namespace {

using enum OpId;

const GraphDef* body(Lower& l, const char* name) {
  const Attribute* a = l.attribute(name);
  if (!a || !a->graph) return l.bad(std::string("attribute '") + name + "' is missing"), nullptr;
  return a->graph.get();
}

// Appends a node with blocks; results take their types from the rule.
std::vector<ValueId> add_block_node(Lower& l, OpId op, Attrs attrs, std::vector<ValueId> in, std::vector<ValueId> captures,
                                    std::vector<Graph> blocks, size_t outputs) {
  if (l.failed()) return std::vector<ValueId>(outputs, kNoValue);
  Graph& g = l.graph();
  Node n;
  n.op = op;
  n.attrs = std::move(attrs);
  n.inputs = std::move(in);
  n.captures = static_cast<int>(captures.size());
  n.inputs.insert(n.inputs.end(), captures.begin(), captures.end());
  n.blocks = std::move(blocks);
  n.name = l.scope.prefix + (l.node.name.empty() ? l.node.op : l.node.name);
  for (size_t i = 0; i < outputs; ++i) n.outputs.push_back(g.add_value(l.importer.unique_name(*l.scope.frame, n.name + ":v")));
  auto s = infer_node(g, n);
  if (!s.ok()) {
    l.fail(std::move(s).error());
    return std::vector<ValueId>(outputs, kNoValue);
  }
  auto out = n.outputs;
  g.nodes.push_back(std::move(n));
  return out;
}

void lower_if(Lower& l) {
  const GraphDef *yes = body(l, "then_branch"), *no = body(l, "else_branch");
  if (!yes || !no) return;
  if (yes->outputs.size() != no->outputs.size()) return void(l.bad("the branches have " + std::to_string(yes->outputs.size()) + " and " + std::to_string(no->outputs.size()) + " results"));
  std::string prefix = l.scope.prefix + l.node.name + "/";
  if (auto known = l.numbers(l.in(0)); known && known->size() == 1) {  // only one branch will ever run
    auto r = l.importer.inline_graph(l.scope, (*known)[0] ? *yes : *no, {}, prefix);
    if (!r.ok()) return void(l.fail(std::move(r).error()));
    for (size_t i = 0; i < r->size(); ++i) l.set(i, (*r)[i]);
    return;
  }
  std::vector<ValueId> captures;
  auto a = l.importer.block(l.scope, *yes, {}, captures);
  if (!a.ok()) return void(l.fail(std::move(a).error()));
  size_t shared = captures.size();
  auto b = l.importer.block(l.scope, *no, {}, captures);
  if (!b.ok()) return void(l.fail(std::move(b).error()));
  // What only the second reads becomes an input of the first as well.
  for (size_t i = shared; i < captures.size(); ++i) {
    const Value& v = l.graph().value(captures[i]);
    a->add_input("capture." + std::to_string(i) + "." + v.name, v.type);
  }
  std::vector<Graph> blocks;
  blocks.push_back(std::move(*a));
  blocks.push_back(std::move(*b));
  auto out = add_block_node(l, kIf, NoAttrs{}, {l.in(0)}, captures, std::move(blocks), yes->outputs.size());
  for (size_t i = 0; i < out.size(); ++i) l.set(i, out[i]);
}

// Types that hold for a state at every step: sizes that a step changes become symbols of their own.
bool widen(Graph& g, Type& have, const Type& after) {
  if (!have.ranked) return false;
  if (!after.ranked || after.rank() != have.rank()) {
    have.ranked = false;
    have.shape.clear();
    return true;
  }
  bool changed = false;
  for (size_t i = 0; i < have.shape.size(); ++i)
    if (!(have.shape[i] == after.shape[i])) {
      if (auto s = have.shape[i].as_symbol(); s && s->starts_with("?state")) continue;
      have.shape[i] = Dim::symbol("?state." + std::to_string(g.next_symbol++));
      changed = true;
    }
  return changed;
}

// The body imported with state types that it keeps.
std::optional<Graph> settled_body(Lower& l, const GraphDef& def, std::vector<Type>& formals, size_t first_state, size_t states,
                                  std::vector<ValueId>& captures) {
  for (Type& t : formals) t.elements.reset();
  for (int round = 0; round < 4; ++round) {
    captures.clear();
    auto b = l.importer.block(l.scope, def, formals, captures);
    if (!b.ok()) return l.fail(std::move(b).error()), std::nullopt;
    bool changed = false;
    for (size_t i = 0; i < states; ++i)
      changed = widen(l.graph(), formals[first_state + i], b->value(b->outputs[1 + i]).type) || changed;
    if (!changed) return std::move(*b);
  }
  return l.refuse("a body whose states never settle on a rank"), std::nullopt;
}

void lower_loop(Lower& l) {
  const GraphDef* def = body(l, "body");
  if (!def) return;
  if (l.count() < 2) return void(l.bad("trip count and condition operands are missing"));
  size_t states = l.count() - 2;
  if (def->inputs.size() != 2 + states || def->outputs.size() < 1 + states)
    return void(l.bad("the body has " + std::to_string(def->inputs.size()) + " inputs and " + std::to_string(def->outputs.size()) + " results for " + std::to_string(states) + " states"));
  std::vector<Type> formals = {Type{DType::kI64, true, {}, {}}, Type{DType::kBool, true, {}, {}}};
  for (size_t i = 0; i < states; ++i) {
    if (!l.has(2 + i)) return void(l.refuse("an absent state"));
    formals.push_back(l.type(l.in(2 + i)));
  }
  std::vector<ValueId> captures;
  auto b = settled_body(l, *def, formals, 2, states, captures);
  if (!b) return;
  ModeAttrs a;
  a.flag = static_cast<int64_t>(states);
  bool starts = !l.has(1) || l.scalar(l.in(1)).value_or(0) != 0;
  if (starts && l.has(0) && b->outputs[0] == b->inputs[1]) a.mode = "counted";  // the body passes the condition on
  std::vector<ValueId> in = {l.in(0), l.in(1)};
  in.insert(in.end(), l.inputs().begin() + 2, l.inputs().end());
  std::vector<Graph> blocks;
  size_t outputs = def->outputs.size() - 1;
  blocks.push_back(std::move(*b));
  auto out = add_block_node(l, kLoop, a, in, captures, std::move(blocks), outputs);
  for (size_t i = 0; i < out.size(); ++i) l.set(i, out[i]);
}

// A wrapper body round Scan's: takes (i, condition, states) and cuts the scanned operands itself.
//   for i in [0, n): states, elements = body(states, scanned[j][i or n - 1 - i])
struct ScanParts {
  int64_t states = 0, scanned = 0;
  std::vector<int64_t> in_axes, out_axes, in_reverse, out_reverse;
};

std::vector<int64_t> filled(std::vector<int64_t> v, size_t n) {
  if (v.empty()) v.assign(n, 0);
  return v;
}

void scan_of_rows(Lower& l);

void lower_scan(Lower& l) {
  const GraphDef* def = body(l, "body");
  if (!def) return;
  if (l.opset < 9 && l.node.domain.empty()) return scan_of_rows(l);
  int64_t scanned = l.i("num_scan_inputs", 0), states = static_cast<int64_t>(l.count()) - scanned;
  int64_t elements = static_cast<int64_t>(def->outputs.size()) - states;
  if (scanned < 1 || states < 0 || elements < 0 || def->inputs.size() != l.count()) return void(l.bad("num_scan_inputs is " + std::to_string(scanned)));
  auto n_in = static_cast<size_t>(scanned), n_out = static_cast<size_t>(elements), n_states = static_cast<size_t>(states);
  ScanParts p{states, scanned, filled(l.ints("scan_input_axes"), n_in), filled(l.ints("scan_output_axes"), n_out),
              filled(l.ints("scan_input_directions"), n_in), filled(l.ints("scan_output_directions"), n_out)};
  if (p.in_axes.size() != n_in || p.out_axes.size() != n_out || p.in_reverse.size() != n_in || p.out_reverse.size() != n_out)
    return void(l.bad("axes or directions do not fit the numbers of scanned operands and results"));
  // The surrounding Loop is written as a graph of its own: a body in ONNX's terms whose nodes cut and call.
  auto loop = std::make_shared<GraphDef>();
  loop->name = def->name;
  auto value = [](std::string name) { return ValueDef{std::move(name), {}}; };
  loop->inputs = {value("scan:i"), value("scan:go")};
  loop->outputs = {value("scan:go_on")};
  auto node = [&](std::string op, std::vector<std::string> in, std::vector<std::string> out) -> NodeDef& {
    NodeDef& n = loop->nodes.emplace_back();
    n.op = std::move(op);
    n.name = l.node.name + "/" + n.op;
    n.inputs = std::move(in);
    n.outputs = std::move(out);
    return n;
  };
  auto integer = [](int64_t v) { Attribute a; a.kind = Attribute::Kind::kInt; a.i = v; return a; };
  node("Identity", {"scan:go"}, {"scan:go_on"});
  loop->initializers.push_back({"scan:minus", make_constant<int64_t>(DType::kI64, {}, {-1}), ""});
  node("Sub", {"scan:minus", "scan:i"}, {"scan:from_end"});
  for (size_t i = 0; i < n_states; ++i) loop->inputs.push_back(value(def->inputs[i].name));
  for (size_t j = 0; j < n_in; ++j)
    node("Gather", {l.node.inputs[n_states + j], p.in_reverse[j] ? "scan:from_end" : "scan:i"}, {def->inputs[n_states + j].name}).attributes["axis"] = integer(p.in_axes[j]);
  loop->nodes.insert(loop->nodes.end(), def->nodes.begin(), def->nodes.end());
  loop->initializers.insert(loop->initializers.end(), def->initializers.begin(), def->initializers.end());
  loop->outputs.insert(loop->outputs.end(), def->outputs.begin(), def->outputs.end());

  auto first = l.rank(l.in(n_states));
  if (!first) return void(l.refuse("a scanned operand of unknown rank"));
  int64_t axis = p.in_axes[0] < 0 ? p.in_axes[0] + *first : p.in_axes[0];
  ValueId trips = l.squeeze(l.shape_of(l.in(n_states), axis, axis + 1), {0});
  std::vector<Type> formals = {Type{DType::kI64, true, {}, {}}, Type{DType::kBool, true, {}, {}}};
  for (size_t i = 0; i < n_states; ++i) formals.push_back(l.type(l.in(i)));
  std::vector<ValueId> captures;
  auto b = settled_body(l, *loop, formals, 2, n_states, captures);
  if (!b) return;
  ModeAttrs a;
  a.flag = states;
  a.mode = "counted";
  std::vector<ValueId> in = {trips, l.scalar_of(DType::kBool, 1)};
  in.insert(in.end(), l.inputs().begin(), l.inputs().begin() + states);
  std::vector<Graph> blocks;
  blocks.push_back(std::move(*b));
  auto out = add_block_node(l, kLoop, a, in, captures, std::move(blocks), n_states + n_out);
  for (size_t i = 0; i < out.size(); ++i) {
    ValueId v = out[i];
    if (i >= n_states) {
      size_t j = i - n_states;
      if (p.out_reverse[j]) v = l.add(kSlice, NoAttrs{}, {v, l.i64({-1}), l.i64({INT64_MIN + 1}), l.i64({0}), l.i64({-1})});
      auto r = l.rank(v);
      if (p.out_axes[j] != 0) {
        if (!r) return void(l.refuse("scan results of unknown rank along axis " + std::to_string(p.out_axes[j])));
        int64_t to = p.out_axes[j] < 0 ? p.out_axes[j] + *r : p.out_axes[j];
        if (to < 0 || to >= *r) return void(l.bad("scan_output_axes holds " + std::to_string(p.out_axes[j])));
        std::vector<int64_t> perm;
        for (int64_t d = 1; d < *r; ++d) perm.push_back(d);
        perm.insert(perm.begin() + to, 0);
        v = l.transpose(v, perm);
      }
    }
    l.set(i, v);
  }
}

// Scan of opset 8, (lengths?, states [B, ...], scanned [B, T, ...]): a scan over the batch whose body is the later Scan. The
// body's own nodes keep their opset, so the inner node says by its domain which of the two it is.
constexpr const char* kOwnDomain = "brisk.internal";

void scan_of_rows(Lower& l) {
  if (l.has(0)) return void(l.refuse("Scan of opset 8 with lengths of its rows"));
  if (l.count() < 2) return void(l.bad("nothing to scan"));
  auto each = std::make_shared<GraphDef>();
  each->name = "row";
  NodeDef& inner = each->nodes.emplace_back();
  inner.op = "Scan";
  inner.domain = kOwnDomain;
  inner.name = l.node.name + "/row";
  inner.attributes = l.node.attributes;
  if (auto d = inner.attributes.find("directions"); d != inner.attributes.end()) inner.attributes["scan_input_directions"] = d->second;
  for (size_t i = 1; i < l.count(); ++i) {
    inner.inputs.push_back("scan:row_" + std::to_string(i));
    each->inputs.push_back({inner.inputs.back(), {}});
  }
  for (size_t i = 0; i < l.node.outputs.size(); ++i) {
    inner.outputs.push_back("scan:result_" + std::to_string(i));
    each->outputs.push_back({inner.outputs.back(), {}});
  }
  NodeDef outer;
  outer.op = "Scan";
  outer.name = l.node.name;
  outer.inputs.assign(l.node.inputs.begin() + 1, l.node.inputs.end());
  outer.outputs = l.node.outputs;
  Attribute graph, count;
  graph.kind = Attribute::Kind::kGraph;
  graph.graph = each;
  count.kind = Attribute::Kind::kInt;
  count.i = static_cast<int64_t>(outer.inputs.size());
  outer.attributes = {{"body", graph}, {"num_scan_inputs", count}};
  Lower batch(l.importer, l.scope, outer, 9, {l.inputs().begin() + 1, l.inputs().end()}, l.node.name);
  lower_scan(batch);
  if (batch.error()) return void(l.fail(*batch.error()));
  for (size_t i = 0; i < batch.results().size(); ++i) l.set(i, batch.results()[i]);
}

}  // namespace

void register_control(LowerTable& t) {
  t.insert({{"If", lower_if}, {"Loop", lower_loop}, {"Scan", lower_scan}, {std::string(kOwnDomain) + "::Scan", lower_scan}});
}

}  // namespace brisk::onnx_import
