// Trees: many walks side by side hide the latency of memory.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "backend/cpu/light.h"
#include "op/tree.h"

namespace brisk::cpu {
namespace {

constexpr int kWalks = 32;

// A node of the operand, packed: four numbers of 64 bits in 16 bytes.
struct TreeNode {
  int32_t feature, next[2], comparison;  // next if true, if false
};

enum class Join : uint8_t { kSum, kMin, kMax };

template <int comparison, class T> class Forest {
 public:
  explicit Forest(const KernelArgs& k)
      : nodes_(k.in[2].as<TreeNode>()), splits_(k.in[3].as<T>()), weights_(k.in[4].as<T>()), roots_(k.in[1].as<int64_t>()), trees_(k.in[1].count()),
        steps_(k.get<ModeAttrs>().flag), count_(static_cast<uint64_t>(k.in[3].count())), features_(static_cast<uint64_t>(k.in[0].shape[1])), targets_(k.out[0].shape[1]),
        join_(k.get<ModeAttrs>().mode == "MIN" ? Join::kMin : k.get<ModeAttrs>().mode == "MAX" ? Join::kMax : Join::kSum) {}

  // Engines are strangers' files: false for a number that leads outside.
  bool row(const T* x, T* y) const {
    std::fill_n(y, targets_, T(0));
    int32_t at[kWalks], walking[kWalks];
    for (int64_t t = 0; t < trees_; t += kWalks) {
      int n = static_cast<int>(std::min<int64_t>(kWalks, trees_ - t)), left = n;
      for (int i = 0; i < n; ++i) {
        int64_t root = roots_[t + i];
        if (static_cast<uint64_t>(root) >= count_) return false;
        at[i] = static_cast<int32_t>(root), walking[i] = i;
      }
      for (int64_t step = 0; step < steps_ && left > 0; ++step) {
        int still = 0;
        for (int j = 0; j < left; ++j) {
          int i = walking[j];
          int32_t here = at[i];
          const TreeNode& node = nodes_[here];
          if (static_cast<uint64_t>(node.feature) >= features_) return false;
          // Both are chosen, not branched upon: which way it goes cannot be foretold.
          int32_t next = node.next[tree_holds(comparison < 0 ? node.comparison : comparison, x[node.feature], splits_[here]) ? 0 : 1];
          if (static_cast<uint64_t>(next) >= count_) return false;
          at[i] = next;
          walking[still] = i;
          still += next != here;
        }
        left = still;
      }
      for (int i = 0; i < n; ++i) join(y, weights_ + at[i] * targets_, t + i == 0);
    }
    return true;
  }

 private:
  void join(T* y, const T* w, bool first) const {
    if (first) std::copy_n(w, targets_, y);
    else if (join_ == Join::kSum) for (int64_t j = 0; j < targets_; ++j) y[j] += w[j];
    else if (join_ == Join::kMin) for (int64_t j = 0; j < targets_; ++j) y[j] = std::min(y[j], w[j]);
    else for (int64_t j = 0; j < targets_; ++j) y[j] = std::max(y[j], w[j]);
  }
  const TreeNode* nodes_;
  const T *splits_, *weights_;
  const int64_t* roots_;
  int64_t trees_, steps_;
  uint64_t count_, features_;
  int64_t targets_;
  Join join_;
};

template <int comparison, class T> Status run_forest(ThreadPool& pool, const KernelArgs& k) {
  Forest<comparison, T> forest(k);
  int64_t features = k.in[0].shape[1], targets = k.out[0].shape[1];
  std::atomic<bool> sound{true};
  for_ranges(pool, k.in[0].shape[0], static_cast<double>(k.in[1].count() * std::min<int64_t>(k.get<ModeAttrs>().flag, 8)) * 20, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r)
      if (!forest.row(k.in[0].as<T>() + r * features, k.out[0].as<T>() + r * targets)) return sound.store(false, std::memory_order_relaxed);
  });
  if (!sound) return invalid("TreeEnsemble: a node names a node or feature that does not exist");
  return {};
}

Status run_tree_ensemble(KernelContext& kc, const KernelArgs& k) {
  int64_t n = k.in[3].count();
  if (k.in[2].count() != 4 * n || k.in[4].count() != n * k.out[0].shape[1]) return invalid("TreeEnsemble: nodes, splits and weights differ in number");
  bool below = k.get<ModeAttrs>().axis == 0;  // what nearly all trainers write
  if (k.in[0].dtype == DType::kF32) return (below ? run_forest<0, float> : run_forest<-1, float>)(pool_of(kc), k);
  return (below ? run_forest<0, double> : run_forest<-1, double>)(pool_of(kc), k);
}

bool accepts_trees(const ProblemDesc& p) {
  const OperandDesc& nodes = p.inputs[2];
  return all_plain(p) && nodes.constant && nodes.type.rank() == 2 && nodes.type.shape[0].constant_or(-1) >= 0 && nodes.type.shape[1].constant_or(0) == 4;
}

// What does not fit 32 bits leads outside, and is found when it is met.
Result<std::vector<std::byte>> pack_nodes(const ProblemDesc&, const Constant& c) {
  std::vector<std::byte> out(static_cast<size_t>(c.count()) * sizeof(int32_t));
  for (int64_t i = 0; i < c.count(); ++i) {
    int64_t v = c.as<int64_t>()[i];
    auto narrow = v < 0 || v > INT32_MAX ? int32_t{-1} : static_cast<int32_t>(v);
    std::memcpy(out.data() + i * 4, &narrow, sizeof narrow);
  }
  return out;
}

}  // namespace

void add_light_trees(Registry& r) {
  KernelDesc d = light_desc(OpId::kTreeEnsemble, run_tree_ensemble, accepts_trees);
  d.packings = {{2, "cpu.tree_nodes", pack_nodes, [](const ProblemDesc&, const OperandDesc& o) { return o.type.shape[0].constant_or(0) * int64_t{sizeof(TreeNode)}; }}};
  r.add(d);
}

}  // namespace brisk::cpu
