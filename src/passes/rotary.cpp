// Rotary position embedding out of slices, negations and products with tables of cosines and sines.
#include <cmath>
#include <cstring>
#include <map>

#include "passes/all.h"
#include "passes/rewrite.h"

namespace brisk::passes {
namespace {

// ---- tables ---------------------------------------------------------------------------------------------------------------

// The first half of a constant's last axis, if the second half repeats it.
ConstantPtr half_of_constant(const Constant& c) {
  if (!c.encoding.plain() || c.shape.rank < 1 || c.shape[c.shape.rank - 1] % 2 != 0) return nullptr;
  int64_t width = c.shape[c.shape.rank - 1], rows = width ? c.count() / width : 0, bytes = width / 2 * dtype_bits(c.dtype) / 8;
  std::vector<std::byte> half(static_cast<size_t>(rows * bytes));
  for (int64_t i = 0; i < rows; ++i) {
    const std::byte* row = c.data.bytes.data() + i * 2 * bytes;
    if (std::memcmp(row, row + bytes, static_cast<size_t>(bytes)) != 0) return nullptr;
    std::memcpy(half.data() + i * bytes, row, static_cast<size_t>(bytes));
  }
  auto out = std::make_shared<Constant>();
  out->dtype = c.dtype;
  out->shape = c.shape;
  out->shape[c.shape.rank - 1] = width / 2;
  out->data = Buffer::of(std::move(half));
  return out;
}

// A table whose last axis holds the same numbers twice, without the second half: the same arithmetic on half the operand.
// kNoValue where that cannot be seen.
Result<ValueId> half_table(Round& r, const Node& root, ValueId v, int depth = 0) {
  Graph& g = r.g;
  const Type t = type_of(g, v);
  auto width = t.ranked && t.rank() > 0 ? t.shape.back().constant() : std::nullopt;
  if (!width || *width % 2 != 0 || depth > 12) return kNoValue;
  if (const Constant* c = g.constant(v)) {
    auto half = half_of_constant(*c);
    return half ? g.add_constant(g.value(v).name + ".half", half) : kNoValue;
  }
  const Node* n = r.index.producer(v);
  if (!n) return kNoValue;
  auto through = [&](size_t i) { return half_table(r, root, n->inputs[i], depth + 1); };
  auto again = [&](size_t i, ValueId half) {
    std::vector<ValueId> in = n->inputs;
    in[i] = half;
    return r.add(root, n->op, n->attrs, std::move(in));
  };
  switch (n->op) {
    case OpId::kConcat:
      if (n->inputs.size() != 2 || n->inputs[0] != n->inputs[1] || !last_axis(g, v, std::get<AxisAttrs>(n->attrs).axis)) return kNoValue;
      return n->inputs[0];
    case OpId::kCos: case OpId::kSin: case OpId::kCast: {
      BRISK_ASSIGN(ValueId half, through(0));
      if (half < 0) return half;
      return again(0, half);
    }
    case OpId::kMul: case OpId::kDiv: case OpId::kAdd: {
      for (size_t side : {0u, 1u}) {  // the other operand is one number a row
        const Type& other = type_of(g, n->inputs[1 - side]);
        if (!other.ranked || (other.rank() > 0 && other.shape.back().constant_or(0) != 1)) continue;
        BRISK_ASSIGN(ValueId half, through(side));
        if (half < 0) return half;
        return again(side, half);
      }
      return kNoValue;
    }
    case OpId::kGather:  // of whole rows
      if (!type_of(g, n->inputs[0]).ranked || front_axis(std::get<AxisAttrs>(n->attrs).axis, type_of(g, n->inputs[0]).rank()) != 0 ||
          type_of(g, n->inputs[0]).rank() < 2)
        return kNoValue;
      [[fallthrough]];
    case OpId::kSlice: {
      if (n->op == OpId::kSlice) {
        auto axes = known_numbers(g, operand(*n, 3));
        if (!axes) return kNoValue;
        for (int64_t a : *axes)
          if (last_axis(g, v, a)) return kNoValue;
      }
      BRISK_ASSIGN(ValueId half, through(0));
      if (half < 0) return half;
      return again(0, half);
    }
    default: break;
  }
  if (!is_view(g, *n) || type_of(g, n->inputs[0]).rank() == 0 || !(type_of(g, n->inputs[0]).shape.back() == t.shape.back())) return kNoValue;
  Shape to = t.shape;
  to.back() = *width / 2;
  BRISK_ASSIGN(ValueId half, through(0));
  if (half < 0) return half;
  auto target = reshape_operand(g, type_of(g, half).shape, to);
  return target ? r.add_view(root, half, *target) : Result<ValueId>(kNoValue);
}

// Which axes of x (rank 4) are heads and places: told by where the table is 1.
enum class Layout { kNone, kHeadsFirst, kPlacesFirst };  // [B, H, S, d], [B, S, H, d]

Layout layout_of(const Graph& g, ValueId x, ValueId table) {
  const Shape &xs = type_of(g, x).shape, &ts = type_of(g, table).shape;
  if (xs.size() != 4 || ts.size() < 2 || ts.size() > 4) return Layout::kNone;
  Shape t(4 - ts.size(), Dim(1));
  t.insert(t.end(), ts.begin(), ts.end());
  bool batch = t[0] == Dim(1) || t[0] == xs[0] || (!t[0].is_constant() && !xs[0].is_constant());
  if (!batch) return Layout::kNone;
  if (t[1] == Dim(1) && t[2] == xs[2]) return Layout::kHeadsFirst;
  if (t[2] == Dim(1) && t[1] == xs[1]) return Layout::kPlacesFirst;
  return Layout::kNone;
}

// [B or 1, S, dim / 2] out of a table that broadcasts over heads; kNoValue where the view cannot be written.
Result<ValueId> row_table(Round& r, const Node& root, ValueId v, Layout layout) {
  const Shape& s = type_of(r.g, v).shape;
  Shape t(4 - s.size(), Dim(1));
  t.insert(t.end(), s.begin(), s.end());
  Shape to{t[0], t[layout == Layout::kHeadsFirst ? 2 : 1], t[3]};
  if (s == to) return v;
  auto target = reshape_operand(r.g, s, to);
  return target ? r.add_view(root, v, *target) : Result<ValueId>(kNoValue);
}

// ---- the rotation -----------------------------------------------------------------------------------------------------------

// `root` becomes the rotation of x by tables that are [.., dim / 2] already.
Status make_rotary(Round& r, Node& root, ValueId x, ValueId cos, ValueId sin, Layout layout, bool interleaved) {
  Graph& g = r.g;
  const Shape xs = type_of(g, x).shape;
  auto heads = xs[layout == Layout::kHeadsFirst ? 1 : 2].constant(), size = xs[3].constant();
  if (!size || (!heads && layout == Layout::kPlacesFirst)) return r.missed(root, "rotary", "heads or their size are not known"), Status();
  BRISK_ASSIGN(ValueId c, row_table(r, root, cos, layout));
  BRISK_ASSIGN(ValueId s, row_table(r, root, sin, layout));
  if (c < 0 || s < 0 || !(type_of(g, c).shape == type_of(g, s).shape)) return r.missed(root, "rotary", "the tables do not fit x"), Status();
  RopeAttrs a;
  a.head_dim = *size;
  a.dim = *size;
  a.interleaved = interleaved;
  if (layout == Layout::kHeadsFirst) return r.replace(root, OpId::kRotaryEmbedding, a, {x, c, s});
  BRISK_ASSIGN(ValueId flat, r.add_view(root, x, {0, 0, *heads * *size}));
  BRISK_ASSIGN(ValueId y, r.add(root, OpId::kRotaryEmbedding, a, {flat, c, s}));
  ValueId back = r.add_ints({0, 0, *heads, *size});
  return r.replace(root, OpId::kReshape, NoAttrs{}, {y, back});
}

// v = concat(-second half of x, first half of x): x.
ValueId rotated_half(const Round& r, ValueId v) {
  const Node* cat = r.index.producer(v, OpId::kConcat);
  if (!cat || cat->inputs.size() != 2 || !last_axis(r.g, v, std::get<AxisAttrs>(cat->attrs).axis)) return kNoValue;
  const Node* neg = r.index.producer(cat->inputs[0], OpId::kNeg);
  if (!neg) return kNoValue;
  auto second = last_axis_part(r, neg->inputs[0]), first = last_axis_part(r, cat->inputs[1]);
  if (!second || !first || first->of != second->of || first->step != 1 || second->step != 1) return kNoValue;
  auto width = type_of(r.g, first->of).shape.back().constant_or(0);
  bool halves = first->start == 0 && first->length * 2 == width && second->start == first->length && second->length == first->length;
  return halves ? first->of : kNoValue;
}

// x * cos + rotated(x) * sin, tables of the full width.
Status rotate_half(Round& r, Node& n) {
  const Node *a = r.index.producer(n.inputs[0], OpId::kMul), *b = r.index.producer(n.inputs[1], OpId::kMul);
  if (!a || !b) return {};
  for (auto [plain, turned] : {std::pair(a, b), std::pair(b, a)})
    for (size_t i : {0u, 1u}) {
      ValueId x = rotated_half(r, turned->inputs[i]);
      if (x < 0 || (plain->inputs[0] != x && plain->inputs[1] != x) || !equal_shapes(r.g, x, n.outputs[0])) continue;
      ValueId cos = plain->inputs[plain->inputs[0] == x ? 1 : 0], sin = turned->inputs[1 - i];
      Layout layout = layout_of(r.g, x, cos);
      if (layout == Layout::kNone) return r.missed(n, "rotary", "the table of cosines is " + to_string(type_of(r.g, cos)) + ", x is " + to_string(type_of(r.g, x))), Status();
      if (layout_of(r.g, x, sin) != layout) return r.missed(n, "rotary", "tables of different layouts"), Status();
      BRISK_ASSIGN(ValueId c, half_table(r, n, cos));
      BRISK_ASSIGN(ValueId s, half_table(r, n, sin));
      if (c < 0 || s < 0) return r.missed(n, "rotary", "the halves of the tables are not seen to be equal"), Status();
      return make_rotary(r, n, x, c, s, layout, false);
    }
  return {};
}

// v = a * b where a is a part of the last axis of something: the part and b.
struct PartTimes {
  LastAxisPart part;
  ValueId table = kNoValue;
};
std::vector<PartTimes> part_times(const Round& r, ValueId v) {
  std::vector<PartTimes> out;
  const Node* n = r.index.producer(v, OpId::kMul);
  for (size_t i : {0u, 1u})
    if (auto p = n ? last_axis_part(r, n->inputs[i]) : std::nullopt) out.push_back({*p, n->inputs[1 - i]});
  return out;
}

// concat(x1 * cos - x2 * sin, x2 * cos + x1 * sin), tables of half the width.
Status rotate_pairs(Round& r, Node& n) {
  if (n.inputs.size() != 2 || !last_axis(r.g, n.outputs[0], std::get<AxisAttrs>(n.attrs).axis)) return {};
  const Node *sub = r.index.producer(n.inputs[0], OpId::kSub), *add = r.index.producer(n.inputs[1], OpId::kAdd);
  if (!sub || !add) return {};
  for (auto& x1c : part_times(r, sub->inputs[0]))
    for (auto& x2s : part_times(r, sub->inputs[1]))
      for (size_t flip : {0u, 1u})
        for (auto& x2c : part_times(r, add->inputs[flip]))
          for (auto& x1s : part_times(r, add->inputs[1 - flip])) {
            auto same = [](const LastAxisPart& a, const LastAxisPart& b) { return a.of == b.of && a.start == b.start && a.length == b.length && a.step == b.step; };
            if (!same(x1c.part, x1s.part) || !same(x2c.part, x2s.part) || x1c.table != x2c.table || x1s.table != x2s.table) continue;
            ValueId x = x1c.part.of;
            auto width = type_of(r.g, x).shape.back().constant_or(0);
            bool halves = x2c.part.of == x && x1c.part.step == 1 && x2c.part.step == 1 && x1c.part.start == 0 && x2c.part.start == width / 2 &&
                          x1c.part.length * 2 == width && x2c.part.length * 2 == width;
            if (!halves || !equal_shapes(r.g, x, n.outputs[0])) continue;
            Layout layout = layout_of(r.g, x, x1c.table);
            if (layout == Layout::kNone || layout_of(r.g, x, x1s.table) != layout) return r.missed(n, "rotary", "the tables do not fit x"), Status();
            return make_rotary(r, n, x, x1c.table, x1s.table, layout, false);
          }
  return {};
}

// concat(rotary(first elements of x), the rest of x): rotary of x that leaves the rest alone.
Status partial(Round& r, Node& n) {
  Graph& g = r.g;
  if (n.inputs.size() != 2 || !last_axis(g, n.outputs[0], std::get<AxisAttrs>(n.attrs).axis)) return {};
  const Node* rope = r.index.producer(n.inputs[0]);
  const bool flat = rope && is_view(g, *rope);  // [B, S, H, d] goes through rotary as [B, S, H d]
  if (flat) rope = r.index.producer(rope->inputs[0]);
  if (!rope || rope->op != OpId::kRotaryEmbedding) return {};
  const Node* view = flat ? r.index.producer(rope->inputs[0]) : nullptr;
  if (flat && (!view || !is_view(g, *view))) return {};
  auto rest = last_axis_part(r, n.inputs[1]), turned = last_axis_part(r, flat ? view->inputs[0] : rope->inputs[0]);
  if (!rest || !turned || rest->of != turned->of || type_of(g, rest->of).rank() != 4) return {};
  if (turned->step != 1 || rest->step != 1 || turned->start != 0 || rest->start != turned->length) return {};
  const Shape x = type_of(g, rest->of).shape;
  int64_t width = x[3].constant_or(0);
  auto heads = x[2].constant();
  RopeAttrs a = std::get<RopeAttrs>(rope->attrs);
  if (rest->start + rest->length != width || a.head_dim != turned->length || (flat && !heads)) return {};
  a.head_dim = width;
  std::vector<ValueId> in = rope->inputs;
  in[0] = rest->of;
  if (!flat) return r.replace(n, OpId::kRotaryEmbedding, a, std::move(in));
  BRISK_ASSIGN(in[0], r.add_view(n, rest->of, {0, 0, *heads * width}));
  BRISK_ASSIGN(ValueId y, r.add(n, OpId::kRotaryEmbedding, a, std::move(in)));
  ValueId back = r.add_ints({0, 0, *heads, width});
  return r.replace(n, OpId::kReshape, NoAttrs{}, {y, back});
}

}  // namespace

Result<int> recognize_rotary(Graph& g, PassContext& c) {
  return until_stable(g, c, [](Round& r, Node& n) -> Status {
    if (n.op == OpId::kAdd && is_float(type_of(r.g, n.outputs[0]).dtype)) return rotate_half(r, n);
    if (n.op != OpId::kConcat || !is_float(type_of(r.g, n.outputs[0]).dtype)) return {};
    ValueId before = n.inputs[0];
    BRISK_TRY(rotate_pairs(r, n));
    if (n.op != OpId::kConcat || n.inputs[0] != before) return {};
    return partial(r, n);
  });
}

}  // namespace brisk::passes
