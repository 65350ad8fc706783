#include "import/decoder/builder.h"

#include <cmath>

#include "ir/step_frame.h"

namespace brisk {
namespace {

class StepBuilder {
 public:
  StepBuilder(const DecoderConfig& c, const DecoderWeights& w) : c_(c), w_(w) {}

  Result<Graph> build() {
    BRISK_ASSIGN(frame_, begin_step(g_, c_.vocab));
    BRISK_ASSIGN(embedding_, weight({WeightRole::kEmbedding}));
    BRISK_ASSIGN(ValueId x, g_.add(OpId::kEmbedding, NoAttrs{}, {embedding_, frame_.ids}, "embedding"));
    BRISK_ASSIGN(x, scaled(x, c_.embedding_scale, "embedding.scaled"));
    frequencies_ = constant("rope.frequencies", rope_frequencies(c_));
    for (int64_t i = 0; i < c_.layers; ++i) {
      BRISK_ASSIGN(x, attention(x, i));
      BRISK_ASSIGN(x, mlp(x, i));
    }
    BRISK_TRY(finish(x));
    return std::move(g_);
  }

 private:
  ValueId constant(std::string name, const std::vector<float>& v) {
    return g_.add_constant(std::move(name), make_constant(DType::kF32, {static_cast<int64_t>(v.size())}, v));
  }

  Result<ValueId> weight(WeightSlot slot) {
    BRISK_ASSIGN(auto c, w_.get(slot));
    return g_.add_constant(w_.name(slot), std::move(c));
  }

  // x * factor; x itself if the factor is 1.
  Result<ValueId> scaled(ValueId x, double factor, const std::string& name) {
    if (factor == 1) return x;
    ValueId f = constant(name + ".factor", {static_cast<float>(factor)});
    return g_.add(OpId::kMul, NoAttrs{}, {x, f}, name);
  }

  Result<ValueId> norm(ValueId x, WeightSlot slot, const std::string& name) {
    BRISK_ASSIGN(ValueId w, weight(slot));
    return g_.add(OpId::kRmsNorm, NormAttrs{.epsilon = static_cast<float>(c_.norm_epsilon)}, {x, w}, name);
  }

  Result<ValueId> linear(ValueId x, WeightSlot slot, bool has_bias, WeightRole bias, const std::string& name) {
    BRISK_ASSIGN(ValueId w, weight(slot));
    std::vector<ValueId> in = {x, w};
    if (has_bias) {
      BRISK_ASSIGN(ValueId b, weight({bias, slot.layer}));
      in.push_back(b);
    }
    return g_.add(OpId::kLinear, LinearAttrs{}, std::move(in), name);
  }

  // The RMS norm of each head alone: [T, heads * d] seen as [T, heads, d].
  Result<ValueId> head_norm(ValueId x, WeightSlot slot, int64_t heads, const std::string& name) {
    auto shape = [&](const char* suffix, std::vector<int64_t> v) {
      return g_.add_constant(name + suffix, make_constant(DType::kI64, {static_cast<int64_t>(v.size())}, v));
    };
    ValueId split = shape(".split_shape", {-1, heads, c_.head_dim}), joined = shape(".shape", {-1, heads * c_.head_dim});
    BRISK_ASSIGN(ValueId y, g_.add(OpId::kReshape, NoAttrs{}, {x, split}, name + ".split"));
    BRISK_ASSIGN(y, norm(y, slot, name + ".heads"));
    return g_.add(OpId::kReshape, NoAttrs{}, {y, joined}, name);
  }

  Result<ValueId> rotate(ValueId x, int64_t layer, const std::string& name) {
    if (!c_.rotated(layer)) return x;
    RopeAttrs a{.head_dim = c_.head_dim, .dim = c_.rotary(), .interleaved = false, .magnitude = rope_magnitude(c_)};
    return g_.add(OpId::kRope, a, {x, frame_.positions, frequencies_}, name);
  }

  Result<ValueId> attention(ValueId x, int64_t i) {
    std::string p = "layers." + std::to_string(i) + ".attention";
    BRISK_ASSIGN(ValueId n, norm(x, {WeightRole::kAttentionNorm, i}, p + ".norm"));
    BRISK_ASSIGN(ValueId q, linear(n, {WeightRole::kQ, i}, c_.qkv_bias, WeightRole::kQBias, p + ".q"));
    BRISK_ASSIGN(ValueId k, linear(n, {WeightRole::kK, i}, c_.qkv_bias, WeightRole::kKBias, p + ".k"));
    BRISK_ASSIGN(ValueId v, linear(n, {WeightRole::kV, i}, c_.qkv_bias, WeightRole::kVBias, p + ".v"));
    if (c_.qk_norm) {
      BRISK_ASSIGN(q, head_norm(q, {WeightRole::kQNorm, i}, c_.heads, p + ".q_norm"));
      BRISK_ASSIGN(k, head_norm(k, {WeightRole::kKNorm, i}, c_.kv_heads, p + ".k_norm"));
    }
    BRISK_ASSIGN(q, rotate(q, i, p + ".q_rope"));
    BRISK_ASSIGN(k, rotate(k, i, p + ".k_rope"));
    AttentionAttrs a{.heads = c_.heads, .kv_heads = c_.kv_heads, .head_dim = c_.head_dim};
    a.scale = static_cast<float>(c_.attention_scale ? c_.attention_scale : 1 / std::sqrt(static_cast<double>(c_.head_dim)));
    a.window = c_.layer_window(i);
    BRISK_ASSIGN(ValueId y, g_.add(OpId::kPagedAttention, a,
                                   {q, k, v, add_kv_state(g_, i, c_.kv_heads, c_.head_dim), frame_.positions,
                                    frame_.seq_starts, frame_.context_lens, frame_.block_tables}, p));
    BRISK_ASSIGN(y, linear(y, {WeightRole::kO, i}, c_.o_bias, WeightRole::kOBias, p + ".o"));
    BRISK_ASSIGN(y, scaled(y, c_.residual_scale, p + ".scaled"));
    return g_.add(OpId::kAdd, NoAttrs{}, {x, y}, p + ".residual");
  }

  Result<ValueId> activate(ValueId x, const std::string& name) {
    if (c_.activation == Activation::kSilu) return g_.add(OpId::kSilu, NoAttrs{}, {x}, name);
    AlphaBetaAttrs a{.alpha = c_.activation == Activation::kGeluTanh ? 1.0f : 0.0f};
    return g_.add(OpId::kGelu, a, {x}, name);
  }

  Result<ValueId> mlp(ValueId x, int64_t i) {
    std::string p = "layers." + std::to_string(i) + ".mlp";
    BRISK_ASSIGN(ValueId n, norm(x, {WeightRole::kMlpNorm, i}, p + ".norm"));
    BRISK_ASSIGN(ValueId gate, linear(n, {WeightRole::kGate, i}, c_.mlp_bias, WeightRole::kGateBias, p + ".gate"));
    BRISK_ASSIGN(ValueId up, linear(n, {WeightRole::kUp, i}, c_.mlp_bias, WeightRole::kUpBias, p + ".up"));
    BRISK_ASSIGN(gate, activate(gate, p + ".activation"));
    BRISK_ASSIGN(ValueId y, g_.add(OpId::kMul, NoAttrs{}, {gate, up}, p + ".gated"));
    BRISK_ASSIGN(y, linear(y, {WeightRole::kDown, i}, c_.mlp_bias, WeightRole::kDownBias, p + ".down"));
    BRISK_ASSIGN(y, scaled(y, c_.residual_scale, p + ".scaled"));
    return g_.add(OpId::kAdd, NoAttrs{}, {x, y}, p + ".residual");
  }

  Status finish(ValueId x) {
    BRISK_ASSIGN(x, norm(x, {WeightRole::kFinalNorm}, "final_norm"));
    ValueId head = embedding_;
    if (!c_.tied_embeddings) {
      BRISK_ASSIGN(head, weight({WeightRole::kHead}));
    }
    BRISK_ASSIGN(x, g_.add(OpId::kLinear, LinearAttrs{}, {x, head}, "head"));
    BRISK_ASSIGN(x, scaled(x, c_.logit_scale, "head.scaled"));
    return end_step(g_, frame_, x);
  }

  const DecoderConfig& c_;
  const DecoderWeights& w_;
  Graph g_;
  StepFrame frame_;
  ValueId embedding_{}, frequencies_{};
};

}  // namespace

Result<Graph> build_step(const DecoderConfig& config, const DecoderWeights& weights) {
  return StepBuilder(config, weights).build();
}

Status build_model(Model& model, const DecoderConfig& config, const Family& family, WeightFormat format,
                   const TensorStore& store, Problems& problems, const std::string& where) {
  DecoderWeights weights(store, format, family, config);
  if (auto s = weights.check(problems, model.notes); !s.ok()) return std::move(s).error().in(where);
  if (!problems.empty()) return problems.error(where);
  auto step = build_step(config, weights);
  if (!step.ok()) return std::move(step).error().in(where);
  if (auto s = verify(*step, "import"); !s.ok()) return s;
  model.functions.emplace("step", std::move(step).value());
  model.max_context = config.max_context;
  model.metadata["architecture"] = config.family;
  return {};
}

}  // namespace brisk
