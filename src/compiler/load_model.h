// A model of any known format, told apart by content.
#pragma once
#include <string>

#include "ir/graph.h"

namespace brisk {

// Folder: Hugging Face. File: GGUF by its magic, else ONNX. What is neither file nor folder is an error that says how to
// get a model, since a hub id is a common guess.
Result<Model> load_model(const std::string& path, const std::string& tokenizer_dir = {});

// SHA-256 of what the model's bytes are (hex), for the build record: the file, or each file of the folder by name.
Result<std::string> hash_model(const std::string& path);

}  // namespace brisk
