// What defines a decoder of the Llama family, whatever file it came from.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "brisk/result.h"

namespace brisk {

// Changes to the rotary frequencies theta^(-2i/dim) that let a model see longer texts than it was first trained on.
struct RopeScaling {
  enum class Kind : uint8_t {
    kNone,
    kLinear,   // all divided by `factor` (Chen et al., Position Interpolation, 2023)
    kLlama3,   // long waves divided, short ones kept, a ramp between (Llama 3.1)
    kYarn,     // Peng et al., YaRN, 2023
    kFactors,  // each divided by its own number, which the file lists
  };
  Kind kind = Kind::kNone;
  double factor = 1;
  double original_context = 0;                 // llama3, yarn: positions of the first training
  double low_frequency = 1, high_frequency = 4;  // llama3: bounds of the ramp, in waves per original context
  double beta_fast = 32, beta_slow = 1;        // yarn: bounds of the ramp, in turns per original context
  bool truncate = true;                        // yarn: bounds are rounded outward to whole dimensions
  double magnitude = 0;                        // yarn: of cos and sin; 0: by the paper's formula from `factor`
  std::vector<float> factors;                  // kFactors: dim / 2 divisors
};

enum class Activation : uint8_t { kSilu, kGelu, kGeluTanh };  // of the MLP's gate

struct DecoderConfig {
  std::string family;          // row of the family table
  int64_t layers = 0;
  int64_t hidden = 0;          // width of the residual stream
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t intermediate = 0;    // width of the MLP
  int64_t vocab = 0;           // rows of the embedding
  int64_t max_context = 0;     // positions
  double norm_epsilon = 1e-5;

  double rope_theta = 10000;
  int64_t rope_dim = 0;        // rotated elements of a head; 0: all
  RopeScaling rope_scaling;
  std::vector<bool> no_rope;   // layers that rotate nothing; empty: none

  int64_t window = 0;          // keys that a windowed layer sees; 0: no layer is windowed
  std::vector<bool> windowed;  // which layers are; empty: all, if window > 0

  bool tied_embeddings = false;  // the head is the embedding
  bool qkv_bias = false, o_bias = false, mlp_bias = false;
  bool qk_norm = false;          // RMS norm of each head of q and k, before rotation (Qwen3)
  Activation activation = Activation::kSilu;

  double attention_scale = 0;    // of q.k; 0: 1 / sqrt(head_dim)
  double embedding_scale = 1;    // of the embedding's rows
  double residual_scale = 1;     // of what attention and MLP add to the stream
  double logit_scale = 1;        // of the logits

  int64_t layer_window(int64_t layer) const {
    return windowed.empty() || windowed[static_cast<size_t>(layer)] ? window : 0;
  }
  bool rotated(int64_t layer) const { return no_rope.empty() || !no_rope[static_cast<size_t>(layer)]; }
  int64_t rotary() const { return rope_dim ? rope_dim : head_dim; }
};

// Ranges and divisibility of every field; the error names field, value and range. Importers call it before they loop
// over layers or allocate by any of the numbers. `max_layers` is what the file can hold at most (its tensor count).
Status check_config(const DecoderConfig& c, int64_t max_layers);

// The rotary() / 2 frequencies after scaling, in f32 as the original implementations compute them.
std::vector<float> rope_frequencies(const DecoderConfig& c);
// Factor of cos and sin: 1 but for YaRN, where it is 0.1 ln(factor) + 1 unless given.
float rope_magnitude(const DecoderConfig& c);

}  // namespace brisk
