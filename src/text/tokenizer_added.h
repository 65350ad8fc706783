// Finds added tokens in a text: leftmost, then longest.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_model.h"
#include "text/tokenizer_vocab.h"

namespace brisk {

struct TextPart {
  size_t begin = 0, end = 0;  // bytes
  int32_t id = -1;            // an added token, or -1: text
};

class AddedTokenMatcher {
 public:
  // patterns[i] is what token i looks like in the text; an empty one is never found.
  void reset(std::vector<AddedToken> tokens, const std::vector<std::string>& patterns);
  bool empty() const { return tokens_.empty(); }
  // Cuts the text into tokens and what is between them; no part is empty.
  // allows: asked for each token found (with its pattern and place); a refused one is as if it did not exist.
  using Allows = std::function<bool(const AddedToken& token, std::string_view pattern, size_t begin)>;
  void split(std::string_view text, bool parse_special, std::vector<TextPart>& parts,
             const Allows& allows = nullptr) const;

 private:
  std::vector<AddedToken> tokens_;
  StringPool pool_;
  PrefixIndex index_;
  bool starts_[256] = {};
};

}  // namespace brisk
