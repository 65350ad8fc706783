#include "ir/graph.h"

#include <algorithm>

namespace brisk {

ValueId Graph::add_value(std::string name, Type type) {
  values.push_back({std::move(name), std::move(type), nullptr});
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::add_input(std::string name, Type type) {
  for (const Dim& d : type.shape) {
    std::vector<std::string> names;
    d.collect_symbols(names);
    for (auto& n : names) symbols.emplace(n, SymbolRange{});
  }
  inputs.push_back(add_value(std::move(name), std::move(type)));
  return inputs.back();
}

ValueId Graph::add_constant(std::string name, ConstantPtr c) {
  Type t{c->dtype, true, Shape(c->shape.begin(), c->shape.end()), {}};
  if (c->encoding.plain() && (is_integer(t.dtype) || t.dtype == DType::kBool) && c->count() <= kMaxTrackedElements) {
    auto ints = to_ints(c->view());
    t.elements = std::vector<Dim>(ints.begin(), ints.end());
  }
  ValueId id = add_value(std::move(name), std::move(t));
  value(id).constant = std::move(c);
  return id;
}

ValueId Graph::add_state(StateSpec spec) {
  spec.value = add_value(spec.name, Type{spec.dtype, false, {}, {}});
  states.push_back(spec);
  return spec.value;
}

Result<std::vector<ValueId>> Graph::add_node(OpId op, Attrs attrs, std::vector<ValueId> in, int n_outputs, std::string node_name) {
  Node n;
  n.op = op;
  n.attrs = std::move(attrs);
  n.inputs = std::move(in);
  n.name = std::move(node_name);
  for (int i = 0; i < n_outputs; ++i)
    n.outputs.push_back(add_value((n.name.empty() ? "v" + std::to_string(values.size()) : n.name) +
                                  (i ? "." + std::to_string(i) : "")));
  BRISK_TRY(infer_node(*this, n));
  auto out = n.outputs;
  nodes.push_back(std::move(n));
  return out;
}

Result<ValueId> Graph::add(OpId op, Attrs attrs, std::vector<ValueId> in, std::string node_name) {
  BRISK_ASSIGN(auto out, add_node(op, std::move(attrs), std::move(in), 1, std::move(node_name)));
  return out[0];
}

bool Graph::is_input(ValueId id) const { return std::find(inputs.begin(), inputs.end(), id) != inputs.end(); }
bool Graph::is_output(ValueId id) const { return std::find(outputs.begin(), outputs.end(), id) != outputs.end(); }
bool Graph::is_state(ValueId id) const {
  return std::any_of(states.begin(), states.end(), [&](const StateSpec& s) { return s.value == id; });
}

std::vector<NodeId> Graph::producers() const {
  std::vector<NodeId> p(values.size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i)
    for (ValueId v : nodes[i].outputs)
      if (v >= 0) p[static_cast<size_t>(v)] = static_cast<NodeId>(i);
  return p;
}

std::vector<std::vector<NodeId>> Graph::users() const {
  std::vector<std::vector<NodeId>> u(values.size());
  for (size_t i = 0; i < nodes.size(); ++i)
    for (ValueId v : nodes[i].inputs)
      if (v >= 0 && (u[static_cast<size_t>(v)].empty() || u[static_cast<size_t>(v)].back() != static_cast<NodeId>(i)))
        u[static_cast<size_t>(v)].push_back(static_cast<NodeId>(i));
  return u;
}

void Graph::replace_uses(ValueId from, ValueId to) {
  for (Node& n : nodes) std::replace(n.inputs.begin(), n.inputs.end(), from, to);
  std::replace(outputs.begin(), outputs.end(), from, to);
}

void Graph::compact(const std::vector<bool>& dead) {
  std::vector<Node> kept;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (i >= dead.size() || !dead[i]) kept.push_back(std::move(nodes[i]));
  nodes = std::move(kept);

  std::vector<ValueId> renamed(values.size(), kNoValue);
  std::vector<bool> mentioned(values.size());
  auto mention = [&](ValueId v) { if (v >= 0) mentioned[static_cast<size_t>(v)] = true; };
  for (Node& n : nodes) {
    for (ValueId v : n.inputs) mention(v);
    for (ValueId v : n.outputs) mention(v);
  }
  for (ValueId v : inputs) mention(v);
  for (ValueId v : outputs) mention(v);
  for (StateSpec& s : states) mention(s.value);
  std::vector<Value> left;
  for (size_t i = 0; i < values.size(); ++i)
    if (mentioned[i]) {
      renamed[i] = static_cast<ValueId>(left.size());
      left.push_back(std::move(values[i]));
    }
  values = std::move(left);
  auto rename = [&](ValueId& v) { if (v >= 0) v = renamed[static_cast<size_t>(v)]; };
  for (Node& n : nodes) {
    for (ValueId& v : n.inputs) rename(v);
    for (ValueId& v : n.outputs) rename(v);
  }
  for (ValueId& v : inputs) rename(v);
  for (ValueId& v : outputs) rename(v);
  for (StateSpec& s : states) rename(s.value);
}

namespace {

std::string describe(const Node& n) { return n.name.empty() ? std::string(op_name(n.op)) : n.name + " (" + op_name(n.op) + ")"; }

// Result types of If, Loop and Scan come from their blocks; importers and infer_graph call this after the blocks' own.
Status infer_blocks(Graph& g, Node& n) {
  for (Graph& b : n.blocks) {
    size_t formal = b.inputs.size() - static_cast<size_t>(n.captures), first = n.inputs.size() - static_cast<size_t>(n.captures);
    for (int c = 0; c < n.captures; ++c) {
      // A capture is the outer value itself: type, tracked elements and constant pass through.
      Value& inner = b.value(b.inputs[formal + static_cast<size_t>(c)]);
      const Value& outer = g.value(n.inputs[first + static_cast<size_t>(c)]);
      inner.type = outer.type;
    }
    b.symbols = g.symbols;
    b.next_symbol = g.next_symbol;
    BRISK_TRY(infer_graph(b));
    g.next_symbol = b.next_symbol;
  }
  return {};
}

}  // namespace

Status infer_node(Graph& g, Node& n) {
  std::vector<const Type*> in;
  for (ValueId v : n.inputs) in.push_back(v < 0 ? nullptr : &g.value(v).type);
  if (op_def(n.op).is(kHasBlocks)) {
    if (auto s = infer_blocks(g, n); !s.ok()) return std::move(s).error().in(describe(n));
    // The rule of a block operator sees the bodies' results after the operands.
    for (Graph& b : n.blocks)
      for (ValueId v : b.outputs) in.push_back(&b.value(v).type);
  }
  std::vector<TensorView> views(n.inputs.size());
  auto data = [&](int i) -> const TensorView* {
    if (i >= static_cast<int>(n.inputs.size())) return nullptr;
    const Constant* c = g.constant(n.inputs[static_cast<size_t>(i)]);
    if (!c || !c->encoding.plain()) return nullptr;
    views[static_cast<size_t>(i)] = c->view();
    return &views[static_cast<size_t>(i)];
  };
  auto types = infer_types(n.op, n.attrs, in, static_cast<int>(n.outputs.size()), &g.next_symbol, data);
  if (!types.ok()) return n.name.empty() ? Status(std::move(types).error()) : Status(std::move(types).error().in(n.name));
  for (size_t i = 0; i < n.outputs.size(); ++i)
    if (n.outputs[i] >= 0) g.value(n.outputs[i]).type = std::move((*types)[i]);
  return {};
}

Status infer_graph(Graph& g) {
  for (Node& n : g.nodes) BRISK_TRY(infer_node(g, n));
  return {};
}

}  // namespace brisk
