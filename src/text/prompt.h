// From a rendered chat to token ids, and the pieces of text/ that need a tokenizer put together.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "brisk/result.h"
#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace brisk {

// Special tokens (and added tokens that look like markup) count only where the template wrote all of their bytes; all
// other text is cut as one piece, so that a prompt whose data holds no such string gives exactly the ids of
// encode(text). No bos or eos is added: the template writes them.
Result<std::vector<int32_t>> encode_prompt(const Tokenizer& tokenizer, const RenderedPrompt& prompt);

// A stream that gives what Tokenizer::decode() gives. The detokenizer keeps the tokenizer alive.
Detokenizer make_detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special = true);

}  // namespace brisk
