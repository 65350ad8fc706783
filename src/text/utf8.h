// UTF-8 as bytes that may be wrong: decoding with maximal-subpart errors (one U+FFFD each, as Python's
// errors="replace" and the Unicode standard's recommended practice), and where an unfinished tail begins.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace brisk {

struct Utf8Char {
  char32_t cp = 0xFFFD;
  uint32_t size = 1;  // bytes used; for a bad sequence those of its maximal subpart (at least 1)
  bool ok = false;
};

// The character that starts at byte i < s.size().
Utf8Char utf8_decode(std::string_view s, size_t i);

void utf8_append(std::string& out, char32_t cp);
bool utf8_valid(std::string_view s);
size_t utf8_length(std::string_view s);  // characters; a bad sequence counts once

// Bad sequences replaced by U+FFFD.
std::string utf8_lossy(std::string_view s);

// Bytes at the end of s that more bytes could still complete to a character (0 to 3).
size_t utf8_unfinished(std::string_view s);

inline bool utf8_is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace brisk
