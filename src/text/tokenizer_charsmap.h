// SentencePiece's precompiled character map: u32 size of a double-array trie, its u32 units, NUL-terminated strings.
#pragma once
#include <string>
#include <string_view>

#include "brisk/result.h"

namespace brisk {

Status check_charsmap(std::string_view map);
// `by_grapheme` off: as SentencePiece does, the longest match at every place. On: as the `tokenizers` package does, the
// shortest match over a whole grapheme of under six bytes, else over each character.
std::string apply_charsmap(std::string_view map, std::string_view text, bool by_grapheme);

}  // namespace brisk
