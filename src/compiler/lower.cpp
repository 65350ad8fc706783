#include "compiler/lower.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "passes/problem.h"

namespace brisk {

namespace {

int64_t count_nodes(const Graph& g) {
  auto n = static_cast<int64_t>(g.nodes.size());
  for (const Node& node : g.nodes)
    for (const Graph& b : node.blocks) n += count_nodes(b);
  return n;
}

// Everything one engine's functions share while they are lowered.
struct Weights {
  EngineContent& content;
  std::map<std::pair<const Constant*, std::string>, int32_t> index;
  std::set<std::string> isa;
  // Those of functions lowered before, by their bytes: profiles of one model share what they read alike.
  std::unordered_multimap<size_t, int32_t> earlier = {};

  static size_t hash(const Weight& w) {
    return std::hash<std::string_view>{}({reinterpret_cast<const char*>(w.bytes.bytes.data()), w.bytes.bytes.size()});
  }
  void note_earlier() {
    for (size_t i = 0; i < content.weights.size(); ++i) earlier.emplace(hash(content.weights[i]), static_cast<int32_t>(i));
  }
  // The index of an equal weight, or of this one, added.
  int32_t add(Weight w) {
    if (!earlier.empty()) {
      auto [begin, end] = earlier.equal_range(hash(w));
      for (auto it = begin; it != end; ++it) {
        const Weight& e = content.weights[static_cast<size_t>(it->second)];
        if (e.dtype == w.dtype && e.shape == w.shape && e.encoding == w.encoding && e.packing == w.packing && std::ranges::equal(e.bytes.bytes, w.bytes.bytes))
          return it->second;
      }
    }
    content.weights.push_back(std::move(w));
    return static_cast<int32_t>(content.weights.size() - 1);
  }
};

class Lowering {
 public:
  Lowering(const Graph& g, Plan& plan, const ChooseKernel& choose, Weights& weights, std::vector<std::string>& missing)
      : g_(g), plan_(plan), choose_(choose), weights_(weights), missing_(missing) {}

  // `symbols`: the outermost function's; a block's static shapes are expressions over those.
  Status run(const std::vector<PlanSymbol>& symbols, const std::function<void()>& tick) {
    for (auto& s : symbols) known_.insert(s.name);
    plan_.name = g_.name;
    map_.assign(g_.values.size(), -1);
    for (ValueId v : g_.inputs) plan_.inputs.push_back(add_value(v, PlanValue::Kind::kInput));
    for (const StateSpec& s : g_.states) {
      PlanState p;
      p.value = add_value(s.value, PlanValue::Kind::kState);
      p.name = s.name;
      p.kind = s.kind == StateSpec::Kind::kPagedKv ? PlanState::Kind::kPagedKv : PlanState::Kind::kSlots;
      p.dtype = s.dtype;
      p.kv_heads = s.kv_heads;
      p.head_dim = s.head_dim;
      p.width = s.width;
      plan_.states.push_back(p);
    }
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      BRISK_TRY(step(g_.nodes[i], i, symbols, tick));
      tick();
    }
    for (ValueId v : g_.outputs) {
      BRISK_ASSIGN(int32_t index, operand(v, nullptr, nullptr));
      plan_.outputs.push_back(index);
    }
    return {};
  }

 private:
  int32_t add_value(ValueId v, PlanValue::Kind kind) {
    const Value& value = g_.value(v);
    PlanValue p;
    p.name = value.name;
    p.kind = kind;
    p.dtype = value.type.dtype;
    p.ranked = value.type.ranked;
    p.shape = value.type.shape;
    plan_.values.push_back(std::move(p));
    return map_[static_cast<size_t>(v)] = static_cast<int32_t>(plan_.values.size() - 1);
  }

  bool sizes_known(const Type& t) const {
    if (!t.ranked) return false;
    std::vector<std::string> used;
    for (const Dim& d : t.shape) d.collect_symbols(used);
    return std::all_of(used.begin(), used.end(), [&](auto& s) { return known_.count(s) > 0; });
  }

  ConstantPtr constant_of(ValueId v) const {
    if (v < 0) return nullptr;
    auto it = captured_.find(v);
    return it != captured_.end() ? it->second : g_.value(v).constant;
  }

  // Plan value of an operand; a constant's depends on the packing its reader wants.
  Result<int32_t> operand(ValueId v, const KernelDesc::Packing* packing, const ProblemDesc* problem) {
    if (v < 0) return -1;
    ConstantPtr c = constant_of(v);
    if (!c) return map_[static_cast<size_t>(v)];
    std::string name = packing ? packing->name : "";
    auto key = std::make_pair(c.get(), name);
    auto found = weights_.index.find(key);
    if (found == weights_.index.end()) {
      Weight w;
      w.name = g_.value(v).name;
      w.dtype = c->dtype;
      w.shape = c->shape;
      w.encoding = c->encoding;
      w.packing = name;
      if (packing) {
        BRISK_ASSIGN(auto bytes, packing->pack(*problem, *c));
        w.bytes = Buffer::of(std::move(bytes));
      } else if (c->encoding.plain()) {
        w.bytes = c->data;
      } else {
        return internal("constant '" + w.name + "' is quantised but its reader packs nothing");
      }
      found = weights_.index.emplace(key, weights_.add(std::move(w))).first;
    }
    auto local = constants_.emplace(std::make_pair(v, name), -1).first;
    if (local->second < 0) {
      PlanValue p;
      p.name = g_.value(v).name;
      p.kind = PlanValue::Kind::kWeight;
      p.dtype = c->dtype;
      p.shape = Shape(c->shape.begin(), c->shape.end());
      p.weight = found->second;
      plan_.values.push_back(std::move(p));
      local->second = static_cast<int32_t>(plan_.values.size() - 1);
    }
    return local->second;
  }

  bool dynamic_root(int32_t v) const {
    return plan_.values[static_cast<size_t>(root_of(plan_, v))].kind == PlanValue::Kind::kDynamic;
  }

  Status step(const Node& n, size_t index, const std::vector<PlanSymbol>& symbols, const std::function<void()>& tick) {
    const OpDef& def = op_def(n.op);
    PlanStep s;
    s.op = n.op;
    s.attrs = n.attrs;
    s.name = n.name;
    s.captures = n.captures;
    ProblemDesc problem = describe_problem(g_, n);
    const KernelDesc* kernel = nullptr;
    if (!def.is(kView) && !def.is(kHasBlocks)) {
      kernel = choose_(problem);
      if (!kernel) {
        std::string operands;
        for (ValueId v : n.inputs) operands += (operands.empty() ? "" : ", ") + (v < 0 ? std::string("-") : to_string(g_.value(v).type));
        missing_.push_back("node " + std::to_string(index) + " '" + n.name + "': " + def.name + "(" + operands + ")");
        for (ValueId v : n.outputs)
          if (v >= 0) add_value(v, PlanValue::Kind::kDynamic);
        return {};
      }
      s.kernel = kernel->id;
      s.kernel_version = kernel->version;
      weights_.isa.insert(kernel->requires_isa.begin(), kernel->requires_isa.end());
    }
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const KernelDesc::Packing* packing = nullptr;
      if (kernel && g_.constant(n.inputs[i]))
        for (auto& p : kernel->packings)
          if (p.operand == static_cast<int>(i)) packing = &p;
      BRISK_ASSIGN(int32_t v, operand(n.inputs[i], packing, &problem));
      s.inputs.push_back(v);
    }
    for (const Graph& b : n.blocks) {
      s.blocks.emplace_back();
      Lowering inner(b, s.blocks.back(), choose_, weights_, missing_);
      // A captured constant is a weight of the block, too: shapes inside may follow from its elements.
      for (size_t k = 1; k <= static_cast<size_t>(n.captures); ++k)
        if (ConstantPtr c = constant_of(n.inputs[n.inputs.size() - k]); c && c->encoding.plain()) inner.captured_[b.inputs[b.inputs.size() - k]] = c;
      BRISK_TRY(inner.run(symbols, tick));
    }
    bool sized = !def.is(kHasBlocks);
    for (ValueId v : n.outputs)
      if (v >= 0 && !sizes_known(g_.value(v).type)) sized = false;
    if (def.is(kView) && dynamic_root(s.inputs[0])) sized = false;
    // Results that depend on what is known at run time only are checked by the rule then, even if their size is static.
    for (ValueId v : n.inputs)
      if (v >= 0 && !g_.is_state(v) && !sizes_known(g_.value(v).type)) sized = false;
    s.dynamic = !sized && !def.is(kHasBlocks);
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i] < 0) {
        s.outputs.push_back(-1);
        continue;
      }
      bool view = def.is(kView) && i == 0;
      int32_t v = add_value(n.outputs[i], view ? PlanValue::Kind::kView : sized ? PlanValue::Kind::kArena : PlanValue::Kind::kDynamic);
      if (view) plan_.values[static_cast<size_t>(v)].view_of = s.inputs[0];
      s.outputs.push_back(v);
    }
    plan_.steps.push_back(std::move(s));
    return {};
  }

  const Graph& g_;
  Plan& plan_;
  const ChooseKernel& choose_;
  Weights& weights_;
  std::vector<std::string>& missing_;
  std::set<std::string> known_;
  std::vector<int32_t> map_;
  std::map<std::pair<ValueId, std::string>, int32_t> constants_;
  std::map<ValueId, ConstantPtr> captured_;  // inputs of a block that are constants outside
};

}  // namespace

Status lower(const Graph& g, const std::string& name, const ChooseKernel& choose, EngineContent& content,
             const LowerProgress& progress) {
  Plan plan;
  for (ValueId v : g.inputs) {
    std::vector<std::string> used;
    for (const Dim& d : g.value(v).type.shape) d.collect_symbols(used);
    for (auto& s : used) {
      if (std::any_of(plan.symbols.begin(), plan.symbols.end(), [&](auto& p) { return p.name == s; })) continue;
      auto range = g.symbols.find(s);
      SymbolRange r = range == g.symbols.end() ? SymbolRange{} : range->second;
      plan.symbols.push_back({s, r.min, r.opt, r.max});
    }
  }
  Weights weights{content, {}, {content.required_isa.begin(), content.required_isa.end()}};
  weights.note_earlier();
  std::vector<std::string> missing;
  int64_t done = 0, total = count_nodes(g);
  Lowering lowering(g, plan, choose, weights, missing);
  auto symbols = plan.symbols;
  BRISK_TRY(lowering.run(symbols, [&] { if (progress) progress(++done, total); }));
  if (!missing.empty()) {
    std::string all = std::to_string(missing.size()) + " node(s) have no kernel on this device:";
    for (auto& m : missing) all += "\n  " + m;
    return unsupported(all);
  }
  plan.name = name;
  content.functions[name] = std::move(plan);
  content.required_isa.assign(weights.isa.begin(), weights.isa.end());
  return {};
}

}  // namespace brisk
