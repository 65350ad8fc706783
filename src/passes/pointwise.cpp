// Chains of pointwise operators on f32 become one Pointwise loop.
#include <algorithm>

#include "passes/all.h"
#include "passes/rewrite.h"

namespace brisk::passes {
namespace {

constexpr size_t kMaxInstructions = 32, kMaxOperands = 12;

// Operators that the Pointwise program knows: f32 in, f32 out.
bool fusable(const Graph& g, const Node& n) {
  if (!op_def(n.op).is(kPointwise) || n.outputs.size() != 1 || n.inputs.size() > 2) return false;
  if (!std::holds_alternative<NoAttrs>(n.attrs) && !std::holds_alternative<AlphaBetaAttrs>(n.attrs)) return false;
  const Type& out = g.value(n.outputs[0]).type;
  if (out.dtype != DType::kF32 || !out.ranked) return false;
  return std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) {
    return v >= 0 && g.value(v).type.dtype == DType::kF32 && g.value(v).type.ranked;
  });
}

// A program under construction: operands first, instructions after.
struct Program {
  std::vector<ValueId> operands;
  std::vector<const Node*> nodes;
};

PointwiseAttrs encode_program(const Program& p) {
  PointwiseAttrs out;
  auto reg = [&](ValueId v) -> int64_t {
    for (size_t i = 0; i < p.nodes.size(); ++i)
      if (p.nodes[i]->outputs[0] == v) return static_cast<int64_t>(p.operands.size() + i);
    return std::find(p.operands.begin(), p.operands.end(), v) - p.operands.begin();
  };
  for (const Node* n : p.nodes) {
    out.ops.push_back(op_name(n->op));
    out.a.push_back(reg(n->inputs[0]));
    out.b.push_back(n->inputs.size() > 1 ? reg(n->inputs[1]) : -1);
    const auto* ab = std::get_if<AlphaBetaAttrs>(&n->attrs);
    out.alpha.push_back(ab ? ab->alpha : 0);
    out.beta.push_back(ab ? ab->beta : 0);
  }
  return out;
}

}  // namespace

Result<int> fuse_pointwise(Graph& g, PassContext& c) {
  int changed = 0;
  Index index(g);
  std::vector<bool> taken(g.nodes.size());
  // From the last node of a chain backwards, so that each chain is as long as it can be.
  for (size_t i = g.nodes.size(); i-- > 0;) {
    if (taken[i] || !fusable(g, g.nodes[i])) continue;
    const Shape& shape = g.value(g.nodes[i].outputs[0]).type.shape;
    std::vector<size_t> members{i};
    std::vector<ValueId> operands;
    // Breadth first over producers that only this chain reads and that have the chain's full shape.
    for (size_t k = 0; k < members.size(); ++k)
      for (ValueId v : g.nodes[members[k]].inputs) {
        Node* p = index.producer(v);
        bool join = p && fusable(g, *p) && index.single_use(v) && g.value(v).type.shape == shape &&
                    members.size() < kMaxInstructions && !taken[static_cast<size_t>(index.position(*p))];
        if (join) members.push_back(static_cast<size_t>(index.position(*p)));
        else if (std::find(operands.begin(), operands.end(), v) == operands.end()) operands.push_back(v);
      }
    if (members.size() < 2 || operands.size() > kMaxOperands) continue;
    std::sort(members.begin(), members.end());
    Program program{operands, {}};
    for (size_t m : members) program.nodes.push_back(&g.nodes[m]);
    Node fused;
    fused.op = OpId::kPointwise;
    fused.attrs = encode_program(program);
    fused.inputs = operands;
    fused.outputs = g.nodes[i].outputs;
    fused.name = g.nodes[i].name;
    for (size_t m : members) taken[m] = true;
    g.nodes[i] = std::move(fused);
    ++changed;
  }
  if (changed) BRISK_TRY(remove_dead(g, c));
  return changed;
}

}  // namespace brisk::passes
