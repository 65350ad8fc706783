// ai.onnx.ml tree ensembles.
#include <algorithm>
#include <cmath>
#include <limits>

#include "import/onnx/lower_ml.h"

namespace brisk::onnx_import {
namespace {

using enum OpId;

constexpr int64_t kEqualMode = 4, kMember = 6;

struct Trees {
  // Nodes; leaves behind them, each its own successor.
  std::vector<int64_t> feature, when_true, when_false;
  std::vector<double> split;
  std::vector<int64_t> mode;      // 0 <=, 1 <, 2 >=, 3 >, 4 ==, 5 !=, leaves: 0
  std::vector<int64_t> nan_true;
  std::vector<double> weight;     // [nodes, targets]
  std::vector<int64_t> roots;
  int64_t targets = 1, depth = 0;
};

// Longest way down; nullopt for a cycle or an index that is no node.
std::optional<int64_t> depth_of(const Trees& t, size_t inner) {
  auto n = static_cast<int64_t>(t.when_true.size());
  std::vector<int64_t> depth(t.when_true.size(), -1);
  std::vector<std::pair<int64_t, int>> stack;
  int64_t deepest = 0;
  for (int64_t root : t.roots) {
    if (root < 0 || root >= n) return std::nullopt;
    stack = {{root, 0}};
    while (!stack.empty()) {
      auto [node, phase] = stack.back();
      auto u = static_cast<size_t>(node);
      if (static_cast<size_t>(node) >= inner) { depth[u] = 0; stack.pop_back(); continue; }
      if (phase == 0 && depth[u] == -2) return std::nullopt;
      if (depth[u] >= 0) { stack.pop_back(); continue; }
      depth[u] = -2;
      stack.back().second++;
      int64_t a = t.when_true[u], b = t.when_false[u];
      if (a < 0 || a >= n || b < 0 || b >= n) return std::nullopt;
      int64_t da = depth[static_cast<size_t>(a)], db = depth[static_cast<size_t>(b)];
      if ((da == -2 && a != node) || (db == -2 && b != node) || a == node || b == node) return std::nullopt;
      if (da == -1) { stack.push_back({a, 0}); continue; }
      if (db == -1) { stack.push_back({b, 0}); continue; }
      depth[u] = 1 + std::max(da, db);
      stack.pop_back();
    }
    deepest = std::max(deepest, depth[static_cast<size_t>(root)]);
  }
  return deepest;
}

ValueId doubles(Lower& l, DType t, const std::vector<double>& v, const Dims& shape) {
  if (t == DType::kF64) return l.constant_value(make_constant<double>(t, shape, v));
  return l.constant_value(make_constant<float>(DType::kF32, shape, std::vector<float>(v.begin(), v.end())));
}

// [rows, targets]: the leaf weights that each row reaches, joined over the trees.
ValueId walk(Lower& l, ValueId x, const Trees& t, const char* how) {
  DType real = l.dtype(x);
  auto nodes = static_cast<int64_t>(t.feature.size());
  bool one_mode = std::all_of(t.mode.begin(), t.mode.end(), [&](int64_t m) { return m == t.mode[0]; });
  bool any_nan = std::find(t.nan_true.begin(), t.nan_true.end(), 1) != t.nan_true.end();
  std::vector<int64_t> records;
  for (size_t i = 0; i < t.feature.size(); ++i)
    records.insert(records.end(), {t.feature[i], t.when_true[i], t.when_false[i], t.mode[i] + (t.nan_true[i] ? 8 : 0)});
  ModeAttrs a{how, one_mode && !any_nan && !t.mode.empty() ? t.mode[0] : -1, t.depth};
  return l.add(kTreeEnsemble, a, {x, l.i64(t.roots), l.constant_value(make_constant<int64_t>(DType::kI64, {nodes, 4}, records)),
                                  doubles(l, real, t.split, {nodes}), doubles(l, real, t.weight, {nodes, t.targets})});
}

// The first `inner` entries of t are decisions; leaf i follows as node inner + i, with weights still to be set.
bool settle(Lower& l, Trees& t, size_t inner, size_t leaves, double fill) {
  if (t.targets < 1 || t.targets > 100000) return l.bad("number of targets " + std::to_string(t.targets) + ", allowed 1 to 100000"), false;
  constexpr size_t kMaxWeights = size_t{1} << 27;
  if (inner + leaves > kMaxWeights / static_cast<size_t>(t.targets)) return l.refuse(std::to_string(inner + leaves) + " nodes with " + std::to_string(t.targets) + " targets each"), false;
  for (size_t i = 0; i < leaves; ++i) {
    t.feature.push_back(0), t.split.push_back(0), t.mode.push_back(t.mode.empty() ? 0 : t.mode[0]), t.nan_true.push_back(0);
    t.when_true.push_back(static_cast<int64_t>(inner + i)), t.when_false.push_back(static_cast<int64_t>(inner + i));
  }
  auto depth = depth_of(t, inner);
  if (!depth || *depth > 4096) return l.bad("the trees have a cycle, or an index that is no node"), false;
  t.depth = *depth;
  t.weight.assign((inner + leaves) * static_cast<size_t>(t.targets), fill);
  return true;
}

bool put_weight(Lower& l, Trees& t, size_t node, int64_t target, double weight) {
  if (target < 0 || target >= t.targets) return l.bad("a leaf's target is outside [0, " + std::to_string(t.targets) + ")"), false;
  double& at = t.weight[node * static_cast<size_t>(t.targets) + static_cast<size_t>(target)];
  at = std::isfinite(at) ? at + weight : weight;
  return true;
}

// A decision by a set becomes a chain of decisions by one value each. Indices from `inner` on (leaves) move behind the new nodes.
void expand_sets(Trees& t, size_t inner, const std::vector<std::vector<double>>& sets) {
  size_t more = 0, next = 0;
  for (const auto& s : sets) more += s.size() - 1;
  for (auto* way : {&t.when_true, &t.when_false})
    for (int64_t& to : *way)
      if (to >= static_cast<int64_t>(inner)) to += static_cast<int64_t>(more);
  for (int64_t& root : t.roots)
    if (root >= static_cast<int64_t>(inner)) root += static_cast<int64_t>(more);
  for (size_t i = 0; i < inner; ++i) {
    if (t.mode[i] != kMember) continue;
    const auto& values = sets[next++];
    const int64_t otherwise = t.when_false[i];
    t.mode[i] = kEqualMode;
    t.split[i] = values[0];
    for (size_t v = 1, last = i; v < values.size(); ++v) {
      const size_t added = t.feature.size();
      t.when_false[last] = static_cast<int64_t>(added);
      t.feature.push_back(t.feature[i]), t.mode.push_back(kEqualMode), t.split.push_back(values[v]), t.nan_true.push_back(0);
      t.when_true.push_back(t.when_true[i]), t.when_false.push_back(otherwise);
      last = added;
    }
  }
}

// One value for each decision by a set, sets ended by NaN.
std::vector<std::vector<double>> sets_of(const std::vector<double>& values) {
  std::vector<std::vector<double>> out(1);
  for (double v : values)
    if (std::isnan(v)) out.emplace_back();
    else out.back().push_back(v);
  if (out.back().empty()) out.pop_back();
  return out;
}

constexpr const char* kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
// What a target has in a leaf that says nothing of it: no part in the smallest or largest.
double nothing(int64_t how) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return how == 2 ? kInfinity : how == 3 ? -kInfinity : 0;
}

// [rows, targets] of all trees.
ValueId folded(Lower& l, ValueId x, const Trees& t, int64_t how) {
  static constexpr const char* kHow[] = {"SUM", "SUM", "MIN", "MAX"};  // the first is the mean
  ValueId y = walk(l, x, t, kHow[how]);
  if (how == 0) return l.binary(kDiv, y, doubles(l, l.dtype(y), {static_cast<double>(t.roots.size())}, {}));
  if (how == 1) return y;
  ModeAttrs both;
  both.flag = 3;
  return l.add(kWhere, NoAttrs{}, {l.add(kIsInf, both, {y}), l.scalar_of(l.dtype(y), 0), y});
}

std::vector<double> reals(Lower& l, const char* name) {
  ConstantPtr c = l.tensor(name);
  if (!c) return {};
  std::vector<double> out;
  for (int64_t i = 0; i < c->count(); ++i) out.push_back(c->dtype == DType::kF64 ? c->as<double>()[i] : static_cast<double>(load_float(c->data.bytes.data(), c->dtype, i)));
  return out;
}

void tree_ensemble(Lower& l) {
  Trees t;
  t.feature = l.ints("nodes_featureids");
  t.when_true = l.ints("nodes_truenodeids");
  t.when_false = l.ints("nodes_falsenodeids");
  t.nan_true = l.ints("nodes_missing_value_tracks_true");
  t.split = reals(l, "nodes_splits");
  t.roots = l.ints("tree_roots");
  t.targets = l.i("n_targets", 1);
  auto true_leaf = l.ints("nodes_trueleafs"), false_leaf = l.ints("nodes_falseleafs");
  for (double m : reals(l, "nodes_modes")) t.mode.push_back(static_cast<int64_t>(m));
  size_t inner = t.feature.size();
  if (t.nan_true.empty()) t.nan_true.assign(inner, 0);
  for (size_t n : {t.when_true.size(), t.when_false.size(), t.split.size(), t.mode.size(), true_leaf.size(), false_leaf.size(), t.nan_true.size()})
    if (n != inner) return void(l.bad("attributes of nodes differ in length"));
  for (int64_t m : t.mode)
    if (m < 0 || m > kMember) return void(l.bad("node mode " + std::to_string(m)));
  for (const auto* way : {&t.when_true, &t.when_false})
    for (int64_t to : *way)
      if (to < 0 || to > INT32_MAX) return void(l.bad("node index " + std::to_string(to)));
  for (size_t i = 0; i < inner; ++i) {
    if (true_leaf[i]) t.when_true[i] += static_cast<int64_t>(inner);
    if (false_leaf[i]) t.when_false[i] += static_cast<int64_t>(inner);
  }
  auto sets = sets_of(reals(l, "membership_values"));
  if (static_cast<std::ptrdiff_t>(sets.size()) != std::count(t.mode.begin(), t.mode.end(), kMember)) return void(l.bad(std::to_string(sets.size()) + " membership sets do not fit the nodes"));
  for (const auto& s : sets)
    if (s.empty()) return void(l.bad("an empty membership set"));
  expand_sets(t, inner, sets);
  inner = t.feature.size();
  auto leaf_target = l.ints("leaf_targetids");
  auto leaf_weight = reals(l, "leaf_weights");
  if (leaf_target.size() != leaf_weight.size()) return void(l.bad("leaf_targetids and leaf_weights differ in length"));
  const int64_t how = l.i("aggregate_function", 1);
  if (how < 0 || how > 3) return void(l.bad("aggregate_function " + std::to_string(how)));
  if (!settle(l, t, inner, leaf_target.size(), nothing(how))) return;
  for (size_t i = 0; i < leaf_target.size(); ++i)
    if (!put_weight(l, t, inner + i, leaf_target[i], leaf_weight[i])) return;
  ValueId y = folded(l, l.in(0), t, how);
  const int64_t transform = l.i("post_transform", 0);
  if (transform == 1) y = l.add(kSoftmax, AxisAttrs{-1}, {y});
  else if (transform == 2) y = l.unary(kSigmoid, y);
  else if (transform != 0) return void(l.refuse("post_transform " + std::to_string(transform)));
  l.set(0, y);
}

// --- TreeEnsembleRegressor and TreeEnsembleClassifier: nodes and leaves in one list, named by tree and number ---------------

using NodeName = std::pair<int64_t, int64_t>;

std::vector<double> reals_or_floats(Lower& l, const std::string& name) {
  auto v = reals(l, (name + "_as_tensor").c_str());
  if (!v.empty()) return v;
  auto f = l.floats(name);
  return {f.begin(), f.end()};
}

// Reads the nodes; gives the leaves' places by name. Weights are set by the caller.
std::optional<std::map<NodeName, size_t>> listed_trees(Lower& l, Trees& t, double fill) {
  static const std::map<std::string, int64_t> kModes = {{"BRANCH_LEQ", 0}, {"BRANCH_LT", 1}, {"BRANCH_GTE", 2}, {"BRANCH_GT", 3}, {"BRANCH_EQ", 4}, {"BRANCH_NEQ", 5}};
  auto tree = l.ints("nodes_treeids"), id = l.ints("nodes_nodeids"), feature = l.ints("nodes_featureids"), yes = l.ints("nodes_truenodeids"),
       no = l.ints("nodes_falsenodeids"), missing = l.ints("nodes_missing_value_tracks_true");
  auto mode = l.strings("nodes_modes");
  auto value = reals_or_floats(l, "nodes_values");
  const size_t n = id.size();
  if (missing.empty()) missing.assign(n, 0);
  for (size_t size : {tree.size(), feature.size(), yes.size(), no.size(), missing.size(), mode.size(), value.size()})
    if (size != n) return l.bad("attributes of nodes differ in length"), std::nullopt;
  std::map<NodeName, size_t> place, leaves;
  size_t inner = 0, seen = 0;
  for (const auto& m : mode) inner += m != "LEAF";
  for (size_t i = 0, decision = 0; i < n; ++i) {
    const bool leaf = mode[i] == "LEAF";
    if (!leaf && !kModes.count(mode[i])) return l.refuse("node mode '" + mode[i] + "'"), std::nullopt;
    const size_t at = leaf ? inner + seen++ : decision++;
    if (!place.emplace(NodeName{tree[i], id[i]}, at).second)
      return l.bad("two nodes " + std::to_string(id[i]) + " in tree " + std::to_string(tree[i])), std::nullopt;
    if (leaf) leaves[{tree[i], id[i]}] = at;
    if (i == 0 || tree[i] != tree[i - 1]) t.roots.push_back(static_cast<int64_t>(at));
  }
  auto find = [&](size_t i, int64_t to) {
    auto it = place.find({tree[i], to});
    return it == place.end() ? int64_t{-1} : static_cast<int64_t>(it->second);
  };
  for (size_t i = 0; i < n; ++i) {
    if (mode[i] == "LEAF") continue;
    t.feature.push_back(feature[i]), t.split.push_back(value[i]), t.mode.push_back(kModes.at(mode[i])), t.nan_true.push_back(missing[i] != 0);
    t.when_true.push_back(find(i, yes[i])), t.when_false.push_back(find(i, no[i]));
  }
  if (t.roots.empty()) return l.bad("no trees"), std::nullopt;
  if (!settle(l, t, inner, seen, fill)) return std::nullopt;
  return leaves;
}

// Attributes PREFIX_treeids, _nodeids, _ids, _weights.
bool leaf_weights(Lower& l, Trees& t, const std::map<NodeName, size_t>& leaves, const std::string& prefix, std::vector<int64_t>& ids, std::vector<double>& weights) {
  auto tree = l.ints(prefix + "_treeids"), node = l.ints(prefix + "_nodeids");
  ids = l.ints(prefix + "_ids");
  weights = reals_or_floats(l, prefix + "_weights");
  if (tree.size() != ids.size() || node.size() != ids.size() || weights.size() != ids.size()) return l.bad("attributes " + prefix + "_* differ in length"), false;
  for (size_t i = 0; i < ids.size(); ++i) {
    auto at = leaves.find({tree[i], node[i]});
    if (at == leaves.end()) return l.bad("a weight of node " + std::to_string(node[i]) + " in tree " + std::to_string(tree[i]) + ", which is no leaf"), false;
    if (!put_weight(l, t, at->second, ids[i], weights[i])) return false;
  }
  return true;
}

ValueId features(Lower& l) {
  ValueId x = l.in(0);
  if (l.dtype(x) != DType::kF32 && l.dtype(x) != DType::kF64) x = l.cast(x, DType::kF32);
  return l.rank(x) == 1 ? l.unsqueeze(x, {0}) : x;
}

ValueId with_base(Lower& l, ValueId y, const std::vector<double>& base) {
  return base.empty() ? y : l.binary(kAdd, y, doubles(l, l.dtype(y), base, {static_cast<int64_t>(base.size())}));
}

void tree_regressor(Lower& l) {
  Trees t;
  t.targets = l.i("n_targets", 1);
  std::string name = l.s("aggregate_function", "SUM");
  const int64_t how = std::find(std::begin(kAggregates), std::end(kAggregates), name) - std::begin(kAggregates);
  if (how > 3) return void(l.bad("aggregate_function '" + name + "'"));
  auto leaves = listed_trees(l, t, nothing(how));
  std::vector<int64_t> ids;
  std::vector<double> weights;
  if (!leaves || !leaf_weights(l, t, *leaves, "target", ids, weights)) return;
  auto base = reals_or_floats(l, "base_values");
  if (!base.empty() && base.size() != static_cast<size_t>(t.targets)) return void(l.bad(std::to_string(base.size()) + " base_values for " + std::to_string(t.targets) + " targets"));
  ValueId y = with_base(l, folded(l, features(l), t, how), base);
  l.set(0, post_transformed(l, l.cast(y, DType::kF32)));
}

// Two classes of which the leaves speak of one only. Of class 0: s stands for the second class, and the pair is (1 - s, s) where all
// weights are positive, else (-s, s). Of class 1: the pair is (0, s). The second class is meant above 0.5 or above 0.
void binary_tree_classifier(Lower& l, const Labels& labels, ValueId scores, int64_t id, bool positive) {
  DType t = l.dtype(scores);
  auto number = [&](double v) { return l.scalar_of(t, v); };
  ValueId s = l.slice(scores, 1, id, id + 1), second = l.squeeze(l.binary(kGreater, s, number(positive ? 0.5 : 0)), {1});
  l.set(0, label_of(l, labels, l.cast(second, DType::kI64)));
  if (id == 1) return l.set(1, post_transformed(l, scores));
  std::string how = l.s("post_transform", "NONE");
  if (how == "PROBIT") return void(l.refuse("post_transform 'PROBIT'"));
  ValueId first = positive ? l.binary(kSub, number(1), s) : l.unary(kNeg, s);
  if (how == "LOGISTIC") first = l.unary(kSigmoid, l.unary(kNeg, s)), s = l.unary(kSigmoid, s);
  l.set(1, l.concat({first, s}, 1));
}

// Results: label [N], scores [N, classes].
void tree_classifier(Lower& l) {
  auto labels = class_labels(l);
  if (!labels) return;
  Trees t;
  t.targets = static_cast<int64_t>(labels->numbers.size());
  if (t.targets < 2) return void(l.refuse("a classifier of one class"));
  auto leaves = listed_trees(l, t, 0);
  std::vector<int64_t> ids;
  std::vector<double> weights;
  if (!leaves || !leaf_weights(l, t, *leaves, "class", ids, weights)) return;
  auto base = reals_or_floats(l, "base_values");
  const bool single = t.targets == 2 && !ids.empty() && std::all_of(ids.begin(), ids.end(), [&](int64_t i) { return i == ids[0]; });
  if (!base.empty() && base.size() != (single && ids[0] == 0 ? 1u : static_cast<size_t>(t.targets)))
    return void(l.refuse(std::to_string(base.size()) + " base_values for " + std::to_string(t.targets) + " classes"));
  if (!base.empty() && single && ids[0] == 1) return void(l.refuse("base_values where all leaves speak of the second class"));
  ValueId scores = l.cast(with_base(l, folded(l, features(l), t, 1), base), DType::kF32);
  if (single) return binary_tree_classifier(l, *labels, scores, ids[0], std::all_of(weights.begin(), weights.end(), [](double w) { return w >= 0; }));
  ReduceAttrs best;
  best.axes = {1};
  best.keep_dims = false;
  l.set(0, label_of(l, *labels, l.add(kArgMax, best, {scores})));
  l.set(1, post_transformed(l, scores));
}

}  // namespace

void register_trees(LowerTable& t) {
  t.insert({{"ai.onnx.ml::TreeEnsemble", tree_ensemble}, {"ai.onnx.ml::TreeEnsembleRegressor", tree_regressor},
            {"ai.onnx.ml::TreeEnsembleClassifier", tree_classifier}});
}

}  // namespace brisk::onnx_import
