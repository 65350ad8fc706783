#include "import/decoder/weights.h"

#include <algorithm>
#include <unordered_set>

#include "import/decoder/rows.h"

namespace brisk {
namespace {

// One row for each role: names with {} for the layer, the fused tensor that may hold it, and whether it is a matrix.
struct RoleRow {
  WeightRole role;
  bool per_layer;
  const char *hf, *gguf;
  const char *hf_fused = nullptr, *gguf_fused = nullptr;
};

#define BRISK_ATTENTION "model.layers.{}.self_attn."
#define BRISK_MLP "model.layers.{}.mlp."
constexpr RoleRow kRoles[] = {
    {WeightRole::kEmbedding, false, "model.embed_tokens.weight", "token_embd.weight"},
    {WeightRole::kAttentionNorm, true, "model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"},
    {WeightRole::kQ, true, BRISK_ATTENTION "q_proj.weight", "blk.{}.attn_q.weight", BRISK_ATTENTION "qkv_proj.weight", "blk.{}.attn_qkv.weight"},
    {WeightRole::kK, true, BRISK_ATTENTION "k_proj.weight", "blk.{}.attn_k.weight", BRISK_ATTENTION "qkv_proj.weight", "blk.{}.attn_qkv.weight"},
    {WeightRole::kV, true, BRISK_ATTENTION "v_proj.weight", "blk.{}.attn_v.weight", BRISK_ATTENTION "qkv_proj.weight", "blk.{}.attn_qkv.weight"},
    {WeightRole::kQBias, true, BRISK_ATTENTION "q_proj.bias", "blk.{}.attn_q.bias"},
    {WeightRole::kKBias, true, BRISK_ATTENTION "k_proj.bias", "blk.{}.attn_k.bias"},
    {WeightRole::kVBias, true, BRISK_ATTENTION "v_proj.bias", "blk.{}.attn_v.bias"},
    {WeightRole::kQNorm, true, BRISK_ATTENTION "q_norm.weight", "blk.{}.attn_q_norm.weight"},
    {WeightRole::kKNorm, true, BRISK_ATTENTION "k_norm.weight", "blk.{}.attn_k_norm.weight"},
    {WeightRole::kO, true, BRISK_ATTENTION "o_proj.weight", "blk.{}.attn_output.weight"},
    {WeightRole::kOBias, true, BRISK_ATTENTION "o_proj.bias", "blk.{}.attn_output.bias"},
    {WeightRole::kMlpNorm, true, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {WeightRole::kGate, true, BRISK_MLP "gate_proj.weight", "blk.{}.ffn_gate.weight", BRISK_MLP "gate_up_proj.weight", "blk.{}.ffn_up.weight"},
    {WeightRole::kUp, true, BRISK_MLP "up_proj.weight", "blk.{}.ffn_up.weight", BRISK_MLP "gate_up_proj.weight", "blk.{}.ffn_up.weight"},
    {WeightRole::kGateBias, true, BRISK_MLP "gate_proj.bias", "blk.{}.ffn_gate.bias"},
    {WeightRole::kUpBias, true, BRISK_MLP "up_proj.bias", "blk.{}.ffn_up.bias"},
    {WeightRole::kDown, true, BRISK_MLP "down_proj.weight", "blk.{}.ffn_down.weight"},
    {WeightRole::kDownBias, true, BRISK_MLP "down_proj.bias", "blk.{}.ffn_down.bias"},
    {WeightRole::kFinalNorm, false, "model.norm.weight", "output_norm.weight"},
    {WeightRole::kHead, false, "lm_head.weight", "output.weight"},
};
static_assert(std::size(kRoles) == static_cast<size_t>(WeightRole::kCount));
#undef BRISK_ATTENTION
#undef BRISK_MLP

const RoleRow& row_of(WeightRole role) {
  return *std::find_if(std::begin(kRoles), std::end(kRoles), [&](const RoleRow& r) { return r.role == role; });
}

bool wanted(const DecoderConfig& c, WeightRole role) {
  switch (role) {
    case WeightRole::kHead: return !c.tied_embeddings;
    case WeightRole::kQBias:
    case WeightRole::kKBias:
    case WeightRole::kVBias: return c.qkv_bias;
    case WeightRole::kOBias: return c.o_bias;
    case WeightRole::kGateBias:
    case WeightRole::kUpBias:
    case WeightRole::kDownBias: return c.mlp_bias;
    case WeightRole::kQNorm:
    case WeightRole::kKNorm: return c.qk_norm;
    default: return true;
  }
}

std::string with_layer(const char* pattern, int64_t layer) {
  std::string s = pattern;
  if (auto at = s.find("{}"); at != std::string::npos) s.replace(at, 2, std::to_string(layer));
  return s;
}

const char* fused_pattern(WeightFormat format, const Family& family, const RoleRow& row) {
  if (!family.fused) return nullptr;
  return format == WeightFormat::kHf ? row.hf_fused : row.gguf_fused;
}

// Tensors beside the weights that only repeat the configuration, or that importers read by themselves.
bool redundant(WeightFormat format, const DecoderConfig& c, std::string_view name) {
  if (format == WeightFormat::kGguf) return name == "rope_freqs.weight" || (c.tied_embeddings && name == "output.weight");
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".self_attn.masked_bias") ||
         (c.tied_embeddings && name == "lm_head.weight");
}

struct RowRange {
  int64_t first, total;
};
// Where a role's rows lie inside the fused tensor: q, k, v one after the other; gate before up.
RowRange fused_rows(const DecoderConfig& c, WeightRole role) {
  int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  switch (role) {
    case WeightRole::kK: return {q, q + 2 * kv};
    case WeightRole::kV: return {q + kv, q + 2 * kv};
    case WeightRole::kGate: return {0, 2 * c.intermediate};
    case WeightRole::kUp: return {c.intermediate, 2 * c.intermediate};
    default: return {0, q + 2 * kv};
  }
}

bool is_norm(WeightRole role) {
  return role == WeightRole::kAttentionNorm || role == WeightRole::kMlpNorm || role == WeightRole::kFinalNorm ||
         role == WeightRole::kQNorm || role == WeightRole::kKNorm;
}

}  // namespace

std::vector<WeightSlot> weight_slots(const DecoderConfig& c) {
  std::vector<WeightSlot> slots;
  auto add = [&](bool per_layer, int64_t layer, bool after) {
    for (const RoleRow& row : kRoles) {
      bool tail = row.role == WeightRole::kFinalNorm || row.role == WeightRole::kHead;
      if (row.per_layer == per_layer && (per_layer || tail == after) && wanted(c, row.role)) slots.push_back({row.role, layer});
    }
  };
  add(false, -1, false);
  for (int64_t i = 0; i < c.layers; ++i) add(true, i, false);
  add(false, -1, true);
  return slots;
}

Dims weight_shape(const DecoderConfig& c, WeightRole role) {
  int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  switch (role) {
    case WeightRole::kEmbedding:
    case WeightRole::kHead: return {c.vocab, c.hidden};
    case WeightRole::kQ: return {q, c.hidden};
    case WeightRole::kK:
    case WeightRole::kV: return {kv, c.hidden};
    case WeightRole::kO: return {c.hidden, q};
    case WeightRole::kGate:
    case WeightRole::kUp: return {c.intermediate, c.hidden};
    case WeightRole::kDown: return {c.hidden, c.intermediate};
    case WeightRole::kQBias: return {q};
    case WeightRole::kKBias:
    case WeightRole::kVBias: return {kv};
    case WeightRole::kGateBias:
    case WeightRole::kUpBias: return {c.intermediate};
    case WeightRole::kQNorm:
    case WeightRole::kKNorm: return {c.head_dim};
    default: return {c.hidden};
  }
}

std::string weight_name(WeightFormat format, const Family& family, WeightSlot slot) {
  const RoleRow& row = row_of(slot.role);
  if (const char* fused = fused_pattern(format, family, row)) return with_layer(fused, slot.layer);
  return with_layer(format == WeightFormat::kHf ? row.hf : row.gguf, slot.layer);
}

std::string DecoderWeights::name(WeightSlot slot) const {
  const RoleRow& row = row_of(slot.role);
  return with_layer(format_ == WeightFormat::kHf ? row.hf : row.gguf, slot.layer);
}

Status DecoderWeights::check(Problems& problems, std::vector<std::string>& notes) const {
  auto names = store_.names();
  std::unordered_set<std::string> present(names.begin(), names.end()), used;
  std::string missing;
  size_t missing_count = 0;
  for (WeightSlot slot : weight_slots(config_)) {
    std::string name = weight_name(format_, family_, slot);
    if (!used.insert(name).second || present.contains(name)) continue;
    if (++missing_count <= 100) missing += (missing.empty() ? "" : ", ") + name;
  }
  for (const std::string& name : names) {
    if (used.contains(name)) {
      if (auto why = store_.unsupported(name); !why.empty()) problems.add("tensor '" + name + "': " + why);
    } else if (redundant(format_, config_, name)) {
      notes.push_back("tensor '" + name + "' repeats what the configuration says");
    } else {
      problems.add("tensor '" + name + "': the " + config_.family + " family has no such weight");
    }
  }
  // What is not supported explains what is missing (an expert model lacks the plain MLP), so it is told first.
  if (missing_count && problems.empty())
    return invalid(std::to_string(missing_count) + " tensors are missing: " + missing + (missing_count > 100 ? ", ..." : ""));
  return {};
}

Result<ConstantPtr> DecoderWeights::load(const std::string& name) const {
  if (name == cached_name_ && cached_) return cached_;
  BRISK_ASSIGN(auto c, store_.load(name));
  if (family_.fused) cached_name_ = name, cached_ = c;
  return c;
}

Result<ConstantPtr> DecoderWeights::get(WeightSlot slot) const {
  std::string file_name = weight_name(format_, family_, slot);
  BRISK_ASSIGN(ConstantPtr c, load(file_name));
  Dims shape = weight_shape(config_, slot.role), stored = shape;
  bool fused = fused_pattern(format_, family_, row_of(slot.role)) != nullptr;
  RowRange range = fused_rows(config_, slot.role);
  if (fused) stored[0] = range.total;
  if (!(c->shape == stored))
    return invalid("tensor '" + file_name + "' has shape " + to_string(c->shape) + ", the configuration wants " + to_string(stored));
  if (fused) c = slice_rows(c, range.first, shape[0]);
  bool q = slot.role == WeightRole::kQ || slot.role == WeightRole::kQBias;
  bool k = slot.role == WeightRole::kK || slot.role == WeightRole::kKBias;
  if (format_ == WeightFormat::kGguf && family_.gguf_permuted && (q || k))
    c = half_split_rows(c, q ? config_.heads : config_.kv_heads, config_.head_dim);
  if (shape.rank > 1) return c;
  c = as_f32(c);
  if (!(is_norm(slot.role) && format_ == WeightFormat::kHf && family_.norm_plus_one)) return c;
  auto values = to_floats(*c);
  for (float& v : values) v += 1;
  return make_constant(DType::kF32, c->shape, values);
}

}  // namespace brisk
