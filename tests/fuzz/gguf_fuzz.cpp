#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "import/gguf/gguf_file.h"
#include "import/gguf/import.h"
#include "unit/model_files.h"

namespace brisk::fuzz {
namespace {

using test::raw;

// A Llama of one layer: hidden 32, 2 heads, MLP 32, 8 tokens. Linear weights are blocks of `type`, `block` bytes each.
std::string tiny(uint32_t type, size_t block) {
  test::GgufWriter g;
  g.add_text("general.architecture", "llama");
  for (const char* key : {"block_count", "attention.head_count_kv"}) g.add_u32("llama." + std::string(key), 1);
  for (const char* key : {"embedding_length", "feed_forward_length", "context_length"}) g.add_u32("llama." + std::string(key), 32);
  g.add_u32("llama.attention.head_count", 2), g.add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  g.add_text("llama.rope.scaling.type", "yarn"), g.add_f32("llama.rope.scaling.factor", 2);
  g.add_text("tokenizer.ggml.model", "gpt2"), g.add_text("tokenizer.ggml.pre", "smollm");
  g.add_texts("tokenizer.ggml.tokens", {"a", "b", "ab", "<|im_end|>", "c", "abc"}), g.add_texts("tokenizer.ggml.merges", {"a b", "ab c"});
  std::string types = raw<uint32_t>(5) + raw<uint64_t>(6);
  for (int i = 0; i < 6; ++i) types += raw<int32_t>(i == 3 ? 3 : 1);
  g.add("tokenizer.ggml.token_type", 9, types), g.add_u32("tokenizer.ggml.eos_token_id", 3);
  auto linear = [&](const std::string& name, uint64_t rows) { g.tensor(name, {rows, 32}, type, std::string(rows * block, '\2')); };
  auto norm = [&](const std::string& name) { g.tensor(name, {32}, 0, std::string(128, '\0')); };
  linear("token_embd.weight", 8), norm("output_norm.weight"), norm("blk.0.attn_norm.weight"), norm("blk.0.ffn_norm.weight");
  linear("blk.0.attn_q.weight", 32), linear("blk.0.attn_k.weight", 16), linear("blk.0.attn_v.weight", 16);
  linear("blk.0.attn_output.weight", 32), linear("blk.0.ffn_gate.weight", 32), linear("blk.0.ffn_up.weight", 32), linear("blk.0.ffn_down.weight", 32);
  return g.build();
}

}  // namespace

std::vector<std::string> seeds() {
  test::GgufWriter blocks;  // no model, but every kind of value and two block formats
  blocks.alignment = 64;
  blocks.add_u32("a.u32", 7);
  blocks.add("a.bool", 7, std::string(1, '\1'));
  blocks.add("a.f64", 12, test::raw(1.5));
  blocks.add_texts("a.texts", {"", "low", "\xff"});
  blocks.add("a.numbers", 9, test::raw<uint32_t>(5) + test::raw<uint64_t>(2) + std::string(8, '\2'));
  blocks.add("a.nested", 9, test::raw<uint32_t>(9) + test::raw<uint64_t>(1) + test::raw<uint32_t>(0) + test::raw<uint64_t>(3) + "abc");
  blocks.tensor("q4_0", {2, 32}, 2, std::string(36, '\3'));
  blocks.tensor("q8_0", {1, 64}, 8, std::string(68, '\4'));
  return {blocks.build(), test::TinyLlama::gguf(), tiny(2, 18), tiny(3, 20), tiny(1, 64)};
}

bool parse(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  auto opened = GgufFile::open(file.path());
  if (!opened.ok()) return false;
  (void)import_gguf(file.path());
  return true;
}

}  // namespace brisk::fuzz
