#include "text/utf8.h"

namespace brisk {
namespace {

struct Lead {
  uint32_t size;            // whole sequence; 0: not a lead byte
  unsigned char low, high;  // allowed second byte (Unicode standard, table 3-7)
};

Lead lead_of(unsigned char c) {
  if (c < 0x80) return {1, 0, 0};
  if (c < 0xC2) return {0, 0, 0};
  if (c < 0xE0) return {2, 0x80, 0xBF};
  if (c == 0xE0) return {3, 0xA0, 0xBF};
  if (c == 0xED) return {3, 0x80, 0x9F};
  if (c < 0xF0) return {3, 0x80, 0xBF};
  if (c == 0xF0) return {4, 0x90, 0xBF};
  if (c < 0xF4) return {4, 0x80, 0xBF};
  if (c == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// How many bytes from i on form a valid prefix of a sequence (at least 1).
uint32_t good_prefix(std::string_view s, size_t i, Lead lead) {
  uint32_t n = 1;
  while (n < lead.size && i + n < s.size()) {
    auto c = static_cast<unsigned char>(s[i + n]);
    unsigned char low = n == 1 ? lead.low : 0x80, high = n == 1 ? lead.high : 0xBF;
    if (c < low || c > high) break;
    ++n;
  }
  return n;
}

}  // namespace

Utf8Char utf8_decode(std::string_view s, size_t i) {
  auto c = static_cast<unsigned char>(s[i]);
  Lead lead = lead_of(c);
  if (lead.size == 1) return {c, 1, true};
  if (lead.size == 0) return {};
  uint32_t n = good_prefix(s, i, lead);
  if (n < lead.size) return {0xFFFD, n, false};
  char32_t cp = c & (0x7F >> lead.size);
  for (uint32_t k = 1; k < n; ++k) cp = cp << 6 | (static_cast<unsigned char>(s[i + k]) & 0x3F);
  return {cp, n, true};
}

void utf8_append(std::string& out, char32_t cp) {
  if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) cp = 0xFFFD;
  if (cp < 0x80) {
    out += static_cast<char>(cp);
  } else if (cp < 0x800) {
    out += static_cast<char>(0xC0 | cp >> 6);
    out += static_cast<char>(0x80 | (cp & 0x3F));
  } else if (cp < 0x10000) {
    out += static_cast<char>(0xE0 | cp >> 12);
    out += static_cast<char>(0x80 | (cp >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (cp & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | cp >> 18);
    out += static_cast<char>(0x80 | (cp >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (cp >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (cp & 0x3F));
  }
}

bool utf8_valid(std::string_view s) {
  for (size_t i = 0; i < s.size();) {
    Utf8Char c = utf8_decode(s, i);
    if (!c.ok) return false;
    i += c.size;
  }
  return true;
}

size_t utf8_length(std::string_view s) {
  size_t n = 0;
  for (size_t i = 0; i < s.size(); ++n) i += utf8_decode(s, i).size;
  return n;
}

std::string utf8_lossy(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  for (size_t i = 0; i < s.size();) {
    Utf8Char c = utf8_decode(s, i);
    if (c.ok) out.append(s, i, c.size);
    else utf8_append(out, 0xFFFD);
    i += c.size;
  }
  return out;
}

size_t utf8_unfinished(std::string_view s) {
  for (size_t back = 1; back <= 3 && back <= s.size(); ++back) {
    size_t i = s.size() - back;
    if (utf8_is_continuation(s[i])) continue;
    Lead lead = lead_of(static_cast<unsigned char>(s[i]));
    return lead.size > back && good_prefix(s, i, lead) == back ? back : 0;
  }
  return 0;
}

}  // namespace brisk
