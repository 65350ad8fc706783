// Tokenizer, template and settings for a model whose own file has none: an ONNX file with the usual JSON files beside it.
#pragma once
#include "ir/graph.h"

namespace brisk {

// Reads tokenizer.json, tokenizer_config.json, chat_template.jinja, generation_config.json, config.json and genai_config.json
// where they are in `folder`, into tokenizer, chat_template, generation_config and max_context. Only for a function that
// takes token ids and gives logits; others are left alone. `wanted`: the user named the folder, and a tokenizer must be
// there; else what cannot be used is a note.
Status read_text_files(Model& model, const std::string& folder, bool wanted);

}  // namespace brisk
