// Folding, common sub-expressions and dead code.
#include <algorithm>
#include <map>
#include <optional>

#include "passes/all.h"
#include "passes/rewrite.h"
#include "tensor/constant_ops.h"

namespace brisk::passes {
namespace {

constexpr int64_t kMaxFoldedBytes = 64 << 20;  // of one result: a folded Expand must not blow up the file
constexpr int64_t kMaxGrowth = 8;              // of all results together, over the constants that the graph came with

// A constant from elements that shape arithmetic has already decided.
ConstantPtr from_elements(const Type& t) {
  if (!t.elements || !t.ranked) return nullptr;
  Dims shape;
  for (const Dim& d : t.shape) {
    if (!d.is_constant()) return nullptr;
    shape.push(*d.constant());
  }
  std::vector<int64_t> numbers;
  for (const Dim& d : *t.elements) {
    if (!d.is_constant()) return nullptr;
    numbers.push_back(*d.constant());
  }
  if (static_cast<int64_t>(numbers.size()) != shape.count()) return nullptr;
  if (t.dtype == DType::kI64) return make_constant(t.dtype, shape, numbers);
  if (t.dtype == DType::kI32) return make_constant(t.dtype, shape, std::vector<int32_t>(numbers.begin(), numbers.end()));
  if (t.dtype == DType::kBool) return make_constant(t.dtype, shape, std::vector<uint8_t>(numbers.begin(), numbers.end()));
  return nullptr;
}

bool all_constant(const Graph& g, const Node& n) {
  for (ValueId v : n.inputs)
    if (v >= 0 && (!g.constant(v) || !g.constant(v)->encoding.plain())) return false;
  return true;
}

Result<std::vector<ConstantPtr>> evaluate(const Graph& g, const Node& n, Evaluator& evaluator) {
  Graph one;
  Node copy = n;
  for (ValueId& v : copy.inputs)
    if (v >= 0) v = one.add_constant(g.value(v).name, g.value(v).constant);
  copy.outputs.clear();
  for (ValueId v : n.outputs) copy.outputs.push_back(v < 0 ? kNoValue : one.add_value(g.value(v).name));
  BRISK_TRY(infer_node(one, copy));
  for (ValueId v : copy.outputs)
    if (v >= 0) one.outputs.push_back(v);
  one.nodes.push_back(std::move(copy));
  return evaluator.run(one, {});
}

// Bytes of the results of a node whose operands are constants, as far as shapes tell; nullopt if one is too large to fold.
std::optional<int64_t> folded_bytes(const Graph& g, const Node& n) {
  int64_t sum = 0;
  for (ValueId v : n.outputs) {
    if (v < 0) continue;
    const Type& t = g.value(v).type;
    std::vector<int64_t> shape;
    for (const Dim& d : t.shape) shape.push_back(std::max<int64_t>(d.constant_or(1), 1));
    auto count = checked_count(shape);
    if (!t.ranked || !count || *count > kMaxFoldedBytes * 8 || dtype_bytes(t.dtype, *count) > kMaxFoldedBytes) return std::nullopt;
    sum += dtype_bytes(t.dtype, *count);
  }
  return sum;
}

int64_t constant_bytes(const Graph& g) {
  int64_t sum = 0;
  for (const Value& v : g.values)
    if (v.constant) sum += v.constant->stored_bytes();
  return sum;
}

}  // namespace

Result<int> fold_constants(Graph& g, PassContext& c) {
  int folded = 0;
  int64_t left = kMaxFoldedBytes + kMaxGrowth * constant_bytes(g);
  std::vector<bool> dead(g.nodes.size());
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Node& n = g.nodes[i];
    // Upstream folding may have made more known.
    BRISK_TRY(infer_node(g, n));
    if (!op_def(n.op).foldable()) continue;
    std::vector<ConstantPtr> results;
    if (n.outputs.size() == 1)
      if (auto known = from_elements(g.value(n.outputs[0]).type)) results = {known};
    auto bytes = results.empty() && c.evaluator && all_constant(g, n) ? folded_bytes(g, n) : std::nullopt;
    if (bytes && *bytes <= left) {
      left -= *bytes;
      auto r = evaluate(g, n, *c.evaluator);
      if (r.ok()) results = std::move(*r);
      else if (r.error().kind != ErrorKind::kUnsupported) return std::move(r).error().in(n.name);
    }
    if (results.empty()) continue;
    size_t k = 0;
    for (ValueId v : n.outputs) {
      if (v < 0) continue;
      Graph scratch;  // reuse add_constant's way of tracking elements
      ValueId made = scratch.add_constant(g.value(v).name, results[k++]);
      g.value(v) = scratch.value(made);
    }
    dead[i] = true;
    ++folded;
  }
  g.compact(dead);
  return folded;
}

namespace {

// Constants of equal content become one: files repeat weights, and every scalar anew in each layer.
int merge_constants(Graph& g) {
  constexpr size_t kLooked = 4096;  // bytes that tell most constants apart; equal heads are compared in full
  std::map<std::string, std::vector<ValueId>> alike;
  int merged = 0;
  for (size_t i = 0; i < g.values.size(); ++i) {
    const ConstantPtr c = g.values[i].constant;
    if (!c) continue;
    auto bytes = c->data.bytes.first(std::min(kLooked, c->data.bytes.size()));
    std::string key = to_string(g.values[i].type) + to_string(c->encoding) + std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    auto& seen = alike[std::move(key)];
    auto first = std::find_if(seen.begin(), seen.end(), [&](ValueId v) { return same_content(*g.value(v).constant, *c); });
    auto v = static_cast<ValueId>(i);
    if (first == seen.end()) {
      seen.push_back(v);
    } else if (!g.is_output(v)) {
      g.replace_uses(v, *first);
      ++merged;
    }
  }
  return merged;
}

}  // namespace

Result<int> merge_common(Graph& g, PassContext&) {
  int merged = merge_constants(g);
  std::map<std::string, size_t> seen;
  std::vector<bool> dead(g.nodes.size());
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Node& n = g.nodes[i];
    if (!op_def(n.op).foldable()) continue;
    std::string key = std::string(op_name(n.op)) + encode(n.attrs);
    for (ValueId v : n.inputs) key += "," + std::to_string(v);
    key += ">" + std::to_string(n.outputs.size());
    auto [it, fresh] = seen.emplace(key, i);
    if (fresh) continue;
    const Node& first = g.nodes[it->second];
    bool usable = true;
    for (size_t k = 0; k < n.outputs.size(); ++k)
      if (n.outputs[k] >= 0 && (first.outputs[k] < 0 || g.is_output(n.outputs[k]))) usable = false;
    if (!usable) continue;
    for (size_t k = 0; k < n.outputs.size(); ++k)
      if (n.outputs[k] >= 0) g.replace_uses(n.outputs[k], first.outputs[k]);
    dead[i] = true;
    ++merged;
  }
  g.compact(dead);
  return merged;
}

Result<int> remove_dead(Graph& g, PassContext&) {
  std::vector<bool> needed(g.values.size()), dead(g.nodes.size());
  for (ValueId v : g.outputs) needed[static_cast<size_t>(v)] = true;
  int removed = 0;
  for (size_t i = g.nodes.size(); i-- > 0;) {
    Node& n = g.nodes[i];
    bool keep = op_def(n.op).is(kStateful);
    for (ValueId v : n.outputs) keep |= v >= 0 && needed[static_cast<size_t>(v)];
    if (!keep) {
      dead[i] = true;
      ++removed;
      continue;
    }
    for (ValueId v : n.inputs)
      if (v >= 0) needed[static_cast<size_t>(v)] = true;
  }
  g.compact(dead);
  return removed;
}

}  // namespace brisk::passes
