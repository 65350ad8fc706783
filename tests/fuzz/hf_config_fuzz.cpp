// config.json, and the same bytes as generation_config.json and tokenizer_config.json.
#include <cstdlib>

#include "fuzz/fuzz.h"
#include "import/hf/hf_json.h"
#include "unit/model_files.h"

namespace brisk::fuzz {

std::vector<std::string> seeds() {
  return {test::TinyLlama::config(),
          R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1,
              "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 9, "rms_norm_eps": 1e-6,
              "max_position_embeddings": 16, "eos_token_id": [2, 3], "temperature": 0.7, "top_k": 50,
              "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 8}, "chat_template": [{"name": "default", "template": "{{ x }}"}]})"};
}

bool parse(const uint8_t* data, size_t size) {
  // In memory: a disk would wait for every file that is written over.
  static const bool in_memory = setenv("TMPDIR", "/dev/shm", 1) == 0;
  static const test::TestFolder folder;
  if (!in_memory) return false;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"config.json", "generation_config.json", "tokenizer_config.json"}) folder.write(name, text);
  Problems problems;
  auto config = read_hf_config(folder.path(), problems);
  (void)read_generation(folder.path(), 40);
  (void)read_chat_template(folder.path());
  return config.ok();
}

}  // namespace brisk::fuzz
