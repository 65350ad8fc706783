// ai.onnx.ml apart from trees: linear models, scaling, encoders. Labels that are text have no tensor in brisk: where a classifier
// has such labels, its first result is their index, and a note of the import lists them.
#include "import/onnx/lower_ml.h"

#include <cmath>

#include "import/onnx/importer.h"

namespace brisk::onnx_import {

using enum OpId;

ValueId post_transformed(Lower& l, ValueId scores) {
  std::string how = l.s("post_transform", "NONE");
  if (how == "NONE") return scores;
  if (how == "LOGISTIC") return l.unary(kSigmoid, scores);
  if (how == "SOFTMAX") return l.add(kSoftmax, AxisAttrs{-1}, {scores});
  if (how == "SOFTMAX_ZERO") {  // what is 0 stays 0 and does not count
    ValueId zero = l.scalar_of(l.dtype(scores), 0), none = l.binary(kEqual, scores, zero);
    ValueId e = l.unary(kExp, l.binary(kSub, scores, l.reduce(kReduceMax, scores, {1})));
    e = l.add(kWhere, NoAttrs{}, {none, zero, e});
    return l.binary(kDiv, e, l.reduce(kReduceSum, e, {1}));
  }
  return l.refuse("post_transform '" + how + "'");
}

std::optional<Labels> class_labels(Lower& l) {
  Labels out;
  for (const char* name : {"classlabels_int64s", "classlabels_ints"})
    if (!l.ints(name).empty()) out.numbers = l.ints(name);
  if (!out.numbers.empty()) return out;
  auto text = l.strings("classlabels_strings");
  if (text.empty()) return l.bad("a classifier without labels"), std::nullopt;
  std::string note = "'" + l.node.name + "' (" + l.node.op + "): labels are text, its first result is their index:";
  for (size_t i = 0; i < text.size(); ++i) {
    out.numbers.push_back(static_cast<int64_t>(i));
    if (i < 20) note += " " + std::to_string(i) + " '" + text[i].substr(0, 40) + "'";
  }
  l.importer.notes.push_back(note);
  return out;
}

ValueId label_of(Lower& l, const Labels& labels, ValueId index) { return l.gather(l.i64(labels.numbers), index, 0); }

namespace {

ValueId floats_of(Lower& l, const std::vector<float>& v, const Dims& shape) { return l.constant_value(make_constant<float>(DType::kF32, shape, v)); }
ValueId as_f32(Lower& l, size_t i) { return l.cast(l.in(i), DType::kF32); }

// x [N, C] or [C] times coefficients [rows, C], plus intercepts.
ValueId linear_scores(Lower& l, int64_t rows) {
  auto coefficients = l.floats("coefficients"), intercepts = l.floats("intercepts");
  auto n = static_cast<int64_t>(coefficients.size());
  if (rows < 1 || n < rows || n % rows) return l.bad(std::to_string(n) + " coefficients for " + std::to_string(rows) + " rows");
  ValueId x = as_f32(l, 0);
  if (l.rank(x) == 1) x = l.unsqueeze(x, {0});
  if (l.rank(x) != 2) return l.refuse("x that is not a matrix");
  GemmAttrs a;
  a.trans_b = true;
  std::vector<ValueId> in = {x, floats_of(l, coefficients, {rows, n / rows})};
  if (!intercepts.empty()) {
    if (static_cast<int64_t>(intercepts.size()) != rows) return l.bad(std::to_string(intercepts.size()) + " intercepts for " + std::to_string(rows) + " rows");
    in.push_back(floats_of(l, intercepts, {rows}));
  }
  return l.add(kGemm, a, in);
}

void linear_regressor(Lower& l) { l.set(0, post_transformed(l, linear_scores(l, l.i("targets", 1)))); }

// Results: label [N], scores [N, classes]. One row of coefficients for two labels: the second is meant.
void linear_classifier(Lower& l) {
  auto labels = class_labels(l);
  if (!labels) return;
  auto classes = static_cast<int64_t>(labels->numbers.size());
  auto given = static_cast<int64_t>(l.floats("intercepts").size());
  int64_t rows = given > 0 ? given : classes;
  ValueId scores = linear_scores(l, rows);
  if (l.failed()) return;
  std::string how = l.s("post_transform", "NONE");
  if (rows == 1 && classes == 2) {
    ValueId one = l.scalar_of(DType::kF32, 1), zero = l.scalar_of(DType::kF32, 0), second = how == "LOGISTIC" ? l.unary(kSigmoid, scores) : scores;
    if (how == "PROBIT") return void(l.refuse("post_transform 'PROBIT'"));  // SOFTMAX of one score leaves it as it is
    l.set(0, label_of(l, *labels, l.cast(l.squeeze(l.binary(kGreater, scores, zero), {1}), DType::kI64)));
    return l.set(1, l.concat({l.binary(kSub, one, second), second}, 1));
  }
  if (rows != classes) return void(l.bad(std::to_string(rows) + " rows of coefficients for " + std::to_string(classes) + " labels"));
  ReduceAttrs best;
  best.axes = {1};
  best.keep_dims = false;
  l.set(0, label_of(l, *labels, l.add(kArgMax, best, {scores})));
  l.set(1, post_transformed(l, scores));
}

// Rows divided by their norm; those without one stay.
void normalizer(Lower& l) {
  std::string norm = l.s("norm", "MAX");
  ValueId x = as_f32(l, 0);
  auto r = l.rank(x);
  if (!r || *r < 1 || *r > 2) return void(l.refuse("x that is not a matrix"));
  std::vector<int64_t> axes = {*r - 1};
  ValueId by = norm == "MAX" ? l.reduce(kReduceMax, x, axes) : norm == "L1" ? l.reduce(kReduceL1, x, axes)
               : norm == "L2" ? l.reduce(kReduceL2, x, axes) : l.bad("norm '" + norm + "'");
  ValueId zero = l.scalar_of(DType::kF32, 0);
  l.set(0, l.add(kWhere, NoAttrs{}, {l.binary(kEqual, by, zero), x, l.binary(kDiv, x, by)}));
}

void scaler(Lower& l) {
  auto row = [&](const char* name, float otherwise) {
    auto v = l.floats(name);
    if (v.empty()) v = {otherwise};
    return floats_of(l, v, {static_cast<int64_t>(v.size())});
  };
  l.set(0, l.binary(kMul, l.binary(kSub, as_f32(l, 0), row("offset", 0)), row("scale", 1)));
}

void imputer(Lower& l) {
  ValueId x = l.in(0);
  DType t = l.dtype(x);
  if (is_integer(t)) {
    auto by = l.ints("imputed_value_int64s");
    if (by.empty()) return void(l.bad("imputed_value_int64s is missing"));
    ValueId missing = l.binary(kEqual, x, l.cast(l.i64_scalar(l.i("replaced_value_int64", 0)), t));
    return l.set(0, l.add(kWhere, NoAttrs{}, {missing, l.cast(l.i64(by), t), x}));
  }
  auto by = l.floats("imputed_value_floats");
  if (by.empty()) return void(l.bad("imputed_value_floats is missing"));
  float value = l.f("replaced_value_float", 0);
  ValueId missing = std::isnan(value) ? l.unary(kIsNaN, x) : l.binary(kEqual, x, l.scalar_of(t, static_cast<double>(value)));
  l.set(0, l.add(kWhere, NoAttrs{}, {missing, l.cast(floats_of(l, by, {static_cast<int64_t>(by.size())}), t), x}));
}

// A constant of keys or values: attribute NAME_tensor, NAME_int64s or NAME_floats; null for text, which tensors do not hold.
ConstantPtr table_of(Lower& l, const std::string& name) {
  if (!l.strings(name + "_strings").empty()) return l.refuse(name + " that are text"), nullptr;
  if (l.attribute(name + "_tensor")) return l.tensor(name + "_tensor");
  auto n = l.ints(name + "_int64s");
  if (!n.empty()) return make_constant<int64_t>(DType::kI64, {static_cast<int64_t>(n.size())}, n);
  auto f = l.floats(name + "_floats");
  if (!f.empty()) return make_constant<float>(DType::kF32, {static_cast<int64_t>(f.size())}, f);
  return l.bad(name + " are missing"), nullptr;
}

// Each element looked up among the keys: the value beside the first that is equal, or the default.
void label_encoder(Lower& l) {
  ConstantPtr keys = table_of(l, "keys"), values = keys ? table_of(l, "values") : nullptr;
  if (!keys || !values) return;
  if (keys->count() != values->count() || keys->count() < 1) return void(l.bad("keys and values differ in number"));
  ValueId x = l.in(0), k = l.constant_value(keys), v = l.constant_value(values);
  auto r = l.rank(x);
  if (!r) return void(l.refuse("x of unknown rank"));
  if (l.dtype(x) != keys->dtype) return void(l.bad("keys of another type than x"));
  ValueId wide = l.unsqueeze(x, {*r}), hit = l.binary(kEqual, wide, k);
  if (is_float(keys->dtype) && l.opset >= 4) hit = l.binary(kOr, hit, l.binary(kAnd, l.unary(kIsNaN, wide), l.unary(kIsNaN, k)));
  ValueId count = l.cast(hit, DType::kF32);
  ReduceAttrs first;
  first.axes = {*r};
  first.keep_dims = false;
  ValueId found = l.binary(kGreater, l.reduce(kReduceMax, count, {*r}, false), l.scalar_of(DType::kF32, 0));
  ValueId other = kNoValue;
  if (l.attribute("default_tensor")) other = l.reshape(l.constant_value(l.tensor("default_tensor")), {});
  else if (values->dtype == DType::kI64) other = l.i64_scalar(l.i("default_int64", -1));
  else other = l.scalar_of(values->dtype, static_cast<double>(l.f("default_float", -0.0f)));
  l.set(0, l.add(kWhere, NoAttrs{}, {found, l.gather(l.reshape(v, {-1}), l.add(kArgMax, first, {count}), 0), other}));
}

void one_hot_encoder(Lower& l) {
  auto kinds = l.ints("cats_int64s");
  auto r = l.rank(l.in(0));
  if (!l.strings("cats_strings").empty()) return void(l.refuse("categories that are text"));
  if (kinds.empty() || !r) return void(l.refuse("no categories, or x of unknown rank"));
  ValueId x = l.cast(l.in(0), DType::kI64), hit = l.binary(kEqual, l.unsqueeze(x, {*r}), l.i64(kinds));
  if (l.i("zeros", 1) == 0) l.importer.notes.push_back("'" + l.node.name + "' (OneHotEncoder): unknown categories give zeros, where the file asks for an error");
  l.set(0, l.cast(hit, DType::kF32));
}

void feature_vectorizer(Lower& l) {
  std::vector<ValueId> parts;
  for (size_t i = 0; i < l.count(); ++i) {
    ValueId x = as_f32(l, i);
    parts.push_back(l.rank(x) == 1 ? l.unsqueeze(x, {1}) : x);
  }
  if (parts.empty()) return void(l.bad("no operands"));
  l.set(0, l.concat(parts, 1));
}

// [N, classes] scores as a list of maps from label to score: a tensor says the same, so that is what comes out.
void zip_map(Lower& l) {
  l.importer.notes.push_back("'" + l.node.name + "' (ZipMap): the result is the tensor of scores [N, classes], not a list of maps");
  l.set(0, l.in(0));
}

}  // namespace

void register_ml(LowerTable& t) {
  t.insert({{"ai.onnx.ml::LinearRegressor", linear_regressor}, {"ai.onnx.ml::LinearClassifier", linear_classifier},
            {"ai.onnx.ml::Normalizer", normalizer}, {"ai.onnx.ml::Scaler", scaler}, {"ai.onnx.ml::Imputer", imputer},
            {"ai.onnx.ml::LabelEncoder", label_encoder}, {"ai.onnx.ml::OneHotEncoder", one_hot_encoder},
            {"ai.onnx.ml::FeatureVectorizer", feature_vectorizer}, {"ai.onnx.ml::ZipMap", zip_map}});
}

}  // namespace brisk::onnx_import
