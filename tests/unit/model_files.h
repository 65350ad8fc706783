// Writers of small model files, for tests and fuzzers: GGUF, safetensors, and the two forms of a tiny Llama.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/half.h"

namespace brisk::test {

template <class T> std::string raw(T v) {
  std::string s(sizeof v, '\0');
  std::memcpy(s.data(), &v, sizeof v);
  return s;
}

inline std::string raw_floats(const std::vector<float>& v) {
  std::string s;
  for (float f : v) s += raw(f);
  return s;
}

inline std::string gguf_string(const std::string& s) { return raw<uint64_t>(s.size()) + s; }

class GgufWriter {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;  // written as general.alignment if it is not 32

  void add(const std::string& key, uint32_t type, const std::string& value) {
    metadata_ += gguf_string(key) + raw(type) + value;
    ++values_;
  }
  void add_u32(const std::string& key, uint32_t v) { add(key, 4, raw(v)); }
  void add_f32(const std::string& key, float v) { add(key, 6, raw(v)); }
  void add_text(const std::string& key, const std::string& v) { add(key, 8, gguf_string(v)); }
  void add_texts(const std::string& key, const std::vector<std::string>& v) {
    std::string s = raw<uint32_t>(8) + raw<uint64_t>(v.size());
    for (const auto& t : v) s += gguf_string(t);
    add(key, 9, s);
  }
  // `shape` row-major; `offset` -1: behind the tensor before.
  void tensor(const std::string& name, const std::vector<uint64_t>& shape, uint32_t type, const std::string& bytes, int64_t offset = -1) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    tensors_ += gguf_string(name) + raw(static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i-- > 0;) tensors_ += raw(shape[i]);
    tensors_ += raw(type) + raw(offset < 0 ? data_.size() : static_cast<uint64_t>(offset));
    data_ += bytes;
    ++count_;
  }
  std::string header() {
    if (alignment != 32 && metadata_.find("general.alignment") == std::string::npos) add_u32("general.alignment", static_cast<uint32_t>(alignment));
    return "GGUF" + raw(version) + raw(count_) + raw(values_) + metadata_ + tensors_;
  }
  std::string build() {
    std::string s = header();
    s.resize((s.size() + alignment - 1) / alignment * alignment);
    return s + data_;
  }

 private:
  uint64_t count_ = 0, values_ = 0;
  std::string metadata_, tensors_, data_;
};

struct SafeTensorSpec {
  std::string name, type;
  std::vector<int64_t> shape;
  std::string bytes;
};

inline std::string safetensors_raw(const std::string& header, const std::string& data) {
  return raw<uint64_t>(header.size()) + header + data;
}

inline std::string safetensors(const std::vector<SafeTensorSpec>& tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})", data;
  for (const auto& t : tensors) {
    header += ",\"" + t.name + "\":{\"dtype\":\"" + t.type + "\",\"shape\":[";
    for (size_t i = 0; i < t.shape.size(); ++i) header += (i ? "," : "") + std::to_string(t.shape[i]);
    header += "],\"data_offsets\":[" + std::to_string(data.size()) + "," + std::to_string(data.size() + t.bytes.size()) + "]}";
    data += t.bytes;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return safetensors_raw(header, data);
}

// A folder that goes away with the test.
class TestFolder {
 public:
  TestFolder() : path_(std::filesystem::temp_directory_path() / ("brisk_models_" + std::to_string(::getpid()) + "_" + std::to_string(next()++))) {
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return (path_ / name).string();
  }
  std::string path() const { return path_.string(); }

 private:
  static int& next() {
    static int n = 0;
    return n;
  }
  std::filesystem::path path_;
};

// A Llama of 2 layers: hidden 64, 4 heads of 16, 2 key/value heads, MLP 96, 40 tokens. Element i of tensor t is a small
// number that depends on both.
struct TinyLlama {
  static constexpr int64_t kLayers = 2, kHidden = 64, kHeads = 4, kKvHeads = 2, kHeadDim = 16, kMlp = 96, kVocab = 40;
  struct Weight {
    std::string hf, gguf;
    std::vector<int64_t> shape;
    int permuted_heads = 0;  // rows that GGUF stores in pairs
    std::vector<float> values;
  };

  static std::vector<Weight> weights() {
    std::vector<Weight> w = {{"model.embed_tokens.weight", "token_embd.weight", {kVocab, kHidden}, 0, {}}};
    for (int64_t i = 0; i < kLayers; ++i) {
      std::string h = "model.layers." + std::to_string(i) + ".", g = "blk." + std::to_string(i) + ".";
      int64_t kv = kKvHeads * kHeadDim;
      w.push_back({h + "input_layernorm.weight", g + "attn_norm.weight", {kHidden}, 0, {}});
      w.push_back({h + "self_attn.q_proj.weight", g + "attn_q.weight", {kHidden, kHidden}, kHeads, {}});
      w.push_back({h + "self_attn.k_proj.weight", g + "attn_k.weight", {kv, kHidden}, kKvHeads, {}});
      w.push_back({h + "self_attn.v_proj.weight", g + "attn_v.weight", {kv, kHidden}, 0, {}});
      w.push_back({h + "self_attn.o_proj.weight", g + "attn_output.weight", {kHidden, kHidden}, 0, {}});
      w.push_back({h + "post_attention_layernorm.weight", g + "ffn_norm.weight", {kHidden}, 0, {}});
      w.push_back({h + "mlp.gate_proj.weight", g + "ffn_gate.weight", {kMlp, kHidden}, 0, {}});
      w.push_back({h + "mlp.up_proj.weight", g + "ffn_up.weight", {kMlp, kHidden}, 0, {}});
      w.push_back({h + "mlp.down_proj.weight", g + "ffn_down.weight", {kHidden, kMlp}, 0, {}});
    }
    w.push_back({"model.norm.weight", "output_norm.weight", {kHidden}, 0, {}});
    w.push_back({"lm_head.weight", "output.weight", {kVocab, kHidden}, 0, {}});
    for (size_t t = 0; t < w.size(); ++t) {
      int64_t n = 1;
      for (int64_t d : w[t].shape) n *= d;
      for (int64_t i = 0; i < n; ++i) w[t].values.push_back(static_cast<float>((i * 7 + static_cast<int64_t>(t) * 13) % 61 - 30) / 64);
    }
    return w;
  }

  static const char* config() {
    return R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 40, "rms_norm_eps": 1e-5,
      "max_position_embeddings": 128, "rope_theta": 10000.0, "tie_word_embeddings": false, "hidden_act": "silu",
      "eos_token_id": 2, "bos_token_id": 1})";
  }

  static std::vector<SafeTensorSpec> hf() {
    std::vector<SafeTensorSpec> out;
    for (const auto& w : weights()) out.push_back({w.hf, "F32", w.shape, raw_floats(w.values)});
    return out;
  }

  static GgufWriter gguf_metadata() {
    GgufWriter g;
    g.add_text("general.architecture", "llama");
    g.add_u32("llama.block_count", kLayers), g.add_u32("llama.embedding_length", kHidden);
    g.add_u32("llama.attention.head_count", kHeads), g.add_u32("llama.attention.head_count_kv", kKvHeads);
    g.add_u32("llama.feed_forward_length", kMlp), g.add_u32("llama.context_length", 128);
    g.add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f), g.add_f32("llama.rope.freq_base", 10000);
    g.add_u32("tokenizer.ggml.eos_token_id", 2), g.add_u32("tokenizer.ggml.bos_token_id", 1);
    return g;
  }

  static std::string gguf_bytes(const Weight& w) {
    if (!w.permuted_heads) return raw_floats(w.values);
    // Interleaved order: row 2 * i + half of a head is row half * d / 2 + i of the half-split order.
    size_t k = static_cast<size_t>(w.shape[1]), d = static_cast<size_t>(w.shape[0]) / static_cast<size_t>(w.permuted_heads);
    std::vector<float> out(w.values.size());
    for (size_t r = 0; r < static_cast<size_t>(w.shape[0]); ++r) {
      size_t in_head = r % d, from = r - in_head + in_head % 2 * (d / 2) + in_head / 2;
      std::copy_n(w.values.begin() + static_cast<int64_t>(from * k), k, out.begin() + static_cast<int64_t>(r * k));
    }
    return raw_floats(out);
  }

  static std::string gguf() {
    GgufWriter g = gguf_metadata();
    for (const auto& w : weights()) g.tensor(w.gguf, {w.shape.begin(), w.shape.end()}, 0, gguf_bytes(w));
    return g.build();
  }
};

}  // namespace brisk::test
