// 16-bit floats on devices that compute them as f32 anyway: the values between nodes stay f32, too.
#include <algorithm>

#include "passes/all.h"
#include "passes/problem.h"
#include "passes/rewrite.h"

namespace brisk::passes {
namespace {

bool narrow(const Type& t) { return t.dtype == DType::kF16 || t.dtype == DType::kBF16; }

class Widening {
 public:
  Widening(Graph& g, PassContext& c) : g_(g), context_(c) {}

  Result<int> run() {
    std::vector<Node> old = std::move(g_.nodes);
    g_.nodes.clear();
    for (Node& n : old) {
      if (n.op == OpId::kCast) cast(std::move(n));
      else if (!widen(n)) g_.nodes.push_back(std::move(n));
    }
    return changed_;
  }

 private:
  // What stands for a narrow value in f32.
  struct Twin {
    ValueId value = kNoValue;
    bool computed = false;  // by a node: no conversion was put in for it
    bool rounded = false;   // the file itself rounds it to the narrow value
  };
  Twin& twin(ValueId v) {
    if (twins_.size() < g_.values.size()) twins_.resize(g_.values.size());
    return twins_[static_cast<size_t>(v)];
  }

  // The file's own conversions stay; only what nodes computed is handed on without its rounding.
  void cast(Node n) {
    ValueId x = n.inputs[0], y = n.outputs[0];
    if (narrow(type_of(g_, x))) {
      if (const Twin& t = twin(x); t.computed && !t.rounded) n.inputs[0] = t.value;
    } else if (type_of(g_, x).dtype == DType::kF32 && narrow(type_of(g_, y))) {
      twin(y) = {x, true, true};
    }
    g_.nodes.push_back(std::move(n));
  }

  bool widen(const Node& n) {
    if (op_def(n.op).is(kHasBlocks | kStateful)) return false;
    auto is_narrow = [&](ValueId v) { return v >= 0 && narrow(type_of(g_, v)); };
    if (std::none_of(n.inputs.begin(), n.inputs.end(), is_narrow)) return false;
    if (std::none_of(n.outputs.begin(), n.outputs.end(), is_narrow)) return ask_wide(n);
    Node wide = n;
    std::vector<Node> before;
    bool follows = false, constants = true;  // an operand is f32 already; all are known
    for (ValueId& v : wide.inputs) {
      constants = constants && (v < 0 || g_.constant(v));
      if (!is_narrow(v)) continue;
      follows = follows || twin(v).computed;
      v = operand(v, before);
    }
    if (auto* q = std::get_if<QuantAttrs>(&wide.attrs); q && n.op == OpId::kDequantizeLinear) q->to = DType::kF32;
    for (ValueId& v : wide.outputs)
      if (v >= 0) v = g_.add_value(g_.value(v).name);
    if (!infer_node(g_, wide).ok()) return false;
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i] < 0) continue;
      const Type &was = type_of(g_, n.outputs[i]), &is = type_of(g_, wide.outputs[i]);
      if (is.dtype != (narrow(was) ? DType::kF32 : was.dtype) || !is.ranked || !(is.shape == was.shape)) return false;
    }
    const bool dequantised = n.op == OpId::kDequantizeLinear && constants;  // what reads it decides
    if (!(op_def(n.op).is(kView) ? follows : better(n, wide, follows || dequantised))) return false;
    accept(n, std::move(wide), std::move(before));
    return true;
  }

  // A question about narrow values that exist in f32: IsNaN, comparisons, Shape.
  bool ask_wide(const Node& n) {
    Node wide = n;
    for (ValueId& v : wide.inputs) {
      if (v < 0 || !narrow(type_of(g_, v))) continue;
      const Constant* c = g_.constant(v);
      if (!twin(v).computed && !(c && c->count() == 1)) return false;
      std::vector<Node> none;
      v = operand(v, none);
    }
    for (ValueId& v : wide.outputs)
      if (v >= 0) v = g_.add_value("");
    if (!infer_node(g_, wide).ok() || !context_.registry.supports(describe_problem(g_, wide))) return false;
    for (size_t i = 0; i < n.outputs.size(); ++i)
      if (n.outputs[i] >= 0 && type_of(g_, wide.outputs[i]).dtype != type_of(g_, n.outputs[i]).dtype) return false;
    wide.outputs = n.outputs;
    g_.nodes.push_back(std::move(wide));
    ++changed_;
    return true;
  }

  bool better(const Node& n, const Node& wide, bool as_good) const {
    const KernelDesc *f32 = context_.registry.best(describe_problem(g_, wide)), *had = context_.registry.best(describe_problem(g_, n));
    return f32 && (!had || f32->priority > had->priority || as_good);
  }

  void accept(const Node& n, Node wide, std::vector<Node> before) {
    for (Node& b : before) {
      twin(b.inputs[0]) = {b.outputs[0], false, false};
      g_.nodes.push_back(std::move(b));
    }
    std::vector<Node> after;
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      ValueId v = n.outputs[i];
      if (v < 0) continue;
      if (!narrow(type_of(g_, v))) {
        wide.outputs[i] = v;
        continue;
      }
      twin(v) = {wide.outputs[i], true, false};
      after.push_back(conversion(wide.outputs[i], v));
      if (!g_.is_output(v)) g_.value(v).name += ".narrow";
    }
    context_.fired.push_back(std::string(op_name(n.op)) + " '" + n.name + "' is computed in f32");
    g_.nodes.push_back(std::move(wide));
    for (Node& a : after) g_.nodes.push_back(std::move(a));
    ++changed_;
  }

  ValueId operand(ValueId v, std::vector<Node>& before) {
    if (twin(v).value >= 0) return twin(v).value;
    for (const Node& b : before)
      if (b.inputs[0] == v) return b.outputs[0];
    if (const Constant* c = g_.constant(v); c && c->encoding.plain()) {
      ValueId made = g_.add_constant(g_.value(v).name, make_constant(DType::kF32, c->shape, to_floats(*c)));
      return twin(v).value = made;
    }
    Type t = type_of(g_, v);
    t.dtype = DType::kF32;
    before.push_back(conversion(v, g_.add_value(g_.value(v).name + ".f32", t)));
    return before.back().outputs[0];
  }

  Node conversion(ValueId from, ValueId to) const {
    CastAttrs a;
    a.to = type_of(g_, to).dtype;
    Node n;
    n.op = OpId::kCast, n.attrs = a, n.inputs = {from}, n.outputs = {to}, n.name = g_.value(to).name;
    return n;
  }

  Graph& g_;
  PassContext& context_;
  std::vector<Twin> twins_;
  int changed_ = 0;
};

}  // namespace

Result<int> widen_floats(Graph& g, PassContext& c) {
  const auto narrow_value = [](const Value& v) { return narrow(v.type); };
  if (std::none_of(g.values.begin(), g.values.end(), narrow_value)) return 0;
  BRISK_ASSIGN(int changed, Widening(g, c).run());
  BRISK_TRY(remove_dead(g, c));  // values of what was tried and left, too
  return changed;
}

void widen_interface(Graph& g) {
  const auto users = g.users();
  const auto producers = g.producers();
  auto is_cast = [&](NodeId n) { return n >= 0 && g.nodes[static_cast<size_t>(n)].op == OpId::kCast; };
  for (ValueId v : g.inputs) {
    const auto& readers = users[static_cast<size_t>(v)];
    bool converted = narrow(type_of(g, v)) && !g.is_output(v) && std::all_of(readers.begin(), readers.end(), [&](NodeId n) {
      const Node& reader = g.nodes[static_cast<size_t>(n)];
      return reader.op == OpId::kShape || (is_cast(n) && type_of(g, reader.outputs[0]).dtype == DType::kF32);
    });
    if (converted) g.value(v).type.dtype = DType::kF32;
  }
  for (ValueId& v : g.outputs) {
    NodeId n = producers[static_cast<size_t>(v)];
    if (!narrow(type_of(g, v)) || !is_cast(n)) continue;
    ValueId wide = g.nodes[static_cast<size_t>(n)].inputs[0];
    if (type_of(g, wide).dtype != DType::kF32 || g.is_output(wide) || g.is_input(wide) || g.constant(wide)) continue;
    std::swap(g.value(wide).name, g.value(v).name);
    v = wide;
  }
}

}  // namespace brisk::passes
