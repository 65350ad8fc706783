// Token ids to text as they come: gives out whole UTF-8 characters only, and everything it gives out, put together,
// is what decoding all ids at once gives. One stream each; not shared between threads.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace brisk {

struct DetokenizerOptions {
  uint32_t drop_leading_spaces = 0;  // SentencePiece's prefix: that many spaces at the start of the text go
  bool drop_trailing_space = false;  // vocabularies whose pieces end words ("</w>")
};

class Detokenizer {
 public:
  // The bytes a token adds; `first` while nothing has been added yet. Empty for tokens that are not shown.
  // The view must stay valid until the next call.
  using TokenBytes = std::function<std::string_view(int32_t id, bool first)>;

  explicit Detokenizer(TokenBytes token_bytes, DetokenizerOptions options = {});

  std::string push(int32_t id);  // the text that is certain now
  std::string push_bytes(std::string_view bytes);
  // The end of the stream: an unfinished character becomes U+FFFD. Afterwards it starts anew.
  std::string finish();
  bool holds_back() const { return !held_.empty(); }

 private:
  TokenBytes token_bytes_;
  DetokenizerOptions options_;
  bool started_ = false;      // some byte was added
  uint32_t spaces_left_ = 0;  // leading spaces that still may be dropped
  std::string held_;          // the start of a character, or a space that may turn out to be the last
};

}  // namespace brisk
