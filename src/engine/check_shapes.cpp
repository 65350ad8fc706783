#include <unistd.h>

#include "base/checked.h"
#include "engine/check.h"

namespace brisk {
namespace {

// Forms small enough to multiply and compare without care; anything else is decided with numbers.
constexpr size_t kSimpleTerms = 4, kSimpleAtoms = 16, kSimpleCharacters = 512, kMaxProductTerms = 256;
constexpr size_t kMaxSymbolicOperands = 64;
constexpr size_t kMaxElements = 1 << 16;        // of results, tracked for all values together
constexpr int64_t kMaxElementsRead = 1 << 22;  // of weights, in one walk

bool simple(const Shape& shape) {
  size_t product = 1;
  for (const Dim& d : shape) {
    Dim::Size s = d.size();
    if (s.opaque || s.terms > kSimpleTerms || s.atoms > kSimpleAtoms || s.characters > kSimpleCharacters) return false;
    product *= std::max<size_t>(s.terms, 1);
  }
  return product <= kMaxProductTerms;
}

bool constant(const Type& t) {
  for (const Dim& d : t.shape)
    if (!d.is_constant()) return false;
  return t.ranked;
}

// Elements of a constant shape; nullopt on overflow, a negative size, or more bytes than an address can name.
std::optional<int64_t> bits_of(const Type& t) {
  int64_t n = dtype_bits(t.dtype);
  bool zero = false;
  for (const Dim& d : t.shape) {
    int64_t v = *d.constant();
    if (v < 0) return std::nullopt;
    zero = zero || v == 0;
    auto m = checked_mul(n, std::max<int64_t>(v, 1));
    if (!m) return std::nullopt;
    n = *m;
  }
  return zero ? 0 : n;
}

// One walk over a plan, with symbols (no lookup) or with numbers.
class ShapeWalk {
 public:
  ShapeWalk(const Plan& plan, std::span<const Weight> weights, const Dim::Lookup* lookup)
      : plan_(plan), weights_(weights), lookup_(lookup) {}

  // Was everything decided? Errors are contradictions.
  Result<bool> run() {
    types_.reserve(plan_.values.size());
    for (size_t i = 0; i < plan_.values.size(); ++i) {
      BRISK_TRY(add_value(i));
      if (!lookup_ && !simple(types_.back().shape)) return false;
    }
    for (size_t i = 0; i < plan_.values.size(); ++i)
      if (plan_.values[i].kind == PlanValue::Kind::kView)
        if (auto s = view(i); !s.ok()) return std::move(s).error().in("view '" + plan_.values[i].name + "'");
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      if (!lookup_ && plan_.steps[i].inputs.size() > kMaxSymbolicOperands) return false;
      if (auto s = step(plan_.steps[i]); !s.ok()) return std::move(s).error().in(step_name(plan_, i));
    }
    return decided_;
  }

 private:
  Type& type(int32_t v) { return types_[static_cast<size_t>(v)]; }

  Status add_value(size_t i) {
    const PlanValue& v = plan_.values[i];
    Type t{v.dtype, v.ranked, {}, {}};
    for (const Dim& d : v.shape) {
      if (!lookup_ || d.is_constant()) t.shape.push_back(d);
      else if (auto n = d.evaluate(*lookup_)) t.shape.push_back(*n);
      else t.shape.push_back(Dim::symbol("?" + std::to_string(unknown_++)));  // small, whatever it stands for
    }
    if (lookup_ && constant(t) && !bits_of(t))
      return invalid("value '" + v.name + "': shape " + to_string(v.shape) + " is " + to_string(t.shape) +
                     ": negative, or more than 64 bits can count");
    types_.push_back(std::move(t));
    return {};
  }

  void track(Type& t, std::vector<Dim> elements) {
    if (elements_ + elements.size() > kMaxElements) return;
    elements_ += elements.size();
    t.elements = std::move(elements);
  }

  Status view(size_t i) {
    const Type &v = types_[i], &base = type(plan_.values[i].view_of);
    if (v.dtype == base.dtype && v.ranked && base.ranked && v.shape == base.shape) return {};
    if (constant(v) && constant(base)) {
      if (bits_of(v) != bits_of(base) || !bits_of(v))
        return invalid(to_string(v) + " is not of the same bytes as " + to_string(base));
      return {};
    }
    if (!lookup_ && v.ranked && base.ranked) {
      Dim a = dtype_bits(v.dtype), b = dtype_bits(base.dtype);
      for (const Dim& d : v.shape) a = a * d;
      for (const Dim& d : base.shape) b = b * d;
      if (a == b) return {};
    }
    decided_ = false;
    return {};
  }

  Status step(const PlanStep& s) {
    std::vector<const Type*> in;
    in.reserve(s.inputs.size());
    bool known_operands = true;
    for (int32_t v : s.inputs) {
      in.push_back(v < 0 ? nullptr : &type(v));
      if (v >= 0 && plan_.values[static_cast<size_t>(v)].kind != PlanValue::Kind::kState)
        known_operands = known_operands && (lookup_ ? constant(type(v)) : type(v).ranked);
    }
    std::vector<Type> results;  // of blocks: their own symbols stay symbols
    for (const Plan& b : s.blocks)
      for (int32_t v : b.outputs) results.push_back(block_result(b.values[static_cast<size_t>(v)]));
    for (const Type& t : results) in.push_back(&t);

    int32_t operands = static_cast<int32_t>(s.inputs.size());
    auto data = [&](int k) -> const TensorView* {
      if (k >= operands || s.inputs[static_cast<size_t>(k)] < 0) return nullptr;
      data_ = known_elements(plan_, weights_, s.inputs[static_cast<size_t>(k)]);
      if (data_ && (elements_read_ += data_->count()) > kMaxElementsRead) return nullptr;
      return data_ ? &*data_ : nullptr;
    };
    int counter = 0;
    auto types = infer_types(s.op, s.attrs, in, static_cast<int>(s.outputs.size()), &counter, data);
    if (!types.ok()) return std::move(types).error();
    for (size_t k = 0; k < s.outputs.size(); ++k)
      if (s.outputs[k] >= 0) BRISK_TRY(result(s, s.outputs[k], (*types)[k], known_operands));
    return {};
  }

  Type block_result(const PlanValue& v) {
    Type t{v.dtype, v.ranked, {}, {}};
    for (const Dim& d : v.shape)
      t.shape.push_back(d.is_constant() ? d : Dim::symbol("?" + std::to_string(unknown_++)));
    return t;
  }

  Status result(const PlanStep& s, int32_t v, Type& rule, bool known_operands) {
    Type& have = type(v);
    auto differ = [&] { return invalid("result '" + plan_.values[static_cast<size_t>(v)].name + "' is " + to_string(have) +
                                       ", the rule gives " + to_string(rule)); };
    if (have.dtype != rule.dtype) return differ();
    bool equal = have.ranked && rule.ranked;
    if (equal && have.rank() != rule.rank()) return differ();
    for (size_t d = 0; d < have.shape.size() && have.ranked && rule.ranked; ++d) {
      const Dim &x = have.shape[d], &y = rule.shape[d];
      if (x.is_constant() && y.is_constant() && !(x == y)) return differ();
      equal = equal && x == y;
    }
    if (lookup_ && rule.elements) track(have, std::move(*rule.elements));
    if (equal && known_operands) return {};
    decided_ = false;
    if (lookup_ && known_operands && !s.dynamic && s.blocks.empty())  // blocks bring their results' sizes
      return invalid("the shape of result '" + plan_.values[static_cast<size_t>(v)].name +
                     "' is not known before the step runs: the rule gives " + to_string(rule));
    return {};
  }

  const Plan& plan_;
  std::span<const Weight> weights_;
  const Dim::Lookup* lookup_;
  std::vector<Type> types_;
  std::optional<TensorView> data_;
  size_t elements_ = 0;
  int64_t elements_read_ = 0;
  int unknown_ = 0;
  bool decided_ = true;
};

using Scope = std::vector<PlanSymbol>;  // of a plan and those around it

Dim::Lookup lookup_in(const Scope& scope, std::function<int64_t(const PlanSymbol&)> pick) {
  return [&scope, pick = std::move(pick)](const std::string& name) -> std::optional<int64_t> {
    for (const PlanSymbol& s : scope)
      if (s.name == name) return pick(s);
    return std::nullopt;
  };
}

// Does the rule accept the plan where no two symbols agree by chance? Drawn anew each time, so that no file can be
// made to fit the point.
bool holds_at_random_points(const Plan& plan, std::span<const Weight> weights, const Scope& scope) {
  for (int round = 0; round < 2 && !scope.empty(); ++round) {
    std::vector<uint16_t> point(scope.size());
    for (uint16_t& p : point)
      if (::getentropy(&p, sizeof p) != 0) return false;
    Dim::Lookup lookup = lookup_in(scope, [&](const PlanSymbol& s) { return 65536 + int64_t{point[static_cast<size_t>(&s - scope.data())]}; });
    auto decided = ShapeWalk(plan, weights, &lookup).run();
    if (!decided.ok() || !*decided) return false;
  }
  return true;
}

Status check_corners(const Plan& plan, std::span<const Weight> weights, const Scope& scope) {
  struct Corner { const char* name; int64_t PlanSymbol::*value; };
  for (Corner c : {Corner{"min", &PlanSymbol::min}, {"opt", &PlanSymbol::opt}, {"max", &PlanSymbol::max}}) {
    // A symbol without a profile has no corner worth refusing an engine for; binding checks the shapes that come.
    bool bounded = true;
    for (const PlanSymbol& s : scope) bounded = bounded && s.max != INT64_MAX;
    if (!bounded) break;
    auto s = check_shapes_at(plan, weights, lookup_in(scope, [&](const PlanSymbol& p) { return p.*c.value; }));
    if (!s.ok()) return std::move(s).error().in(std::string("at the symbols' ") + c.name);
    if (scope.empty()) break;
  }
  return {};
}

Status prove_shapes(Plan& plan, std::span<const Weight> weights, Scope scope) {
  scope.insert(scope.begin(), plan.symbols.begin(), plan.symbols.end());  // inner names hide outer ones
  BRISK_ASSIGN(bool symbolic, ShapeWalk(plan, weights, nullptr).run());
  plan.shapes_proven = symbolic && holds_at_random_points(plan, weights, scope);
  BRISK_TRY(check_corners(plan, weights, scope));
  for (size_t i = 0; i < plan.steps.size(); ++i)
    for (Plan& b : plan.steps[i].blocks)
      if (auto s = prove_shapes(b, weights, scope); !s.ok())
        return std::move(s).error().in(step_name(plan, i) + ": block '" + b.name + "'");
  return {};
}

}  // namespace

Status prove_shapes(Plan& plan, std::span<const Weight> weights) { return prove_shapes(plan, weights, {}); }

Status check_shapes_at(const Plan& plan, std::span<const Weight> weights, const Dim::Lookup& symbols) {
  auto decided = ShapeWalk(plan, weights, &symbols).run();
  return decided.ok() ? Status() : std::move(decided).error();
}

std::optional<TensorView> known_elements(const Plan& plan, std::span<const Weight> weights, int32_t value) {
  const PlanValue& v = plan.values[static_cast<size_t>(value)];
  const PlanValue* root = &v;
  while (root->kind == PlanValue::Kind::kView) root = &plan.values[static_cast<size_t>(root->view_of)];
  if (root->kind != PlanValue::Kind::kWeight || root->dtype != v.dtype) return std::nullopt;
  const Weight& w = weights[static_cast<size_t>(root->weight)];
  if (!w.packing.empty() || !w.encoding.plain()) return std::nullopt;
  Dims shape = w.shape;
  if (root != &v) {  // a view of a weight has a constant shape, or is not tracked
    shape = {};
    for (const Dim& d : v.shape) {
      if (!d.is_constant()) return std::nullopt;
      shape.push(*d.constant());
    }
  }
  auto count = checked_count({shape.begin(), static_cast<size_t>(shape.rank)});
  if (!count || *count > kMaxTrackedElements || *count != w.shape.count()) return std::nullopt;
  return TensorView(const_cast<std::byte*>(w.bytes.bytes.data()), v.dtype, shape);
}

}  // namespace brisk
