#include <algorithm>
#include <cmath>
#include <map>

#include "quantize/quantize.h"

namespace brisk {
namespace {

struct NameRow { Precision p; std::string_view name; };
constexpr NameRow kNames[] = {{Precision::kFp32, "fp32"}, {Precision::kFp16, "fp16"}, {Precision::kBf16, "bf16"},
                              {Precision::kInt8, "int8"}, {Precision::kInt8w, "int8w"}, {Precision::kInt4w, "int4w"}};

// What kernels read as it is: signed 8-bit codes, a scale per row or an f16 one per 32 or 64; 4-bit codes in groups of 32,
// 64 or 128 with f16 scales. Wider scales of such groups can be rounded.
enum class Fit { kNo, kAsIs, kRounded };
Fit fit(const Encoding& e, int bits) {
  if (e.bits != bits) return Fit::kNo;
  if (bits == 8 && (e.offset != Encoding::Offset::kNone || e.code_dtype != DType::kI8)) return Fit::kNo;
  if (bits == 8 && e.group == 0) return Fit::kAsIs;
  bool group = bits == 8 ? e.group == 32 || e.group == 64 : e.group == 32 || e.group == 64 || e.group == 128;
  return !group ? Fit::kNo : e.scale_dtype == DType::kF16 ? Fit::kAsIs : Fit::kRounded;
}

// The largest of 128, 64, 32 not above `wanted` that divides K; 0 if none does.
int64_t fitting_group(int64_t k, int64_t wanted) {
  for (int64_t g : {128, 64, 32})
    if (g <= wanted && k % g == 0) return g;
  return 0;
}

// The int8 group of a weight: a file's blocks of at most 32 have ranges of their own, which groups of 64 would lose.
int64_t int8_group(const Constant& c) {
  bool small = !c.encoding.plain() && c.encoding.group > 0 && c.encoding.group <= 32;
  return fitting_group(c.shape[c.shape.rank - 1], small ? 32 : kInt8Group);
}

// The weight's own blocks in a form that kernels read, if they are of `bits` bits; nullptr if they are not.
ConstantPtr own_blocks(const ConstantPtr& c, int bits) {
  switch (fit(c->encoding, bits)) {
    case Fit::kNo: return nullptr;
    case Fit::kAsIs: return c;
    case Fit::kRounded: return half_scales(*c);
  }
  return nullptr;
}

ConstantPtr encode_weight(const ConstantPtr& c, Precision p, bool embedding) {
  int64_t k = c->shape[c->shape.rank - 1];
  switch (p) {
    case Precision::kFp32: return convert_float(*c, DType::kF32);
    case Precision::kFp16: return convert_float(*c, DType::kF16);
    case Precision::kBf16: return convert_float(*c, DType::kBF16);
    case Precision::kInt8:
    case Precision::kInt8w:
      if (auto own = own_blocks(c, 8)) return own;
      return quantize_int8(*c, int8_group(*c));
    case Precision::kInt4w:
      if (auto own = own_blocks(c, 4)) return own;
      // Embedding and head stay at 8 bits; K that no group divides does too.
      if (!embedding && fitting_group(k, kInt4Group) != 0) return quantize_int4(*c, kInt4Group);
      if (auto own = own_blocks(c, 8)) return own;
      return quantize_int8(*c, int8_group(*c));
  }
  return c;
}

double sqnr_db(const Constant& before, const Constant& after) {
  int64_t k = before.shape[before.shape.rank - 1], n = k ? before.count() / k : 0;
  std::vector<float> x(static_cast<size_t>(k)), y(static_cast<size_t>(k));
  double signal = 0, noise = 0;
  for (int64_t r = 0; r < n; ++r) {
    dequantize_rows(before, r, 1, x.data());
    dequantize_rows(after, r, 1, y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      double d = static_cast<double>(x[i]) - y[i];
      signal += static_cast<double>(x[i]) * x[i];
      noise += d * d;
    }
  }
  if (!std::isfinite(signal)) return NAN;
  return noise == 0 ? INFINITY : 10 * std::log10(signal / noise);
}

bool matches(const std::string& pattern, const std::string& name) {
  if (!pattern.empty() && pattern.back() == '*') return name.compare(0, pattern.size() - 1, pattern, 0, pattern.size() - 1) == 0;
  return pattern == name;
}

// Into groups of 4 bits, by rounding: what calibration can do better.
bool rounds_to_int4(const Constant& c, const Treatment& t) {
  return c.shape.rank == 2 && t.precision == Precision::kInt4w && !t.ends && fit(c.encoding, 4) == Fit::kNo &&
         fitting_group(c.shape[c.shape.rank - 1], kInt4Group) != 0;
}

// The weight of a product; kNoValue for other nodes.
ValueId product_weight(const Node& n) {
  return n.op == OpId::kLinear ? n.inputs[1] : n.op == OpId::kExpertLinear ? n.inputs[2] : kNoValue;
}

}  // namespace

std::map<ValueId, Treatment> treatments(const Graph& g, const QuantizeOptions& options) {
  // A weight that an Embedding reads, or a tied head, is one constant: it must get one encoding.
  std::map<ValueId, Treatment> weights;
  ValueId head = kNoValue;
  for (const Node& n : g.nodes) {
    if (n.op == OpId::kEmbedding && g.constant(n.inputs[0])) weights[n.inputs[0]].ends = true;
    ValueId w = product_weight(n);
    if (!g.constant(w)) continue;
    weights.emplace(w, Treatment{});
    if (n.op == OpId::kLinear) head = w;
  }
  if (head >= 0 && g.states.size() > 0) weights[head].ends = true;  // a decoder's last Linear makes the logits
  for (auto& [v, t] : weights) {
    t.precision = options.precision;
    for (auto& [pattern, kept] : options.keep)
      if (matches(pattern, g.value(v).name)) t.precision = kept;
    t.rounded_to_int4 = rounds_to_int4(*g.constant(v), t);
  }
  return weights;
}

std::string_view precision_name(Precision p) {
  for (auto& row : kNames)
    if (row.p == p) return row.name;
  return "?";
}

Result<Precision> precision_from_name(std::string_view name) {
  std::string all;
  for (auto& row : kNames) {
    if (row.name == name) return row.p;
    all += (all.empty() ? "" : ", ") + std::string(row.name);
  }
  return invalid("precision '" + std::string(name) + "' is not one of " + all);
}

Result<std::vector<WeightReport>> apply_precision(Graph& g, const QuantizeOptions& options) {
  auto weights = treatments(g, options);
  for (auto& [pattern, kept] : options.keep)
    if (std::ranges::none_of(weights, [&](auto& w) { return matches(pattern, g.value(w.first).name); }))
      return invalid("keep: no weight is named '" + pattern + "'; `brisk inspect` lists the names");
  std::vector<WeightReport> report;
  std::map<const Constant*, ConstantPtr> done = options.encoded;
  std::set<const Constant*> reported;
  for (auto& [v, t] : weights) {
    ConstantPtr before = g.value(v).constant;
    auto known = done.find(before.get());
    if (known == done.end()) known = done.emplace(before.get(), encode_weight(before, t.precision, t.ends)).first;
    const ConstantPtr& after = known->second;
    if (reported.insert(before.get()).second) {
      double kept = after == before ? INFINITY : sqnr_db(*before, *after);
      // Codes have no way to say so, and the model would answer as if nothing were wrong.
      if (std::isnan(kept) && !after->encoding.plain())
        return invalid("weight '" + g.value(v).name + "' holds values that are not finite; " + to_string(after->encoding) + " cannot keep them");
      report.push_back({g.value(v).name, after->encoding.plain() ? std::string(dtype_name(after->dtype)) : to_string(after->encoding), kept, before->count()});
    }
    g.value(v).constant = after;
    g.value(v).type.dtype = after->dtype;
  }
  for (Node& n : g.nodes) {
    auto treated = weights.find(product_weight(n));
    if (treated == weights.end()) continue;
    const Treatment& t = treated->second;
    bool integer = t.precision == Precision::kInt8 || t.precision == Precision::kInt4w;
    auto& attrs = std::get<LinearAttrs>(n.attrs);
    attrs.act_group = integer ? kActivationGroup : 0;
    // What the head's activations lose goes straight into the logits: half of all the loss on SmolLM2 in int8, a quarter
    // in bf16.
    attrs.act_terms = t.ends && (integer || t.precision == Precision::kBf16) ? 2 : 1;
  }
  for (StateSpec& s : g.states)
    if (s.kind == StateSpec::Kind::kPagedKv) {
      // bf16 costs nothing measurable in perplexity and has dot instructions where fp16 has none
      s.dtype = options.precision == Precision::kFp32 ? DType::kF32 : options.precision == Precision::kFp16 ? DType::kF16 : DType::kBF16;
      g.value(s.value).type.dtype = s.dtype;
    }
  return report;
}

}  // namespace brisk
