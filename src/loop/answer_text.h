// The text of one answer while it grows: whole UTF-8 characters only, and nothing that a stop string would take back.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace brisk {

class AnswerText {
 public:
  // Stop strings must not be empty. include_stop: the matched one stays in the text.
  AnswerText(std::vector<std::string> stop_strings, bool include_stop)
      : stops_(std::move(stop_strings)), include_stop_(include_stop) {}

  // Appends a token's bytes (maybe a part of a character). Returns the text that is certain now. When a stop string is
  // complete stopped() is true, and what follows it is gone; nothing may be added after.
  std::string add(std::string_view bytes);
  // The answer ended without a stop string: the rest, an unfinished character as U+FFFD.
  std::string finish();

  bool stopped() const { return !stop_.empty(); }
  const std::string& stop_string() const { return stop_; }

 private:
  std::string release(size_t size);

  std::vector<std::string> stops_;
  bool include_stop_;
  std::string bytes_;  // unfinished character
  std::string held_;   // whole characters that may begin a stop string
  std::string stop_;
};

}  // namespace brisk
