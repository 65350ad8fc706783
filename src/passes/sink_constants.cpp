// Constants that blocks capture become constants of the blocks: kernels pack weights only where they see them.
#include <algorithm>

#include "passes/all.h"

namespace brisk::passes {

Result<int> sink_constants(Graph& g, PassContext& context) {
  int changed = 0;
  for (Node& n : g.nodes) {
    int before = changed;
    for (int c = n.captures; c-- > 0;) {  // the c-th capture, last first
      size_t operand = n.inputs.size() - static_cast<size_t>(n.captures) + static_cast<size_t>(c);
      ConstantPtr value = n.inputs[operand] >= 0 ? g.value(n.inputs[operand]).constant : nullptr;
      if (!value) continue;
      for (Graph& b : n.blocks) {
        size_t formal = b.inputs.size() - static_cast<size_t>(n.captures) + static_cast<size_t>(c);
        ValueId inside = b.inputs[formal];
        b.replace_uses(inside, b.add_constant(g.value(n.inputs[operand]).name, value));
        b.inputs.erase(b.inputs.begin() + static_cast<std::ptrdiff_t>(formal));
      }
      n.inputs.erase(n.inputs.begin() + static_cast<std::ptrdiff_t>(operand));
      --n.captures;
      ++changed;
    }
    if (changed != before) BRISK_TRY(infer_node(g, n));
    for (Graph& b : n.blocks) {  // from the outside in, so that it reaches the innermost
      BRISK_ASSIGN(int inner, sink_constants(b, context));
      changed += inner;
    }
  }
  g.compact();
  return changed;
}

}  // namespace brisk::passes
