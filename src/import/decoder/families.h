// The family table: one row for each architecture that is built of Llama's parts. Adding a family is adding a row (and
// a name to weights.cpp if its files call a tensor differently).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace brisk {

struct Family {
  const char* hf;    // model_type in config.json
  const char* gguf;  // general.architecture; nullptr: such files say "llama"

  enum class Bias : uint8_t { kNone, kQkv, kConfig };  // q, k, v have one / config.json's attention_bias tells
  Bias bias = Bias::kConfig;
  enum class Window : uint8_t { kNever, kIfGiven, kIfEnabled };  // config.json's sliding_window / also use_sliding_window
  Window window = Window::kNever;

  bool qk_norm = false;          // RMS norm of each head of q and k
  bool gguf_permuted = false;    // GGUF keeps rows of q and k in pairs for interleaved rotation
  bool fused = false;            // files hold q, k, v in one tensor, and gate and up in one
  bool tied_by_default = false;  // config.json without tie_word_embeddings means tied
  bool scales = false;           // embedding, residual, attention and logit multipliers (Granite)
  bool norm_plus_one = false;    // HF stores norm weights less one; GGUF as they are used
  bool root_embedding = false;   // embedding rows times sqrt(hidden)
  int no_rope_every = 0;         // each n-th layer rotates nothing (unless config.json lists them); 0: all rotate
  double default_theta = 10000;  // config.json without rope_theta
};

std::span<const Family> families();
const Family* family_of_hf(std::string_view model_type);
const Family* family_of_gguf(std::string_view architecture);
std::string supported_families(bool gguf);  // "llama, mistral, ..."

}  // namespace brisk
