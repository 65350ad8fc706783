#include "import/gguf/import.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "import/decoder/builder.h"
#include "import/gguf/blocks.h"
#include "import/gguf/gguf_file.h"
#include "import/gguf/tokenizer.h"

namespace brisk {
namespace {

class GgufStore : public TensorStore {
 public:
  explicit GgufStore(const GgufFile& file) : file_(file) {}

  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    out.reserve(file_.tensors().size());
    for (const GgufTensor& t : file_.tensors()) out.emplace_back(t.name);
    return out;
  }

  std::string unsupported(const std::string& name) const override {
    const GgufTensor& t = *file_.tensor(name);
    const BlockFormat* f = block_format(t.type);
    if (!f) return "unknown element type " + std::to_string(t.type);
    return f->supported() ? "" : std::string("element type ") + f->name;
  }

  Result<ConstantPtr> load(const std::string& name) const override {
    const GgufTensor& t = *file_.tensor(name);
    return decode_tensor(*block_format(t.type), t.shape, t.bytes, file_.owner(t));
  }

 private:
  const GgufFile& file_;
};

// The metadata of one architecture: keys are given without their "llama." prefix.
class ConfigReader {
 public:
  ConfigReader(const GgufFile& file, const Family& family, std::string prefix, Problems& problems)
      : file_(file), family_(family), prefix_(std::move(prefix) + "."), problems_(problems) {}

  Result<DecoderConfig> read() {
    DecoderConfig c;
    c.family = family_.hf;
    BRISK_TRY(read_sizes(c));
    BRISK_TRY(read_attention(c));
    if (auto s = check_config(c, static_cast<int64_t>(file_.tensors().size())); !s.ok()) return std::move(s).error().in(file_.path());
    BRISK_TRY(read_rope(c));  // reads as many factors as check_config has allowed
    read_layers(c);
    BRISK_TRY(refuse_others());
    if (auto s = check_config(c, static_cast<int64_t>(file_.tensors().size())); !s.ok()) return std::move(s).error().in(file_.path());
    return c;
  }

 private:
  Result<int64_t> need(const char* key) {
    BRISK_ASSIGN(auto v, file_.integer(prefix_ + key, 1, INT32_MAX));
    if (!v) return invalid(file_.path() + ": metadata '" + prefix_ + key + "' is missing");
    return *v;
  }

  Status optional_number(const char* key, double& into) {
    BRISK_ASSIGN(auto v, file_.number(prefix_ + key));
    if (v) into = *v;
    return {};
  }

  // A number, or an array with one for each layer, which must all be equal.
  Result<std::optional<int64_t>> uniform(const char* key) {
    const GgufValue* v = file_.find(prefix_ + key);
    if (!v || v->type != GgufType::kArray) return file_.integer(prefix_ + key, 0, INT32_MAX);
    BRISK_ASSIGN(auto list, file_.numbers(prefix_ + key));
    if (!list || list->empty()) return invalid(file_.path() + ": metadata '" + prefix_ + key + "' is empty");
    for (double x : *list)
      if (!(x >= 0 && x <= INT32_MAX)) return invalid(file_.path() + ": metadata '" + prefix_ + key + "' holds a number outside 0 to " + std::to_string(INT32_MAX));
    if (std::adjacent_find(list->begin(), list->end(), std::not_equal_to<>()) != list->end())
      problems_.add("metadata '" + prefix_ + key + "' differs from layer to layer");
    return std::optional<int64_t>(static_cast<int64_t>(list->front()));
  }

  Status read_sizes(DecoderConfig& c) {
    BRISK_ASSIGN(c.layers, need("block_count"));
    BRISK_ASSIGN(c.hidden, need("embedding_length"));
    BRISK_ASSIGN(c.max_context, need("context_length"));
    BRISK_ASSIGN(auto intermediate, uniform("feed_forward_length"));
    c.intermediate = intermediate.value_or(0);
    const GgufTensor* e = file_.tensor("token_embd.weight");
    if (!e || e->shape.rank != 2) return invalid(file_.path() + ": tensor 'token_embd.weight' is missing or not a matrix");
    c.vocab = e->shape[0];
    c.tied_embeddings = !file_.tensor("output.weight");
    return optional_number("attention.layer_norm_rms_epsilon", c.norm_epsilon);
  }

  Status read_attention(DecoderConfig& c) {
    BRISK_ASSIGN(auto heads, uniform("attention.head_count"));
    BRISK_ASSIGN(auto kv_heads, uniform("attention.head_count_kv"));
    c.heads = heads.value_or(0);
    c.kv_heads = kv_heads.value_or(c.heads);
    BRISK_ASSIGN(auto key, file_.integer(prefix_ + "attention.key_length", 1, INT32_MAX));
    BRISK_ASSIGN(auto value, file_.integer(prefix_ + "attention.value_length", 1, INT32_MAX));
    if (!key && c.heads > 0 && c.hidden % c.heads)
      return invalid(file_.path() + ": " + std::to_string(c.heads) + " heads do not divide an embedding_length of " + std::to_string(c.hidden));
    c.head_dim = key ? *key : c.heads > 0 ? c.hidden / c.heads : 0;
    if (value.value_or(c.head_dim) != c.head_dim) problems_.add("keys of " + std::to_string(c.head_dim) + " and values of " + std::to_string(*value) + " elements");
    if (family_.window != Family::Window::kNever || family_.gguf == std::string_view("llama")) {
      BRISK_ASSIGN(auto window, file_.integer(prefix_ + "attention.sliding_window", 0, INT32_MAX));
      c.window = window.value_or(0);
    }
    c.qkv_bias = file_.tensor("blk.0.attn_q.bias");
    c.o_bias = file_.tensor("blk.0.attn_output.bias");
    c.mlp_bias = file_.tensor("blk.0.ffn_down.bias");
    c.qk_norm = family_.qk_norm;
    if (family_.root_embedding) c.embedding_scale = std::sqrt(static_cast<double>(c.hidden)), c.activation = Activation::kGeluTanh;
    if (!family_.scales) return {};
    double logits = 1;
    BRISK_TRY(optional_number("embedding_scale", c.embedding_scale));
    BRISK_TRY(optional_number("residual_scale", c.residual_scale));
    BRISK_TRY(optional_number("attention.scale", c.attention_scale));
    BRISK_TRY(optional_number("logit_scale", logits));
    c.logit_scale = logits != 0 ? 1 / logits : 1;
    return {};
  }

  Status read_rope(DecoderConfig& c) {
    BRISK_TRY(optional_number("rope.freq_base", c.rope_theta));
    BRISK_ASSIGN(auto dim, file_.integer(prefix_ + "rope.dimension_count", 1, INT32_MAX));
    c.rope_dim = dim.value_or(0);
    if (family_.gguf_permuted && c.rotary() != c.head_dim)
      problems_.add("rotation of " + std::to_string(c.rotary()) + " of " + std::to_string(c.head_dim) + " elements of a head in pairs");
    RopeScaling& s = c.rope_scaling;
    BRISK_ASSIGN(auto kind, file_.text(prefix_ + "rope.scaling.type"));
    BRISK_TRY(optional_number("rope.scaling.factor", s.factor));
    std::string_view name = kind.value_or("none");
    if (name == "linear") {
      s.kind = RopeScaling::Kind::kLinear;
    } else if (name == "yarn") {
      s.kind = RopeScaling::Kind::kYarn;
      BRISK_TRY(read_yarn(c));
    } else if (name != "none") {
      problems_.add("rope scaling '" + std::string(name.substr(0, 64)) + "' (supported: none, linear, yarn)");
    }
    return read_factors(c);
  }

  Status read_yarn(DecoderConfig& c) {
    RopeScaling& s = c.rope_scaling;
    s.original_context = static_cast<double>(c.max_context);
    double extra = 1, multiplier = 0, attention = 1;
    BRISK_TRY(optional_number("rope.scaling.original_context_length", s.original_context));
    BRISK_TRY(optional_number("rope.scaling.yarn_beta_fast", s.beta_fast));
    BRISK_TRY(optional_number("rope.scaling.yarn_beta_slow", s.beta_slow));
    BRISK_TRY(optional_number("rope.scaling.yarn_ext_factor", extra));
    BRISK_TRY(optional_number("rope.scaling.yarn_log_multiplier", multiplier));
    BRISK_TRY(optional_number("rope.scaling.attn_factor", attention));
    if (attention != 1) s.magnitude = attention * (s.factor > 1 ? 0.1 * std::log(s.factor) + 1 : 1);
    if (extra != 1 && extra != -1) problems_.add("rope scaling: yarn_ext_factor other than 1");
    if (multiplier != 0) problems_.add("rope scaling: yarn_log_multiplier");
    return {};
  }

  // Llama 3.1's scaling comes as a tensor of divisors.
  Status read_factors(DecoderConfig& c) {
    const GgufTensor* t = file_.tensor("rope_freqs.weight");
    if (!t) return {};
    if (t->type != 0 || t->shape.count() != c.rotary() / 2)
      return invalid(file_.path() + ": tensor 'rope_freqs.weight' must be F32 [" + std::to_string(c.rotary() / 2) + "], it has shape " + to_string(t->shape));
    RopeScaling& s = c.rope_scaling;
    if (s.kind != RopeScaling::Kind::kNone) problems_.add("rope factors together with rope scaling");
    s.kind = RopeScaling::Kind::kFactors;
    for (int64_t i = 0; i < t->shape.count(); ++i) s.factors.push_back(load_float(t->bytes.data(), DType::kF32, i));
    return {};
  }

  void read_layers(DecoderConfig& c) {
    if (!family_.no_rope_every) return;
    for (int64_t i = 0; i < c.layers; ++i) c.no_rope.push_back((i + 1) % family_.no_rope_every == 0);
  }

  // Keys that would change the computation and that no family here knows.
  Status refuse_others() {
    for (const char* key : {"expert_count", "nextn_predict_layers", "attention.q_lora_rank", "attention.kv_lora_rank"}) {
      BRISK_ASSIGN(auto v, file_.integer(prefix_ + key, 0, INT64_MAX));
      if (v.value_or(0) != 0) problems_.add("metadata '" + prefix_ + key + "' is " + std::to_string(*v));
    }
    for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping", "attention.clamp_kqv", "attention.max_alibi_bias"}) {
      BRISK_ASSIGN(auto v, file_.number(prefix_ + key));
      if (v.value_or(0) != 0) problems_.add("metadata '" + prefix_ + key + "'");
    }
    BRISK_ASSIGN(auto causal, file_.flag(prefix_ + "attention.causal"));
    if (!causal.value_or(true)) problems_.add("attention that is not causal");
    return {};
  }

  const GgufFile& file_;
  const Family& family_;
  std::string prefix_;
  Problems& problems_;
};

// Tokenizer, chat template and the defaults of generation (the ids that end an answer).
Status read_text(const GgufFile& file, int64_t vocab, Model& model, Problems& problems) {
  auto tokenizer = gguf_tokenizer(file);
  if (!tokenizer.ok() && tokenizer.error().kind != ErrorKind::kUnsupported) return std::move(tokenizer).error();
  nlohmann::json j = nlohmann::json::object();
  if (!tokenizer.ok()) {
    problems.add(tokenizer.error().message);
  } else if (const Tokenizer* t = tokenizer->get()) {
    // An embedding may have more rows than the tokenizer has ids, but an id without a row would be read out of bounds.
    if (t->vocab_size() > vocab)
      return invalid(file.path() + ": tokenizer.ggml.tokens has " + std::to_string(t->vocab_size()) + " entries, the embedding only " + std::to_string(vocab) + " rows");
    model.tokenizer = t->serialize();
    if (!t->eos_ids().empty()) j["eos_token_id"] = std::vector<int32_t>(t->eos_ids().begin(), t->eos_ids().end());
    if (t->bos() >= 0) j["bos_token_id"] = t->bos();
  } else {
    model.notes.push_back("the file has no tokenizer");
    BRISK_ASSIGN(auto bos, file.integer("tokenizer.ggml.bos_token_id", 0, vocab - 1));
    BRISK_ASSIGN(auto eos, file.integer("tokenizer.ggml.eos_token_id", 0, vocab - 1));
    if (bos) j["bos_token_id"] = *bos;
    if (eos) j["eos_token_id"] = std::vector<int64_t>{*eos};
  }
  model.generation_config = j.dump();
  BRISK_ASSIGN(auto chat, file.text("tokenizer.chat_template"));
  model.chat_template = chat.value_or("");
  return {};
}

// What most of the linear weights' bits are.
std::string default_precision(const Graph& g) {
  int64_t four = 0, eight = 0, plain = 0;
  for (const Value& v : g.values) {
    if (!v.constant || v.constant->shape.rank != 2) continue;
    int64_t n = v.constant->count();
    (v.constant->encoding.plain() ? plain : v.constant->encoding.bits == 4 ? four : eight) += n;
  }
  if (four + eight <= plain) return "bf16";
  return four > eight ? "int4w" : "int8w";
}

}  // namespace

Result<Model> import_gguf(const std::string& path) {
  BRISK_ASSIGN(auto file, GgufFile::open(path));
  BRISK_ASSIGN(auto architecture, file->text("general.architecture"));
  if (!architecture) return invalid(path + ": metadata 'general.architecture' is missing");
  Problems problems;
  const Family* family = family_of_gguf(*architecture);
  if (!family) {
    problems.add("architecture '" + std::string(architecture->substr(0, 64)) + "' (supported: " + supported_families(true) + ")");
    GgufStore store(*file);
    for (const auto& name : store.names())
      if (auto why = store.unsupported(name); !why.empty()) problems.add("tensor '" + name + "': " + why);
    return problems.error(path);
  }
  BRISK_ASSIGN(auto config, ConfigReader(*file, *family, std::string(*architecture), problems).read());
  Model model;
  model.metadata["source_format"] = "gguf";
  BRISK_TRY(read_text(*file, config.vocab, model, problems));
  BRISK_TRY(build_model(model, config, *family, WeightFormat::kGguf, GgufStore(*file), problems, path));
  model.default_precision = default_precision(model.functions.at("step"));
  BRISK_ASSIGN(auto name, file->text("general.name"));
  auto printable = [](char c) { return c >= ' ' && c < 0x7f; };
  if (name && std::all_of(name->begin(), name->end(), printable)) model.metadata["name"] = std::string(name->substr(0, 256));
  return model;
}

}  // namespace brisk
