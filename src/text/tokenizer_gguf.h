// A tokenizer from the metadata of a GGUF file (keys tokenizer.*).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brisk/result.h"
#include "text/tokenizer_model.h"

namespace brisk {

// The metadata, already read from the file; what a file does not have stays empty. Views may point into the mapping:
// they are copied. Each comment names the key under "tokenizer.ggml.".
struct GgufTokenizerFields {
  std::string model;                      // model: gpt2, llama, bert, t5, gemma4
  std::string pre;                        // pre
  std::vector<std::string_view> tokens;   // tokens
  std::vector<float> scores;              // scores
  std::vector<int32_t> types;             // token_type
  std::vector<std::string_view> merges;   // merges: "left right"
  std::optional<int64_t> bos, eos, eot, eom;   // bos_token_id, eos_token_id, eot_token_id, eom_token_id
  std::optional<int64_t> unknown, separator;   // unknown_token_id, seperator_token_id (spelled so)
  std::optional<int64_t> padding, mask, cls;   // padding_token_id, mask_token_id, cls_token_id
  std::optional<bool> add_bos, add_eos;        // add_bos_token, add_eos_token
  std::optional<bool> add_space_prefix;        // add_space_prefix
  std::optional<bool> remove_extra_whitespaces;        // remove_extra_whitespaces
  std::optional<bool> normalizer_lowercase;            // normalizer.lowercase
  std::optional<bool> normalizer_strip_accents;        // normalizer.strip_accents
  std::string_view precompiled_charsmap;  // precompiled_charsmap (bytes)
  std::string chat_template;              // tokenizer.chat_template (without "ggml.")
  std::string general_name;               // general.name: some flags of tokens are known only by it
};

// kUnsupported: a model kind that brisk does not know. kInvalid names the key that is wrong. A missing or unknown
// `pre` is no error: the field's default splitting is used, with a warning.
Result<TokenizerModel> tokenizer_from_gguf(const GgufTokenizerFields& fields);

// Tokens that end a turn or a generation by their spelling, for vocabularies that do not mark them.
bool ends_generation_by_name(std::string_view token);

}  // namespace brisk
