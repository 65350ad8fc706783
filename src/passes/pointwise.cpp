// Chains of pointwise operators become one Pointwise loop: arithmetic in f32 (f16 and bf16 are read and stored as such),
// comparisons, choices, casts and the integer arithmetic of masks between them.
#include <algorithm>

#include "op/pointwise_program.h"
#include "passes/all.h"
#include "passes/problem.h"
#include "passes/rewrite.h"

namespace brisk::passes {
namespace {

constexpr size_t kMaxInstructions = 48, kMaxOperands = 12;

bool narrow_float(DType t) { return t == DType::kF16 || t == DType::kBF16; }

// Operators that a program may contain. Values whose elements shape rules follow stay visible to them.
bool fusable(const Graph& g, const Node& n) {
  if (!op_def(n.op).is(kPointwise) || n.op == OpId::kPointwise || n.outputs.size() != 1 || n.inputs.size() > 3) return false;
  const auto* cast = std::get_if<CastAttrs>(&n.attrs);
  if (!std::holds_alternative<NoAttrs>(n.attrs) && !std::holds_alternative<AlphaBetaAttrs>(n.attrs) && !cast) return false;
  const Type& out = g.value(n.outputs[0]).type;
  if (!out.ranked || out.elements) return false;
  std::vector<DType> in;
  for (ValueId v : n.inputs) {
    if (v < 0 || !g.value(v).type.ranked) return false;
    in.push_back(register_type(g.value(v).type.dtype));
  }
  auto type = instruction_type(n.op, in, cast ? register_type(cast->to) : DType::kF32);
  return type && *type == register_type(out.dtype);
}

// A chain that grows from its last node.
struct Chain {
  std::vector<size_t> members;     // ascending
  std::vector<ValueId> operands;   // in order of first use

  bool holds(size_t i) const { return std::binary_search(members.begin(), members.end(), i); }
};

std::vector<ValueId> operands_of(const Graph& g, const std::vector<size_t>& members) {
  std::vector<ValueId> made, out;
  for (size_t m : members) {
    for (ValueId v : g.nodes[m].inputs)
      if (std::find(made.begin(), made.end(), v) == made.end() && std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
    made.push_back(g.nodes[m].outputs[0]);
  }
  return out;
}

PointwiseAttrs encode_program(const Graph& g, const Chain& c) {
  PointwiseAttrs out;
  std::vector<ValueId> registers = c.operands;
  auto reg = [&](const Node& n, size_t i) -> int64_t {
    if (i >= n.inputs.size()) return -1;
    return std::find(registers.begin(), registers.end(), n.inputs[i]) - registers.begin();
  };
  for (size_t m : c.members) {
    const Node& n = g.nodes[m];
    out.ops.push_back(op_name(n.op));
    out.a.push_back(reg(n, 0)), out.b.push_back(reg(n, 1)), out.c.push_back(reg(n, 2));
    const auto* ab = std::get_if<AlphaBetaAttrs>(&n.attrs);
    out.alpha.push_back(ab ? ab->alpha : 0), out.beta.push_back(ab ? ab->beta : 0);
    const auto* cast = std::get_if<CastAttrs>(&n.attrs);
    out.to.push_back(cast ? static_cast<int64_t>(register_type(cast->to)) : 0);
    registers.push_back(n.outputs[0]);
  }
  if (std::all_of(out.c.begin(), out.c.end(), [](int64_t r) { return r < 0; })) out.c.clear();
  if (std::all_of(out.to.begin(), out.to.end(), [](int64_t t) { return t == 0; })) out.to.clear();
  out.result = g.value(g.nodes[c.members.back()].outputs[0]).type.dtype;
  return out;
}

// From the last node backwards: a node joins if its result has the chain's shape and nobody outside the chain reads it.
Chain chain_from(const Graph& g, const Index& index, const std::vector<bool>& taken, size_t last) {
  Chain c{{last}, operands_of(g, {last})};
  const Type& type = g.value(g.nodes[last].outputs[0]).type;
  for (size_t j = last; j-- > 0 && c.members.size() < kMaxInstructions;) {
    const Node& n = g.nodes[j];
    if (taken[j] || !fusable(g, n)) continue;
    ValueId v = n.outputs[0];
    const Type& t = g.value(v).type;
    // A value that is rounded to fewer bits in between keeps its own node, unless all of the chain is of that type.
    if (!(t.shape == type.shape) || (narrow_float(t.dtype) && (t.dtype != type.dtype || n.op == OpId::kCast)) || g.is_output(v)) continue;
    const auto& users = index.users(v);
    if (users.empty() || !std::all_of(users.begin(), users.end(), [&](NodeId u) { return c.holds(static_cast<size_t>(u)); })) continue;
    std::vector<size_t> grown = c.members;
    grown.insert(grown.begin(), j);
    auto operands = operands_of(g, grown);
    if (operands.size() > kMaxOperands) continue;
    c = {std::move(grown), std::move(operands)};
  }
  return c;
}

}  // namespace

Result<int> fuse_pointwise(Graph& g, PassContext& c) {
  int changed = 0;
  Index index(g);
  std::vector<bool> taken(g.nodes.size());
  for (size_t i = g.nodes.size(); i-- > 0;) {
    if (taken[i] || !fusable(g, g.nodes[i])) continue;
    DType result = g.value(g.nodes[i].outputs[0]).type.dtype;
    if (register_type(result) != DType::kF32 && result != DType::kBool) continue;
    Chain chain = chain_from(g, index, taken, i);
    if (chain.members.size() < 2) continue;
    Node fused;
    fused.op = OpId::kPointwise;
    fused.attrs = encode_program(g, chain);
    fused.inputs = chain.operands;
    fused.outputs = g.nodes[i].outputs;
    fused.name = g.nodes[i].name;
    if (!c.registry.supports(describe_problem(g, fused))) {
      c.missed.push_back("pointwise: node '" + fused.name + "' not fused: no kernel of this device runs the chain");
      continue;
    }
    for (size_t m : chain.members) taken[m] = true;
    g.nodes[i] = std::move(fused);
    ++changed;
  }
  if (changed) BRISK_TRY(remove_dead(g, c));
  return changed;
}

}  // namespace brisk::passes
