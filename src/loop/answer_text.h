// The text of one answer while it grows: whole UTF-8 characters only, and nothing that a stop string would take back.
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "text/detokenizer.h"
#include "text/stop_matcher.h"

namespace brisk {

class AnswerText {
 public:
  explicit AnswerText(StopMatcher stops) : characters_(nullptr), stops_(std::move(stops)) {}

  // Appends a token's bytes (maybe a part of a character). Returns the text that is certain now.
  std::string add(std::string_view bytes) { return stops_.push(characters_.push_bytes(bytes)); }
  // The end: what was held back, an unfinished character as U+FFFD.
  std::string finish() {
    std::string out = stops_.push(characters_.finish());
    out += stops_.finish();
    return out;
  }

  // Index of the stop string that has ended the text; -1: none.
  int stop() const { return stops_.matched(); }

 private:
  Detokenizer characters_;
  StopMatcher stops_;
};

}  // namespace brisk
