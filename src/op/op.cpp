#include "op/op.h"

#include <unordered_map>

#include "op/rules.h"

namespace brisk {
namespace {

template <class A, size_t I = 0> constexpr size_t index_of() {
  if constexpr (std::is_same_v<std::variant_alternative_t<I, Attrs>, A>) return I;
  else return index_of<A, I + 1>();
}

using namespace rules;
const OpDef kTable[] = {
#define BRISK_OP(name, attrs, min_in, max_in, min_out, max_out, traits, infer, doc) \
  {OpId::k##name, #name, index_of<attrs>(), min_in, max_in, min_out, max_out, traits, infer, doc},
#include "op/ops.inc"
#undef BRISK_OP
};
static_assert(std::size(kTable) == static_cast<size_t>(OpId::kCount));

// Operands that may be absent although later ones may not.
bool may_be_absent(const OpDef& def, int i) {
  if (def.id == OpId::kPagedAttention && (i == 1 || i == 2)) return true;
  if (std::string_view(def.name) == "Loop" && i < 2) return true;
  return i >= def.min_inputs && def.max_inputs >= 0;
}

}  // namespace

const OpDef& op_def(OpId id) { return kTable[static_cast<size_t>(id)]; }
std::span<const OpDef> op_table() { return kTable; }

std::optional<OpId> op_from_name(std::string_view name) {
  static const auto* by_name = [] {
    auto* m = new std::unordered_map<std::string_view, OpId>;
    for (const OpDef& d : kTable) (*m)[d.name] = d.id;
    return m;
  }();
  auto it = by_name->find(name);
  if (it == by_name->end()) return std::nullopt;
  return it->second;
}

std::optional<std::vector<Dim>> InferContext::elements(int i) const {
  if (!has(i)) return std::nullopt;
  if (in(i).elements) return in(i).elements;
  if (in(i).ranked && (is_integer(in(i).dtype) || in(i).dtype == DType::kBool))
    for (const Dim& d : in(i).shape)
      if (d == Dim(0)) return std::vector<Dim>();
  if (const TensorView* v = data(i); v && (is_integer(v->dtype) || v->dtype == DType::kBool) &&
                                     v->count() <= kMaxTrackedElements) {
    auto ints = to_ints(*v);
    return std::vector<Dim>(ints.begin(), ints.end());
  }
  return std::nullopt;
}

std::optional<std::vector<int64_t>> InferContext::numbers(int i) const {
  auto e = elements(i);
  if (!e) return std::nullopt;
  std::vector<int64_t> out;
  for (const Dim& d : *e) {
    auto c = d.constant();
    if (!c) return std::nullopt;
    out.push_back(*c);
  }
  return out;
}

Dim InferContext::fresh(std::string_view prefix) {
  int& n = counter_ ? *counter_ : own_counter_;
  return Dim::symbol("?" + std::string(prefix) + "." + std::to_string(n++));
}

namespace {

// Kernels multiply the sizes of what they are given. (A negative one may stand in a branch that is never taken.)
Status countable(const Type& t) {
  std::vector<int64_t> sizes;
  for (const Dim& d : t.shape)
    if (auto n = d.constant(); n && *n >= 0) sizes.push_back(*n);
  if (!t.ranked || sizes.size() != t.shape.size() || checked_count(sizes)) return {};
  return invalid("a result of shape " + to_string(t.shape) + " has more elements than 64 bits can count");
}

}  // namespace

Result<std::vector<Type>> infer_types(OpId op, const Attrs& attrs, std::span<const Type* const> inputs, int outputs,
                                      int* symbol_counter, std::function<const TensorView*(int)> data) {
  const OpDef& def = op_def(op);
  auto given = [&](const char* what, size_t n, int lo, int hi) {
    return invalid(std::string(def.name) + ": " + std::to_string(n) + " " + what + ", allowed " + std::to_string(lo) +
                   (hi < 0 ? " or more" : " to " + std::to_string(hi)));
  };
  auto outside = [](int64_t n, int lo, int hi) { return n < lo || (hi >= 0 && n > hi); };
  auto n_in = static_cast<int64_t>(inputs.size());
  if (outside(n_in, def.min_inputs, def.max_inputs)) return given("operands", inputs.size(), def.min_inputs, def.max_inputs);
  if (outside(outputs, def.min_outputs, def.max_outputs))
    return given("results", static_cast<size_t>(outputs), def.min_outputs, def.max_outputs);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i] && !may_be_absent(def, static_cast<int>(i)))
      return invalid(std::string(def.name) + ": operand " + std::to_string(i) + " is absent");
  if (attrs.index() != def.attrs_index) return internal(std::string(def.name) + ": wrong attribute struct");
  InferContext context(op, attrs, inputs, outputs);
  context.set_symbol_counter(symbol_counter);
  context.set_data(std::move(data));
  if (auto s = def.infer(context); !s.ok()) return std::move(s).error().in(def.name);
  for (const Type& t : context.outputs())
    if (auto s = countable(t); !s.ok()) return std::move(s).error().in(def.name);
  return std::move(context.outputs());
}

Result<int> normalize_axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    return invalid("axis " + std::to_string(axis) + " outside [" + std::to_string(-rank) + ", " + std::to_string(rank) + ")");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const Dim one = 1;
    const Dim& x = i < a.size() ? a[a.size() - 1 - i] : one;
    const Dim& y = i < b.size() ? b[b.size() - 1 - i] : one;
    Dim& r = out[out.size() - 1 - i];
    auto xc = x.constant(), yc = y.constant();
    if (x == y || (yc && *yc == 1)) r = x;
    else if (xc && *xc == 1) r = y;
    else if (xc && yc) return invalid("shapes " + to_string(a) + " and " + to_string(b) + " do not broadcast");
    else if (xc) r = x;       // a constant other than 1 decides: the symbol must be 1 or equal to it
    else if (yc) r = y;
    else r = Dim::max(x, y);
  }
  return out;
}

}  // namespace brisk

namespace brisk {
std::string to_string(const Type& t) {
  return std::string(dtype_name(t.dtype)) + (t.ranked ? to_string(t.shape) : std::string("[...]"));
}
}  // namespace brisk
