#include "text/detokenizer.h"

#include <utility>

#include "text/utf8.h"

namespace brisk {

Detokenizer::Detokenizer(TokenBytes token_bytes, DetokenizerOptions options)
    : token_bytes_(std::move(token_bytes)), options_(options), spaces_left_(options.drop_leading_spaces) {}

std::string Detokenizer::push(int32_t id) { return push_bytes(token_bytes_(id, !started_)); }

std::string Detokenizer::push_bytes(std::string_view bytes) {
  if (bytes.empty()) return {};
  started_ = true;
  while (spaces_left_ > 0 && !bytes.empty()) {
    if (bytes[0] != ' ') {
      spaces_left_ = 0;
      break;
    }
    bytes.remove_prefix(1);
    --spaces_left_;
  }
  held_ += bytes;
  size_t keep = utf8_unfinished(held_);
  if (keep == 0 && options_.drop_trailing_space && held_.ends_with(' ')) keep = 1;
  std::string out = utf8_lossy(std::string_view(held_).substr(0, held_.size() - keep));
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string Detokenizer::finish() {
  std::string rest = std::exchange(held_, {});
  if (options_.drop_trailing_space && rest == " ") rest.clear();
  started_ = false;
  spaces_left_ = options_.drop_leading_spaces;
  return utf8_lossy(rest);
}

}  // namespace brisk
