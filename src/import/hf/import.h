// Hugging Face folders of the Llama family to the IR: Model.functions["step"].
#pragma once
#include <string>

#include "ir/graph.h"

namespace brisk {

struct HfOptions {
  std::string tokenizer_folder;  // where tokenizer.json and the chat template are; empty: the model's folder
};

// Reads config.json, model.safetensors (or its shards), generation_config.json, tokenizer.json, tokenizer_config.json
// and chat_template.jinja. Weights stay in the mapping, which the model keeps alive. Errors: kInvalid (damaged: file,
// field, limit), kUnsupported (all that is not supported, listed), kEnvironment (cannot read).
Result<Model> import_hf(const std::string& folder, const HfOptions& options = {});

}  // namespace brisk
