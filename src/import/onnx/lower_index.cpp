// Gathering, scattering, selection.
#include "import/onnx/lower.h"

namespace brisk::onnx_import {
namespace {

using enum OpId;

void gather(Lower& l) { l.set(0, l.gather(l.in(0), l.in(1), l.i("axis", 0))); }
void gather_elements(Lower& l) { l.set(0, l.add(kGatherElements, AxisAttrs{l.i("axis", 0)}, l.inputs())); }
// Indices of one number pick along axis 0.
void gather_nd(Lower& l) {
  auto width = l.rank(l.in(1)).value_or(0) > 0 ? l.type(l.in(1)).shape.back().constant() : std::nullopt;
  if (width == 1 && l.i("batch_dims", 0) == 0 && l.rank(l.in(0))) return l.set(0, l.gather(l.in(0), l.squeeze(l.in(1), {-1}), 0));
  l.set(0, l.add(kGatherND, AxisAttrs{l.i("batch_dims", 0)}, l.inputs()));
}

template <OpId op> void scatter(Lower& l) {
  ModeAttrs a;
  a.mode = l.s("reduction", "none");
  a.axis = l.i("axis", 0);
  l.set(0, l.add(op, a, l.inputs()));
}

void one_hot(Lower& l) { l.set(0, l.add(kOneHot, AxisAttrs{l.i("axis", -1)}, l.inputs())); }

void top_k(Lower& l) {
  ModeAttrs a;
  a.axis = l.i("axis", -1);
  a.flag = l.i("largest", 1);
  ValueId k = l.opset < 10 ? l.i64({l.i("k", 0)}) : l.in(1);
  auto out = l.add_n(kTopK, a, {l.in(0), k}, 2);
  l.set(0, out[0]);
  l.set(1, out[1]);
}

void non_zero(Lower& l) { lower_direct(l, kNonZero); }

void compress(Lower& l) {
  ModeAttrs a;
  a.flag = l.attribute("axis") == nullptr;
  a.axis = l.i("axis", 0);
  l.set(0, l.add(kCompress, a, l.inputs()));
}

// ai.onnx.ml: elements of the last axis.
void array_feature_extractor(Lower& l) {
  auto r = l.rank(l.in(0));
  if (!r) return void(l.refuse("x of unknown rank"));
  ValueId ids = l.reshape(l.in(1), {-1});
  ValueId picked = l.gather(l.in(0), ids, *r - 1);
  l.set(0, *r == 1 ? l.unsqueeze(picked, {0}) : picked);
}

void binarizer(Lower& l) {
  DType t = l.dtype(l.in(0));
  l.set(0, l.cast(l.binary(kGreater, l.in(0), l.scalar_of(t, static_cast<double>(l.f("threshold", 0)))), t));
}

}  // namespace

void register_index(LowerTable& t) {
  t.insert({{"Gather", gather}, {"GatherElements", gather_elements}, {"GatherND", gather_nd}, {"ScatterElements", scatter<kScatterElements>},
            {"Scatter", scatter<kScatterElements>}, {"ScatterND", scatter<kScatterND>}, {"OneHot", one_hot}, {"TopK", top_k},
            {"NonZero", non_zero}, {"Compress", compress}, {"ai.onnx.ml::ArrayFeatureExtractor", array_feature_extractor},
            {"ai.onnx.ml::Binarizer", binarizer}});
}

}  // namespace brisk::onnx_import
