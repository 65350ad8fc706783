// Results whose number depends on data (op/select.h counts them), and counts of n-grams.
#include <algorithm>

#include "backend/ref/util.h"
#include "op/select.h"

namespace brisk::ref {
namespace {

Status other_count(const char* op) { return invalid(std::string(op) + ": the result does not have the size that the operands give"); }

Status run_unique(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<ModeAttrs>();
  const TensorView &x = k.in[0], &y = k.out[0];
  bool flat = a.mode == "flat";
  int axis = flat ? -1 : axis_of(a.axis, x.shape.rank);
  UniqueGroups g = unique_groups(x, axis, a.flag != 0);
  auto groups = static_cast<int64_t>(g.first.size());
  int64_t n = flat ? x.count() : x.shape[axis], inner = flat ? 1 : x.shape.count(axis + 1, x.shape.rank), outer = flat ? 1 : x.shape.count(0, axis);
  if (y.count() != outer * groups * inner) return other_count("Unique");
  auto fill = [&](size_t i, const std::vector<int64_t>& v) {
    if (i < k.out.size() && k.out[i].present && k.out[i].count() == static_cast<int64_t>(v.size())) std::copy(v.begin(), v.end(), k.out[i].as<int64_t>());
  };
  fill(1, g.first);
  fill(2, g.place);
  fill(3, g.count);
  return dispatch_width(x.dtype, [&]<class T>(Tag<T>) -> Status {
    T* out = y.as<T>();
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i : g.first) {
        const T* from = x.as<T>() + (o * n + i) * inner;
        out = std::copy(from, from + inner, out);
      }
    return {};
  });
}

Status run_non_max_suppression(KernelContext&, const KernelArgs& k) {
  auto operand = [&](size_t i) { return k.has(i) ? &k.in[i] : nullptr; };
  BRISK_ASSIGN(auto chosen, non_max_suppression({&k.in[0], &k.in[1], operand(2), operand(3), operand(4)}, k.get<ModeAttrs>().flag != 0));
  if (k.out[0].count() != static_cast<int64_t>(chosen.size()) * 3) return other_count("NonMaxSuppression");
  int64_t* out = k.out[0].as<int64_t>();
  for (const auto& row : chosen) out = std::copy(row.begin(), row.end(), out);
  return {};
}

// Counts the n-grams of one row: elements s, s + d, s + 2 d, ... for every distance d up to max_skip + 1. Those of one
// element are the same at each distance and count once.
void count_ngrams(const NgramAttrs& a, const std::map<std::vector<int64_t>, int64_t>& grams, const std::vector<int64_t>& row, float* out) {
  auto n = static_cast<int64_t>(row.size());
  std::vector<int64_t> gram;
  for (int64_t d = 1; d - 1 <= a.max_skip && d <= std::max<int64_t>(n, 1); ++d)
    for (int64_t s = 0; s < n; ++s) {
      gram.clear();
      for (int64_t i = s; i < n && static_cast<int64_t>(gram.size()) < a.max_length; i += d) {
        gram.push_back(row[static_cast<size_t>(i)]);
        auto length = static_cast<int64_t>(gram.size());
        if (length < a.min_length || (length == 1 && d > 1)) continue;
        if (auto it = grams.find(gram); it != grams.end()) out[it->second] += 1;
      }
    }
}

Status run_tf_idf(KernelContext&, const KernelArgs& k) {
  const auto& a = k.get<NgramAttrs>();
  const TensorView &x = k.in[0], &y = k.out[0];
  BRISK_ASSIGN(auto grams, ngrams_of(a));
  int64_t n = x.shape[x.shape.rank - 1], rows = x.shape.rank == 2 ? x.shape[0] : 1, columns = y.shape[y.shape.rank - 1];
  auto all = to_ints(x);
  for (int64_t r = 0; r < rows; ++r) {
    float* out = y.as<float>() + r * columns;
    std::fill(out, out + columns, 0.0f);
    count_ngrams(a, grams, {all.begin() + r * n, all.begin() + (r + 1) * n}, out);
    for (int64_t i = 0; i < columns; ++i) {
      float weight = a.weights.empty() ? 1 : a.weights[static_cast<size_t>(i)];
      if (a.mode == "IDF") out[i] = out[i] > 0 ? weight : 0;
      if (a.mode == "TFIDF") out[i] *= weight;
    }
  }
  return {};
}

}  // namespace

void add_selection(Registry& r) {
  add_plain(r, OpId::kUnique, run_unique);
  add_plain(r, OpId::kNonMaxSuppression, run_non_max_suppression);
  add_plain(r, OpId::kTfIdfVectorizer, run_tf_idf);
}

}  // namespace brisk::ref
