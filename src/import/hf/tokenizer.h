// The tokenizer of a Hugging Face folder.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace brisk {

// From tokenizer.json and the files beside it; nullptr (and a note) if there is none. Added tokens whose ids have no row
// in an embedding of `vocab` rows are left out, with a note: fine-tunes often add a padding token without one.
Result<std::shared_ptr<const Tokenizer>> hf_tokenizer(const std::string& folder, int64_t vocab, std::vector<std::string>& notes);

}  // namespace brisk
