// GGUF files do not say how text is split before BPE, they name it (tokenizer.ggml.pre). The one table of those names.
#pragma once
#include <span>
#include <string_view>

namespace brisk {

struct NamedPretokenizer {
  std::string_view names;                    // separated by spaces
  std::span<const std::string_view> splits;  // regular expressions, applied one after the other, matches isolated
  bool ignore_merges = false;                // a word that is a token is that token
  bool add_bos = false;                      // where the file does not say
};

// Never fails: a name that is missing or unknown gives the field's default splitting; `known` tells.
const NamedPretokenizer& find_pretokenizer(std::string_view name, bool& known);

}  // namespace brisk
