// ai.onnx.ml tree ensembles.
#include <algorithm>
#include <cmath>

#include "import/onnx/lower.h"

namespace brisk::onnx_import {
namespace {

using enum OpId;

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

// The first `inner` entries of t are decisions; leaf i follows as node inner + i.
bool settle(Lower& l, Trees& t, size_t inner, const std::vector<int64_t>& leaf_target, const std::vector<double>& leaf_weight) {
  size_t leaves = leaf_target.size(), n = inner + leaves;
  t.weight.assign(n * static_cast<size_t>(t.targets), 0);
  for (size_t i = 0; i < leaves; ++i) {
    if (leaf_target[i] < 0 || leaf_target[i] >= t.targets) return l.bad("a leaf's target is outside [0, " + std::to_string(t.targets) + ")"), false;
    t.feature.push_back(0), t.split.push_back(0), t.mode.push_back(t.mode.empty() ? 0 : t.mode[0]), t.nan_true.push_back(0);
    t.when_true.push_back(static_cast<int64_t>(inner + i)), t.when_false.push_back(static_cast<int64_t>(inner + i));
    t.weight[(inner + i) * static_cast<size_t>(t.targets) + static_cast<size_t>(leaf_target[i])] = leaf_weight[i];
  }
  auto depth = depth_of(t, inner);
  if (!depth || *depth > 4096) return l.bad("the trees have a cycle, or an index that is no node"), false;
  t.depth = *depth;
  return true;
}

void aggregate(Lower& l, ValueId x, const Trees& t, int64_t how, int64_t transform) {
  static constexpr const char* kHow[] = {"SUM", "SUM", "MIN", "MAX"};  // the first is the mean
  if (how < 0 || how > 3) return void(l.bad("aggregate_function " + std::to_string(how)));
  ValueId y = walk(l, x, t, kHow[how]);
  if (how == 0) y = l.binary(kDiv, y, doubles(l, l.dtype(x), {static_cast<double>(t.roots.size())}, {}));
  if (transform == 1) y = l.add(kSoftmax, AxisAttrs{-1}, {y});
  else if (transform == 2) y = l.unary(kSigmoid, y);
  else if (transform != 0) return void(l.refuse("post_transform " + std::to_string(transform)));
  l.set(0, y);
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
  if (l.tensor("membership_values")) return void(l.refuse("membership_values (BRANCH_MEMBER)"));
  if (t.nan_true.empty()) t.nan_true.assign(inner, 0);
  for (size_t n : {t.when_true.size(), t.when_false.size(), t.split.size(), t.mode.size(), true_leaf.size(), false_leaf.size(), t.nan_true.size()})
    if (n != inner) return void(l.bad("attributes of nodes differ in length"));
  if (t.targets < 1 || t.targets > 100000) return void(l.bad("n_targets " + std::to_string(t.targets)));
  for (int64_t m : t.mode)
    if (m < 0 || m > 5) return void(l.refuse("node mode " + std::to_string(m)));
  for (size_t i = 0; i < inner; ++i) {
    if (true_leaf[i]) t.when_true[i] += static_cast<int64_t>(inner);
    if (false_leaf[i]) t.when_false[i] += static_cast<int64_t>(inner);
  }
  auto leaf_target = l.ints("leaf_targetids");
  auto leaf_weight = reals(l, "leaf_weights");
  if (leaf_target.size() != leaf_weight.size()) return void(l.bad("leaf_targetids and leaf_weights differ in length"));
  if (!settle(l, t, inner, leaf_target, leaf_weight)) return;
  aggregate(l, l.in(0), t, l.i("aggregate_function", 1), l.i("post_transform", 0));
}

}  // namespace

void register_trees(LowerTable& t) { t.insert({{"ai.onnx.ml::TreeEnsemble", tree_ensemble}}); }

}  // namespace brisk::onnx_import
