#include "passes/problem.h"

namespace brisk {

ProblemDesc describe_problem(const Graph& g, const Node& n) {
  ProblemDesc p;
  p.op = n.op;
  p.attrs = &n.attrs;
  for (ValueId v : n.inputs) {
    OperandDesc o;
    if (v >= 0) {
      o.present = true;
      o.type = g.value(v).type;
      if (const Constant* c = g.constant(v)) {
        o.constant = true;
        o.encoding = c->encoding;
        o.value = c;
      }
    }
    p.inputs.push_back(std::move(o));
  }
  for (ValueId v : n.outputs) p.outputs.push_back(v < 0 ? Type{} : g.value(v).type);
  return p;
}

}  // namespace brisk
