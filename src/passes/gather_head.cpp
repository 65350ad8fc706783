// Moves the Gather of the rows that need logits toward the inputs: through the head, the last norm and the last layer's
// MLP, which then run for a few rows instead of all tokens of a prompt.
#include "passes/all.h"
#include "passes/rewrite.h"

namespace brisk::passes {
namespace {

// Does `n` treat each row (axis 0) alone? Then row picking may go before it.
bool row_by_row(const Graph& g, const Node& n) {
  if (n.outputs.size() != 1 || !op_def(n.op).is(kRowwise | kPointwise) || op_def(n.op).is(kStateful)) return false;
  const Type& out = g.value(n.outputs[0]).type;
  if (!out.ranked || out.rank() != 2) return false;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    if (n.inputs[i] < 0 || g.constant(n.inputs[i])) continue;
    const Type& t = g.value(n.inputs[i]).type;
    if (!t.ranked || t.rank() < 1 || t.rank() > 2 || !(t.shape[0] == out.shape[0])) return false;
    if (t.rank() == 1 && op_def(n.op).is(kPointwise)) return false;  // would broadcast along columns
  }
  return true;
}

}  // namespace

Result<int> gather_before_head(Graph& g, PassContext& c) {
  int moved = 0;
  for (bool again = true; again;) {
    again = false;
    BRISK_TRY(merge_common(g, c));
    Index index(g);
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      Node gather = g.nodes[i];
      if (gather.op != OpId::kGather || std::get<AxisAttrs>(gather.attrs).axis != 0 || !g.is_input(gather.inputs[1])) continue;
      Node* source = index.producer(gather.inputs[0]);
      if (!source || !index.single_use(gather.inputs[0]) || !row_by_row(g, *source)) continue;
      Node picked = *source;
      std::vector<Node> gathers;
      for (ValueId& v : picked.inputs) {
        if (v < 0 || g.constant(v)) continue;
        Node pick = gather;
        pick.inputs[0] = v;
        pick.name = gather.name + "@" + g.value(v).name;
        pick.outputs = {g.add_value(pick.name)};
        BRISK_TRY(infer_node(g, pick));
        v = pick.outputs[0];
        gathers.push_back(std::move(pick));
      }
      picked.outputs = gather.outputs;
      BRISK_TRY(infer_node(g, picked));
      g.nodes[i] = std::move(picked);
      g.nodes.insert(g.nodes.begin() + static_cast<int64_t>(i), gathers.begin(), gathers.end());
      BRISK_TRY(remove_dead(g, c));
      ++moved;
      again = true;
      break;
    }
  }
  return moved;
}

}  // namespace brisk::passes
