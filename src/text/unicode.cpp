#include "text/unicode.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace brisk::unicode {
namespace {

#include "text/unicode_tables.inc"

struct Text32 {
  const uint32_t* begin = nullptr;
  const uint32_t* end = nullptr;
};

template <size_t N, size_t M, size_t K>
Text32 find_mapping(const uint32_t (&keys)[N], const uint16_t (&offsets)[M], const uint32_t (&pool)[K], char32_t c) {
  auto it = std::lower_bound(std::begin(keys), std::end(keys), uint32_t(c));
  if (it == std::end(keys) || *it != c) return {};
  size_t i = size_t(it - std::begin(keys));
  return {pool + offsets[i], pool + offsets[i + 1]};
}

uint8_t combining_class(char32_t c) {
  if (c < kClassKeys[0]) return 0;
  auto it = std::lower_bound(std::begin(kClassKeys), std::end(kClassKeys), uint32_t(c));
  if (it == std::end(kClassKeys) || *it != c) return 0;
  return kClassValues[it - std::begin(kClassKeys)];
}

// Hangul syllables are arithmetic (The Unicode Standard, section 3.12).
constexpr uint32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;
constexpr uint32_t kVowelCount = 21, kTailCount = 28, kLeadCount = 19;
constexpr uint32_t kSyllableCount = kLeadCount * kVowelCount * kTailCount;

void decompose(char32_t c, bool compatible, std::u32string& out) {
  if (c < 0xA0) {
    out += c;
    return;
  }
  uint32_t s = uint32_t(c) - kSyllables;
  if (s < kSyllableCount) {
    out += char32_t(kLeads + s / (kVowelCount * kTailCount));
    out += char32_t(kVowels + s / kTailCount % kVowelCount);
    if (s % kTailCount) out += char32_t(kTails + s % kTailCount);
    return;
  }
  Text32 t;
  if (compatible) t = find_mapping(kCompatibleKeys, kCompatibleOffsets, kCompatiblePool, c);
  if (!t.begin) t = find_mapping(kCanonicalKeys, kCanonicalOffsets, kCanonicalPool, c);
  if (t.begin) {
    out.append(t.begin, t.end);
  } else {
    out += c;
  }
}

void order_marks(std::u32string& text) {
  for (size_t i = 0; i < text.size();) {
    if (!combining_class(text[i])) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < text.size() && combining_class(text[end])) ++end;
    if (end - i > 1) {
      std::stable_sort(text.begin() + std::ptrdiff_t(i), text.begin() + std::ptrdiff_t(end),
                       [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    }
    i = end;
  }
}

char32_t compose_pair(char32_t a, char32_t b) {
  if (a - kLeads < kLeadCount && b - kVowels < kVowelCount) {
    return kSyllables + ((a - kLeads) * kVowelCount + (b - kVowels)) * kTailCount;
  }
  if (a - kSyllables < kSyllableCount && (a - kSyllables) % kTailCount == 0 && b > kTails && b < kTails + kTailCount) {
    return a + (b - kTails);
  }
  auto [low, high] = std::equal_range(std::begin(kComposeFirst), std::end(kComposeFirst), uint32_t(a));
  const uint32_t* from = kComposeSecond + (low - std::begin(kComposeFirst));
  const uint32_t* to = kComposeSecond + (high - std::begin(kComposeFirst));
  auto it = std::lower_bound(from, to, uint32_t(b));
  if (it == to || *it != b) return 0;
  return kComposeResult[it - kComposeSecond];
}

// Canonical composition (Unicode Standard, D117): a mark joins the last starter unless a mark of the same or higher
// class stands between them.
void compose(std::u32string& text) {
  size_t write = 0, starter = std::u32string::npos;
  int last_class = -1;
  for (size_t read = 0; read < text.size(); ++read) {
    char32_t c = text[read];
    int k = combining_class(c);
    if (starter != std::u32string::npos && last_class < k) {
      if (char32_t joined = compose_pair(text[starter], c)) {
        text[starter] = joined;
        continue;
      }
    }
    if (k == 0) {
      starter = write;
      last_class = -1;
    } else {
      last_class = k;
    }
    text[write++] = c;
  }
  text.resize(write);
}

}  // namespace

CodePoint decode(const char* p, const char* end) {
  constexpr CodePoint kBad{0xFFFD, 1};
  auto byte = [p](size_t i) { return uint32_t(uint8_t(p[i])); };
  auto more = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  uint32_t b = byte(0);
  if (b < 0x80) return {b, 1};
  size_t left = size_t(end - p);
  if (b < 0xC2) return kBad;
  if (b < 0xE0) {
    if (left < 2 || !more(1)) return kBad;
    return {(b & 31) << 6 | (byte(1) & 63), 2};
  }
  if (b < 0xF0) {
    if (left < 3 || !more(1) || !more(2)) return kBad;
    uint32_t c = (b & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63);
    if (c < 0x800 || (c >= 0xD800 && c < 0xE000)) return kBad;
    return {c, 3};
  }
  if (b > 0xF4 || left < 4 || !more(1) || !more(2) || !more(3)) return kBad;
  uint32_t c = (b & 7) << 18 | (byte(1) & 63) << 12 | (byte(2) & 63) << 6 | (byte(3) & 63);
  if (c < 0x10000 || c > 0x10FFFF) return kBad;
  return {c, 4};
}

void decode_all(std::string_view text, std::vector<char32_t>& points, std::vector<uint32_t>& at) {
  points.clear(), at.clear();
  points.reserve(text.size()), at.reserve(text.size() + 1);
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode(text, i);
    points.push_back(c.value);
    at.push_back(uint32_t(i));
    i += c.size;
  }
  at.push_back(uint32_t(text.size()));
}

void append(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += char(c);
  } else if (c < 0x800) {
    out += char(0xC0 | c >> 6);
    out += char(0x80 | (c & 63));
  } else if (c < 0x10000) {
    out += char(0xE0 | c >> 12);
    out += char(0x80 | (c >> 6 & 63));
    out += char(0x80 | (c & 63));
  } else {
    out += char(0xF0 | c >> 18);
    out += char(0x80 | (c >> 12 & 63));
    out += char(0x80 | (c >> 6 & 63));
    out += char(0x80 | (c & 63));
  }
}

// How many bytes at `p` are a proper beginning of a sequence (the maximal subpart), at least 1.
static size_t broken_length(const char* p, const char* end) {
  uint32_t b = uint8_t(p[0]);
  size_t want = b >= 0xF0 && b < 0xF5 ? 4 : b >= 0xE0 && b < 0xF0 ? 3 : 1;
  size_t n = 1;
  while (n < want && p + n < end) {
    uint32_t next = uint8_t(p[n]), low = 0x80, high = 0xBF;
    if (n == 1 && b == 0xE0) low = 0xA0;
    if (n == 1 && b == 0xED) high = 0x9F;
    if (n == 1 && b == 0xF0) low = 0x90;
    if (n == 1 && b == 0xF4) high = 0x8F;
    if (next < low || next > high) break;
    ++n;
  }
  return n;
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  const char *p = bytes.data(), *end = p + bytes.size();
  while (p < end) {
    CodePoint c = decode(p, end);
    if (c.value == 0xFFFD && c.size == 1) {
      append(out, 0xFFFD);
      p += broken_length(p, end);
    } else {
      out.append(p, c.size);
      p += c.size;
    }
  }
  return out;
}

uint16_t properties(char32_t c) {
  if (c > 0x10FFFF) return 0;
  return kPropertyBlocks[size_t(kPropertyIndex[c >> 7]) << 7 | (c & 127)];
}

std::string normalize(std::string_view text, Form form) {
  bool compatible = form == Form::kNfkc || form == Form::kNfkd;
  bool composed = form == Form::kNfc || form == Form::kNfkc;
  // Below these nothing changes: U+0300 is the first mark, U+00C0 the first letter with a decomposition, U+00A0 the
  // first compatibility character.
  char32_t quiet = compatible ? 0xA0 : composed ? 0x300 : 0xC0;
  std::u32string wide;
  wide.reserve(text.size());
  bool changes = false;
  for (size_t i = 0; i < text.size();) {
    CodePoint c = decode(text, i);
    wide += c.value;
    changes |= c.value >= quiet;
    i += c.size;
  }
  if (!changes) return std::string(text);
  std::u32string parts;
  parts.reserve(wide.size());
  for (char32_t c : wide) decompose(c, compatible, parts);
  order_marks(parts);
  if (composed) compose(parts);
  std::string out;
  out.reserve(text.size());
  for (char32_t c : parts) append(out, c);
  return out;
}

void append_lower(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += char(c >= 'A' && c <= 'Z' ? c + 32 : c);
    return;
  }
  Text32 t = find_mapping(kLowerKeys, kLowerOffsets, kLowerPool, c);
  if (!t.begin) {
    append(out, c);
    return;
  }
  for (const uint32_t* p = t.begin; p != t.end; ++p) append(out, *p);
}

}  // namespace brisk::unicode
