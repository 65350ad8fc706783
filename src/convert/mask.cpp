// Masks: from elements at chosen sizes to a predicate over query and key position.
#include <algorithm>
#include <cmath>

#include "convert/predicate.h"

namespace brisk::convert {
namespace {

constexpr double kMaskedBelow = -9999;     // exporters write -inf, the lowest number of a type, -1e9 or -10000
constexpr int64_t kMostWithPast = 1 << 20;  // positions examined: behind a past, a mask is a few rows
constexpr int64_t kMostWithout = 4096;      // without one it is a square

// Sizes that show a mask's form: small ones, and both sides of each number it is made of.
std::vector<Sizes> examined(const Geometry& geometry, ValueId mask, int64_t limit) {
  std::vector<Sizes> out = {{2, 1, 0}, {2, 2, 0}, {2, 9, 0}, {1, 23, 0}};
  bool past = geometry.has_past();
  if (past)
    for (Sizes s : {Sizes{2, 1, 1}, Sizes{2, 4, 5}, Sizes{1, 7, 12}, Sizes{1, 2, 40}}) out.push_back(s);
  for (int64_t n : mask < 0 ? std::set<int64_t>() : geometry.numbers(mask, past ? kMostWithPast : kMostWithout)) {
    if (past) out.push_back({1, 6, std::max<int64_t>(0, n - 3)});
    else out.push_back({1, n + 3, 0});
  }
  std::erase_if(out, [&](const Sizes& s) { return s.tokens + s.past > limit; });
  return out;
}

// One Attention node's mask at given sizes.
class Sample {
 public:
  static Result<Sample> take(Geometry& geometry, const Graph& g, const Node& n, Sizes s) {
    Sample x;
    x.sizes_ = s;
    if (!geometry.has_past()) x.sizes_.past = 0;
    x.a_ = std::get<SdpaAttrs>(n.attrs);
    auto operand = [&](size_t i) { return i < n.inputs.size() ? n.inputs[i] : kNoValue; };
    if (ValueId valid = operand(6); valid >= 0) {
      BRISK_ASSIGN(ConstantPtr lengths, geometry.at(valid, s));
      for (int64_t v : to_ints(lengths->view()))
        if (v != x.keys()) return unsupported("its rows hold " + std::to_string(v) + " keys of " + std::to_string(x.keys()));
      x.own_ = x.sizes_.past;
    }
    if (operand(4) >= 0) x.own_ = x.sizes_.past;
    if (ValueId mask = operand(3); mask >= 0) {
      BRISK_ASSIGN(x.mask_, geometry.at(mask, s));
      const Dims& d = x.mask_->shape;
      for (int i = 0; i < d.rank; ++i) x.shape_[4 - d.rank + i] = d[i];
      if (d.rank > 4 || (x.shape_[3] != 1 && x.shape_[3] < x.keys()) || (x.shape_[2] != 1 && x.shape_[2] != s.tokens))
        return unsupported("its mask is " + to_string(d) + " for " + std::to_string(s.tokens) + " queries over " + std::to_string(x.keys()) + " keys");
    }
    return x;
  }

  int64_t keys() const { return sizes_.past + sizes_.tokens; }
  int64_t queries() const { return sizes_.tokens; }
  int64_t past() const { return sizes_.past; }
  int64_t batches() const { return shape_[0]; }
  int64_t heads() const { return shape_[1]; }
  bool slanted() const { return mask_ && mask_->dtype != DType::kBool; }

  double added(int64_t b, int64_t h, int64_t i, int64_t j) const {
    int64_t own = own_ + i;
    if ((a_.causal && j > own) || (a_.left_window >= 0 && own - j > a_.left_window) || (a_.right_window >= 0 && j - own > a_.right_window))
      return -INFINITY;
    if (!mask_) return 0;
    const int64_t at[4] = {b, h, i, j};
    int64_t index = 0;
    for (int k = 0; k < 4; ++k) index = index * shape_[k] + (shape_[k] == 1 ? 0 : at[k]);
    if (mask_->dtype == DType::kBool) return mask_->as<uint8_t>()[index] ? 0 : -INFINITY;
    return static_cast<double>(load_float(mask_->data.bytes.data(), mask_->dtype, index));
  }
  bool sees(int64_t b, int64_t h, int64_t i, int64_t j) const { return added(b, h, i, j) > kMaskedBelow; }

 private:
  Sizes sizes_;
  SdpaAttrs a_;
  ConstantPtr mask_;
  int64_t shape_[4] = {1, 1, 1, 1};
  int64_t own_ = 0;  // place of query 0 among the keys, as causality and windows of the attributes count it
};

// Collects what samples show of one predicate.
class Form {
 public:
  Status add(const Sample& s) {
    for (int64_t b = 0; b < s.batches(); ++b)
      for (int64_t h = 0; h < s.heads(); ++h)
        for (int64_t i = 0; i < s.queries(); ++i) {
          BRISK_TRY(row(s, b, h, i));
          if (s.slanted()) BRISK_TRY(slope(s, b, h, i));
        }
    return {};
  }
  Result<Visibility> finish() {
    if (window_ > 0 && unbounded_ > window_) return unsupported("a query sees " + std::to_string(unbounded_) + " keys, another only " + std::to_string(window_));
    Visibility v;
    v.window = window_;
    if (std::any_of(slopes_.begin(), slopes_.end(), [](auto& s) { return s.value_or(0) != 0; }))
      for (auto& s : slopes_) v.slopes.push_back(static_cast<float>(s.value_or(0)));
    return v;
  }

 private:
  static std::string place(int64_t query, int64_t key) { return "the query at position " + std::to_string(query) + ", the key at " + std::to_string(key); }

  Status row(const Sample& s, int64_t b, int64_t h, int64_t i) {
    int64_t own = s.past() + i, first = own;
    for (int64_t j = own + 1; j < s.keys(); ++j)
      if (s.sees(b, h, i, j)) return unsupported("it is not causal: " + place(own, j) + " is seen");
    if (!s.sees(b, h, i, own)) return unsupported("a query does not see its own key: " + place(own, own));
    while (first > 0 && s.sees(b, h, i, first - 1)) --first;
    for (int64_t j = 0; j + 1 < first; ++j)
      if (s.sees(b, h, i, j)) return unsupported("keys are left out in between: " + place(own, j) + " is seen, the one at " + std::to_string(first - 1) + " is not");
    int64_t seen = own - first + 1;
    if (first == 0) unbounded_ = std::max(unbounded_, seen);
    else if (window_ == 0) window_ = seen;
    else if (window_ != seen) return unsupported("windows of " + std::to_string(window_) + " and " + std::to_string(seen) + " keys");
    return {};
  }

  Status slope(const Sample& s, int64_t b, int64_t h, int64_t i) {
    if (slopes_.size() < static_cast<size_t>(s.heads())) slopes_.resize(static_cast<size_t>(s.heads()));
    int64_t own = s.past() + i;
    if (own == 0) return {};
    double base = s.added(b, h, i, own);
    auto& known = slopes_[static_cast<size_t>(h)];
    for (int64_t j = own - 1; j >= 0 && s.sees(b, h, i, j); --j) {
      double more = s.added(b, h, i, j) - base;
      if (!known) known = more / static_cast<double>(j - own);
      if (double want = *known * static_cast<double>(j - own); std::abs(more - want) > 1e-5 * (std::abs(base) + std::abs(want) + 1))
        return unsupported("scores get a bias that is not linear in the distance: " + place(own, j));
    }
    return {};
  }

  int64_t window_ = 0, unbounded_ = 0;
  std::vector<std::optional<double>> slopes_;
};

}  // namespace

Result<Visibility> visibility(Geometry& geometry, const Graph& g, const Node& n, int64_t& limit) {
  ValueId mask = n.inputs.size() > 3 ? n.inputs[3] : kNoValue;
  for (size_t i : {3, 6, 7})
    if (i < n.inputs.size() && !geometry.has(n.inputs[i])) return unsupported("its mask '" + g.value(n.inputs[i]).name + "' depends on what the tokens are");
  Form form;
  for (Sizes s : examined(geometry, mask, limit)) {
    BRISK_ASSIGN(Sample sample, Sample::take(geometry, g, n, s));
    BRISK_TRY(form.add(sample));
  }
  if (!geometry.has_past() && mask >= 0) {
    auto all = geometry.numbers(mask, kMostWithPast);
    if (!all.empty() && *all.rbegin() > kMostWithout) limit = std::min(limit, kMostWithout);
  }
  return form.finish();
}

}  // namespace brisk::convert
