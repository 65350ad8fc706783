#include "ir/graph.h"

namespace brisk {
namespace {

class Verifier {
 public:
  Verifier(const Graph& g, std::string_view after) : g_(g), after_(after) {}

  Status run() {
    std::vector<bool> defined(g_.values.size());
    BRISK_TRY(roots(defined));
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node& n = g_.nodes[i];
      BRISK_TRY(node(n, i, defined));
      for (ValueId v : n.outputs) {
        if (v < 0) continue;
        if (defined[static_cast<size_t>(v)]) return bad(i, "value '" + g_.value(v).name + "' has two producers");
        if (g_.value(v).constant) return bad(i, "writes the constant '" + g_.value(v).name + "'");
        defined[static_cast<size_t>(v)] = true;
      }
    }
    for (ValueId v : g_.outputs)
      if (!known(v) || !defined[static_cast<size_t>(v)]) return error("an output is never defined");
    return {};
  }

 private:
  Error error(const std::string& what) const {
    return internal("graph '" + g_.name + "' is broken" + (after_.empty() ? "" : " after pass " + std::string(after_)) + ": " + what);
  }
  Error bad(size_t i, const std::string& what) const {
    const Node& n = g_.nodes[i];
    return error("node " + std::to_string(i) + " " + op_name(n.op) + " '" + n.name + "': " + what);
  }
  bool known(ValueId v) const { return v >= 0 && static_cast<size_t>(v) < g_.values.size(); }

  Status roots(std::vector<bool>& defined) const {
    for (ValueId v : g_.inputs) {
      if (!known(v)) return error("an input does not exist");
      defined[static_cast<size_t>(v)] = true;
    }
    for (const StateSpec& s : g_.states) {
      if (!known(s.value)) return error("state '" + s.name + "' does not exist");
      defined[static_cast<size_t>(s.value)] = true;
    }
    for (size_t v = 0; v < g_.values.size(); ++v)
      if (const Constant* c = g_.values[v].constant.get()) {
        defined[v] = true;
        const Type& t = g_.values[v].type;
        if (t.dtype != c->dtype || !t.ranked || !(t.shape == Shape(c->shape.begin(), c->shape.end())))
          return error("constant '" + g_.values[v].name + "' is not of its value's type " + to_string(t));
      }
    return {};
  }

  Status node(const Node& n, size_t i, const std::vector<bool>& defined) const {
    const OpDef& def = op_def(n.op);
    std::vector<const Type*> in;
    for (ValueId v : n.inputs) {
      if (v != kNoValue && (!known(v) || !defined[static_cast<size_t>(v)])) return bad(i, "operand used before it is defined");
      in.push_back(v < 0 ? nullptr : &g_.value(v).type);
    }
    for (ValueId v : n.outputs)
      if (v != kNoValue && !known(v)) return bad(i, "a result does not exist");
    if (n.blocks.empty() == def.is(kHasBlocks)) return bad(i, "blocks where none belong, or none where they do");
    for (const Graph& b : n.blocks) {
      if (static_cast<size_t>(n.captures) > b.inputs.size() || static_cast<size_t>(n.captures) > n.inputs.size())
        return bad(i, "more captures than operands");
      BRISK_TRY(verify(b, after_));
      for (ValueId v : b.outputs) in.push_back(&b.value(v).type);
    }
    // The rule must still accept the operands, and agree with the recorded types where both are decided.
    int counter = 0;
    std::vector<TensorView> views(n.inputs.size());
    auto data = [&](int k) -> const TensorView* {
      const Constant* c = static_cast<size_t>(k) < n.inputs.size() ? g_.constant(n.inputs[static_cast<size_t>(k)]) : nullptr;
      if (!c || !c->encoding.plain()) return nullptr;
      views[static_cast<size_t>(k)] = c->view();
      return &views[static_cast<size_t>(k)];
    };
    auto types = infer_types(n.op, n.attrs, in, static_cast<int>(n.outputs.size()), &counter, data);
    if (!types.ok()) return bad(i, types.error().message);
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      if (n.outputs[k] < 0) continue;
      const Type &have = g_.value(n.outputs[k]).type, &rule = (*types)[k];
      if (have.dtype != rule.dtype) return bad(i, "result is " + to_string(have) + ", the rule gives " + to_string(rule));
      if (!have.ranked || !rule.ranked) continue;
      if (have.rank() != rule.rank()) return bad(i, "result is " + to_string(have) + ", the rule gives " + to_string(rule));
      for (size_t d = 0; d < have.shape.size(); ++d) {
        auto x = have.shape[d].constant(), y = rule.shape[d].constant();
        if (x && y && *x != *y) return bad(i, "result is " + to_string(have) + ", the rule gives " + to_string(rule));
      }
    }
    return {};
  }

  const Graph& g_;
  std::string_view after_;
};

}  // namespace

Status verify(const Graph& g, std::string_view after) { return Verifier(g, after).run(); }

}  // namespace brisk
