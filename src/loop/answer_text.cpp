#include "loop/answer_text.h"

#include <algorithm>

#include "text/unicode.h"

namespace brisk {
namespace {

// Bytes at the end of `s` that more bytes could complete to a character (RFC 3629, section 4).
size_t unfinished_tail(std::string_view s) {
  for (size_t n = 1; n <= std::min<size_t>(3, s.size()); ++n) {
    const auto lead = static_cast<uint8_t>(s[s.size() - n]);
    if ((lead & 0xC0) == 0x80) continue;
    const size_t size = lead >= 0xC2 && lead <= 0xDF ? 2 : (lead & 0xF0) == 0xE0 ? 3 : lead >= 0xF0 && lead <= 0xF4 ? 4 : 1;
    if (n >= size) return 0;
    if (n == 1) return 1;
    const auto second = static_cast<uint8_t>(s[s.size() - n + 1]);
    const int low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const int high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high ? n : 0;
  }
  return 0;
}

}  // namespace

std::string AnswerText::release(size_t size) {
  std::string out = held_.substr(0, size);
  held_.erase(0, size);
  return out;
}

std::string AnswerText::add(std::string_view bytes) {
  bytes_ += bytes;
  const size_t whole = bytes_.size() - unfinished_tail(bytes_);
  held_ += unicode::to_valid_utf8(std::string_view(bytes_).substr(0, whole));
  bytes_.erase(0, whole);

  // The match that begins first ends the answer; of those that begin together, the longest.
  size_t at = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t found = held_.find(stop);
    if (found == std::string::npos || found > at || (found == at && stop.size() <= stop_.size())) continue;
    at = found;
    stop_ = stop;
  }
  if (stopped()) {
    std::string out = release(at + (include_stop_ ? stop_.size() : 0));
    held_.clear();
    bytes_.clear();
    return out;
  }
  size_t keep = 0;
  for (const std::string& stop : stops_)
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n)
      if (held_.ends_with(std::string_view(stop).substr(0, n))) keep = n;
  return release(held_.size() - keep);
}

std::string AnswerText::finish() {
  std::string out = release(held_.size()) + unicode::to_valid_utf8(bytes_);
  bytes_.clear();
  return out;
}

}  // namespace brisk
