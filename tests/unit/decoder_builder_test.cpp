#include "import/decoder/builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "import/decoder/rows.h"
#include "op/step_io.h"

namespace brisk {
namespace {

DecoderConfig tiny() {
  DecoderConfig c;
  c.family = "llama";
  c.layers = 2, c.hidden = 8, c.heads = 2, c.kv_heads = 1, c.head_dim = 4, c.intermediate = 6, c.vocab = 10, c.max_context = 64;
  return c;
}

const Family& llama() { return *family_of_hf("llama"); }

// A store made of the names and shapes that a configuration asks for.
class MadeStore : public TensorStore {
 public:
  MadeStore(const DecoderConfig& c, const Family& family, WeightFormat format = WeightFormat::kHf) {
    for (WeightSlot slot : weight_slots(c)) add(weight_name(format, family, slot), weight_shape(c, slot.role));
  }
  void add(const std::string& name, Dims shape) {
    auto& c = tensors_[name];
    if (c) shape[0] += c->shape[0];  // fused parts add up
    std::vector<float> values(static_cast<size_t>(shape.count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    c = make_constant(DType::kF32, shape, values);
  }
  void remove(const std::string& name) { tensors_.erase(name); }

  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    for (const auto& [name, c] : tensors_) out.push_back(name);
    return out;
  }
  std::string unsupported(const std::string&) const override { return ""; }
  Result<ConstantPtr> load(const std::string& name) const override { return tensors_.at(name); }

 private:
  std::map<std::string, ConstantPtr> tensors_;
};

Model build(const DecoderConfig& c, const Family& family, WeightFormat format = WeightFormat::kHf) {
  Model m;
  Problems problems;
  auto s = build_model(m, c, family, format, MadeStore(c, family, format), problems, "test");
  EXPECT_TRUE(s.ok()) << s.error().message;
  return m;
}

std::vector<const Node*> nodes_of(const Graph& g, OpId op) {
  std::vector<const Node*> out;
  for (const Node& n : g.nodes)
    if (n.op == op) out.push_back(&n);
  return out;
}

TEST(DecoderBuilder, StepHasTheNamesAndShapesOfTheInterface) {
  Model m = build(tiny(), llama());
  const Graph& g = m.functions.at("step");
  EXPECT_EQ(m.max_context, 64);
  EXPECT_EQ(m.metadata.at("architecture"), "llama");
  auto text = [&](ValueId v) { return g.value(v).name + ": " + to_string(g.value(v).type); };
  std::vector<std::string> in, out;
  for (ValueId v : g.inputs) in.push_back(text(v));
  for (ValueId v : g.outputs) out.push_back(text(v));
  EXPECT_EQ(in, (std::vector<std::string>{"ids: i32[T]", "positions: i32[T]", "seq_starts: i32[S + 1]", "context_lens: i32[S]", "block_tables: i32[S, B]",
                                          "logit_rows: i32[L]", "sample_params: u8[L, 48]", "slots: i32[L]"}));
  EXPECT_EQ(out, (std::vector<std::string>{"logits: f32[L, 10]", "next_ids: i32[L]", "logprob: f32[L]", "top_ids: i32[L, 20]", "top_logprobs: f32[L, 20]"}));
  ASSERT_EQ(g.states.size(), 4u);
  EXPECT_EQ(g.states[0].name, "last_ids");
  EXPECT_EQ(g.states[1].name, "token_counts");
  EXPECT_EQ(g.states[1].width, 10);
  EXPECT_EQ(g.states[3].name, "kv.1");
  EXPECT_EQ(g.states[3].width, 2 * 1 * 4);
  EXPECT_EQ(nodes_of(g, OpId::kLinear).size(), 2u * 7 + 1);
  EXPECT_EQ(nodes_of(g, OpId::kRope).size(), 4u);
  EXPECT_TRUE(verify(g).ok());
}

TEST(DecoderBuilder, TiedHeadIsTheEmbeddingItself) {
  DecoderConfig c = tiny();
  c.tied_embeddings = true;
  Model m = build(c, llama());
  const Graph& g = m.functions.at("step");
  EXPECT_EQ(nodes_of(g, OpId::kLinear).back()->inputs[1], nodes_of(g, OpId::kEmbedding)[0]->inputs[0]);
}

TEST(DecoderBuilder, OptionsBecomeNodes) {
  DecoderConfig c = tiny();
  c.qkv_bias = c.o_bias = c.mlp_bias = c.qk_norm = true;
  c.embedding_scale = 2, c.residual_scale = 0.5, c.logit_scale = 0.25, c.attention_scale = 0.125;
  c.activation = Activation::kGeluTanh;
  c.window = 16, c.windowed = {true, false}, c.no_rope = {false, true};
  Model m = build(c, llama());
  const Graph& g = m.functions.at("step");
  for (const Node* n : nodes_of(g, OpId::kLinear)) EXPECT_EQ(n->inputs.size(), n->name == "head" ? 2u : 3u) << n->name;
  EXPECT_EQ(nodes_of(g, OpId::kRmsNorm).size(), 2u * 4 + 1);
  EXPECT_EQ(nodes_of(g, OpId::kReshape).size(), 2u * 4);
  EXPECT_EQ(nodes_of(g, OpId::kRope).size(), 2u);  // layer 1 rotates nothing
  EXPECT_EQ(nodes_of(g, OpId::kGelu).size(), 2u);
  EXPECT_EQ(nodes_of(g, OpId::kMul).size(), 2u * 3 + 2);
  auto attention = nodes_of(g, OpId::kPagedAttention);
  EXPECT_EQ(std::get<AttentionAttrs>(attention[0]->attrs).window, 16);
  EXPECT_EQ(std::get<AttentionAttrs>(attention[1]->attrs).window, 0);
  EXPECT_EQ(std::get<AttentionAttrs>(attention[1]->attrs).scale, 0.125f);
}

TEST(DecoderBuilder, EveryFamilyBuildsFromItsNamesInBothFormats) {
  for (const Family& f : families()) {
    DecoderConfig c = tiny();
    c.qk_norm = f.qk_norm, c.tied_embeddings = f.tied_by_default, c.qkv_bias = f.bias == Family::Bias::kQkv;
    for (WeightFormat format : {WeightFormat::kHf, WeightFormat::kGguf}) {
      Model m = build(c, f, format);
      EXPECT_EQ(m.functions.count("step"), 1u) << f.hf;
    }
  }
}

TEST(DecoderBuilder, FusedTensorsAreTakenApart) {
  DecoderConfig c = tiny();
  const Family& phi = *family_of_hf("phi3");
  MadeStore store(c, phi);
  DecoderWeights w(store, WeightFormat::kHf, phi, c);
  auto k = *w.get({WeightRole::kK, 0}), v = *w.get({WeightRole::kV, 0}), up = *w.get({WeightRole::kUp, 0});
  EXPECT_EQ(k->shape, (Dims{4, 8}));
  EXPECT_EQ(k->as<float>()[0], 8 * 8);         // behind the 8 rows of q
  EXPECT_EQ(v->as<float>()[0], (8 + 4) * 8);
  EXPECT_EQ(up->as<float>()[0], 6 * 8);        // behind the gate
  auto whole = *store.load("model.layers.0.self_attn.qkv_proj.weight");
  EXPECT_EQ(static_cast<const void*>(k->data.bytes.data()), static_cast<const void*>(whole->data.bytes.data() + 8 * 8 * 4));
}

TEST(DecoderBuilder, MissingAndSurplusTensorsAreAllNamed) {
  DecoderConfig c = tiny();
  MadeStore store(c, llama());
  Model m;
  Problems none;
  store.remove("model.layers.1.mlp.up_proj.weight"), store.remove("model.norm.weight");
  auto missing = build_model(m, c, llama(), WeightFormat::kHf, store, none, "folder");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(missing.error().message.find("folder: 2 tensors are missing: model.layers.1.mlp.up_proj.weight, model.norm.weight"), std::string::npos);
  store.add("model.layers.0.mlp.experts.weight", {2, 2}), store.add("model.layers.0.self_attn.rotary_emb.inv_freq", {2});
  Problems problems;
  problems.add("something else");
  auto surplus = build_model(m, c, llama(), WeightFormat::kHf, store, problems, "folder");
  ASSERT_FALSE(surplus.ok());
  EXPECT_EQ(surplus.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(surplus.error().message.find("2 things are not supported:\n  something else\n  tensor 'model.layers.0.mlp.experts.weight'"), std::string::npos) << surplus.error().message;
}

TEST(DecoderBuilder, InterleavedRowsBecomeHalfSplit) {
  std::vector<float> rows;
  for (int head = 0; head < 2; ++head)
    for (float r : {0.f, 2.f, 1.f, 3.f}) rows.insert(rows.end(), 2, r + 10 * static_cast<float>(head));
  auto c = half_split_rows(make_constant(DType::kF32, {8, 2}, rows), 2, 4);
  for (int r = 0; r < 8; ++r) EXPECT_EQ(c->as<float>()[r * 2], static_cast<float>(r / 4 * 10 + r % 4));
  auto bias = half_split_rows(make_constant<float>(DType::kF32, {4}, {0, 2, 1, 3}), 1, 4);
  EXPECT_EQ(to_floats(*bias), (std::vector<float>{0, 1, 2, 3}));
}

TEST(DecoderConfig, RangesAreChecked) {
  auto message = [](auto&& change) {
    DecoderConfig c = tiny();
    change(c);
    auto s = check_config(c, 100);
    return s.ok() ? std::string("ok") : s.error().message;
  };
  EXPECT_EQ(message([](DecoderConfig&) {}), "ok");
  EXPECT_EQ(message([](DecoderConfig& c) { c.layers = 101; }), "number of layers is 101, allowed are 1 to 100");
  EXPECT_NE(message([](DecoderConfig& c) { c.kv_heads = 0; }).find("key/value heads is 0"), std::string::npos);
  EXPECT_NE(message([](DecoderConfig& c) { c.heads = 3, c.kv_heads = 2; }).find("evenly"), std::string::npos);
  EXPECT_NE(message([](DecoderConfig& c) { c.rope_dim = 3; }).find("even"), std::string::npos);
  EXPECT_NE(message([](DecoderConfig& c) { c.rope_dim = 6; }).find("rotated elements of a head is 6, allowed are 2 to 4"), std::string::npos);
  EXPECT_NE(message([](DecoderConfig& c) { c.norm_epsilon = NAN; }).find("norm epsilon is nan"), std::string::npos);
  EXPECT_NE(message([](DecoderConfig& c) { c.rope_theta = 0; }).find("rope theta is 0"), std::string::npos);
  EXPECT_NE(message([](DecoderConfig& c) { c.window = 1, c.windowed = {true}; }).find("1 entries for 2 layers"), std::string::npos);
  EXPECT_NE(message([](DecoderConfig& c) { c.rope_scaling.kind = RopeScaling::Kind::kFactors, c.rope_scaling.factors = {1}; }).find("1 of them for 2"), std::string::npos);
}

// tests/data/rope_frequencies.json: tools/oracles/rope.py
TEST(DecoderConfig, RopeScalingsMatchTheOracle) {
  std::ifstream file(BRISK_TEST_DATA "/rope_frequencies.json");
  auto cases = nlohmann::json::parse(file);
  ASSERT_EQ(cases.size(), 6u);
  for (const auto& j : cases) {
    const auto& p = j["parameters"];
    DecoderConfig c = tiny();
    c.head_dim = j["head_dim"], c.max_context = 4096, c.rope_theta = p["rope_theta"];
    c.rope_dim = static_cast<int64_t>(c.head_dim * p.value("partial_rotary_factor", 1.0));
    RopeScaling& s = c.rope_scaling;
    std::string kind = p["rope_type"];
    s.kind = kind == "linear" ? RopeScaling::Kind::kLinear : kind == "llama3" ? RopeScaling::Kind::kLlama3 : kind == "yarn" ? RopeScaling::Kind::kYarn : RopeScaling::Kind::kNone;
    s.factor = p.value("factor", 1.0), s.original_context = p.value("original_max_position_embeddings", 4096.0);
    s.low_frequency = p.value("low_freq_factor", 1.0), s.high_frequency = p.value("high_freq_factor", 4.0);
    s.beta_fast = p.value("beta_fast", 32.0), s.beta_slow = p.value("beta_slow", 1.0), s.truncate = p.value("truncate", true);
    ASSERT_TRUE(check_config(c, 100).ok());
    auto f = rope_frequencies(c);
    ASSERT_EQ(f.size(), j["frequencies"].size());
    for (size_t i = 0; i < f.size(); ++i) {
      float wanted = j["frequencies"][i];
      EXPECT_NEAR(f[i], wanted, std::abs(wanted) * 4e-7f) << kind << " " << i;
    }
    EXPECT_NEAR(rope_magnitude(c), j["magnitude"].get<float>(), 1e-6f) << kind;
  }
}

}  // namespace
}  // namespace brisk
