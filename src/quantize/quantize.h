// Weights in the precision that was asked for. Works on graphs as importers give them, before fusion: rows stay rows.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace brisk {

enum class Precision { kFp32, kFp16, kBf16, kInt8, kInt8w, kInt4w };
std::string_view precision_name(Precision p);
Result<Precision> precision_from_name(std::string_view name);  // the error lists the names

// Elements of K that share an activation scale in int8 and int4w builds: one scale a token cost SmolLM2 2.8 % of
// perplexity, groups of 64 cost 0.1 %.
inline constexpr int64_t kActivationGroup = 64;

// Elements of K that share the scale of an int8 weight: whole rows cost SmolLM2 0.6 % of perplexity more than groups of 64,
// groups of 32 nothing less; and 64 are those of an activation's scale, so that a product is scaled once for both. Weights
// that come in blocks of at most 32 get groups of 32.
inline constexpr int64_t kInt8Group = 64;
inline constexpr int64_t kInt4Group = 32;  // elements of K that share the scale of 4-bit codes

struct QuantizeOptions {
  Precision precision = Precision::kBf16;
  std::map<std::string, Precision> keep;  // value or node name (exact, or prefix ending in '*') -> precision
  std::map<const Constant*, ConstantPtr> encoded;  // weights that calibration has encoded already
};

// What is to become of a weight.
struct Treatment {
  Precision precision = Precision::kBf16;
  bool ends = false;             // embedding or head: more sensitive than the rest
  bool rounded_to_int4 = false;  // no blocks of its own that could stay: calibration has something to do
};
// The weights of Linear, ExpertLinear and Embedding nodes.
std::map<ValueId, Treatment> treatments(const Graph& g, const QuantizeOptions& options);

// One row a weight: what it became and what that cost. sqnr_db is infinite where nothing was lost.
struct WeightReport {
  std::string name;
  std::string encoding;
  double sqnr_db = 0;
  int64_t elements = 0;
};

// Rewrites the weights of those nodes and sets the activation treatment of Linear and ExpertLinear. Blocks that a file
// brought along are kept where the precision can hold them (4-bit blocks in int4w, 8-bit groups of 32 or 64 in int8 and int8w;
// two-level scales, which importers give as f32, are rounded to f16). Others are quantised again.
Result<std::vector<WeightReport>> apply_precision(Graph& g, const QuantizeOptions& options);

// The encodings themselves (row-major [N, K] weights).
ConstantPtr quantize_int8(const Constant& c, int64_t group);  // symmetric, scale = max|w| / 127; group 0: whole rows
ConstantPtr quantize_int4(const Constant& c, int64_t group);  // codes 0..15, scale and minimum per group
ConstantPtr half_scales(const Constant& c);  // same codes, scales and minimums in f16; nullptr where f16 cannot hold them
ConstantPtr convert_float(const Constant& c, DType to);       // f32, f16 or bf16, from any encoding

}  // namespace brisk
