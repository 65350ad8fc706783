// Unicode as the tokenizers need it: UTF-8, properties, case, normal forms. Tables are generated (tools/unicode).
// Text may be any bytes: a byte that is not part of well-formed UTF-8 reads as U+FFFD of size 1. Pure functions.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace brisk::unicode {

struct CodePoint {
  char32_t value;
  uint32_t size;  // bytes, 1 to 4
};

// Needs p < end.
CodePoint decode(const char* p, const char* end);
inline CodePoint decode(std::string_view s, size_t at) { return decode(s.data() + at, s.data() + s.size()); }
void append(std::string& out, char32_t c);
// All of a text: its code points, and where each begins, with the end behind the last. What was in them goes.
void decode_all(std::string_view text, std::vector<char32_t>& points, std::vector<uint32_t>& at);
// Ill-formed parts become U+FFFD, one for each maximal subpart (the common "lossy" decoding).
std::string to_valid_utf8(std::string_view bytes);

enum Category : uint8_t {
  kCn, kLu, kLl, kLt, kLm, kLo, kMn, kMc, kMe, kNd, kNl, kNo, kPc, kPd, kPs, kPe, kPi, kPf, kPo, kSm, kSc, kSk, kSo,
  kZs, kZl, kZp, kCc, kCf, kCo, kCs, kCategoryCount,
};
// Beside the category (low five bits) a property word holds these classes of the oracle.
enum Flag : uint16_t {
  kNumeric = 1 << 5,       // what the Digits pre-tokenizer takes
  kPunctuation = 1 << 6,   // Punctuation and BertPreTokenizer
  kAccent = 1 << 7,        // StripAccents removes it
  kNonSpacing = 1 << 8,    // BertNormalizer's strip_accents removes it
  kControl = 1 << 9,       // BertNormalizer's clean_text removes it
  kSpace = 1 << 10,        // White_Space; \s of a regex
  kWord = 1 << 11,         // \w of the Whitespace pre-tokenizer and of single_word
  kRegexWord = 1 << 12,    // \w of a Split regex
  kHan = 1 << 13,          // \p{Han} of a Split regex
  kNewer = 1 << 14,        // assigned after Unicode 14, the version of Debian 12's PCRE2
};
uint16_t properties(char32_t c);
inline Category category(char32_t c) { return Category(properties(c) & 31); }
inline bool is(char32_t c, Flag flag) { return properties(c) & flag; }

enum class Form { kNfc, kNfd, kNfkc, kNfkd };
std::string normalize(std::string_view text, Form form);
void append_lower(std::string& out, char32_t c);  // simple case mapping; may append two code points

}  // namespace brisk::unicode
