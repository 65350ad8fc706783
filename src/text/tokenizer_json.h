// A tokenizer from the files of a Hugging Face folder.
#pragma once
#include <string>
#include <string_view>

#include "brisk/result.h"
#include "text/tokenizer_model.h"

namespace brisk {

// Contents of the files; all but the first may be empty.
struct HfTokenizerFiles {
  std::string_view tokenizer_json;
  std::string_view tokenizer_config;   // tokenizer_config.json: special tokens, chat template
  std::string_view generation_config;  // generation_config.json: eos_token_id
  std::string_view chat_template;      // chat_template.jinja; wins over the one in tokenizer_config.json
};

// BPE, WordPiece and Unigram models with their normalizers, pre-tokenizers, post-processors (for one text) and decoders.
// Truncation and padding are not read: they are the caller's business. kUnsupported lists everything that brisk does
// not have, kInvalid names file and field. Nothing in the files is trusted: depth, ids and types are checked, and
// memory stays within a small multiple of the size of the files.
Result<TokenizerModel> tokenizer_from_json(const HfTokenizerFiles& files);

}  // namespace brisk
