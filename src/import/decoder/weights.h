// The weights of a decoder: their roles, shapes, and names in each format; and how an importer's tensors become them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "import/decoder/config.h"
#include "import/decoder/families.h"
#include "import/decoder/problems.h"
#include "tensor/tensor.h"

namespace brisk {

enum class WeightRole : uint8_t {
  kEmbedding, kFinalNorm, kHead,                                    // once
  kAttentionNorm, kQ, kK, kV, kO, kQBias, kKBias, kVBias, kOBias,  // once a layer
  kQNorm, kKNorm, kMlpNorm, kGate, kUp, kDown, kGateBias, kUpBias, kDownBias,
  kCount
};

struct WeightSlot {
  WeightRole role;
  int64_t layer = -1;  // -1: not of a layer
};
// All weights that a decoder of this configuration has, in the order of the computation. No head if it is tied.
std::vector<WeightSlot> weight_slots(const DecoderConfig& c);
// Linear weights [out, in], norms and biases [width].
Dims weight_shape(const DecoderConfig& c, WeightRole role);

enum class WeightFormat : uint8_t { kHf, kGguf };
// "model.layers.3.self_attn.q_proj.weight" or "blk.3.attn_q.weight". Fused families give q, k and v one name, too.
std::string weight_name(WeightFormat format, const Family& family, WeightSlot slot);

// The tensors of a file or folder, as an importer has them.
class TensorStore {
 public:
  virtual ~TensorStore() = default;
  virtual std::vector<std::string> names() const = 0;
  // Of a name from names(): what brisk cannot do with its element type ("type IQ1_S"), or empty.
  virtual std::string unsupported(const std::string& name) const = 0;
  virtual Result<ConstantPtr> load(const std::string& name) const = 0;
};

// Where the builder gets weights from, one slot at a time: a store seen through a family's names and conventions
// (fused tensors taken apart, rows in the order of half-split rotation, norms as they are multiplied).
class DecoderWeights {
 public:
  DecoderWeights(const TensorStore& store, WeightFormat format, const Family& family, const DecoderConfig& config)
      : store_(store), format_(format), family_(family), config_(config) {}

  // Adds element types and tensors that no slot wants to `problems`, and says which tensors are missing (kInvalid).
  // Tensors that only repeat what the configuration says (rotary tables) go to `notes`.
  Status check(Problems& problems, std::vector<std::string>& notes) const;
  // The value's shape is weight_shape(). The error names tensor and shapes.
  Result<ConstantPtr> get(WeightSlot slot) const;
  std::string name(WeightSlot slot) const;  // unique for each slot, for the graph

 private:
  Result<ConstantPtr> load(const std::string& name) const;

  const TensorStore& store_;
  WeightFormat format_;
  const Family& family_;
  const DecoderConfig& config_;
  mutable std::string cached_name_;  // of a fused tensor that is asked for part by part
  mutable ConstantPtr cached_;
};

}  // namespace brisk
