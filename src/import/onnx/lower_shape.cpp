// Shapes and movement.
#include "import/onnx/lower.h"

namespace brisk::onnx_import {
namespace {

using enum OpId;

void shape(Lower& l) { l.set(0, l.shape_of(l.in(0), l.i("start", 0), l.i("end", INT64_MAX))); }

void size(Lower& l) {
  ReduceAttrs a;
  a.all = true;
  a.keep_dims = false;
  l.set(0, l.add(kReduceProd, a, {l.shape_of(l.in(0))}));
}

ConstantPtr constant_of(Lower& l) {
  if (ConstantPtr c = l.tensor("value")) return c;
  if (auto* a = l.attribute("value_float")) return make_constant<float>(DType::kF32, {}, {a->f});
  if (auto* a = l.attribute("value_int")) return make_constant<int64_t>(DType::kI64, {}, {a->i});
  if (auto* a = l.attribute("value_floats")) return make_constant<float>(DType::kF32, {static_cast<int64_t>(a->floats.size())}, a->floats);
  if (auto* a = l.attribute("value_ints")) return make_constant<int64_t>(DType::kI64, {static_cast<int64_t>(a->ints.size())}, a->ints);
  return nullptr;
}
void constant(Lower& l) {
  ConstantPtr c = constant_of(l);
  if (!c) return void(l.refuse("a constant that is no dense tensor of numbers"));
  l.set(0, l.constant_value(c));
}

void constant_of_shape(Lower& l) {
  ValueId value = kNoValue;
  if (ConstantPtr c = l.tensor("value")) {
    if (c->count() != 1) return void(l.bad("value must have one element"));
    auto scalar = std::make_shared<Constant>(*c);
    scalar->shape = Dims{};
    value = l.constant_value(scalar);
  } else {
    value = l.scalar_of(DType::kF32, 0);
  }
  l.set(0, l.add(kExpand, NoAttrs{}, {value, l.in(0)}));
}

void reshape(Lower& l) {
  ValueId x = l.in(0), target = l.opset < 5 ? l.i64(l.ints("shape")) : l.in(1);
  if (l.i("allowzero", 0) != 0) {
    auto n = l.numbers(target);
    if (n && std::find(n->begin(), n->end(), 0) != n->end())  // a 0 means itself: the result is empty
      return l.set(0, l.add(kExpand, NoAttrs{}, {l.scalar_of(l.dtype(x), 0), target}));
    for (const Dim& d : l.type(x).shape)
      if (!n && d == Dim(0)) {  // empty in any case; a -1 beside no zeros stands for none
        ValueId none = l.i64_scalar(0), sizes = l.cast(target, DType::kI64);
        sizes = l.add(kWhere, NoAttrs{}, {l.binary(kEqual, sizes, l.i64_scalar(-1)), none, sizes});
        return l.set(0, l.add(kExpand, NoAttrs{}, {l.scalar_of(l.dtype(x), 0), sizes}));
      }
  }
  l.set(0, l.add(kReshape, NoAttrs{}, {x, target}));
}

// Axes from the attribute (before `since`) or from operand 1; as attribute where they are known.
void with_axes(Lower& l, OpId op, bool all_without) {
  ReduceAttrs a;
  a.axes = l.ints("axes");
  std::vector<ValueId> in = {l.in(0)};
  bool given = l.attribute("axes") != nullptr;
  if (l.opset >= 13 && l.has(1)) {
    given = true;
    if (auto n = l.numbers(l.in(1))) a.axes = *n;
    else in.push_back(l.in(1));
  }
  a.all = !given && all_without;
  if (!given && !all_without) return void(l.bad("axes are missing"));
  l.set(0, l.add(op, a, in));
}
void squeeze(Lower& l) { with_axes(l, kSqueeze, true); }
void unsqueeze(Lower& l) { with_axes(l, kUnsqueeze, false); }

void flatten(Lower& l) { l.set(0, l.add(kFlatten, AxisAttrs{l.i("axis", 1)}, {l.in(0)})); }
void expand(Lower& l) { lower_direct(l, kExpand); }
void range(Lower& l) { lower_direct(l, kRange); }

void transpose(Lower& l) { l.set(0, l.transpose(l.in(0), l.ints("perm"))); }

void concat(Lower& l) {
  int64_t axis = l.i("axis", 1);
  if (l.opset >= 4 && !l.attribute("axis")) return void(l.bad("axis is missing"));
  l.set(0, l.count() == 1 ? l.in(0) : l.concat(l.inputs(), axis));
}

void slice(Lower& l) {
  if (l.opset >= 10) return lower_direct(l, kSlice);
  std::vector<int64_t> starts = l.ints("starts"), ends = l.ints("ends"), axes = l.ints("axes");
  std::vector<ValueId> in = {l.in(0), l.i64(starts), l.i64(ends)};
  if (l.attribute("axes")) in.push_back(l.i64(axes));
  l.set(0, l.add(kSlice, NoAttrs{}, in));
}

void split(Lower& l) {
  SliceAttrs a;
  a.axis = l.i("axis", 0);
  std::vector<ValueId> in = {l.in(0)};
  if (l.opset < 13) {
    a.sizes = l.ints("split");
    if (l.has(1)) in.push_back(l.in(1));  // opset 1
  } else if (l.has(1)) {
    if (auto n = l.numbers(l.in(1))) a.sizes = *n;
    else in.push_back(l.in(1));
  }
  size_t parts = l.node.outputs.size();
  if (int64_t n = l.i("num_outputs", 0); n > 0 && static_cast<size_t>(n) != parts) return void(l.bad("num_outputs is " + std::to_string(n) + ", there are " + std::to_string(parts) + " results"));
  auto out = l.add_n(kSplit, a, in, parts);
  for (size_t i = 0; i < parts; ++i) l.set(i, out[i]);
}

void tile(Lower& l) {
  if (l.opset >= 6) return lower_direct(l, kTile);
  auto r = l.rank(l.in(0));
  auto tiles = l.scalar(l.in(1)), axis = l.scalar(l.in(2));
  if (!r || !tiles || !axis || *axis < 0 || *axis >= static_cast<float>(*r)) return void(l.refuse("tiles and axis that are not constants"));
  std::vector<int64_t> repeats(static_cast<size_t>(*r), 1);
  repeats[static_cast<size_t>(*axis)] = static_cast<int64_t>(*tiles);
  l.set(0, l.add(kTile, NoAttrs{}, {l.in(0), l.i64(repeats)}));
}

void pad(Lower& l) {
  ModeAttrs a;
  a.mode = l.s("mode", "constant");
  if (a.mode != "constant" && a.mode != "reflect" && a.mode != "edge" && a.mode != "wrap") return void(l.refuse("mode '" + a.mode + "'"));
  if (l.opset >= 11) return l.set(0, l.add(kPad, a, l.inputs()));
  auto pads = l.ints(l.opset < 2 ? "paddings" : "pads");
  l.set(0, l.add(kPad, a, {l.in(0), l.i64(pads), l.scalar_of(l.dtype(l.in(0)), static_cast<double>(l.f("value", 0)))}));
}

void trilu(Lower& l) {
  ModeAttrs a;
  a.flag = l.i("upper", 1);
  l.set(0, l.add(kTrilu, a, l.inputs()));
}

void reverse_sequence(Lower& l) {
  ModeAttrs a;
  a.axis = l.i("time_axis", 0);
  a.flag = l.i("batch_axis", 1);
  l.set(0, l.add(kReverseSequence, a, l.inputs()));
}

ValueId dim(Lower& l, ValueId x, int64_t axis) { return l.shape_of(x, axis, axis + 1); }

// [N, C, H, W] -> [N, C / b^2, H b, W b]; DCR: the block's place is the slow part of C.
void depth_to_space(Lower& l) {
  ValueId x = l.in(0);
  int64_t b = l.i("blocksize", 0);
  if (b < 1 || b > INT32_MAX) return void(l.bad("blocksize is " + std::to_string(b)));
  bool crd = l.s("mode", "DCR") == "CRD";
  ValueId n = dim(l, x, 0), c = l.binary(kDiv, dim(l, x, 1), l.i64({b * b})), h = dim(l, x, 2), w = dim(l, x, 3);
  ValueId inner = crd ? l.concat({n, c, l.i64({b, b}), h, w}, 0) : l.concat({n, l.i64({b, b}), c, h, w}, 0);
  ValueId moved = l.transpose(l.binary(kReshape, x, inner), crd ? std::vector<int64_t>{0, 1, 4, 2, 5, 3} : std::vector<int64_t>{0, 3, 4, 1, 5, 2});
  ValueId by = l.i64({b});
  l.set(0, l.binary(kReshape, moved, l.concat({n, c, l.binary(kMul, h, by), l.binary(kMul, w, by)}, 0)));
}

void space_to_depth(Lower& l) {
  ValueId x = l.in(0);
  int64_t b = l.i("blocksize", 0);
  if (b < 1 || b > INT32_MAX) return void(l.bad("blocksize is " + std::to_string(b)));
  bool crd = l.s("mode", "DCR") == "CRD";
  ValueId by = l.i64({b});
  ValueId n = dim(l, x, 0), c = dim(l, x, 1), h = l.binary(kDiv, dim(l, x, 2), by), w = l.binary(kDiv, dim(l, x, 3), by);
  ValueId parts = l.binary(kReshape, x, l.concat({n, c, h, by, w, by}, 0));
  ValueId moved = l.transpose(parts, crd ? std::vector<int64_t>{0, 1, 3, 5, 2, 4} : std::vector<int64_t>{0, 3, 5, 1, 2, 4});
  l.set(0, l.binary(kReshape, moved, l.concat({n, l.binary(kMul, c, l.i64({b * b})), h, w}, 0)));
}

// 1 where column == row + k.
void eye_like(Lower& l) {
  ValueId x = l.in(0);
  DType t = l.dtype(x);
  if (l.attribute("dtype")) {
    auto named = dtype_of_onnx(static_cast<int32_t>(l.i("dtype", 1)));
    if (!named) return void(l.refuse("dtype " + onnx_dtype_name(static_cast<int32_t>(l.i("dtype", 1)))));
    t = *named;
  }
  auto places = [&](int64_t axis) {
    return l.add(kRange, NoAttrs{}, {l.i64_scalar(0), l.squeeze(dim(l, x, axis), {0}), l.i64_scalar(1)});
  };
  ValueId rows = l.binary(kAdd, l.unsqueeze(places(0), {1}), l.i64_scalar(l.i("k", 0)));
  l.set(0, l.cast(l.binary(kEqual, l.unsqueeze(places(1), {0}), rows), t));
}

// Axes that are larger than asked for are cut at both ends, smaller ones padded with zeros.
void center_crop_pad(Lower& l) {
  ValueId x = l.in(0);
  auto r = l.rank(x);
  if (!r) return void(l.refuse("x of unknown rank"));
  std::vector<int64_t> axes = l.ints("axes");
  if (!l.attribute("axes"))
    for (int i = 0; i < *r; ++i) axes.push_back(i);
  if (axes.empty()) return l.set(0, x);
  for (int64_t& a : axes) a = a < 0 ? a + *r : a;
  auto row = l.i64(axes);
  ValueId have = l.gather(l.shape_of(x), row, 0), want = l.in(1), zero = l.i64_scalar(0), two = l.i64_scalar(2);
  ValueId excess = l.binary(kMax, l.binary(kSub, have, want), zero), lack = l.binary(kMax, l.binary(kSub, want, have), zero);
  ValueId start = l.binary(kDiv, excess, two);
  ValueId cut = l.add(kSlice, NoAttrs{}, {x, start, l.binary(kAdd, start, l.binary(kMin, have, want)), row});
  ValueId before = l.binary(kDiv, lack, two);
  ValueId pads = l.concat({before, l.binary(kSub, lack, before)}, 0);
  ModeAttrs a;
  a.mode = "constant";
  l.set(0, l.add(kPad, a, {cut, pads, l.scalar_of(l.dtype(x), 0), row}));
}

}  // namespace

void register_shape(LowerTable& t) {
  t.insert({{"Shape", shape}, {"Size", size}, {"Constant", constant}, {"ConstantOfShape", constant_of_shape}, {"Reshape", reshape},
            {"Squeeze", squeeze}, {"Unsqueeze", unsqueeze}, {"Flatten", flatten}, {"Expand", expand}, {"Range", range},
            {"Transpose", transpose}, {"Concat", concat}, {"Slice", slice}, {"Split", split}, {"Tile", tile}, {"Pad", pad},
            {"Trilu", trilu}, {"ReverseSequence", reverse_sequence}, {"DepthToSpace", depth_to_space},
            {"SpaceToDepth", space_to_depth}, {"EyeLike", eye_like}, {"CenterCropPad", center_crop_pad}});
}

}  // namespace brisk::onnx_import
