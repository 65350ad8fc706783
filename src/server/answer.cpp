#include "server/answer.h"

#include "server/json_out.h"

namespace brisk {
namespace {

void write_ids(std::string& out, const std::vector<int32_t>& ids) {
  out += '[';
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i) out += ',';
    json_number(out, int64_t{ids[i]});
  }
  out += ']';
}

// A token as text; one that is a part of a character is spelled "bytes:\xe2\x82", so that different tokens stay so.
std::string token_text(const std::string& bytes) {
  if (utf8_valid(bytes)) return bytes;
  std::string out = "bytes:";
  for (unsigned char c : bytes) {
    char hex[8];
    out.append(hex, static_cast<size_t>(std::snprintf(hex, sizeof hex, "\\x%02x", c)));
  }
  return out;
}

void write_chat_token(std::string& out, const TokenLogprob& t) {
  out += "{\"token\":";
  json_string(out, token_text(t.bytes));
  out += ",\"logprob\":";
  json_number(out, t.logprob);
  out += ",\"bytes\":[";
  for (size_t i = 0; i < t.bytes.size(); ++i) {
    if (i) out += ',';
    json_number(out, int64_t{static_cast<unsigned char>(t.bytes[i])});
  }
  out += ']';
}

void write_chat_logprobs(std::string& out, const std::vector<SampledToken>& tokens) {
  out += "{\"content\":[";
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i) out += ',';
    write_chat_token(out, tokens[i].chosen);
    out += ",\"top_logprobs\":[";
    for (size_t k = 0; k < tokens[i].top.size(); ++k) {
      if (k) out += ',';
      write_chat_token(out, tokens[i].top[k]);
      out += '}';
    }
    out += "]}";
  }
  out += "],\"refusal\":null}";
}

// The chosen token is always among the top ones.
void write_top(std::string& out, const SampledToken& t) {
  out += '{';
  bool chosen = false;
  for (size_t k = 0; k < t.top.size(); ++k) {
    if (k) out += ',';
    json_string(out, token_text(t.top[k].bytes));
    out += ':';
    json_number(out, t.top[k].logprob);
    chosen = chosen || t.top[k].bytes == t.chosen.bytes;
  }
  if (!chosen) {
    if (!t.top.empty()) out += ',';
    json_string(out, token_text(t.chosen.bytes));
    out += ':';
    json_number(out, t.chosen.logprob);
  }
  out += '}';
}

void write_text_logprobs(std::string& out, const std::vector<SampledToken>& tokens, size_t& offset) {
  std::string texts, values, tops, offsets;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i) texts += ',', values += ',', tops += ',', offsets += ',';
    json_string(texts, token_text(tokens[i].chosen.bytes));
    json_number(values, tokens[i].chosen.logprob);
    write_top(tops, tokens[i]);
    json_number(offsets, static_cast<int64_t>(offset));
    offset += utf8_length(tokens[i].chosen.bytes);
  }
  out += "{\"tokens\":[" + texts + "],\"token_logprobs\":[" + values + "],\"top_logprobs\":[" + tops + "],\"text_offset\":[" + offsets + "]}";
}

void write_logprobs(std::string& out, const AnswerStyle& style, const std::vector<SampledToken>& tokens, size_t& offset) {
  out += ",\"logprobs\":";
  if (!style.logprobs || tokens.empty()) out += "null";
  else if (style.chat) write_chat_logprobs(out, tokens);
  else write_text_logprobs(out, tokens, offset);
}

void write_finish(std::string& out, FinishReason reason, const std::string& stop_string) {
  out += ",\"finish_reason\":";
  if (reason == FinishReason::kNone) out += "null";
  else json_string(out, finish_reason_name(reason));
  out += ",\"stop_reason\":";  // vLLM's: which stop string
  if (stop_string.empty()) out += "null";
  else json_string(out, stop_string);
}

void write_head(std::string& out, const AnswerStyle& style, bool chunk) {
  out += "{\"id\":\"" + style.id + "\",\"object\":\"";
  out += !style.chat ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion";
  out += "\",\"created\":";
  json_number(out, style.created);
  out += ",\"model\":";
  json_string(out, style.model);
  out += ",\"system_fingerprint\":null,\"choices\":[";
}

void write_usage(std::string& out, const std::vector<Choice>& choices) {
  int64_t prompt = 0, completion = 0, cached = 0;
  for (const Choice& c : choices) {
    prompt += c.usage.prompt_tokens;
    completion += c.usage.completion_tokens;
    cached += c.usage.cached_tokens;
  }
  out += "\"usage\":{\"prompt_tokens\":" + std::to_string(prompt) + ",\"completion_tokens\":" + std::to_string(completion) +
         ",\"total_tokens\":" + std::to_string(prompt + completion) + ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(cached) + "}}";
}

void write_role_chunk(std::string& out, const AnswerStyle& style, size_t index) {
  out += "data: ";
  write_head(out, style, true);
  out += "{\"index\":";
  json_number(out, static_cast<int64_t>(index));
  out += ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]";
  out += style.include_usage ? ",\"usage\":null}\n\n" : "}\n\n";
}

}  // namespace

void write_chunk(std::string& out, const AnswerStyle& style, size_t index, Choice& choice, const GenerationEvent& e, bool first) {
  if (first && style.chat) write_role_chunk(out, style, index);
  const bool says = !e.text.empty() || e.finish != FinishReason::kNone || (style.logprobs && !e.logprobs.empty()) || style.return_ids;
  if (!says) return;
  out += "data: ";
  write_head(out, style, true);
  out += "{\"index\":";
  json_number(out, static_cast<int64_t>(index));
  out += style.chat ? ",\"delta\":{" : ",\"text\":";
  if (!style.chat) json_string(out, e.text);
  else if (!e.text.empty()) out += "\"content\":", json_string(out, e.text);
  if (style.chat) out += '}';
  write_logprobs(out, style, e.logprobs, choice.text_offset);
  write_finish(out, e.finish, e.stop_string);
  if (style.return_ids) {
    if (first) out += ",\"prompt_token_ids\":", write_ids(out, choice.prompt);
    out += ",\"token_ids\":";
    write_ids(out, e.ids);
  }
  out += "}]";
  if (style.include_usage) out += ",\"usage\":null";
  if (style.debug_timing) out += ",\"brisk_sampled_at_ns\":", json_number(out, e.times.sampled_at_ns);
  out += "}\n\n";
}

void write_usage_chunk(std::string& out, const AnswerStyle& style, const std::vector<Choice>& choices) {
  out += "data: ";
  write_head(out, style, true);
  out += "],";
  write_usage(out, choices);
  out += "}\n\n";
}

std::string whole_answer(const AnswerStyle& style, std::vector<Choice>& choices) {
  std::string out;
  write_head(out, style, false);
  for (size_t i = 0; i < choices.size(); ++i) {
    Choice& c = choices[i];
    out += i ? ",{\"index\":" : "{\"index\":";
    json_number(out, static_cast<int64_t>(i));
    out += style.chat ? ",\"message\":{\"role\":\"assistant\",\"content\":" : ",\"text\":";
    json_string(out, c.text);
    if (style.chat) out += ",\"refusal\":null}";
    write_logprobs(out, style, c.logprobs, c.text_offset);
    write_finish(out, c.finish, c.stop_string);
    if (style.return_ids) {
      out += ",\"prompt_token_ids\":";
      write_ids(out, c.prompt);
      out += ",\"token_ids\":";
      write_ids(out, c.ids);
    }
    out += '}';
  }
  out += "],";
  write_usage(out, choices);
  if (style.debug_timing && !choices.empty()) out += ",\"brisk_sampled_at_ns\":", json_number(out, choices.back().times.sampled_at_ns);
  return out + "}";
}

}  // namespace brisk
