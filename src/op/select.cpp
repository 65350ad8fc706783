#include "op/select.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace brisk {
namespace {

// A number that compares as the element does.
uint64_t key_of(const TensorView& x, int64_t i) {
  constexpr uint64_t kTop = uint64_t{1} << 63;
  if (x.dtype == DType::kU64) return x.as<uint64_t>()[i];
  if (!is_float(x.dtype)) return static_cast<uint64_t>(load_int(x.data, x.dtype, i)) ^ kTop;
  double v = x.dtype == DType::kF64 ? x.as<double>()[i] : static_cast<double>(load_float(x.data, x.dtype, i));
  if (std::isnan(v)) return UINT64_MAX;
  auto bits = std::bit_cast<uint64_t>(v == 0 ? 0.0 : v);
  return bits & kTop ? ~bits : bits | kTop;
}

struct Box {
  float x0, y0, x1, y1;
  float area() const { return (x1 - x0) * (y1 - y0); }
};

Box box_at(const float* b, bool centered) {
  if (centered) return {b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2};
  return {std::min(b[1], b[3]), std::min(b[0], b[2]), std::max(b[1], b[3]), std::max(b[0], b[2])};
}

bool overlap_above(const Box& a, const Box& b, float threshold) {
  float w = std::min(a.x1, b.x1) - std::max(a.x0, b.x0), h = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (!(w > 0) || !(h > 0)) return false;
  float both = w * h, either = a.area() + b.area() - both;
  if (a.area() <= 0 || b.area() <= 0 || either <= 0) return false;
  return both / either > threshold;
}

Result<std::optional<float>> threshold(const TensorView* v, const char* what) {
  if (!v || v->count() == 0) return std::optional<float>();
  if (v->dtype != DType::kF32 || v->count() != 1) return invalid(std::string(what) + " must be one f32");
  return std::optional<float>(*v->as<float>());
}

}  // namespace

UniqueGroups unique_groups(const TensorView& x, int axis, bool sorted) {
  int64_t n = axis < 0 ? x.count() : x.shape[axis], inner = axis < 0 ? 1 : x.shape.count(axis + 1, x.shape.rank);
  int64_t outer = axis < 0 ? 1 : x.shape.count(0, axis), width = axis < 0 ? 1 : outer * inner;
  std::vector<uint64_t> keys(static_cast<size_t>(n * width));
  for (int64_t o = 0, at = 0; o < outer; ++o)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < inner; ++j) keys[static_cast<size_t>(i * width + o * inner + j)] = key_of(x, at++);
  auto slice = [&](int64_t i) { return std::span(keys).subspan(static_cast<size_t>(i * width), static_cast<size_t>(width)); };
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return std::ranges::lexicographical_compare(slice(a), slice(b)); });
  UniqueGroups g;
  g.place.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || !std::ranges::equal(slice(order[i - 1]), slice(order[i]))) g.first.push_back(order[i]), g.count.push_back(0);
    g.place[static_cast<size_t>(order[i])] = static_cast<int64_t>(g.first.size()) - 1;
    ++g.count.back();
  }
  if (sorted) return g;
  std::vector<int64_t> by_place(g.first.size()), at(g.first.size());
  std::iota(by_place.begin(), by_place.end(), 0);
  std::sort(by_place.begin(), by_place.end(), [&](int64_t a, int64_t b) { return g.first[static_cast<size_t>(a)] < g.first[static_cast<size_t>(b)]; });
  UniqueGroups out;
  for (size_t i = 0; i < by_place.size(); ++i) {
    auto from = static_cast<size_t>(by_place[i]);
    at[from] = static_cast<int64_t>(i);
    out.first.push_back(g.first[from]);
    out.count.push_back(g.count[from]);
  }
  for (int64_t p : g.place) out.place.push_back(at[static_cast<size_t>(p)]);
  return out;
}

Result<std::vector<std::array<int64_t, 3>>> non_max_suppression(const BoxOperands& o, bool centered) {
  const TensorView &boxes = *o.boxes, &scores = *o.scores;
  bool fits = boxes.dtype == DType::kF32 && scores.dtype == DType::kF32 && boxes.shape.rank == 3 && scores.shape.rank == 3 &&
              boxes.shape[2] == 4 && boxes.shape[0] == scores.shape[0] && boxes.shape[1] == scores.shape[2];
  if (!fits) return invalid("boxes " + to_string(boxes.shape) + " and scores " + to_string(scores.shape) + ", wanted f32 [B, N, 4] and [B, C, N]");
  BRISK_ASSIGN(auto iou, threshold(o.iou, "the IoU threshold"));
  BRISK_ASSIGN(auto lowest, threshold(o.score, "the score threshold"));
  if (iou && !(*iou >= 0 && *iou <= 1)) return invalid("the IoU threshold is " + std::to_string(*iou) + ", outside [0, 1]");
  int64_t most = 0, n = boxes.shape[1], classes = scores.shape[1];
  if (o.most && o.most->count() == 1 && is_integer(o.most->dtype)) most = load_int(o.most->data, o.most->dtype, 0);
  std::vector<std::array<int64_t, 3>> out;
  if (most <= 0) return out;
  std::vector<int64_t> order;
  std::vector<Box> chosen;
  for (int64_t r = 0; r < boxes.shape[0] * classes; ++r) {
    const float *score = scores.as<float>() + r * n, *box = boxes.as<float>() + r / classes * n * 4;
    order.clear();
    for (int64_t i = 0; i < n; ++i)
      if (!std::isnan(score[i]) && (!lowest || score[i] > *lowest)) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score[a] > score[b]; });
    chosen.clear();
    for (int64_t i : order) {
      if (static_cast<int64_t>(chosen.size()) >= most) break;
      Box b = box_at(box + i * 4, centered);
      if (std::any_of(chosen.begin(), chosen.end(), [&](const Box& c) { return overlap_above(b, c, iou.value_or(0)); })) continue;
      chosen.push_back(b);
      out.push_back({r / classes, r % classes, i});
    }
  }
  return out;
}

Result<int64_t> ngram_columns(const NgramAttrs& a) {
  if (a.mode != "TF" && a.mode != "IDF" && a.mode != "TFIDF") return invalid("mode '" + a.mode + "'");
  if (a.columns.empty()) return invalid("ngram_indexes is empty");
  auto [low, high] = std::minmax_element(a.columns.begin(), a.columns.end());
  if (*low < 0 || *high >= INT32_MAX) return invalid("ngram_indexes holds " + std::to_string(*low < 0 ? *low : *high));
  if (!a.weights.empty() && static_cast<int64_t>(a.weights.size()) <= *high) return invalid("fewer weights than columns");
  return *high + 1;
}

Result<std::map<std::vector<int64_t>, int64_t>> ngrams_of(const NgramAttrs& a) {
  if (a.min_length < 1 || a.max_length < a.min_length || a.max_skip < 0) return invalid("gram lengths or max_skip_count outside their range");
  std::map<std::vector<int64_t>, int64_t> out;
  size_t gram = 0;
  for (size_t i = 0; i < a.starts.size(); ++i) {
    auto length = static_cast<int64_t>(i) + 1, end = i + 1 < a.starts.size() ? a.starts[i + 1] : static_cast<int64_t>(a.pool.size());
    if (a.starts[i] < 0 || a.starts[i] > end || end > static_cast<int64_t>(a.pool.size()) || (end - a.starts[i]) % length != 0)
      return invalid("ngram_counts does not cut the pool of " + std::to_string(a.pool.size()) + " into " + std::to_string(length) + "-grams");
    for (int64_t at = a.starts[i]; at < end; at += length, ++gram) {
      if (gram >= a.columns.size()) return invalid("more n-grams than ngram_indexes");
      if (length < a.min_length || length > a.max_length) continue;
      if (!out.emplace(std::vector<int64_t>(a.pool.begin() + at, a.pool.begin() + at + length), a.columns[gram]).second)
        return invalid("an n-gram of length " + std::to_string(length) + " is in the pool twice");
    }
  }
  if (static_cast<int64_t>(a.starts.size()) < a.max_length) return invalid("ngram_counts ends before max_gram_length");
  return out;
}

}  // namespace brisk
