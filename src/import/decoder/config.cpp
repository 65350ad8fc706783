#include "import/decoder/config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace brisk {
namespace {

struct IntRange {
  const char* name;
  int64_t value, min, max;
};
struct FloatRange {
  const char* name;
  double value, min, max;
};

Error out_of_range(const char* name, const std::string& value, const std::string& min, const std::string& max) {
  return invalid(std::string(name) + " is " + value + ", allowed are " + min + " to " + max);
}

std::string number(double v) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", v);
  return text;
}

Status check_lists(const DecoderConfig& c) {
  auto layers = static_cast<size_t>(c.layers);
  if (!c.no_rope.empty() && c.no_rope.size() != layers)
    return invalid("the list of layers without rotation has " + std::to_string(c.no_rope.size()) + " entries for " + std::to_string(layers) + " layers");
  if (!c.windowed.empty() && c.windowed.size() != layers)
    return invalid("the list of layer types has " + std::to_string(c.windowed.size()) + " entries for " + std::to_string(layers) + " layers");
  const RopeScaling& s = c.rope_scaling;
  if (s.kind != RopeScaling::Kind::kFactors) return {};
  if (s.factors.size() != static_cast<size_t>(c.rotary() / 2))
    return invalid("rope factors: " + std::to_string(s.factors.size()) + " of them for " + std::to_string(c.rotary() / 2) + " frequencies");
  for (float f : s.factors)
    if (!(f >= 1e-6f && f <= 1e9f)) return out_of_range("rope factor", number(static_cast<double>(f)), "1e-6", "1e9");
  return {};
}

}  // namespace

Status check_config(const DecoderConfig& c, int64_t max_layers) {
  constexpr int64_t kWide = 1 << 20, kVocab = 1 << 24, kContext = 1 << 28;
  const IntRange ints[] = {
      {"number of layers", c.layers, 1, std::min<int64_t>(max_layers, 1 << 14)},
      {"hidden size", c.hidden, 1, kWide},
      {"number of attention heads", c.heads, 1, 1 << 14},
      {"number of key/value heads", c.kv_heads, 1, c.heads},
      {"head size", c.head_dim, 2, 1 << 14},
      {"rotated elements of a head", c.rotary(), 2, c.head_dim},
      {"MLP size", c.intermediate, 1, 4 * kWide},
      {"vocabulary size", c.vocab, 1, kVocab},
      {"context length", c.max_context, 1, kContext},
      {"attention window", c.window, 0, INT32_MAX},
  };
  for (const auto& r : ints)
    if (r.value < r.min || r.value > r.max)
      return out_of_range(r.name, std::to_string(r.value), std::to_string(r.min), std::to_string(r.max));
  const RopeScaling& s = c.rope_scaling;
  bool long_kind = s.kind == RopeScaling::Kind::kLlama3 || s.kind == RopeScaling::Kind::kYarn;
  const FloatRange floats[] = {
      {"norm epsilon", c.norm_epsilon, 0, 1},
      {"rope theta", c.rope_theta, 1.000001, 1e15},
      {"rope scaling factor", s.factor, 1e-3, 1e6},
      {"rope scaling original context", s.original_context, long_kind ? 1.0 : 0.0, 1e9},
      {"rope scaling low frequency factor", s.low_frequency, 1e-6, 1e6},
      {"rope scaling high frequency factor", s.high_frequency, 1e-6, 1e6},
      {"rope scaling beta_fast", s.beta_fast, 1e-6, 1e6},
      {"rope scaling beta_slow", s.beta_slow, 1e-6, 1e6},
      {"rope scaling attention factor", s.magnitude, 0, 1e3},
      {"attention scale", c.attention_scale, 0, 1e6},
      {"embedding scale", c.embedding_scale, -1e6, 1e6},
      {"residual scale", c.residual_scale, -1e6, 1e6},
      {"logit scale", c.logit_scale, -1e6, 1e6},
  };
  for (const auto& r : floats)
    if (!(r.value >= r.min && r.value <= r.max)) return out_of_range(r.name, number(r.value), number(r.min), number(r.max));
  if (c.heads % c.kv_heads)
    return invalid(std::to_string(c.heads) + " attention heads cannot share " + std::to_string(c.kv_heads) + " key/value heads evenly");
  if (c.rotary() % 2) return invalid("rotated elements of a head are " + std::to_string(c.rotary()) + ", which must be even");
  if (s.kind == RopeScaling::Kind::kLlama3 && s.high_frequency <= s.low_frequency)
    return invalid("rope scaling: high frequency factor " + number(s.high_frequency) + " must exceed the low one, " + number(s.low_frequency));
  return check_lists(c);
}

namespace {

// Llama 3.1: waves longer than the original context / low factor are stretched, shorter than / high factor kept.
float llama3(float frequency, const RopeScaling& s) {
  double wave = 2 * std::numbers::pi / static_cast<double>(frequency);
  if (wave < s.original_context / s.high_frequency) return frequency;
  if (wave > s.original_context / s.low_frequency) return static_cast<float>(static_cast<double>(frequency) / s.factor);
  double smooth = (s.original_context / wave - s.low_frequency) / (s.high_frequency - s.low_frequency);
  return static_cast<float>((1 - smooth) * static_cast<double>(frequency) / s.factor + smooth * static_cast<double>(frequency));
}

// The dimension whose wave makes `turns` turns over the original context (YaRN, section 3.2).
double yarn_dimension(double turns, const DecoderConfig& c) {
  return static_cast<double>(c.rotary()) * std::log(c.rope_scaling.original_context / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(c.rope_theta));
}

void apply_yarn(std::vector<float>& f, const DecoderConfig& c) {
  const RopeScaling& s = c.rope_scaling;
  double low = yarn_dimension(s.beta_fast, c), high = yarn_dimension(s.beta_slow, c);
  if (s.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(c.rotary() - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < f.size(); ++i) {
    double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);  // 1: wholly interpolated
    f[i] = static_cast<float>(static_cast<double>(f[i]) * ((1 - ramp) + ramp / s.factor));
  }
}

}  // namespace

std::vector<float> rope_frequencies(const DecoderConfig& c) {
  std::vector<float> f(static_cast<size_t>(c.rotary() / 2));
  auto theta = static_cast<float>(c.rope_theta);
  for (size_t i = 0; i < f.size(); ++i)
    f[i] = 1.0f / std::pow(theta, static_cast<float>(2 * i) / static_cast<float>(c.rotary()));
  const RopeScaling& s = c.rope_scaling;
  switch (s.kind) {
    case RopeScaling::Kind::kNone: break;
    case RopeScaling::Kind::kLinear:
      for (float& v : f) v /= static_cast<float>(s.factor);
      break;
    case RopeScaling::Kind::kLlama3:
      for (float& v : f) v = llama3(v, s);
      break;
    case RopeScaling::Kind::kYarn: apply_yarn(f, c); break;
    case RopeScaling::Kind::kFactors:
      for (size_t i = 0; i < f.size(); ++i) f[i] /= s.factors[i];
      break;
  }
  return f;
}

float rope_magnitude(const DecoderConfig& c) {
  const RopeScaling& s = c.rope_scaling;
  if (s.kind != RopeScaling::Kind::kYarn) return 1;
  if (s.magnitude > 0) return static_cast<float>(s.magnitude);
  return s.factor <= 1 ? 1 : static_cast<float>(0.1 * std::log(s.factor) + 1);
}

}  // namespace brisk
