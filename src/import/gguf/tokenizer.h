// The tokenizer inside a GGUF file.
#pragma once
#include <memory>

#include "import/gguf/gguf_file.h"
#include "text/tokenizer.h"

namespace brisk {

// From the keys tokenizer.*; nullptr if the file has no tokenizer. kUnsupported: a kind that brisk does not know.
Result<std::shared_ptr<const Tokenizer>> gguf_tokenizer(const GgufFile& file);

}  // namespace brisk
