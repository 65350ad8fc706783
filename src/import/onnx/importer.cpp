#include "import/onnx/importer.h"

#include <algorithm>
#include <cctype>
#include <queue>
#include <unordered_set>

#include "import/onnx/import.h"

namespace brisk::onnx_import {
namespace {

constexpr int64_t kNewestOpset = 28;
constexpr int kMaxCallDepth = 64;

// Names that the bodies of a node read from outside.
void free_names(const NodeDef& n, std::vector<std::string>& out) {
  for (const auto& [key, a] : n.attributes) {
    if (!a.graph) continue;
    std::unordered_set<std::string> own;
    for (const auto& v : a.graph->inputs) own.insert(v.name);
    for (const auto& v : a.graph->initializers) own.insert(v.name);
    for (const NodeDef& inner : a.graph->nodes) own.insert(inner.outputs.begin(), inner.outputs.end());
    std::vector<std::string> used;
    for (const NodeDef& inner : a.graph->nodes) {
      used.insert(used.end(), inner.inputs.begin(), inner.inputs.end());
      free_names(inner, used);
    }
    for (const auto& v : a.graph->outputs) used.push_back(v.name);
    for (auto& name : used)
      if (!name.empty() && !own.count(name)) out.push_back(std::move(name));
  }
}

bool is_name(const std::string& s) {
  if (s.empty() || (!std::isalpha(static_cast<unsigned char>(s[0])) && s[0] != '_')) return false;
  for (char c : s)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') return false;
  return s != "min" && s != "max";
}

std::string identifier(const std::string& s) {
  std::string out;
  for (char c : s) out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ? c : '_';
  return out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) || out[0] == '.' ? "x" + out : out;
}

std::string title(const NodeDef& n) { return n.domain.empty() ? n.op : n.domain + "::" + n.op; }

}  // namespace

Result<std::vector<size_t>> execution_order(const std::vector<NodeDef>& nodes) {
  std::unordered_map<std::string, size_t> producer;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& name : nodes[i].outputs)
      if (!name.empty() && !producer.emplace(name, i).second)
        return invalid("two nodes (" + std::to_string(producer[name]) + " and " + std::to_string(i) + ", " + title(nodes[i]) + ") give '" + name + "'");
  std::vector<std::vector<size_t>> users(nodes.size());
  std::vector<size_t> waiting(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::vector<std::string> used = nodes[i].inputs;
    free_names(nodes[i], used);
    std::set<size_t> needs;
    for (const std::string& name : used)
      if (auto it = producer.find(name); it != producer.end()) needs.insert(it->second);
    for (size_t p : needs) users[p].push_back(i);
    waiting[i] = needs.size();
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (waiting[i] == 0) ready.push(i);
  std::vector<size_t> order;
  while (!ready.empty()) {
    size_t i = ready.top();
    ready.pop();
    order.push_back(i);
    for (size_t u : users[i])
      if (--waiting[u] == 0) ready.push(u);
  }
  if (order.size() == nodes.size()) return order;
  size_t stuck = 0;
  while (waiting[stuck] == 0) ++stuck;
  return invalid("node " + std::to_string(stuck) + " '" + nodes[stuck].name + "' (" + title(nodes[stuck]) + ") is part of, or waits for, a cycle");
}

std::string Importer::unique_name(Frame& f, const std::string& wanted) {
  int n = f.used_names[wanted]++;
  if (n == 0 && !wanted.empty()) return wanted;
  std::string name = wanted + "#" + std::to_string(n);
  return f.used_names.count(name) ? unique_name(f, name) : (f.used_names[name] = 1, name);
}

int64_t Importer::opset_of(const Scope& scope, const std::string& domain) const {
  const auto& opsets = scope.opsets ? *scope.opsets : model_.opsets;
  auto it = opsets.find(domain);
  if (it != opsets.end()) return it->second;
  if (&opsets != &model_.opsets)
    if (it = model_.opsets.find(domain); it != model_.opsets.end()) return it->second;
  return domain.empty() && model_.opsets.empty() ? 1 : domain.empty() ? kNewestOpset : 1;
}

const FunctionDef* Importer::function(const NodeDef& n) const {
  for (const FunctionDef& f : model_.functions)
    if (f.domain == n.domain && f.name == n.op && f.overload == n.overload) return &f;
  return nullptr;
}

void Importer::find_unsupported(const std::vector<NodeDef>& nodes, const std::string& where, int depth) {
  if (depth > kMaxCallDepth) return;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeDef& n = nodes[i];
    const FunctionDef* f = function(n);
    if (f) {
      if (visited_.insert(f).second) find_unsupported(f->nodes, "function " + f->name + ": ", depth + 1);
    } else if (!find_lowering(n.domain, n.op)) {
      auto it = model_.opsets.find(n.domain);
      std::string version = it == model_.opsets.end() ? "not imported" : "opset " + std::to_string(it->second);
      problems_.push_back({where + "node " + std::to_string(i) + " '" + n.name + "' (" + title(n) + ", " + version + ")", "no such operator"});
    }
    for (const auto& [key, a] : n.attributes)
      if (a.graph) find_unsupported(a.graph->nodes, where + "node " + std::to_string(i) + " " + key + ": ", depth + 1);
  }
}

Error Importer::all_problems() const {
  std::string text = std::to_string(problems_.size()) + (problems_.size() == 1 ? " node needs" : " nodes need") + " what brisk does not have:";
  constexpr size_t kShown = 200;
  for (size_t i = 0; i < problems_.size() && i < kShown; ++i) text += "\n  " + problems_[i].where + ": " + problems_[i].what;
  if (problems_.size() > kShown) text += "\n  and " + std::to_string(problems_.size() - kShown) + " more";
  return unsupported(text);
}

bool Importer::poisoned(const Scope& scope, ValueId v) const { return v >= 0 && poison_.count({scope.frame->graph, v}); }

ValueId Importer::bring(Frame& to, Frame& from, ValueId v) {
  if (&to == &from) return v;
  ValueId outer = bring(*to.parent, from, v);
  auto [it, fresh] = to.inner.emplace(outer, kNoValue);
  if (!fresh) return it->second;
  const Value source = to.parent->graph->value(outer);
  if (source.constant) return it->second = to.graph->add_constant(unique_name(to, source.name), source.constant);
  it->second = to.graph->add_input(unique_name(to, source.name), source.type);
  to.captures->push_back(outer);
  if (poison_.count({to.parent->graph, outer})) poison_.insert({to.graph, it->second});
  return it->second;
}

Result<ValueId> Importer::lookup(Scope& scope, const std::string& name) {
  if (name.empty()) return kNoValue;
  for (Scope* s = &scope; s; s = s->parent)
    if (auto it = s->names.find(name); it != s->names.end()) return bring(*scope.frame, *s->frame, it->second);
  return invalid("input '" + name + "' is never defined");
}

Status Importer::initializers(Scope& scope, const GraphDef& g) {
  for (const InitializerDef& i : g.initializers) {
    ValueId v = kNoValue;
    if (i.value) {
      v = scope.frame->graph->add_constant(unique_name(*scope.frame, i.name), i.value);
    } else {
      problems_.push_back({"initialiser '" + i.name + "'", i.problem});
      v = scope.frame->graph->add_value(unique_name(*scope.frame, i.name), Type{DType::kF32, false, {}, {}});
      poison_.insert({scope.frame->graph, v});
    }
    scope.names[i.name] = v;
  }
  return {};
}

Status Importer::inputs(Scope& scope, const GraphDef& g) {
  std::unordered_set<std::string> fixed;
  for (const InitializerDef& i : g.initializers) fixed.insert(i.name);
  for (const ValueDef& v : g.inputs) {
    if (fixed.count(v.name)) continue;  // a default value: taken as it is
    if (!v.type.tensor) {
      problems_.push_back({"input '" + v.name + "'", "only tensors are supported (no sequence, map, optional)"});
      continue;
    }
    auto dtype = dtype_of_onnx(v.type.dtype);
    if (!dtype) {
      problems_.push_back({"input '" + v.name + "'", "elements of type " + onnx_dtype_name(v.type.dtype)});
      continue;
    }
    Type t{*dtype, v.type.ranked, {}, {}};
    if (v.type.shape.size() > static_cast<size_t>(kMaxRank))
      return unsupported("input '" + v.name + "': rank " + std::to_string(v.type.shape.size()) + ", at most " + std::to_string(kMaxRank));
    for (size_t d = 0; d < v.type.shape.size(); ++d) {
      const TypeDef::Dim& dim = v.type.shape[d];
      if (dim.value >= 0) t.shape.push_back(dim.value);
      else if (is_name(dim.name)) t.shape.push_back(Dim::symbol(dim.name));
      else t.shape.push_back(Dim::symbol(identifier(v.name) + "_" + std::to_string(d)));
    }
    scope.names[v.name] = scope.frame->graph->add_input(unique_name(*scope.frame, v.name), std::move(t));
  }
  // The past of a cache is empty at the first call.
  for (auto& [name, range] : scope.frame->graph->symbols)
    if (name.find("past") != std::string::npos || name.find("cache") != std::string::npos) range.min = 0;
  // So is that of inputs called so, whose dims may be called anything; not the sizes that other inputs have as well.
  Graph& graph = *scope.frame->graph;
  auto is_past = [&](ValueId v) { return graph.value(v).name.find("past") != std::string::npos; };
  std::vector<std::string> own, shared;
  for (ValueId v : graph.inputs)
    for (const Dim& d : graph.value(v).type.shape) d.collect_symbols(is_past(v) ? own : shared);
  for (auto& name : own)
    if (std::find(shared.begin(), shared.end(), name) == shared.end()) graph.symbols[name].min = 0;
  return {};
}

Status Importer::node(Scope& scope, const NodeDef& n, size_t index, const std::string& where) {
  int64_t opset = opset_of(scope, n.domain);
  std::string place = where + "node " + std::to_string(index) + " '" + n.name + "' (" + title(n) + ", opset " + std::to_string(opset) + ")";
  std::vector<ValueId> in;
  bool skip = false;
  for (const std::string& name : n.inputs) {
    auto v = lookup(scope, name);
    if (!v.ok()) return std::move(v).error().in(place);
    skip = skip || poisoned(scope, *v);
    in.push_back(*v);
  }
  std::string name = scope.prefix + (n.name.empty() ? n.op : n.name);
  std::vector<ValueId> results;
  std::optional<Error> error;
  const size_t first = scope.frame->graph->values.size();
  if (const FunctionDef* f = skip ? nullptr : function(n)) {
    auto r = call(scope, *f, n, std::move(in), name);
    if (r.ok()) results = std::move(*r);
    else error = std::move(r).error();
  } else if (LowerFn lower = skip ? nullptr : find_lowering(n.domain, n.op)) {
    Lower l(*this, scope, n, opset, std::move(in), name);
    lower(l);
    error = l.error();
    results = l.results();
  } else {
    skip = true;
  }
  if (error && error->kind != ErrorKind::kUnsupported) return std::move(*error).in(place);
  if (error) problems_.push_back({place, error->message});
  for (size_t o = 0; o < n.outputs.size(); ++o) {
    const std::string& out = n.outputs[o];
    if (out.empty()) continue;
    ValueId v = !error && o < results.size() ? results[o] : kNoValue;
    if (v == kNoValue) {
      if (!error && !skip) problems_.push_back({place, "result " + std::to_string(o) + " ('" + out + "') is not supported"});
      v = scope.frame->graph->add_value(unique_name(*scope.frame, out), Type{DType::kF32, false, {}, {}});
      poison_.insert({scope.frame->graph, v});
    } else if (static_cast<size_t>(v) >= first && !scope.frame->graph->is_input(v)) {
      scope.frame->graph->value(v).name = unique_name(*scope.frame, scope.prefix + out);
    }
    if (!scope.names.emplace(out, v).second) return invalid("'" + out + "' is defined twice").in(place);
  }
  return {};
}

Status Importer::nodes(Scope& scope, const std::vector<NodeDef>& nodes, const std::string& where) {
  auto order = execution_order(nodes);
  if (!order.ok()) return where.empty() ? Status(std::move(order).error()) : Status(std::move(order).error().in(where));
  for (size_t i : *order) BRISK_TRY(node(scope, nodes[i], i, where));
  return {};
}

Result<std::vector<ValueId>> Importer::call(Scope& outer, const FunctionDef& f, const NodeDef& n, std::vector<ValueId> in, const std::string& name) {
  Scope scope;
  scope.frame = outer.frame;
  scope.opsets = &f.opsets;
  scope.prefix = name + "/";
  scope.depth = outer.depth + 1;
  if (scope.depth > kMaxCallDepth) return invalid("functions call each other more than " + std::to_string(kMaxCallDepth) + " deep");
  std::map<std::string, Attribute> arguments = f.defaults;
  for (const auto& [key, a] : n.attributes) {
    if (a.reference.empty()) { arguments[key] = a; continue; }
    if (!outer.arguments) continue;
    if (auto it = outer.arguments->find(a.reference); it != outer.arguments->end()) arguments[key] = it->second;
  }
  scope.arguments = &arguments;
  for (size_t i = 0; i < f.inputs.size(); ++i) scope.names[f.inputs[i]] = i < in.size() ? in[i] : kNoValue;
  BRISK_TRY(nodes(scope, f.nodes, "function " + f.name + ": "));
  std::vector<ValueId> out;
  for (const std::string& o : f.outputs) {
    BRISK_ASSIGN(ValueId v, lookup(scope, o));
    out.push_back(v);
  }
  return out;
}

// What a graph or body gives back must be there; an absent optional result of a node is not.
Result<ValueId> Importer::result(Scope& scope, const std::string& name) {
  BRISK_ASSIGN(ValueId v, lookup(scope, name));
  if (v < 0) return invalid("the result '" + name + "' of a graph has no value");
  return v;
}

Result<std::vector<ValueId>> Importer::inline_graph(Scope& outer, const GraphDef& g, const std::vector<ValueId>& arguments, const std::string& prefix) {
  Scope scope;
  scope.parent = &outer;
  scope.frame = outer.frame;
  scope.opsets = outer.opsets;
  scope.arguments = outer.arguments;
  scope.prefix = prefix;
  scope.depth = outer.depth + 1;
  if (scope.depth > kMaxCallDepth) return invalid("bodies are nested more than " + std::to_string(kMaxCallDepth) + " deep");
  if (arguments.size() > g.inputs.size()) return invalid("a body takes " + std::to_string(g.inputs.size()) + " inputs, given are " + std::to_string(arguments.size()));
  for (size_t i = 0; i < arguments.size(); ++i) scope.names[g.inputs[i].name] = arguments[i];
  BRISK_TRY(initializers(scope, g));
  BRISK_TRY(nodes(scope, g.nodes, prefix));
  std::vector<ValueId> out;
  for (const ValueDef& o : g.outputs) {
    BRISK_ASSIGN(ValueId v, result(scope, o.name));
    out.push_back(v);
  }
  return out;
}

Result<Graph> Importer::block(Scope& outer, const GraphDef& g, const std::vector<Type>& formals, std::vector<ValueId>& captures) {
  Graph body;
  body.name = g.name.empty() ? "body" : g.name;
  body.symbols = outer.frame->graph->symbols;
  body.next_symbol = outer.frame->graph->next_symbol;
  Frame frame;
  frame.graph = &body;
  frame.parent = outer.frame;
  frame.captures = &captures;
  Scope scope;
  scope.parent = &outer;
  scope.frame = &frame;
  scope.opsets = outer.opsets;
  scope.arguments = outer.arguments;
  scope.prefix = outer.prefix;
  scope.depth = outer.depth + 1;
  if (scope.depth > kMaxCallDepth) return invalid("bodies are nested more than " + std::to_string(kMaxCallDepth) + " deep");
  if (formals.size() != g.inputs.size()) return invalid("a body takes " + std::to_string(g.inputs.size()) + " inputs, wanted " + std::to_string(formals.size()));
  for (size_t i = 0; i < formals.size(); ++i) scope.names[g.inputs[i].name] = body.add_input(unique_name(frame, g.inputs[i].name), formals[i]);
  for (ValueId v : captures) {
    const Value& source = outer.frame->graph->value(v);
    frame.inner[v] = body.add_input(unique_name(frame, source.name), source.type);
    if (poison_.count({outer.frame->graph, v})) poison_.insert({&body, frame.inner[v]});
  }
  BRISK_TRY(initializers(scope, g));
  BRISK_TRY(nodes(scope, g.nodes, "body '" + body.name + "': "));
  for (const ValueDef& o : g.outputs) {
    BRISK_ASSIGN(ValueId v, result(scope, o.name));
    body.outputs.push_back(v);
  }
  outer.frame->graph->next_symbol = body.next_symbol;
  return body;
}

Result<Graph> Importer::run() {
  auto it = model_.opsets.find("");
  if (it != model_.opsets.end() && it->second > kNewestOpset)
    return unsupported("opset " + std::to_string(it->second) + " of ai.onnx; the newest known is " + std::to_string(kNewestOpset));
  for (auto& [domain, version] : model_.opsets)
    if (version < 1) return invalid("opset " + std::to_string(version) + " of " + (domain.empty() ? "ai.onnx" : domain) + "; versions begin at 1");
  find_unsupported(model_.graph.nodes, "", 0);
  Graph g;
  Frame frame;
  frame.graph = &g;
  Scope scope;
  scope.frame = &frame;
  scope.opsets = &model_.opsets;
  BRISK_TRY(inputs(scope, model_.graph));
  BRISK_TRY(initializers(scope, model_.graph));
  if (!problems_.empty()) return all_problems();
  BRISK_TRY(nodes(scope, model_.graph.nodes, ""));
  if (!problems_.empty()) return all_problems();
  for (const ValueDef& o : model_.graph.outputs) {
    if (!scope.names.count(o.name)) return invalid("graph output '" + o.name + "' is never defined");
    BRISK_ASSIGN(ValueId v, result(scope, o.name));
    // A result keeps its name: one that is an input, a constant or the result of another name gets a node of its own.
    if (g.value(v).name != o.name || g.is_input(v) || g.constant(v) || g.is_output(v)) {
      BRISK_ASSIGN(v, g.add(OpId::kIdentity, NoAttrs{}, {v}, o.name));
      g.value(v).name = unique_name(frame, o.name);
    }
    g.outputs.push_back(v);
  }
  return g;
}

}  // namespace brisk::onnx_import

namespace brisk {

Result<Model> import_onnx(const std::string& path) {
  BRISK_ASSIGN(auto model, onnx_import::parse_model(path));
  onnx_import::Importer importer(model);
  auto g = importer.run();
  if (!g.ok()) return std::move(g).error().in(path);
  std::vector<bool> none;
  g->compact(none);
  Model out;
  out.functions["main"] = std::move(*g);
  out.metadata["source_format"] = "onnx";
  if (!model.producer.empty()) out.metadata["producer"] = model.producer;
  out.notes = std::move(importer.notes);
  out.default_precision = "fp32";
  return out;
}

}  // namespace brisk
