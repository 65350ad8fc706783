#include "convert/rewrite.h"

#include <algorithm>
#include <cmath>

#include "convert/ragged.h"
#include "tensor/constant_ops.h"

namespace brisk::convert {
namespace {

class Rewriter {
 public:
  Rewriter(const Graph& g, const DecoderIo& io, const Facts& facts, Geometry& geometry)
      : g_(g), io_(io), facts_(facts), geometry_(geometry), map_(g.values.size(), kNoValue), uses_(g.users()) {}

  Result<Graph> run() {
    BRISK_ASSIGN(to_.frame, begin_step(to_.g, io_.vocab));
    bind(io_.ids, to_.frame.ids, {});
    to_.note(to_.frame.positions, {});
    for (auto& [v, offset] : facts_.positions) BRISK_TRY(position(v, offset));
    for (NodeId id : facts_.nodes)
      if (auto s = node(id); !s.ok()) return Error{s.error().kind, describe(g_, id) + ": " + s.error().message};
    BRISK_ASSIGN(ValueId logits, to_.view(at(io_.logits), {1, {io_.vocab}}, "logits.rows"));
    BRISK_TRY(end_step(to_.g, to_.frame, logits));
    drop_unread();
    return std::move(to_.g);
  }

 private:
  using enum OpId;

  // ---- values -----------------------------------------------------------------------------------------------------------
  const Type& type(ValueId v) const { return g_.value(v).type; }
  ValueId at(ValueId v) const { return map_[static_cast<size_t>(v)]; }
  bool fixed(ValueId v) const { return g_.constant(v) || facts_.constant[static_cast<size_t>(v)]; }
  void bind(ValueId old, ValueId now, Ragged layout) {
    map_[static_cast<size_t>(old)] = now;
    to_.note(now, std::move(layout));
  }
  Result<Ragged> layout(ValueId v) const {
    BRISK_ASSIGN(Axes a, axes_of(type(v), io_));
    return Ragged{a.multiple, a.others};
  }
  DType step_dtype(ValueId v) const { return is_float(type(v).dtype) ? DType::kF32 : type(v).dtype; }

  Status position(ValueId v, int64_t offset) {
    ValueId p = to_.frame.positions;
    if (offset != 0) {
      ValueId c = to_.constant("position.offset", make_constant(DType::kI32, {}, std::vector<int32_t>{static_cast<int32_t>(offset)}));
      BRISK_ASSIGN(p, to_.add(kAdd, NoAttrs{}, {p, c}, {}, "positions+" + std::to_string(offset)));
    }
    BRISK_ASSIGN(Ragged l, layout(v));
    BRISK_ASSIGN(map_[static_cast<size_t>(v)], to_.view(p, l, g_.value(v).name));
    return {};
  }

  // Of the source's element type: ids and positions are i32 here, i64 there.
  Result<ValueId> typed(ValueId v) { return to_.cast(at(v), step_dtype(v)); }

  // Operand of a node that broadcasts: sizes of its other axes where the result has them, 1 where it has none.
  Result<ValueId> aligned(ValueId v, ValueId result) {
    BRISK_ASSIGN(Axes out, axes_of(type(result), io_));
    bool constant = fixed(v);
    ConstantPtr c;
    if (constant) {
      BRISK_ASSIGN(c, geometry_.fixed(v));
      c = as_f32(c);
    }
    Shape own = constant ? Shape(c->shape.begin(), c->shape.end()) : type(v).shape;
    size_t missing = type(result).shape.size() - own.size();
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < type(result).shape.size(); ++i)
      if (out.role[i] == Role::kOther) sizes.push_back(i < missing ? 1 : own[i - missing].constant_or(1));
    if (!constant) {
      BRISK_ASSIGN(ValueId x, typed(v));
      return to_.view(x, {out.multiple, sizes}, g_.value(v).name + ".aligned");
    }
    auto first = std::find_if(sizes.begin(), sizes.end(), [](int64_t d) { return d != 1; });
    return to_.constant(g_.value(v).name, reshaped(c, Dims(std::vector<int64_t>(first, sizes.end()))));
  }

  // A constant that is no data of tokens: a table, a weight.
  Result<ConstantPtr> constant(ValueId v) { return geometry_.fixed(v); }

  // Projections that were taken apart.
  void drop_unread() {
    auto users = to_.g.users();
    std::vector<bool> dead(to_.g.nodes.size());
    for (size_t i = 0; i < dead.size(); ++i) {
      const Node& n = to_.g.nodes[i];
      dead[i] = n.op == kLinear && users[static_cast<size_t>(n.outputs[0])].empty();
    }
    to_.g.compact(dead);
  }

  // ---- nodes ------------------------------------------------------------------------------------------------------------
  Status node(NodeId id) {
    const Node& n = g_.nodes[static_cast<size_t>(id)];
    switch (n.op) {
      case kAttention: return attention(id, n);
      case kRotaryEmbedding: return rotary(id, n);
      case kReshape: case kUnsqueeze: case kSqueeze: case kFlatten: case kIdentity: return view(n);
      case kCast: return cast(n);
      case kTranspose: return transpose(n);
      case kLinear: return linear(n);
      case kMatMul: return matmul(n);
      case kGemm: return gemm(n);
      case kGather: return gather(n);
      case kEmbedding: return embedding(n, g_.value(n.inputs[0]).constant);
      case kRmsNorm: case kLayerNorm: return norm(n);
      case kExpand: case kTile: return expand(n);
      case kSlice: return slice(n);
      case kConcat: case kSoftmax: case kLogSoftmax: case kHardmax: case kGatherElements: return along(n, std::get<AxisAttrs>(n.attrs).axis);
      case kSplit: return split(n);
      case kTopK: return along(n, std::get<ModeAttrs>(n.attrs).axis);
      default: break;
    }
    if (op_def(n.op).is(brisk::kPointwise)) return pointwise(n);
    if (op_def(n.op).is(kReduction)) return reduction(n);
    return cumulative(n);
  }

  Status result(const Node& n, OpId op, Attrs attrs, std::vector<ValueId> in) {
    BRISK_ASSIGN(auto out, to_.g.add_node(op, std::move(attrs), std::move(in), static_cast<int>(n.outputs.size()), n.name));
    for (size_t i = 0; i < out.size(); ++i) {
      if (n.outputs[i] < 0) continue;
      BRISK_ASSIGN(Ragged l, layout(n.outputs[i]));
      bind(n.outputs[i], out[i], std::move(l));
    }
    return {};
  }

  Status pointwise(const Node& n) {
    std::vector<ValueId> in;
    for (ValueId v : n.inputs) {
      BRISK_ASSIGN(ValueId x, aligned(v, n.outputs[0]));
      in.push_back(x);
    }
    return result(n, n.op, n.attrs, std::move(in));
  }

  Status cast(const Node& n) {
    BRISK_ASSIGN(ValueId x, typed(n.inputs[0]));
    BRISK_ASSIGN(x, to_.cast(x, step_dtype(n.outputs[0])));
    map_[static_cast<size_t>(n.outputs[0])] = x;
    return {};
  }

  Status view(const Node& n) {
    BRISK_ASSIGN(Ragged l, layout(n.outputs[0]));
    BRISK_ASSIGN(map_[static_cast<size_t>(n.outputs[0])], to_.view(at(n.inputs[0]), l, n.name));
    return {};
  }

  // What moves other than batch and token axes moves here.
  Status transpose(const Node& n) {
    BRISK_ASSIGN(Axes a, axes_of(type(n.inputs[0]), io_));
    auto perm = std::get<TransposeAttrs>(n.attrs).perm;
    if (perm.empty())
      for (int i = type(n.inputs[0]).rank(); i-- > 0;) perm.push_back(i);
    TransposeAttrs t{{0}};
    for (int64_t p : perm)
      if (int to = a.ragged(static_cast<int>(p)); to > 0) t.perm.push_back(to);
    if (!std::is_sorted(t.perm.begin(), t.perm.end())) return result(n, kTranspose, t, {at(n.inputs[0])});
    BRISK_ASSIGN(Ragged l, layout(n.outputs[0]));
    BRISK_ASSIGN(map_[static_cast<size_t>(n.outputs[0])], to_.view(at(n.inputs[0]), l, n.name));
    return {};
  }

  ValueId weight(ValueId v, const ConstantPtr& c, bool turned) {
    return turned ? to_.constant(g_.value(v).name, transposed(*c)) : to_.constant(g_.value(v).name, c);
  }

  Status product(const Node& n, ValueId w, const ConstantPtr& c, bool turned, ConstantPtr bias, const std::string& bias_name) {
    BRISK_ASSIGN(ValueId x, typed(n.inputs[0]));
    std::vector<ValueId> in = {x, weight(w, c, turned)};
    if (bias) {
      if (bias->count() != type(n.outputs[0]).shape.back().constant_or(0)) return unsupported("its bias is one number for all columns");
      in.push_back(to_.constant(bias_name, reshaped(as_f32(bias), Dims{bias->count()})));
    }
    return result(n, kLinear, LinearAttrs{}, std::move(in));
  }

  Status matmul(const Node& n) {
    if (fixed(n.inputs[1])) {
      BRISK_ASSIGN(ConstantPtr c, constant(n.inputs[1]));
      if (c->shape.rank == 2) return product(n, n.inputs[1], c, true, nullptr, "");
    }
    std::vector<ValueId> in;
    for (ValueId v : n.inputs) {
      if (fixed(v)) {
        BRISK_ASSIGN(ConstantPtr c, constant(v));
        in.push_back(to_.constant(g_.value(v).name, as_f32(c)));
      } else {
        BRISK_ASSIGN(ValueId x, typed(v));
        in.push_back(x);
      }
    }
    return result(n, kMatMul, NoAttrs{}, std::move(in));
  }

  Status gemm(const Node& n) {
    const auto& a = std::get<GemmAttrs>(n.attrs);
    ValueId c = n.inputs.size() > 2 ? n.inputs[2] : kNoValue;
    return product(n, n.inputs[1], g_.value(n.inputs[1]).constant, !a.trans_b, c < 0 ? nullptr : g_.value(c).constant, c < 0 ? "" : g_.value(c).name);
  }

  Status linear(const Node& n) {
    std::vector<ValueId> in;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      ValueId v = n.inputs[i];
      if (v < 0) in.push_back(kNoValue);
      else if (i == 1) in.push_back(to_.constant(g_.value(v).name, g_.value(v).constant));
      else if (fixed(v)) {
        BRISK_ASSIGN(ConstantPtr c, constant(v));
        in.push_back(to_.constant(g_.value(v).name, as_f32(c)));
      } else {
        BRISK_ASSIGN(ValueId x, typed(v));
        in.push_back(x);
      }
    }
    return result(n, kLinear, n.attrs, std::move(in));
  }

  Status embedding(const Node& n, ConstantPtr table) {
    BRISK_ASSIGN(ValueId ids, to_.cast(at(n.inputs[1]), DType::kI32));
    return result(n, kEmbedding, NoAttrs{}, {to_.constant(g_.value(n.inputs[0]).name, std::move(table)), ids});
  }

  Status gather(const Node& n) {
    int64_t axis = std::get<AxisAttrs>(n.attrs).axis;
    if (fixed(n.inputs[0])) {
      BRISK_ASSIGN(ConstantPtr table, constant(n.inputs[0]));
      if (table->shape.rank == 2 && is_float(table->dtype)) return embedding(n, table);
      return result(n, kGather, AxisAttrs{0}, {to_.constant(g_.value(n.inputs[0]).name, as_f32(table)), at(n.inputs[1])});
    }
    BRISK_ASSIGN(Axes a, axes_of(type(n.inputs[0]), io_));
    BRISK_ASSIGN(ConstantPtr indices, constant(n.inputs[1]));
    AxisAttrs to{a.ragged(static_cast<int>(axis < 0 ? axis + type(n.inputs[0]).rank() : axis))};
    return result(n, kGather, to, {at(n.inputs[0]), to_.constant(g_.value(n.inputs[1]).name, indices)});
  }

  Status norm(const Node& n) {
    BRISK_ASSIGN(ValueId x, typed(n.inputs[0]));
    auto a = std::get<NormAttrs>(n.attrs);
    if (a.axis >= 0) a.axis -= type(n.inputs[0]).rank();  // axes behind the tokens keep their place from the end
    std::vector<ValueId> in = {x};
    for (size_t i = 1; i < n.inputs.size(); ++i) {
      if (n.inputs[i] < 0) { in.push_back(kNoValue); continue; }
      if (!fixed(n.inputs[i])) return unsupported("its scale is not a constant");
      BRISK_ASSIGN(ConstantPtr c, constant(n.inputs[i]));
      in.push_back(to_.constant(g_.value(n.inputs[i]).name, as_f32(c)));
    }
    return result(n, n.op, a, std::move(in));
  }

  Status expand(const Node& n) {
    BRISK_ASSIGN(ValueId x, aligned(n.inputs[0], n.outputs[0]));
    BRISK_ASSIGN(Ragged to, layout(n.outputs[0]));
    if (to_.layout(x) == to) {
      map_[static_cast<size_t>(n.outputs[0])] = x;
      return {};
    }
    std::vector<int64_t> shape = {1};  // what Expand takes for an axis that stays
    std::vector<int64_t> times = {1};
    for (size_t i = 0; i < to.others.size(); ++i) {
      shape.push_back(to.others[i]);
      times.push_back(to.others[i] / std::max<int64_t>(1, to_.layout(x).others[i]));
    }
    return result(n, n.op, NoAttrs{}, {x, to_.ints(n.op == kTile ? times : shape)});
  }

  // Operators along one axis inside the token.
  Status along(const Node& n, int64_t axis) {
    BRISK_ASSIGN(Axes a, axes_of(type(n.inputs[0]), io_));
    int to = a.ragged(static_cast<int>(axis < 0 ? axis + type(n.inputs[0]).rank() : axis));
    Attrs attrs = n.attrs;
    if (auto* x = std::get_if<AxisAttrs>(&attrs)) x->axis = to;
    if (auto* x = std::get_if<SliceAttrs>(&attrs)) x->axis = to;
    if (auto* x = std::get_if<ModeAttrs>(&attrs)) x->axis = to;
    std::vector<ValueId> in;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.inputs[i] < 0) { in.push_back(kNoValue); continue; }
      if (i < data_operands(n)) {
        BRISK_ASSIGN(ValueId x, typed(n.inputs[i]));
        in.push_back(x);
      } else {
        BRISK_ASSIGN(ConstantPtr c, constant(n.inputs[i]));
        in.push_back(to_.constant(g_.value(n.inputs[i]).name, c));
      }
    }
    return result(n, n.op, attrs, std::move(in));
  }

  // A projection that the file has packed is taken apart, as other importers do it: passes join what kernels want joined.
  Status split(const Node& n) {
    int64_t axis = std::get<SliceAttrs>(n.attrs).axis;
    const Node* linear = nullptr;
    for (const Node& made : to_.g.nodes)
      if (made.op == kLinear && made.outputs[0] == at(n.inputs[0])) linear = &made;
    bool last = axis == -1 || axis == type(n.inputs[0]).rank() - 1;
    const ConstantPtr w = linear ? to_.g.value(linear->inputs[1]).constant : nullptr;
    bool all = std::all_of(n.outputs.begin(), n.outputs.end(), [](ValueId v) { return v >= 0; });
    if (!w || !last || !all || uses_[static_cast<size_t>(n.inputs[0])].size() != 1 || linear->inputs.size() > 3 || !(linear->attrs == Attrs(LinearAttrs{})))
      return along(n, axis);
    const Node whole = *linear;
    const ConstantPtr bias = whole.inputs.size() > 2 ? to_.g.value(whole.inputs[2]).constant : nullptr;
    int64_t row = 0;
    for (ValueId out : n.outputs) {
      int64_t rows = type(out).shape.back().constant_or(0);
      std::vector<int64_t> order(static_cast<size_t>(rows));
      for (int64_t i = 0; i < rows; ++i) order[static_cast<size_t>(i)] = row + i;
      std::string part = to_.g.value(whole.inputs[1]).name + "[" + std::to_string(row) + ":" + std::to_string(row + rows) + "]";
      std::vector<ValueId> in = {whole.inputs[0], to_.constant(part, permute_rows(*w, order))};
      if (bias) {
        auto all = to_floats(*bias);
        std::vector<float> own(all.begin() + row, all.begin() + row + rows);
        in.push_back(to_.constant(part + ".bias", make_constant(DType::kF32, {rows}, own)));
      }
      BRISK_ASSIGN(Ragged l, layout(out));
      BRISK_ASSIGN(map_[static_cast<size_t>(out)], to_.add(kLinear, LinearAttrs{}, std::move(in), std::move(l), whole.name + "." + std::to_string(row)));
      row += rows;
    }
    return {};
  }

  Status slice(const Node& n) {
    BRISK_ASSIGN(Axes a, axes_of(type(n.inputs[0]), io_));
    std::vector<std::vector<int64_t>> parts(4);  // starts, ends, axes, steps
    size_t count = type(n.inputs[1]).elements->size();
    auto number = [&](size_t operand, size_t i, int64_t otherwise) {
      return operand < n.inputs.size() && n.inputs[operand] >= 0 ? (*type(n.inputs[operand]).elements)[i].constant() : std::optional(otherwise);
    };
    for (size_t i = 0; i < count; ++i) {
      auto axis = number(3, i, static_cast<int64_t>(i));
      int from = static_cast<int>(*axis < 0 ? *axis + type(n.inputs[0]).rank() : *axis), to = a.ragged(from);
      if (to <= 0) continue;  // all of the tokens
      auto start = number(1, i, 0), end = number(2, i, 0), step = number(4, i, 1);
      if (!start || !end || !step) return unsupported("slices up to a place that is not known");
      parts[0].push_back(*start), parts[1].push_back(*end), parts[2].push_back(to), parts[3].push_back(*step);
    }
    std::vector<ValueId> in = {at(n.inputs[0])};
    for (auto& p : parts) in.push_back(to_.ints(p));
    if (parts[0].empty()) {
      map_[static_cast<size_t>(n.outputs[0])] = in[0];
      return {};
    }
    return result(n, kSlice, NoAttrs{}, std::move(in));
  }

  Status reduction(const Node& n) {
    BRISK_ASSIGN(Axes a, axes_of(type(n.inputs[0]), io_));
    ReduceAttrs attrs = std::get<ReduceAttrs>(n.attrs);
    if (n.inputs.size() > 1 && n.inputs[1] >= 0)
      for (const Dim& d : *type(n.inputs[1]).elements) attrs.axes.push_back(d.constant_or(0));
    for (int64_t& axis : attrs.axes) axis = a.ragged(static_cast<int>(axis < 0 ? axis + type(n.inputs[0]).rank() : axis));
    std::sort(attrs.axes.begin(), attrs.axes.end());
    attrs.all = false;
    BRISK_ASSIGN(ValueId x, typed(n.inputs[0]));
    return result(n, n.op, attrs, {x});
  }

  Status cumulative(const Node& n) {
    BRISK_ASSIGN(Axes a, axes_of(type(n.inputs[0]), io_));
    int64_t axis = (*type(n.inputs[1]).elements)[0].constant_or(0);
    BRISK_ASSIGN(ValueId x, typed(n.inputs[0]));
    ConstantPtr to = make_constant(DType::kI64, {}, std::vector<int64_t>{a.ragged(static_cast<int>(axis < 0 ? axis + type(n.inputs[0]).rank() : axis))});
    return result(n, n.op, n.attrs, {x, to_.constant(n.name + ".axis", to)});
  }

  // ---- attention --------------------------------------------------------------------------------------------------------
  Result<ValueId> flat(ValueId v, int64_t width) {
    BRISK_ASSIGN(ValueId x, typed(v));
    return to_.view(x, {1, {width}}, g_.value(v).name + ".flat");
  }

  Status unflatten(ValueId old, ValueId now) {
    BRISK_ASSIGN(Ragged l, layout(old));
    BRISK_ASSIGN(map_[static_cast<size_t>(old)], to_.view(now, l, g_.value(old).name));
    return {};
  }

  Status attention(NodeId id, const Node& n) {
    const AttentionFacts& f = facts_.attention.at(id);
    const auto& s = std::get<SdpaAttrs>(n.attrs);
    if (!f.sees.slopes.empty()) return unsupported("adds a bias that grows with the distance (ALiBi)");
    AttentionAttrs a{.heads = f.kv.heads, .kv_heads = f.kv.kv_heads, .head_dim = f.kv.size};
    a.scale = s.scale != 0 ? s.scale : static_cast<float>(1 / std::sqrt(static_cast<double>(f.kv.size)));
    a.softcap = s.softcap;
    a.window = f.sees.window;
    BRISK_ASSIGN(ValueId q, flat(n.inputs[0], a.heads * a.head_dim));
    BRISK_ASSIGN(ValueId k, flat(f.kv.k, a.kv_heads * a.head_dim));
    BRISK_ASSIGN(ValueId v, flat(f.kv.v, a.kv_heads * a.head_dim));
    ValueId state = add_kv_state(to_.g, layers_++, a.kv_heads, a.head_dim);
    const StepFrame& r = to_.frame;
    BRISK_ASSIGN(ValueId y, to_.add(kPagedAttention, a, {q, k, v, state, r.positions, r.seq_starts, r.context_lens, r.block_tables},
                                    {1, {a.heads * a.head_dim}}, n.name));
    return unflatten(n.outputs[0], y);
  }

  Status rotary(NodeId id, const Node& n) {
    const Rotation& r = facts_.rotary.at(id);
    RopeAttrs a = std::get<RopeAttrs>(n.attrs);
    a.dim = 2 * static_cast<int64_t>(r.frequencies.size());
    a.magnitude = r.magnitude;
    BRISK_ASSIGN(Ragged l, layout(n.inputs[0]));
    int64_t width = 1;
    for (int64_t d : l.others) width *= d;
    BRISK_ASSIGN(ValueId x, flat(n.inputs[0], width));
    ValueId positions = to_.frame.positions;
    if (r.offset != 0) {
      ValueId c = to_.constant("position.offset", make_constant(DType::kI32, {}, std::vector<int32_t>{static_cast<int32_t>(r.offset)}));
      BRISK_ASSIGN(positions, to_.add(kAdd, NoAttrs{}, {positions, c}, {}, n.name + ".positions"));
    }
    ValueId f = to_.constant("rope.frequencies", make_constant(DType::kF32, {static_cast<int64_t>(r.frequencies.size())}, r.frequencies));
    BRISK_ASSIGN(ValueId y, to_.add(kRope, a, {x, positions, f}, {1, {width}}, n.name));
    return unflatten(n.outputs[0], y);
  }

  const Graph& g_;
  const DecoderIo& io_;
  const Facts& facts_;
  Geometry& geometry_;
  std::vector<ValueId> map_;  // of a source value: the one here
  std::vector<std::vector<NodeId>> uses_;
  RaggedGraph to_;
  int64_t layers_ = 0;
};

}  // namespace

Result<Graph> rewrite(const Graph& g, const DecoderIo& io, const Facts& facts, Geometry& geometry) {
  return Rewriter(g, io, facts, geometry).run();
}

}  // namespace brisk::convert
