#include "import/decoder/families.h"

namespace brisk {
namespace {

using Bias = Family::Bias;
using Window = Family::Window;

constexpr Family kFamilies[] = {
    {.hf = "llama", .gguf = "llama", .gguf_permuted = true},
    {.hf = "mistral", .gguf = nullptr, .bias = Bias::kNone, .window = Window::kIfGiven, .gguf_permuted = true},
    {.hf = "qwen2", .gguf = "qwen2", .bias = Bias::kQkv, .window = Window::kIfEnabled},
    {.hf = "qwen3", .gguf = "qwen3", .window = Window::kIfEnabled, .qk_norm = true},
    {.hf = "smollm3", .gguf = "smollm3", .window = Window::kIfEnabled, .gguf_permuted = true, .tied_by_default = true,
     .no_rope_every = 4, .default_theta = 2000000},
    {.hf = "phi3", .gguf = "phi3", .bias = Bias::kNone, .window = Window::kIfGiven, .fused = true},
    {.hf = "granite", .gguf = "granite", .gguf_permuted = true, .scales = true},
    {.hf = "gemma", .gguf = "gemma", .tied_by_default = true, .norm_plus_one = true, .root_embedding = true},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* family_of_hf(std::string_view model_type) {
  for (const Family& f : kFamilies)
    if (model_type == f.hf) return &f;
  return nullptr;
}

const Family* family_of_gguf(std::string_view architecture) {
  for (const Family& f : kFamilies)
    if (f.gguf && architecture == f.gguf) return &f;
  return nullptr;
}

std::string supported_families(bool gguf) {
  std::string s;
  for (const Family& f : kFamilies)
    if (const char* name = gguf ? f.gguf : f.hf) s += (s.empty() ? "" : ", ") + std::string(name);
  return s;
}

}  // namespace brisk
