#include "import/onnx/lower.h"

#include "import/onnx/importer.h"

namespace brisk::onnx_import {

const Type& Lower::type(ValueId v) const {
  static const Type unknown{DType::kF32, false, {}, {}};
  return v < 0 ? unknown : graph().value(v).type;
}

std::optional<int> Lower::rank(ValueId v) const {
  if (v < 0 || !type(v).ranked) return std::nullopt;
  return type(v).rank();
}

ValueId Lower::through_view(ValueId v) {
  if (v < 0 || constant(v)) return v;
  for (const Node& n : graph().nodes) {
    if (n.op != OpId::kReshape || n.outputs[0] != v || !constant(n.inputs[0]) || !constant(n.inputs[0])->encoding.plain()) continue;
    Dims shape;
    for (const Dim& d : type(v).shape) shape.push(d.constant_or(-1));
    if (!type(v).ranked || !checked_count({shape.begin(), shape.end()}) || shape.count() != constant(n.inputs[0])->count()) return v;
    auto seen = std::make_shared<Constant>(*constant(n.inputs[0]));
    seen->shape = shape;
    return constant_value(std::move(seen));
  }
  return v;
}

const Constant* Lower::constant(ValueId v) const {
  const Constant* c = graph().constant(v);
  return c && c->encoding.plain() ? c : nullptr;
}

std::optional<std::vector<int64_t>> Lower::numbers(ValueId v) const {
  if (v < 0) return std::nullopt;
  if (const Constant* c = constant(v); c && (is_integer(c->dtype) || c->dtype == DType::kBool)) return to_ints(c->view());
  if (type(v).ranked && type(v).rank() == 1 && type(v).shape[0] == Dim(0)) return std::vector<int64_t>();
  if (!type(v).elements) return std::nullopt;
  std::vector<int64_t> out;
  for (const Dim& d : *type(v).elements) {
    auto n = d.constant();
    if (!n) return std::nullopt;
    out.push_back(*n);
  }
  return out;
}

std::optional<float> Lower::scalar(ValueId v) const {
  const Constant* c = constant(v);
  if (!c || c->count() != 1) return std::nullopt;
  return load_float(c->data.bytes.data(), c->dtype, 0);
}

const Attribute* Lower::attribute(const std::string& name) const {
  auto it = node.attributes.find(name);
  if (it == node.attributes.end()) return nullptr;
  if (it->second.reference.empty()) return &it->second;
  // Inside a function: the caller's attribute, or none.
  if (!scope.arguments) return nullptr;
  auto given = scope.arguments->find(it->second.reference);
  return given == scope.arguments->end() ? nullptr : &given->second;
}

int64_t Lower::i(const std::string& name, int64_t otherwise) const {
  const Attribute* a = attribute(name);
  return a && a->kind == Attribute::Kind::kInt ? a->i : otherwise;
}
float Lower::f(const std::string& name, float otherwise) const {
  const Attribute* a = attribute(name);
  return a && a->kind == Attribute::Kind::kFloat ? a->f : otherwise;
}
std::string Lower::s(const std::string& name, const std::string& otherwise) const {
  const Attribute* a = attribute(name);
  return a && a->kind == Attribute::Kind::kString ? a->s : otherwise;
}
std::vector<int64_t> Lower::ints(const std::string& name) const {
  const Attribute* a = attribute(name);
  if (!a) return {};
  return a->kind == Attribute::Kind::kInt ? std::vector<int64_t>{a->i} : a->ints;
}
std::vector<float> Lower::floats(const std::string& name) const {
  const Attribute* a = attribute(name);
  return a ? a->floats : std::vector<float>();
}
std::vector<std::string> Lower::strings(const std::string& name) const {
  const Attribute* a = attribute(name);
  return a ? a->strings : std::vector<std::string>();
}
ConstantPtr Lower::tensor(const std::string& name) {
  const Attribute* a = attribute(name);
  if (!a || a->kind != Attribute::Kind::kTensor) return nullptr;
  if (!a->tensor) refuse("attribute '" + name + "': " + a->s);
  return a->tensor;
}

ValueId Lower::fail(Error e) {
  if (!error_) error_ = std::move(e);
  return kNoValue;
}

std::vector<ValueId> Lower::add_n(OpId op, Attrs attrs, std::vector<ValueId> in, size_t outputs) {
  if (error_) return std::vector<ValueId>(outputs, kNoValue);
  while (!in.empty() && in.back() == kNoValue) in.pop_back();
  Graph& g = graph();
  size_t first = g.values.size();
  auto out = g.add_node(op, std::move(attrs), std::move(in), static_cast<int>(outputs), name_);
  for (size_t v = first; v < g.values.size(); ++v) g.values[v].name = importer.unique_name(*scope.frame, name_.empty() ? "v" : name_ + ":v");
  if (!out.ok()) {
    Error e = std::move(out).error();
    // The graph adds the node's name; the importer names it more fully.
    if (!name_.empty() && e.message.starts_with(name_ + ": ")) e.message.erase(0, name_.size() + 2);
    fail(std::move(e));
    return std::vector<ValueId>(outputs, kNoValue);
  }
  return std::move(*out);
}

ValueId Lower::add(OpId op, Attrs attrs, std::vector<ValueId> in) { return add_n(op, std::move(attrs), std::move(in), 1)[0]; }

ValueId Lower::constant_value(ConstantPtr c) {
  if (!c) return kNoValue;
  return graph().add_constant(importer.unique_name(*scope.frame, name_ + ":c"), std::move(c));
}
ValueId Lower::i64(const std::vector<int64_t>& values) {
  return constant_value(make_constant<int64_t>(DType::kI64, {static_cast<int64_t>(values.size())}, values));
}
ValueId Lower::i64_scalar(int64_t value) { return constant_value(make_constant<int64_t>(DType::kI64, {}, {value})); }

ValueId Lower::scalar_of(DType t, double value) {
  auto c = std::make_shared<Constant>();
  std::vector<std::byte> bytes(8);
  c->dtype = t;
  if (t == DType::kF64) std::memcpy(bytes.data(), &value, 8);
  else if (t == DType::kI64 || t == DType::kU64) {
    auto v = static_cast<int64_t>(value);
    std::memcpy(bytes.data(), &v, 8);
  } else {
    store_float(bytes.data(), t, 0, static_cast<float>(value));
  }
  bytes.resize(static_cast<size_t>(dtype_bytes(t, 1)));
  c->data = Buffer::of(std::move(bytes));
  return constant_value(std::move(c));
}

ValueId Lower::cast(ValueId v, DType t) {
  if (v == kNoValue || dtype(v) == t) return v;
  CastAttrs a;
  a.to = t;
  return add(OpId::kCast, a, {v});
}
ValueId Lower::shape_of(ValueId v, int64_t start, int64_t end) { return add(OpId::kShape, ShapeAttrs{start, end}, {v}); }

ValueId Lower::unsqueeze(ValueId v, std::vector<int64_t> axes) {
  ReduceAttrs a;
  a.axes = std::move(axes);
  return add(OpId::kUnsqueeze, a, {v});
}
ValueId Lower::squeeze(ValueId v, std::vector<int64_t> axes) {
  ReduceAttrs a;
  a.axes = std::move(axes);
  return add(OpId::kSqueeze, a, {v});
}
ValueId Lower::slice(ValueId v, int64_t axis, int64_t start, int64_t end) {
  return add(OpId::kSlice, NoAttrs{}, {v, i64({start}), i64({end}), i64({axis})});
}
ValueId Lower::reduce(OpId op, ValueId v, std::vector<int64_t> axes, bool keep) {
  ReduceAttrs a;
  a.axes = std::move(axes);
  a.keep_dims = keep;
  return add(op, a, {v});
}

void Lower::set(size_t output, ValueId v) {
  if (results_.size() <= output) results_.resize(output + 1, kNoValue);
  results_[output] = v;
}

void lower_direct(Lower& l, OpId op) { l.set(0, l.add(op, NoAttrs{}, l.inputs())); }

WindowAttrs window_attrs(Lower& l) {
  WindowAttrs a;
  a.kernel = l.ints("kernel_shape");
  a.strides = l.ints("strides");
  a.dilations = l.ints("dilations");
  a.pads = l.ints("pads");
  a.auto_pad = l.s("auto_pad", "");
  if (a.auto_pad == "NOTSET") a.auto_pad = "";
  if (!a.auto_pad.empty() && a.auto_pad != "SAME_UPPER" && a.auto_pad != "SAME_LOWER" && a.auto_pad != "VALID") l.bad("auto_pad '" + a.auto_pad + "'");
  a.group = l.i("group", 1);
  a.ceil_mode = l.i("ceil_mode", 0) != 0;
  a.count_include_pad = l.i("count_include_pad", 0) != 0;
  a.p = l.i("p", 2);
  a.column_major = l.i("storage_order", 0) != 0;
  a.output_padding = l.ints("output_padding");
  a.output_shape = l.ints("output_shape");
  return a;
}

LowerFn find_lowering(const std::string& domain, const std::string& op) {
  static const LowerTable table = [] {
    LowerTable t;
    register_pointwise(t);
    register_shape(t);
    register_index(t);
    register_reduction(t);
    register_layers(t);
    register_quantization(t);
    register_control(t);
    register_attention(t);
    register_signal(t);
    register_contrib(t);
    register_contrib_attention(t);
    register_contrib_quantized(t);
    register_ml(t);
    register_trees(t);
    register_vision(t);
    return t;
  }();
  auto it = table.find(domain.empty() ? op : domain + "::" + op);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace brisk::onnx_import
