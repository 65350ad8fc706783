#include "convert/ragged.h"

#include "tensor/constant_ops.h"

namespace brisk::convert {

Result<ValueId> RaggedGraph::add(OpId op, Attrs attrs, std::vector<ValueId> in, Ragged layout, const std::string& name) {
  BRISK_ASSIGN(ValueId v, g.add(op, std::move(attrs), std::move(in), name));
  note(v, std::move(layout));
  return v;
}

Result<ValueId> RaggedGraph::view(ValueId v, const Ragged& to, const std::string& name) {
  if (layout(v) == to) return v;
  auto from = viewed_.find(v);
  ValueId source = from == viewed_.end() ? v : from->second;
  if (layout(source) == to) return source;
  std::vector<int64_t> shape = {-1};
  shape.insert(shape.end(), to.others.begin(), to.others.end());
  ValueId s = ints(shape);
  BRISK_ASSIGN(ValueId y, add(OpId::kReshape, NoAttrs{}, {source, s}, to, name));
  viewed_[y] = source;
  return y;
}

Result<ValueId> RaggedGraph::cast(ValueId v, DType t) {
  if (g.value(v).type.dtype == t) return v;
  auto [it, fresh] = casts_.try_emplace({v, t}, kNoValue);
  if (fresh) {
    CastAttrs a;
    a.to = t;
    BRISK_ASSIGN(it->second, g.add(OpId::kCast, a, {v}, g.value(v).name + "." + std::string(dtype_name(t))));
    if (layout_.count(v)) note(it->second, layout(v));
  }
  return it->second;
}

ValueId RaggedGraph::ints(const std::vector<int64_t>& v) {
  auto [it, fresh] = ints_.try_emplace(v, kNoValue);
  if (fresh) it->second = g.add_constant("shape." + std::to_string(ints_.size()), make_constant(DType::kI64, {static_cast<int64_t>(v.size())}, v));
  return it->second;
}

ValueId RaggedGraph::constant(const std::string& name, ConstantPtr c) {
  std::pair<int64_t, int64_t> key = {c->count(), c->shape.rank ? c->shape[c->shape.rank - 1] : 1};
  auto [first, last] = constants_.equal_range(key);
  for (auto it = first; it != last; ++it)
    if (g.value(it->second).constant == c || same_content(*g.value(it->second).constant, *c)) return it->second;
  ValueId v = g.add_constant(name, std::move(c));
  constants_.emplace(key, v);
  return v;
}

ConstantPtr as_f32(ConstantPtr c) {
  if (!is_float(c->dtype) || (c->dtype == DType::kF32 && c->encoding.plain())) return c;
  return make_constant(DType::kF32, c->shape, to_floats(*c));
}

ConstantPtr reshaped(const ConstantPtr& c, const Dims& shape) {
  if (c->shape == shape) return c;
  auto out = std::make_shared<Constant>(*c);
  out->shape = shape;
  return out;
}

}  // namespace brisk::convert
