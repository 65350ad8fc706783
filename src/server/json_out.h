// JSON written straight into a string: what a stream writes for every token.
#pragma once
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/utf8.h"

namespace brisk {

// With quotes. What is not UTF-8 becomes U+FFFD.
inline void json_string(std::string& out, std::string_view text) {
  if (!utf8_valid(text)) return json_string(out, utf8_lossy(text));
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (u < 0x20 || u == 0x7f) {
      out += "\\u00";
      out += kHex[u >> 4];
      out += kHex[u & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

inline std::string json_string(std::string_view text) {
  std::string out;
  json_string(out, text);
  return out;
}

inline void json_number(std::string& out, int64_t v) {
  char buffer[24];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr);
}

// The shortest text that reads back as the same float; JSON has no infinities, so those are cut to +-9999.
inline void json_number(std::string& out, float v) {
  if (!(v > -9999)) v = -9999;
  if (v > 9999) v = 9999;
  char buffer[32];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr);
}

}  // namespace brisk
