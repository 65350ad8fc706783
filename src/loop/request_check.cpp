#include "loop/request_check.h"

#include <string>

namespace brisk {
namespace {

std::string number(double v) {
  std::string s = std::to_string(v);
  while (s.find('.') != std::string::npos && (s.back() == '0' || s.back() == '.')) {
    const bool point = s.back() == '.';
    s.pop_back();
    if (point) break;
  }
  return s;
}

// Written so that a NaN is outside of every range.
Status in_range(const char* field, double value, double low, double high, bool open_low = false) {
  if ((open_low ? value > low : value >= low) && value <= high) return {};
  return invalid(std::string(field) + " is " + number(value) + ", not in " + (open_low ? "(" : "[") + number(low) + ", " +
                 number(high) + "]");
}

Status check_sampling(const SampleParams& p, const RequestBounds& bounds) {
  namespace lim = request_limits;
  BRISK_TRY(in_range("temperature", p.temperature, 0, lim::kMaxTemperature));
  BRISK_TRY(in_range("top_p", p.top_p, 0, 1, true));
  BRISK_TRY(in_range("min_p", p.min_p, 0, 1));
  BRISK_TRY(in_range("top_k", p.top_k, 0, static_cast<double>(bounds.vocab_size)));
  BRISK_TRY(in_range("repetition_penalty", p.repetition_penalty, 0, lim::kMaxRepetitionPenalty, true));
  BRISK_TRY(in_range("presence_penalty", p.presence_penalty, -lim::kMaxPenalty, lim::kMaxPenalty));
  BRISK_TRY(in_range("frequency_penalty", p.frequency_penalty, -lim::kMaxPenalty, lim::kMaxPenalty));
  return in_range("top_logprobs", p.top_logprobs, -1, kMaxTopLogprobs);
}

Status check_ids(const char* field, const std::vector<int32_t>& ids, int64_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= vocab_size)
      return invalid(std::string(field) + "[" + std::to_string(i) + "] is " + std::to_string(ids[i]) + ", not in [0, " +
                     std::to_string(vocab_size - 1) + "]");
  return {};
}

Status check_stops(const GenerationRequest& r, const RequestBounds& bounds) {
  namespace lim = request_limits;
  BRISK_TRY(in_range("the number of stop ids", static_cast<double>(r.stop_ids.size()), 0, lim::kMaxStopIds));
  BRISK_TRY(check_ids("stop_ids", r.stop_ids, bounds.vocab_size));
  BRISK_TRY(in_range("the number of stop strings", static_cast<double>(r.stop_strings.size()), 0, lim::kMaxStopStrings));
  if (!r.stop_strings.empty() && !bounds.has_text) return invalid("stop strings need a tokenizer, and the engine has none");
  for (const std::string& s : r.stop_strings)
    BRISK_TRY(in_range("the length of a stop string", static_cast<double>(s.size()), 1, lim::kMaxStopBytes));
  return {};
}

}  // namespace

Status check_request(const GenerationRequest& r, const RequestBounds& bounds) {
  namespace lim = request_limits;
  if (r.prompt.empty()) return invalid("the prompt has no tokens");
  if (static_cast<int64_t>(r.prompt.size()) >= bounds.max_context)
    return invalid("the prompt has " + std::to_string(r.prompt.size()) + " tokens, but prompt and answer together may have " +
                   std::to_string(bounds.max_context));
  BRISK_TRY(check_ids("prompt", r.prompt, bounds.vocab_size));
  BRISK_TRY(check_sampling(r.sampling, bounds));
  if (r.max_tokens < 0) return invalid("max_tokens is " + std::to_string(r.max_tokens) + ", not 0 or more");
  BRISK_TRY(check_stops(r, bounds));
  BRISK_TRY(in_range("priority", r.priority, -lim::kMaxPriority, lim::kMaxPriority));
  if (r.deadline_ns < 0) return invalid("deadline is " + std::to_string(r.deadline_ns) + ", not 0 or more");
  BRISK_TRY(in_range("the length of key", static_cast<double>(r.key.size()), 0, lim::kMaxKeyBytes));
  return in_range("the length of cache_salt", static_cast<double>(r.cache_salt.size()), 0, lim::kMaxKeyBytes);
}

}  // namespace brisk
