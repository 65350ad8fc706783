#include "convert/geometry.h"

#include <algorithm>
#include <cmath>

namespace brisk::convert {
namespace {

ConstantPtr integers(DType t, const Dims& shape, const std::vector<int64_t>& v) {
  if (t == DType::kI64) return make_constant(t, shape, v);
  if (t == DType::kI32) return make_constant(t, shape, std::vector<int32_t>(v.begin(), v.end()));
  if (t == DType::kBool || t == DType::kU8 || t == DType::kI8) return make_constant(t, shape, std::vector<uint8_t>(v.begin(), v.end()));
  if (t == DType::kF32) return make_constant(t, shape, std::vector<float>(v.begin(), v.end()));
  return nullptr;
}

std::optional<Dims> shape_at(const Shape& shape, const Dim::Lookup& lookup) {
  Dims d;
  for (const Dim& s : shape) {
    auto n = s.evaluate(lookup);
    if (!n || *n < 0) return std::nullopt;
    d.push(*n);
  }
  return d;
}

Dim::Lookup lookup_of(Sizes s) {
  return [s](const std::string& name) -> std::optional<int64_t> {
    if (name == kBatch) return s.batch;
    if (name == kTokens) return s.tokens;
    if (name == kPast) return s.past;
    return std::nullopt;
  };
}

// Elements that shape arithmetic knows, at these sizes.
ConstantPtr from_elements(const Type& t, const Dim::Lookup& lookup) {
  if (!t.elements || !t.ranked) return nullptr;
  auto shape = shape_at(t.shape, lookup);
  std::vector<int64_t> v;
  for (const Dim& e : *t.elements) {
    auto n = e.evaluate(lookup);
    if (!n) return nullptr;
    v.push_back(*n);
  }
  return shape && shape->count() == static_cast<int64_t>(v.size()) ? integers(t.dtype, *shape, v) : nullptr;
}

// Known up to the three symbols.
bool elements_known(const Type& t) { return from_elements(t, lookup_of({2, 3, 5})) != nullptr; }

}  // namespace

Geometry::Geometry(const Graph& g, const DecoderIo& io, Evaluator& evaluator)
    : g_(g), io_(io), evaluator_(evaluator), known_(g.values.size()), producer_(g.producers()) {
  for (size_t i = 0; i < g.values.size(); ++i) known_[i] = g.values[i].constant != nullptr;
  for (ValueId v : {io.mask, io.positions})
    if (v >= 0) known_[static_cast<size_t>(v)] = true;
  for (const Node& n : g.nodes) {
    bool all = op_def(n.op).foldable() && std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return has(v); });
    for (ValueId v : n.outputs)
      if (v >= 0) known_[static_cast<size_t>(v)] = all || elements_known(g.value(v).type);
  }
}

std::vector<size_t> Geometry::makers(ValueId v) const {
  std::vector<bool> wanted(g_.nodes.size());
  std::vector<ValueId> open = {v};
  while (!open.empty()) {
    ValueId now = open.back();
    open.pop_back();
    if (now < 0 || g_.constant(now) || producer_[static_cast<size_t>(now)] < 0 || elements_known(g_.value(now).type)) continue;
    auto n = static_cast<size_t>(producer_[static_cast<size_t>(now)]);
    if (wanted[n]) continue;
    wanted[n] = true;
    open.insert(open.end(), g_.nodes[n].inputs.begin(), g_.nodes[n].inputs.end());
  }
  std::vector<size_t> out;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) out.push_back(i);
  return out;
}

Result<ConstantPtr> Geometry::at(ValueId v, Sizes s) {
  if (!io_.batch.as_symbol()) s.batch = 1;
  if (!has_past()) s.past = 0;
  auto lookup = lookup_of(s);
  if (g_.constant(v)) return g_.value(v).constant;
  Graph part;
  std::vector<ValueId> map(g_.values.size(), kNoValue);
  auto known = [&](ValueId from) -> ConstantPtr {
    const Value& value = g_.value(from);
    if (value.constant) return value.constant;
    if (auto c = from_elements(value.type, lookup)) return c;
    std::vector<int64_t> elements;
    if (from == io_.mask) elements.assign(static_cast<size_t>(s.batch * (s.past + s.tokens)), 1);
    if (from == io_.positions)
      for (int64_t i = 0; i < s.batch * s.tokens; ++i) elements.push_back(s.past + i % s.tokens);
    if (elements.empty()) return nullptr;
    return integers(value.type.dtype, from == io_.mask ? Dims{s.batch, s.past + s.tokens} : Dims{s.batch, s.tokens}, elements);
  };
  if (auto c = known(v)) return c;
  for (size_t i : makers(v)) {
    Node n = g_.nodes[i];
    for (ValueId& in : n.inputs) {
      if (in < 0) continue;
      ValueId& to = map[static_cast<size_t>(in)];
      if (to < 0) {
        ConstantPtr c = known(in);
        if (!c) return unsupported("'" + g_.value(in).name + "' is not known at build time");
        to = part.add_constant(g_.value(in).name, c);
      }
      in = to;
    }
    for (ValueId& out : n.outputs)
      if (out >= 0) out = map[static_cast<size_t>(out)] = part.add_value(g_.value(out).name);
    BRISK_TRY(infer_node(part, n));
    part.nodes.push_back(std::move(n));
  }
  part.outputs = {map[static_cast<size_t>(v)]};
  BRISK_ASSIGN(auto out, evaluator_.run(part, {}));
  return out[0];
}

Result<ConstantPtr> Geometry::fixed(ValueId v) {
  if (g_.constant(v)) return g_.value(v).constant;
  BRISK_ASSIGN(ConstantPtr a, at(v, {1, 3, 2}));
  for (Sizes s : {Sizes{2, 4, 0}, Sizes{1, 1, 9}, Sizes{1, 40, 300}}) {
    BRISK_ASSIGN(ConstantPtr b, at(v, s));
    if (a->dtype != b->dtype || !(a->shape == b->shape) || !std::ranges::equal(a->data.bytes, b->data.bytes))
      return unsupported("'" + g_.value(v).name + "' depends on how many tokens there are");
  }
  return a;
}

std::set<int64_t> Geometry::numbers(ValueId v, int64_t most) const {
  std::set<int64_t> out;
  for (size_t i : makers(v))
    for (ValueId in : g_.nodes[i].inputs) {
      const Constant* c = g_.constant(in);
      if (!c || !c->encoding.plain() || c->dtype == DType::kBool || c->count() > 16) continue;
      for (float f : to_floats(*c)) {
        double d = std::abs(static_cast<double>(f));
        if (d >= 2 && d <= static_cast<double>(most) && d == std::floor(d)) out.insert(static_cast<int64_t>(d));
      }
    }
  return out;
}

}  // namespace brisk::convert
