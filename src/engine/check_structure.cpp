// Indices, kinds, single assignment, definitions before uses, views, states, symbols and blocks of plans.
#include <algorithm>
#include <map>

#include "base/checked.h"
#include "engine/check.h"
#include "op/step_io.h"

namespace brisk {
namespace {

using Kind = PlanValue::Kind;
constexpr int64_t kMaxStateExtent = 1 << 24;  // heads, head size, width: far beyond any model, safe to multiply
constexpr size_t kMaxOperands = 1 << 16;
constexpr size_t kMaxViewChain = 1024;

class Structure {
 public:
  Structure(const Plan& plan, std::span<const Weight> weights, const std::vector<std::string>& outer)
      : plan_(plan), weights_(weights), symbols_(outer), in_block_(false) {}
  void set_in_block() { in_block_ = true; }

  Status run() {
    BRISK_TRY(symbols());
    find_writers();
    for (size_t i = 0; i < plan_.values.size(); ++i)
      if (auto s = value(plan_.values[i]); !s.ok())
        return std::move(s).error().in("value " + std::to_string(i) + " '" + plan_.values[i].name + "'");
    BRISK_TRY(roots());
    BRISK_TRY(views());
    BRISK_TRY(listed(plan_.inputs, Kind::kInput, "input"));
    BRISK_TRY(states());
    for (size_t i = 0; i < plan_.steps.size(); ++i)
      if (auto s = step(plan_.steps[i]); !s.ok()) return std::move(s).error().in(step_name(plan_, i));
    for (int32_t v : plan_.outputs) {
      if (!readable(v)) return invalid("an output is never written");
      BRISK_TRY(dense(v, "output"));
    }
    return {};
  }

 private:
  bool known(int32_t v) const { return v >= 0 && static_cast<size_t>(v) < plan_.values.size(); }
  const PlanValue& at(int32_t v) const { return plan_.values[static_cast<size_t>(v)]; }
  size_t root_of(int32_t v) const { return root_[static_cast<size_t>(v)]; }

  // Is this memory that anybody may read as plain elements? States and packed weights are for their kernels alone.
  Status dense(int32_t v, const char* as) const {
    const PlanValue& root = plan_.values[root_of(v)];
    if (root.kind == Kind::kState) return invalid("state '" + root.name + "' as " + as);
    if (root.kind != Kind::kWeight) return {};
    const Weight& w = weights_[static_cast<size_t>(root.weight)];
    if (w.packing.empty() && w.encoding.plain()) return {};
    return invalid("packed weight '" + w.name + "' as " + as);
  }

  Status symbols() {
    if (in_block_ && !plan_.symbols.empty()) return invalid("a block introduces symbols");
    for (const PlanSymbol& s : plan_.symbols) {
      if (s.name.empty()) return invalid("a symbol without a name");
      if (s.min < 0 || s.min > s.opt || s.opt > s.max)
        return invalid("symbol '" + s.name + "': min " + std::to_string(s.min) + ", opt " + std::to_string(s.opt) + ", max " +
                       std::to_string(s.max) + ", wanted 0 <= min <= opt <= max");
      for (const PlanSymbol& other : plan_.symbols)
        if (&other < &s && other.name == s.name) return invalid("two symbols named '" + s.name + "'");
      symbols_.push_back(s.name);
    }
    std::sort(symbols_.begin(), symbols_.end());
    return {};
  }

  Status value(const PlanValue& v) const {
    if ((v.kind == Kind::kWeight) != (v.weight >= 0)) return invalid("weight index and kind do not go together");
    if ((v.kind == Kind::kView) != (v.view_of >= 0)) return invalid("view index and kind do not go together");
    if (!v.ranked && (v.kind == Kind::kArena || v.kind == Kind::kWeight)) return invalid("its rank must be known");
    if (v.shape.size() > kMaxRank) return invalid("rank " + std::to_string(v.shape.size()) + ", at most " + std::to_string(kMaxRank));
    if ((v.kind == Kind::kArena || (v.kind == Kind::kInput && !in_block_ && v.ranked)) && !sized(v))
      return invalid("shape " + to_string(v.shape) + " names something that is no symbol of the plan");
    if (v.kind != Kind::kWeight) return {};
    if (static_cast<size_t>(v.weight) >= weights_.size())
      return invalid("weight " + std::to_string(v.weight) + " of " + std::to_string(weights_.size()));
    const Weight& w = weights_[static_cast<size_t>(v.weight)];
    if (v.dtype != w.dtype || !(v.shape == Shape(w.shape.begin(), w.shape.end())))
      return invalid("is " + std::string(dtype_name(v.dtype)) + to_string(v.shape) + ", its weight '" + w.name + "' is " +
                     std::string(dtype_name(w.dtype)) + to_string(w.shape));
    return {};
  }

  // Is the shape known once the symbols are?
  bool sized(const PlanValue& v) const {
    std::vector<std::string> names;
    for (const Dim& d : v.shape) d.collect_symbols(names);
    return v.ranked && std::all_of(names.begin(), names.end(), [&](auto& n) { return std::binary_search(symbols_.begin(), symbols_.end(), n); });
  }

  void find_writers() {
    writer_.assign(plan_.values.size(), nullptr);
    for (const PlanStep& s : plan_.steps)
      for (int32_t v : s.outputs)
        if (known(v)) writer_[static_cast<size_t>(v)] = &s;
  }

  // What each value's bytes belong to: itself, or the end of its chain of views.
  Status roots() {
    constexpr size_t kUnknown = SIZE_MAX;
    root_.assign(plan_.values.size(), kUnknown);
    std::vector<size_t> chain, length(root_.size());
    for (size_t i = 0; i < root_.size(); ++i) {
      size_t at = i;
      chain.clear();
      while (root_[at] == kUnknown && plan_.values[at].kind == Kind::kView) {
        int32_t next = plan_.values[at].view_of;
        if (!known(next)) return invalid("view '" + plan_.values[at].name + "' of value " + std::to_string(next) + ", which does not exist");
        chain.push_back(at);
        if (chain.size() > kMaxViewChain) break;
        at = static_cast<size_t>(next);
      }
      if (chain.size() + length[at] > kMaxViewChain)
        return invalid("view '" + plan_.values[i].name + "' is a view of itself, or the end of more than " + std::to_string(kMaxViewChain) + " views");
      if (root_[at] == kUnknown) root_[at] = at;
      for (size_t k = chain.size(); k > 0; --k) {
        root_[chain[k - 1]] = root_[at];
        length[chain[k - 1]] = length[at] + chain.size() - k + 1;
      }
    }
    defined_.resize(root_.size());
    named_.resize(root_.size());
    for (size_t i = 0; i < root_.size(); ++i) {
      Kind k = plan_.values[i].kind;
      defined_[i] = k == Kind::kInput || k == Kind::kWeight || k == Kind::kState;
    }
    return {};
  }

  // A view has its place when the plan is bound, unless a dynamic step makes it.
  Status views() const {
    for (size_t i = 0; i < root_.size(); ++i) {
      const PlanValue& v = plan_.values[i];
      if (v.kind != Kind::kView) continue;
      BRISK_TRY(dense(static_cast<int32_t>(i), "another shape"));
      if (writer_[i] && writer_[i]->dynamic) continue;
      if (plan_.values[root_[i]].kind == Kind::kDynamic || !sized(v))
        return invalid("view '" + v.name + "' is not known when the plan is bound, but no dynamic step makes it");
    }
    return {};
  }

  // Has everything that the value's bytes and shape depend on been written?
  bool readable(int32_t v) const {
    while (known(v) && at(v).kind == Kind::kView && !writer_[static_cast<size_t>(v)]) v = at(v).view_of;
    return known(v) && defined_[static_cast<size_t>(v)];
  }

  // Every value of a kind is named by the plan's list of them, once.
  Status listed(const std::vector<int32_t>& list, Kind kind, const char* what) const {
    std::vector<bool> seen(plan_.values.size());
    for (int32_t v : list) {
      if (!known(v) || at(v).kind != kind || seen[static_cast<size_t>(v)])
        return invalid(std::string("the list of ") + what + "s names value " + std::to_string(v) + ", which is none, or twice");
      seen[static_cast<size_t>(v)] = true;
    }
    for (size_t i = 0; i < seen.size(); ++i)
      if (plan_.values[i].kind == kind && !seen[i])
        return invalid(std::string(what) + " '" + plan_.values[i].name + "' is missing in the list of " + what + "s");
    return {};
  }

  Status states() const {
    std::vector<int32_t> list;
    for (const PlanState& s : plan_.states) list.push_back(s.value);
    BRISK_TRY(listed(list, Kind::kState, "state"));
    for (const PlanState& s : plan_.states) {
      bool paged = s.kind == PlanState::Kind::kPagedKv;
      auto fits = [](int64_t n) { return n > 0 && n <= kMaxStateExtent; };
      if (paged ? !fits(s.kv_heads) || !fits(s.head_dim) || !fits(s.kv_heads * s.head_dim) : !fits(s.width))
        return invalid("state '" + s.name + "': " + (paged ? std::to_string(s.kv_heads) + " heads of " + std::to_string(s.head_dim)
                       : "width " + std::to_string(s.width)) + ", allowed 1 to " + std::to_string(kMaxStateExtent));
      if (s.dtype != at(s.value).dtype) return invalid("state '" + s.name + "' is not of its value's element type");
    }
    return {};
  }

  const PlanState* state(int32_t v) const {
    for (const PlanState& s : plan_.states)
      if (s.value == v) return &s;
    return nullptr;
  }

  // Which operands are states, and of what geometry. All other operands are plain memory.
  Status state_operands(const PlanStep& s) const {
    for (size_t i = 0; i < s.inputs.size(); ++i) {
      const PlanState* have = known(s.inputs[i]) ? state(s.inputs[i]) : nullptr;
      bool paged = s.op == OpId::kPagedAttention && i == 3;
      bool last_ids = (s.op == OpId::kResolveIds && i == 1) || (s.op == OpId::kSample && i == 4);
      bool counts = s.op == OpId::kSample && i == 3;
      bool fits = paged || last_ids || counts ? have != nullptr : have == nullptr;
      if (fits && paged) {
        const auto* a = std::get_if<AttentionAttrs>(&s.attrs);
        fits = a && have->kind == PlanState::Kind::kPagedKv && have->kv_heads == a->kv_heads && have->head_dim == a->head_dim;
      } else if (fits && last_ids) {
        fits = have->kind == PlanState::Kind::kSlots && have->dtype == DType::kI32 && have->width == 1;
      } else if (fits && counts) {
        auto vocabulary = known(s.inputs[0]) && !at(s.inputs[0]).shape.empty() ? at(s.inputs[0]).shape.back().constant() : std::nullopt;
        fits = have->kind == PlanState::Kind::kSlots && have->dtype == DType::kU16 && vocabulary == have->width;
      }
      if (!fits) return invalid("operand " + std::to_string(i) + " is not " +
                                (paged || last_ids || counts ? "the state that the operator works on" : "plain memory"));
    }
    return step_operands(s);
  }

  // Kernels index the paged state by these; only what the caller gives under these names has been checked for that.
  Status step_operands(const PlanStep& s) const {
    using namespace step_io;
    std::map<size_t, const char*> names;
    if (s.op == OpId::kPagedAttention) names = {{4, kPositions}, {5, kSeqStarts}, {6, kContextLens}, {7, kBlockTables}};
    if (s.op == OpId::kSample) names = {{1, kSampleParams}, {2, kSlots}};
    for (auto [i, name] : names)
      if (i < s.inputs.size() && (!known(s.inputs[i]) || at(s.inputs[i]).kind != Kind::kInput || at(s.inputs[i]).name != name || in_block_))
        return invalid("operand " + std::to_string(i) + " is not the input '" + name + "' of the function");
    return {};
  }

  Status step(const PlanStep& s) {
    const OpDef& def = op_def(s.op);
    if (s.inputs.size() > kMaxOperands || s.outputs.size() > kMaxOperands)
      return invalid("more than " + std::to_string(kMaxOperands) + " operands");
    if (s.inputs.size() < static_cast<size_t>(def.min_inputs))
      return invalid(std::to_string(s.inputs.size()) + " operands, wanted " + std::to_string(def.min_inputs) + " or more");
    for (int32_t v : s.inputs) {
      if (v == -1) continue;
      if (!readable(v)) return invalid("reads value " + std::to_string(v) + ", which nothing has written");
      if (!s.dynamic && !def.is(kHasBlocks) && at(v).kind != Kind::kState && !sized(at(v)))
        return invalid("reads '" + at(v).name + "', whose shape is known at run time only, but is not dynamic");
    }
    BRISK_TRY(state_operands(s));
    for (size_t k = 0; k < s.outputs.size(); ++k)
      if (s.outputs[k] != -1) BRISK_TRY(output(s, def, k));
    return blocks(s, def);
  }

  Status output(const PlanStep& s, const OpDef& def, size_t k) {
    int32_t v = s.outputs[k];
    bool view = def.is(kView) && k == 0, late = s.dynamic || def.is(kHasBlocks);
    if (known(v) && at(v).kind == Kind::kView && !view && !late && k == 0) return in_place(s, v);
    Kind wanted = view ? Kind::kView : late ? Kind::kDynamic : Kind::kArena;
    if (!known(v) || at(v).kind != wanted)
      return invalid("writes value " + std::to_string(v) + ", which is not a " + (view ? "view" : late ? "dynamic value" : "value of static size"));
    if (view && at(v).view_of != s.inputs[0]) return invalid("result '" + at(v).name + "' is not a view of its operand");
    if (defined_[static_cast<size_t>(v)]) return invalid("writes '" + at(v).name + "' a second time");
    define(v);
    return {};
  }

  void define(int32_t v) {
    defined_[static_cast<size_t>(v)] = true;
    named_[root_of(v)].push_back(v);
  }

  // A result on the bytes of one operand, which are of an arena and of its own shape: nothing that lay there is readable
  // any more. Whether the kernel may do that is asked of kernels.
  Status in_place(const PlanStep& s, int32_t v) {
    const PlanValue& result = at(v);
    if (defined_[static_cast<size_t>(v)]) return invalid("writes '" + result.name + "' a second time");
    int32_t operand = -1;
    for (int32_t in : s.inputs) {
      if (in < 0 || root_of(in) != root_of(v)) continue;
      if (operand >= 0) return invalid("result '" + result.name + "' lies on two operands");
      operand = in;
    }
    if (operand < 0) return invalid("result '" + result.name + "' lies on bytes of no operand");
    if (plan_.values[root_of(v)].kind != Kind::kArena)
      return invalid("result '" + result.name + "' overwrites '" + plan_.values[root_of(v)].name + "', which is no temporary value");
    if (!(at(operand).shape == result.shape) || dtype_bits(at(operand).dtype) != dtype_bits(result.dtype))
      return invalid("result '" + result.name + "' is not of the size of '" + at(operand).name + "', on whose bytes it lies");
    auto& there = named_[root_of(v)];
    for (int32_t old : there) defined_[static_cast<size_t>(old)] = false;
    there.clear();
    define(v);
    return {};
  }

  Status blocks(const PlanStep& s, const OpDef& def) const {
    if (s.blocks.empty() == def.is(kHasBlocks)) return invalid("blocks where none belong, or none where they do");
    if (s.kernel.empty() != def.is(kHasBlocks | kView)) return invalid("a kernel where none belongs, or none where one does");
    if (s.captures < 0 || static_cast<size_t>(s.captures) > s.inputs.size()) return invalid(std::to_string(s.captures) + " captures of " + std::to_string(s.inputs.size()) + " operands");
    if (s.blocks.empty()) return s.captures == 0 ? Status() : invalid("captures without blocks");
    for (int32_t v : s.inputs)
      if (v >= 0) BRISK_TRY(dense(v, "a block's operand"));
    for (const Plan& b : s.blocks) {
      Structure inner(b, weights_, symbols_);
      inner.set_in_block();
      if (auto r = inner.run(); !r.ok()) return std::move(r).error().in("block '" + b.name + "'");
      if (!b.states.empty()) return invalid("block '" + b.name + "' has states");
      BRISK_TRY(signature(s, b));
    }
    return {};
  }

  // If: the blocks take the captures and give the results. Loop: (count, condition, carried..., captures...) ->
  // (condition, carried..., scanned...). Scan: as its operands -> as its results.
  Status signature(const PlanStep& s, const Plan& b) const {
    std::string_view op = op_name(s.op);
    size_t taken = static_cast<size_t>(s.captures), given = s.outputs.size(), count = 1;
    if (op == "If") count = 2;
    else if (op == "Loop" || op == "Scan") taken = s.inputs.size();
    if (op == "Loop") {
      ++given;
      const auto* a = std::get_if<ModeAttrs>(&s.attrs);
      size_t states = s.inputs.size() - std::min(s.inputs.size(), static_cast<size_t>(s.captures) + 2);
      if (!a || a->flag < 0 || static_cast<size_t>(a->flag) != states || states > s.outputs.size() || taken < static_cast<size_t>(s.captures) + 2)
        return invalid("its number of states is not that of its operands and results");
    }
    if (s.blocks.size() != count || b.inputs.size() != taken || b.outputs.size() != given)
      return invalid("block '" + b.name + "' takes " + std::to_string(b.inputs.size()) + " and gives " + std::to_string(b.outputs.size()) +
                     " values, wanted " + std::to_string(taken) + " and " + std::to_string(given));
    return captures(s, b);
  }

  Status captures(const PlanStep& s, const Plan& b) const {
    for (size_t i = 1; i <= static_cast<size_t>(s.captures); ++i) {
      int32_t given = s.inputs[s.inputs.size() - i];
      const PlanValue& taken = b.values[static_cast<size_t>(b.inputs[b.inputs.size() - i])];
      if (given < 0) return invalid("an absent capture");
      if (at(given).dtype != taken.dtype || (at(given).ranked && taken.ranked && at(given).shape.size() != taken.shape.size()))
        return invalid("capture '" + at(given).name + "' is not of the type of '" + taken.name + "' in block '" + b.name + "'");
    }
    return {};
  }

  const Plan& plan_;
  std::span<const Weight> weights_;
  std::vector<std::string> symbols_;  // sorted: of this plan and those around it
  std::vector<size_t> root_;
  std::vector<const PlanStep*> writer_;  // the step that writes each value
  std::vector<bool> defined_;
  std::vector<std::vector<int32_t>> named_;  // by root: what steps have written there that may still be read
  bool in_block_;
};

}  // namespace

Status check_structure(const Plan& plan, std::span<const Weight> weights) { return Structure(plan, weights, {}).run(); }

std::string step_name(const Plan& plan, size_t step) {
  const PlanStep& s = plan.steps[step];
  return "step " + std::to_string(step) + " " + op_name(s.op) + (s.name.empty() ? "" : " '" + s.name + "'");
}

}  // namespace brisk
