#include "import/hf/import.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "import/gguf/import.h"
#include "model_files.h"
#include "text/tokenizer.h"

namespace brisk {
namespace {

using test::safetensors;
using test::TestFolder;
using test::TinyLlama;

// The tiny Llama's folder with changes to config.json: {"from", "to"} replacements.
Result<Model> import_changed(const TestFolder& dir, const std::vector<std::pair<std::string, std::string>>& changes) {
  std::string config = TinyLlama::config();
  for (const auto& [from, to] : changes) {
    auto at = config.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    config.replace(at, from.size(), to);
  }
  dir.write("config.json", config);
  dir.write("model.safetensors", safetensors(TinyLlama::hf()));
  return import_hf(dir.path());
}

std::string message(const Result<Model>& r) { return r.ok() ? "accepted" : r.error().message; }

const Node& node(const Model& m, const std::string& name) {
  const auto& nodes = m.functions.at("step").nodes;
  auto it = std::find_if(nodes.begin(), nodes.end(), [&](const Node& n) { return n.name == name; });
  EXPECT_NE(it, nodes.end()) << name;
  return *it;
}

TEST(HfImport, AndGgufGiveTheSameGraph) {
  TestFolder dir;
  auto hf = import_changed(dir, {});
  ASSERT_TRUE(hf.ok()) << message(hf);
  auto gguf = import_gguf(dir.write("m.gguf", TinyLlama::gguf()));
  ASSERT_TRUE(gguf.ok()) << message(gguf);
  const Graph &a = hf->functions.at("step"), &b = gguf->functions.at("step");
  ASSERT_EQ(a.nodes.size(), b.nodes.size());
  size_t constants = 0;
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    EXPECT_EQ(a.nodes[i].name, b.nodes[i].name);
    EXPECT_EQ(a.nodes[i].op, b.nodes[i].op);
    EXPECT_TRUE(a.nodes[i].attrs == b.nodes[i].attrs) << a.nodes[i].name;
    for (size_t j = 0; j < a.nodes[i].inputs.size(); ++j) {
      const Constant *x = a.constant(a.nodes[i].inputs[j]), *y = b.constant(b.nodes[i].inputs[j]);
      ASSERT_EQ(x == nullptr, y == nullptr);
      if (!x) continue;
      ++constants;
      EXPECT_EQ(to_floats(*x), to_floats(*y)) << a.nodes[i].name;
    }
  }
  EXPECT_EQ(constants, TinyLlama::weights().size() + 4);  // frequencies, twice a layer
  EXPECT_EQ(hf->default_precision, "bf16");
  EXPECT_EQ(gguf->default_precision, "bf16");
  EXPECT_EQ(hf->generation_config, R"({"bos_token_id":1,"eos_token_id":[2]})");
  EXPECT_EQ(gguf->generation_config, hf->generation_config);
  EXPECT_EQ(hf->max_context, 128);
}

TEST(HfImport, NormsAndBiasesAreWidenedWeightsAreShared) {
  TestFolder dir;
  auto tensors = TinyLlama::hf();
  for (auto& t : tensors) {
    std::string narrow;
    for (size_t i = 2; i < t.bytes.size(); i += 4) narrow += t.bytes.substr(i, 2);  // upper halves: bf16
    t.type = "BF16", t.bytes = narrow;
  }
  dir.write("config.json", TinyLlama::config());
  dir.write("model.safetensors", safetensors(tensors));
  auto m = import_hf(dir.path());
  ASSERT_TRUE(m.ok()) << message(m);
  const Graph& g = m->functions.at("step");
  EXPECT_EQ(g.constant(node(*m, "layers.0.attention.norm").inputs[1])->dtype, DType::kF32);
  const Constant& q = *g.constant(node(*m, "layers.0.attention.q").inputs[1]);
  EXPECT_EQ(q.dtype, DType::kBF16);
  EXPECT_EQ(to_floats(q), TinyLlama::weights()[2].values);
}

TEST(HfImport, ShardedFoldersAndTemplates) {
  TestFolder dir;
  auto tensors = TinyLlama::hf();
  std::vector<test::SafeTensorSpec> first(tensors.begin(), tensors.begin() + 5), second(tensors.begin() + 5, tensors.end());
  dir.write("m-1.safetensors", safetensors(first)), dir.write("m-2.safetensors", safetensors(second));
  std::string map;
  for (const auto& t : first) map += (map.empty() ? "\"" : ",\"") + t.name + "\":\"m-1.safetensors\"";
  for (const auto& t : second) map += ",\"" + t.name + "\":\"m-2.safetensors\"";
  dir.write("model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":{" + map + "}}");
  dir.write("config.json", TinyLlama::config());
  dir.write("generation_config.json", R"({"eos_token_id": [2, 5, 2], "pad_token_id": -1, "temperature": 0.6, "top_k": 50, "do_sample": true, "x": "y"})");
  dir.write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})");
  auto m = import_hf(dir.path());
  ASSERT_TRUE(m.ok()) << message(m);
  EXPECT_EQ(m->chat_template, "D");
  EXPECT_EQ(m->generation_config, R"({"do_sample":true,"eos_token_id":[2,5],"temperature":0.6,"top_k":50})");
  dir.write("chat_template.jinja", "J");
  EXPECT_EQ(import_hf(dir.path())->chat_template, "J");
  dir.write("generation_config.json", R"({"eos_token_id": 40})");
  EXPECT_NE(message(import_hf(dir.path())).find("generation_config.json: field 'eos_token_id' must be an id, or a list of ids, from 0 to 39"), std::string::npos);
}

TEST(HfImport, TokenizerComesAlong) {
  TestFolder dir;
  auto with = [&](const std::string& vocab, int pad) {
    dir.write("tokenizer.json", R"({"version": "1.0", "added_tokens": [{"id": 2, "content": "<|end|>", "special": true}, {"id": )" + std::to_string(pad) +
                                R"(, "content": "<pad>", "special": true}], "model": {"type": "BPE", "vocab": {)" + vocab + R"(}, "merges": ["a b"]}})");
    return import_changed(dir, {});
  };
  // transformers writes an integer that no machine word holds.
  dir.write("tokenizer_config.json", R"({"model_max_length": 1000000000000000019884624838656, "x": "12345678901234567890", "eos_token": "<|end|>"})");
  auto m = with(R"("a": 0, "b": 1, "ab": 3)", 4);
  ASSERT_TRUE(m.ok()) << message(m);
  auto t = Tokenizer::deserialize(std::as_bytes(std::span(m->tokenizer)));
  ASSERT_TRUE(t.ok()) << t.error().message;
  EXPECT_EQ(*(*t)->encode("abb<|end|>"), (std::vector<int32_t>{3, 1, 2}));
  EXPECT_EQ((*t)->vocab_size(), 5);
  EXPECT_EQ((*t)->eos(), 2);

  std::string many = R"("a": 0, "b": 1, "ab": 3)";
  for (int i = 4; i < 40; ++i) many += ", \"w" + std::to_string(i) + "\": " + std::to_string(i);
  auto padded = with(many, 40);  // an added token without a row in the embedding
  ASSERT_TRUE(padded.ok()) << message(padded);
  EXPECT_EQ((*Tokenizer::deserialize(std::as_bytes(std::span(padded->tokenizer))))->vocab_size(), 40);
  EXPECT_NE(std::find(padded->notes.begin(), padded->notes.end(), "1 added tokens have no row in the embedding and are left out"), padded->notes.end());
  auto large = with(many + ", \"x\": 40", 41);
  EXPECT_NE(message(large).find("42 tokens, the embedding has only 40 rows"), std::string::npos) << message(large);
  dir.write("tokenizer.json", "{");
  EXPECT_NE(message(import_changed(dir, {})).find("tokenizer.json"), std::string::npos);
}

TEST(HfImport, UnsupportedThingsAreListedAtOnce) {
  TestFolder dir;
  auto r = import_changed(dir, {{"\"silu\"", "\"relu\""}, {"\"rope_theta\": 10000.0", R"("rope_scaling": {"rope_type": "dynamic", "factor": 2.0})"},
                                {"\"eos_token_id\": 2", R"("eos_token_id": 2, "quantization_config": {"quant_method": "gptq"})"}});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::kUnsupported);
  for (const char* part : {"3 things", "activation 'relu'", "rope scaling 'dynamic'", "method 'gptq'"})
    EXPECT_NE(message(r).find(part), std::string::npos) << part << " in " << message(r);
  auto other = import_changed(dir, {{"\"llama\"", "\"mamba\""}, {"LlamaForCausalLM", "MambaForTokenClassification"}});
  EXPECT_NE(message(other).find("2 things"), std::string::npos) << message(other);
  EXPECT_NE(message(other).find("model_type 'mamba' (supported: llama, mistral, qwen2"), std::string::npos);
}

TEST(HfImport, FieldsAreReadAsEachFamilyMeansThem) {
  TestFolder dir;
  auto m = import_changed(dir, {{"\"llama\"", "\"mistral\""}, {"\"rope_theta\"", "\"sliding_window\": 32, \"rope_theta\""}});
  ASSERT_TRUE(m.ok()) << message(m);
  EXPECT_EQ(std::get<AttentionAttrs>(node(*m, "layers.1.attention").attrs).window, 32);
  auto types = import_changed(dir, {{"\"llama\"", "\"mistral\""}, {"\"rope_theta\"", R"("sliding_window": 32, "layer_types": ["sliding_attention", "full_attention"], "rope_theta")"}});
  ASSERT_TRUE(types.ok()) << message(types);
  EXPECT_EQ(std::get<AttentionAttrs>(node(*types, "layers.0.attention").attrs).window, 32);
  EXPECT_EQ(std::get<AttentionAttrs>(node(*types, "layers.1.attention").attrs).window, 0);
  auto ignored = import_changed(dir, {{"\"rope_theta\"", "\"sliding_window\": 32, \"rope_theta\""}});
  EXPECT_EQ(std::get<AttentionAttrs>(node(*ignored, "layers.0.attention").attrs).window, 0);
  auto yarn = import_changed(dir, {{"\"rope_theta\": 10000.0", R"("rope_parameters": {"rope_type": "yarn", "rope_theta": 5000.0, "factor": 4.0, "original_max_position_embeddings": 32})"}});
  ASSERT_TRUE(yarn.ok()) << message(yarn);
  EXPECT_NEAR(std::get<RopeAttrs>(node(*yarn, "layers.0.attention.q_rope").attrs).magnitude, 1.13863f, 1e-5f);
  auto partial = import_changed(dir, {{"\"rope_theta\"", "\"partial_rotary_factor\": 0.5, \"rope_theta\""}});
  EXPECT_EQ(std::get<RopeAttrs>(node(*partial, "layers.0.attention.q_rope").attrs).dim, 8);
  auto qwen = import_changed(dir, {{"\"llama\"", "\"qwen2\""}});
  EXPECT_NE(message(qwen).find("6 tensors are missing: model.layers.0.self_attn.q_proj.bias"), std::string::npos) << message(qwen);
}

TEST(HfImport, DamagedConfigurationsNameFileAndField) {
  TestFolder dir;
  struct Case { const char *from, *to, *told; };
  for (const Case& c : {Case{"\"hidden_size\": 64", "\"hidden_size\": \"64\"", "config.json: field 'hidden_size' must be an integer"},
                        Case{"\"hidden_size\": 64", "\"hidden_size\": 6.4e1", "must be an integer"},
                        Case{"\"hidden_size\": 64,", "", "field 'hidden_size' is missing"},
                        Case{"\"hidden_size\": 64", "\"hidden_size\": 0", "'hidden_size' is 0, allowed are 1 to"},
                        Case{"\"hidden_size\": 64", "\"hidden_size\": 18446744073709551615", "'hidden_size' must be an integer"},
                        Case{"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 2000000000", "number of layers is 2000000000, allowed are 1 to 21"},
                        Case{"\"num_attention_heads\": 4", "\"num_attention_heads\": 5", "does not divide hidden_size"},
                        Case{"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "evenly"},
                        Case{"\"vocab_size\": 40", "\"vocab_size\": 41", "'model.embed_tokens.weight' has shape [40, 64], the configuration wants [41, 64]"},
                        Case{"\"rms_norm_eps\": 1e-5", "\"rms_norm_eps\": 1e999", "not JSON"},
                        Case{"\"rms_norm_eps\": 1e-5", "\"rms_norm_eps\": true", "'rms_norm_eps' must be a number"},
                        Case{"\"rope_theta\": 10000.0", "\"rope_scaling\": 7", "'rope_scaling' must be an object"},
                        Case{"\"rope_theta\": 10000.0", "\"rope_theta\": -1", "rope theta is -1"},
                        Case{"{\"architectures\"", "[{\"architectures\"", "not JSON"}}) {
    auto r = import_changed(dir, {{c.from, c.to}});
    EXPECT_NE(message(r).find(c.told), std::string::npos) << c.to << ": " << message(r);
    EXPECT_TRUE(r.ok() || r.error().kind == ErrorKind::kInvalid);
  }
  dir.write("config.json", std::string(200000, '['));
  EXPECT_NE(message(import_hf(dir.path())).find("nested deeper"), std::string::npos);
  dir.write("config.json", std::string(4 << 20, ' '));
  EXPECT_FALSE(import_hf(dir.path()).ok());
}

TEST(HfImport, EveryTruncationOfTheConfigurationIsRefused) {
  TestFolder dir;
  dir.write("model.safetensors", safetensors(TinyLlama::hf()));
  std::string whole = TinyLlama::config();
  for (size_t n = 0; n < whole.size(); n += 7) {
    dir.write("config.json", whole.substr(0, n));
    auto r = import_hf(dir.path());
    ASSERT_FALSE(r.ok()) << n;
    ASSERT_EQ(r.error().kind, ErrorKind::kInvalid);
  }
}

}  // namespace
}  // namespace brisk
