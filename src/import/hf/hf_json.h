// The JSON files beside a Hugging Face folder's weights.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "import/decoder/config.h"
#include "import/decoder/families.h"
#include "import/decoder/problems.h"

namespace brisk {

inline constexpr uint64_t kMaxHfJson = 3u << 20;  // bytes of each; a parsed tree takes at most 24 times its text

struct HfConfig {
  const Family* family = nullptr;  // nullptr: not supported, as `problems` says; the rest is empty then
  DecoderConfig decoder;           // ranges not yet checked
};

// config.json. What is not supported goes to `problems`; an error means that the file is missing or damaged.
Result<HfConfig> read_hf_config(const std::string& folder, Problems& problems);

// The defaults of generation as one JSON object: eos_token_id (always a list of ids below `vocab`), bos_token_id,
// pad_token_id, do_sample, temperature, top_k, top_p, min_p, repetition_penalty. From generation_config.json if there is
// one, else from config.json, else from genai_config.json. `more_eos` are the tokenizer's ids that end an answer, all below `vocab`.
Result<std::string> read_generation(const std::string& folder, int64_t vocab, std::span<const int32_t> more_eos = {});

// Positions that the model was made for, from config.json or genai_config.json; 0 if neither says.
Result<int64_t> read_context(const std::string& folder);

// chat_template.jinja, or chat_template in tokenizer_config.json ("default" of several); empty if there is none.
Result<std::string> read_chat_template(const std::string& folder);

}  // namespace brisk
