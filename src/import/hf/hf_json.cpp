#include "import/hf/hf_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace brisk {
namespace {

using nlohmann::json;
constexpr int kMaxDepth = 32;

// An object of a JSON file with typed access to its fields. null counts as absent; errors name file, field and range.
class Fields {
 public:
  Fields(std::string where, const json& object) : where_(std::move(where)), j_(object) {}

  const json* find(const char* key) const {
    auto it = j_.find(key);
    return it == j_.end() || it->is_null() ? nullptr : &*it;
  }
  bool has(const char* key) const { return find(key); }

  Result<int64_t> integer(const char* key, int64_t absent, int64_t min = 1, int64_t max = INT32_MAX) const {
    const json* v = find(key);
    if (!v) return absent;
    bool huge = v->is_number_unsigned() && v->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
    if (!v->is_number_integer() || huge) return wrong(key, "must be an integer");
    auto n = v->get<int64_t>();
    if (n < min || n > max) return wrong(key, "is " + std::to_string(n) + ", allowed are " + std::to_string(min) + " to " + std::to_string(max));
    return n;
  }
  Result<int64_t> need(const char* key) const {
    if (!has(key)) return wrong(key, "is missing");
    return integer(key, 0);
  }
  Result<double> number(const char* key, double absent) const {
    const json* v = find(key);
    if (!v) return absent;
    if (!v->is_number()) return wrong(key, "must be a number");
    return v->get<double>();
  }
  Result<bool> flag(const char* key, bool absent) const {
    const json* v = find(key);
    if (!v) return absent;
    if (!v->is_boolean()) return wrong(key, "must be true or false");
    return v->get<bool>();
  }
  Result<std::string> text(const char* key, const char* absent) const {
    const json* v = find(key);
    if (!v) return std::string(absent);
    if (!v->is_string()) return wrong(key, "must be a string");
    return v->get<std::string>();
  }
  // A field that is an object itself; nullptr if absent.
  Result<const json*> object(const char* key) const {
    const json* v = find(key);
    if (v && !v->is_object()) return wrong(key, "must be an object");
    return v;
  }
  Result<const json*> list(const char* key) const {
    const json* v = find(key);
    if (v && !v->is_array()) return wrong(key, "must be a list");
    return v;
  }
  Error wrong(const char* key, const std::string& what) const { return invalid(where_ + ": field '" + key + "' " + what); }
  const std::string& where() const { return where_; }

 private:
  std::string where_;
  const json& j_;
};

Result<json> read_object(const std::string& path) {
  BRISK_ASSIGN(auto text, read_file(path, kMaxHfJson));
  bool deep = false;
  auto limit = [&](int depth, json::parse_event_t, json&) {
    deep |= depth > kMaxDepth;
    return !deep;
  };
  json j = json::parse(text, limit, false);
  if (deep) return invalid(path + ": nested deeper than " + std::to_string(kMaxDepth));
  if (j.is_discarded()) return invalid(path + ": not JSON");
  if (!j.is_object()) return invalid(path + ": must be a JSON object");
  return j;
}

std::string in_quotes(const std::string& s) { return "'" + s.substr(0, 64) + "'"; }

Status read_sizes(const Fields& f, DecoderConfig& c) {
  BRISK_ASSIGN(c.hidden, f.need("hidden_size"));
  BRISK_ASSIGN(c.layers, f.need("num_hidden_layers"));
  BRISK_ASSIGN(c.heads, f.need("num_attention_heads"));
  BRISK_ASSIGN(c.intermediate, f.need("intermediate_size"));
  BRISK_ASSIGN(c.vocab, f.need("vocab_size"));
  BRISK_ASSIGN(c.max_context, f.need("max_position_embeddings"));
  BRISK_ASSIGN(c.kv_heads, f.integer("num_key_value_heads", c.heads));
  BRISK_ASSIGN(c.head_dim, f.integer("head_dim", 0));
  if (c.head_dim == 0 && c.hidden % c.heads)
    return f.wrong("num_attention_heads", "is " + std::to_string(c.heads) + ", which does not divide hidden_size " + std::to_string(c.hidden));
  if (c.head_dim == 0) c.head_dim = c.hidden / c.heads;
  BRISK_ASSIGN(c.norm_epsilon, f.number("rms_norm_eps", 1e-6));
  return {};
}

Status read_activation(const Fields& f, const Family& family, DecoderConfig& c, Problems& problems) {
  BRISK_ASSIGN(auto act, f.text("hidden_act", "silu"));
  // Gemma's first files say "gelu" in hidden_act and mean the tanh form; hidden_activation corrects them.
  if (family.root_embedding) {
    BRISK_ASSIGN(act, f.text("hidden_activation", "gelu_pytorch_tanh"));
  }
  if (act == "silu" || act == "swish") c.activation = Activation::kSilu;
  else if (act == "gelu") c.activation = Activation::kGelu;
  else if (act == "gelu_pytorch_tanh" || act == "gelu_new") c.activation = Activation::kGeluTanh;
  else problems.add("activation " + in_quotes(act) + " (supported: silu, gelu, gelu_pytorch_tanh)");
  return {};
}

Status read_parts(const Fields& f, const Family& family, DecoderConfig& c) {
  BRISK_ASSIGN(c.tied_embeddings, f.flag("tie_word_embeddings", family.tied_by_default));
  BRISK_ASSIGN(bool bias, f.flag("attention_bias", false));
  bool from_config = family.bias == Family::Bias::kConfig && bias;
  c.qkv_bias = family.bias == Family::Bias::kQkv || from_config;
  c.o_bias = from_config;
  BRISK_ASSIGN(c.mlp_bias, f.flag("mlp_bias", false));
  c.qk_norm = family.qk_norm;
  if (family.root_embedding) c.embedding_scale = std::sqrt(static_cast<double>(c.hidden));
  if (!family.scales) return {};
  BRISK_ASSIGN(c.embedding_scale, f.number("embedding_multiplier", 1));
  BRISK_ASSIGN(c.residual_scale, f.number("residual_multiplier", 1));
  BRISK_ASSIGN(c.attention_scale, f.number("attention_multiplier", 1));
  BRISK_ASSIGN(double logits, f.number("logits_scaling", 1));
  if (logits == 0) return f.wrong("logits_scaling", "must not be 0");
  c.logit_scale = 1 / logits;
  return {};
}

// layer_types wins over the older fields; "chunked_attention" and the like are not supported.
Status read_windows(const Fields& f, const Family& family, DecoderConfig& c, Problems& problems) {
  if (family.window == Family::Window::kNever) return {};
  BRISK_ASSIGN(c.window, f.integer("sliding_window", 0, 0));
  BRISK_ASSIGN(bool enabled, f.flag("use_sliding_window", family.window == Family::Window::kIfGiven));
  if (!enabled) c.window = 0;
  BRISK_ASSIGN(const json* types, f.list("layer_types"));
  if (types) {
    for (const json& t : *types) {
      bool sliding = t == "sliding_attention";
      if (!sliding && t != "full_attention") problems.add("layer type " + in_quotes(t.is_string() ? t.get<std::string>() : t.type_name()));
      c.windowed.push_back(sliding);
    }
  } else if (c.window && family.window == Family::Window::kIfEnabled) {
    BRISK_ASSIGN(int64_t first, f.integer("max_window_layers", 28, 0));
    for (int64_t i = 0; i < c.layers && i < (1 << 14); ++i) c.windowed.push_back(i >= first);
  }
  return {};
}

Status read_unrotated(const Fields& f, const Family& family, DecoderConfig& c) {
  if (!family.no_rope_every) return {};
  BRISK_ASSIGN(const json* list, f.list("no_rope_layers"));
  if (list) {
    for (const json& v : *list) {
      if (v != 0 && v != 1) return f.wrong("no_rope_layers", "must hold zeros and ones");
      c.no_rope.push_back(v == 0);
    }
    return {};
  }
  BRISK_ASSIGN(int64_t every, f.integer("no_rope_layer_interval", family.no_rope_every));
  for (int64_t i = 0; i < c.layers && i < (1 << 14); ++i) c.no_rope.push_back((i + 1) % every == 0);
  return {};
}

Status read_yarn(const Fields& r, RopeScaling& s) {
  BRISK_ASSIGN(s.beta_fast, r.number("beta_fast", 32));
  BRISK_ASSIGN(s.beta_slow, r.number("beta_slow", 1));
  BRISK_ASSIGN(s.truncate, r.flag("truncate", true));
  BRISK_ASSIGN(s.magnitude, r.number("attention_factor", 0));
  BRISK_ASSIGN(double m, r.number("mscale", 0));
  BRISK_ASSIGN(double all, r.number("mscale_all_dim", 0));
  auto magnitude = [&](double scale) { return s.factor <= 1 ? 1 : 0.1 * scale * std::log(s.factor) + 1; };
  if (s.magnitude == 0 && m != 0 && all != 0) s.magnitude = magnitude(m) / magnitude(all);
  return {};
}

Status read_scaling(const Fields& r, DecoderConfig& c, Problems& problems) {
  BRISK_ASSIGN(auto old_name, r.text("type", "default"));
  BRISK_ASSIGN(auto kind, r.text("rope_type", old_name.c_str()));
  RopeScaling& s = c.rope_scaling;
  BRISK_ASSIGN(s.factor, r.number("factor", 1));
  BRISK_ASSIGN(s.original_context, r.number("original_max_position_embeddings", static_cast<double>(c.max_context)));
  if (kind == "default") {
    s = {};
  } else if (kind == "linear") {
    s.kind = RopeScaling::Kind::kLinear;
  } else if (kind == "llama3") {
    s.kind = RopeScaling::Kind::kLlama3;
    BRISK_ASSIGN(s.low_frequency, r.number("low_freq_factor", 1));
    BRISK_ASSIGN(s.high_frequency, r.number("high_freq_factor", 4));
  } else if (kind == "yarn") {
    s.kind = RopeScaling::Kind::kYarn;
    BRISK_TRY(read_yarn(r, s));
  } else {
    problems.add("rope scaling " + in_quotes(kind) + " (supported: default, linear, llama3, yarn)");
  }
  return {};
}

// Older files: rope_theta, rope_scaling and partial_rotary_factor; newer ones: all of it in rope_parameters.
Status read_rope(const Fields& f, const Family& family, DecoderConfig& c, Problems& problems) {
  double partial = 1;
  BRISK_ASSIGN(c.rope_theta, f.number("rope_theta", family.default_theta));
  BRISK_ASSIGN(partial, f.number("partial_rotary_factor", 1));
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    BRISK_ASSIGN(const json* o, f.object(key));
    if (!o) continue;
    Fields r(f.where() + ": " + key, *o);
    if (r.has("full_attention") || r.has("sliding_attention")) {
      problems.add(std::string(key) + " that differ by layer type");
      continue;
    }
    BRISK_ASSIGN(c.rope_theta, r.number("rope_theta", c.rope_theta));
    BRISK_ASSIGN(partial, r.number("partial_rotary_factor", partial));
    BRISK_TRY(read_scaling(r, c, problems));
  }
  if (!(partial > 0 && partial <= 1)) return f.wrong("partial_rotary_factor", "must be above 0 and at most 1");
  c.rope_dim = static_cast<int64_t>(static_cast<double>(c.head_dim) * partial);
  if (c.rope_dim == 0) return f.wrong("partial_rotary_factor", "leaves no element of a head of " + std::to_string(c.head_dim));
  return {};
}

void refuse_others(const Fields& f, Problems& problems) {
  if (const json* q = f.find("quantization_config")) {
    auto it = q->find("quant_method");
    problems.add("quantization_config with method " + in_quotes(q->is_object() && it != q->end() && it->is_string() ? it->get<std::string>() : "unknown"));
  }
  if (const json* a = f.find("architectures"); a && a->is_array())
    for (const json& name : *a)
      if (name.is_string() && !name.get<std::string>().ends_with("ForCausalLM"))
        problems.add("architecture " + in_quotes(name.get<std::string>()) + " (supported: language models, ...ForCausalLM)");
}

}  // namespace

Result<HfConfig> read_hf_config(const std::string& folder, Problems& problems) {
  std::string path = folder + "/config.json";
  BRISK_ASSIGN(json j, read_object(path));
  Fields f(path, j);
  HfConfig out;
  BRISK_ASSIGN(auto type, f.text("model_type", ""));
  refuse_others(f, problems);
  out.family = family_of_hf(type);
  if (!out.family) {
    problems.add("model_type " + in_quotes(type) + " (supported: " + supported_families(false) + ")");
    return out;
  }
  DecoderConfig& c = out.decoder;
  c.family = out.family->hf;
  BRISK_TRY(read_sizes(f, c));
  BRISK_TRY(read_activation(f, *out.family, c, problems));
  BRISK_TRY(read_parts(f, *out.family, c));
  BRISK_TRY(read_windows(f, *out.family, c, problems));
  BRISK_TRY(read_unrotated(f, *out.family, c));
  BRISK_TRY(read_rope(f, *out.family, c, problems));
  return out;
}

namespace {

// genai_config.json of onnxruntime-genai: settings of sampling are under "search", ids and the context under "model".
Result<json> read_genai(const std::string& path) {
  if (!is_file(path)) return json::object();
  BRISK_ASSIGN(json j, read_object(path));
  json out = json::object();
  for (const char* part : {"search", "model"})
    if (auto it = j.find(part); it != j.end() && it->is_object()) out.update(*it);
  return out;
}

}  // namespace

Result<int64_t> read_context(const std::string& folder) {
  std::string path = folder + "/config.json";
  if (is_file(path)) {
    BRISK_ASSIGN(json j, read_object(path));
    Fields f(path, j);
    for (const char* key : {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length"})
      if (f.has(key)) return f.integer(key, 0);
  }
  BRISK_ASSIGN(json j, read_genai(folder + "/genai_config.json"));
  return Fields(folder + "/genai_config.json", j).integer("context_length", 0);
}

Result<std::string> read_generation(const std::string& folder, int64_t vocab, std::span<const int32_t> more_eos) {
  std::string path = folder + "/generation_config.json";
  if (!is_file(path)) path = folder + "/config.json";
  json j = json::object();
  if (!is_file(path)) {
    path = folder + "/genai_config.json";
    BRISK_ASSIGN(j, read_genai(path));
  } else {
    BRISK_ASSIGN(j, read_object(path));
  }
  Fields f(path, j);
  json out = json::object(), eos = json::array();
  auto add_eos = [&](const json& id) {
    if (std::find(eos.begin(), eos.end(), id) == eos.end()) eos.push_back(id);
  };
  if (const json* v = f.find("eos_token_id"))
    for (const json& id : v->is_array() ? *v : json::array({*v})) {
      if (!id.is_number_integer() || id < 0 || id >= vocab) return f.wrong("eos_token_id", "must be an id, or a list of ids, from 0 to " + std::to_string(vocab - 1));
      add_eos(id);
    }
  for (int32_t id : more_eos) add_eos(id);
  if (!eos.empty()) out["eos_token_id"] = eos;
  for (const char* key : {"bos_token_id", "pad_token_id"}) {
    const json* v = f.find(key);
    if (v && v->is_number_integer() && *v >= 0 && *v < vocab) out[key] = *v;  // -1 and the like mean none
  }
  for (const char* key : {"temperature", "top_p", "min_p", "repetition_penalty"}) {
    BRISK_ASSIGN(double v, f.number(key, -1));
    if (f.has(key)) out[key] = v;
  }
  BRISK_ASSIGN(int64_t top_k, f.integer("top_k", 0, 0));
  if (f.has("top_k")) out["top_k"] = top_k;
  BRISK_ASSIGN(bool sample, f.flag("do_sample", false));
  if (f.has("do_sample")) out["do_sample"] = sample;
  return out.dump();
}

Result<std::string> read_chat_template(const std::string& folder) {
  std::string file = folder + "/chat_template.jinja", path = folder + "/tokenizer_config.json";
  if (is_file(file)) return read_file(file, kMaxHfJson);
  if (!is_file(path)) return std::string();
  BRISK_ASSIGN(json j, read_object(path));
  Fields f(path, j);
  const json* v = f.find("chat_template");
  if (!v || !v->is_array()) return f.text("chat_template", "");
  std::string first;
  for (const json& named : *v) {
    if (!named.is_object()) return f.wrong("chat_template", "must be a string or a list of named templates");
    Fields t(path + ": chat_template", named);
    BRISK_ASSIGN(auto name, t.text("name", ""));
    BRISK_ASSIGN(auto text, t.text("template", ""));
    if (name == "default") return text;
    if (first.empty()) first = text;
  }
  return first;
}

}  // namespace brisk
