#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/utf8.h"

namespace brisk {
namespace {

// A vocabulary of these pieces.
Detokenizer over(const std::vector<std::string>& pieces, DetokenizerOptions options = {}) {
  return Detokenizer(
      [&pieces](int32_t id, bool) { return std::string_view(pieces[static_cast<size_t>(id)]); }, options);
}

TEST(Detokenizer, WholeCharactersOnly) {
  std::vector<std::string> pieces = {"a\xF0\x9F", "\x98", "\x80 b", "\xC3"};
  Detokenizer d = over(pieces);
  EXPECT_EQ(d.push(0), "a");
  EXPECT_TRUE(d.holds_back());
  EXPECT_EQ(d.push(1), "");
  EXPECT_EQ(d.push(2), "\U0001F600 b");
  EXPECT_EQ(d.push(3), "");
  EXPECT_EQ(d.finish(), "\uFFFD");
  EXPECT_FALSE(d.holds_back());
}

TEST(Detokenizer, BadBytesAsSoonAsCertain) {
  std::vector<std::string> pieces = {"\xE2\x82", "x", "\x80", "\xE0\x80"};
  Detokenizer d = over(pieces);
  EXPECT_EQ(d.push(0), "");
  EXPECT_EQ(d.push(1), "\uFFFDx");
  EXPECT_EQ(d.push(2), "\uFFFD");        // a continuation byte starts nothing
  EXPECT_EQ(d.push(3), "\uFFFD\uFFFD");  // an overlong form: certain at its second byte
}

TEST(Detokenizer, LeadingAndTrailingSpaces) {
  std::vector<std::string> pieces = {" ", " Hello", " world"};
  Detokenizer d = over(pieces, {.drop_leading_spaces = 1});
  EXPECT_EQ(d.push(1), "Hello");
  EXPECT_EQ(d.push(2), " world");
  EXPECT_EQ(d.finish(), "");
  EXPECT_EQ(d.push(0), "");        // starts anew
  EXPECT_EQ(d.push(1), " Hello");  // only one space goes
  Detokenizer words = over(pieces, {.drop_trailing_space = true});
  EXPECT_EQ(words.push(0), "");
  EXPECT_EQ(words.push(2), "  world");
  EXPECT_EQ(words.push(0), "");
  EXPECT_EQ(words.finish(), "");
}

TEST(Detokenizer, TheStreamIsTheWhole) {
  std::mt19937 rng(3);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (size_t n = rng() % 12; n > 0; --n) {
      if (rng() % 2) utf8_append(bytes, std::vector<char32_t>{'a', 0xE9, 0x20AC, 0x1F600}[rng() % 4]);
      else
        bytes += static_cast<char>(
            std::vector<int>{0x80, 0xC3, 0xE2, 0xED, 0xA0, 0xF0, 0x9F, 0xF4, 0x90, 0xFF, 'z'}[rng() % 11]);
    }
    std::vector<std::string> pieces;
    Detokenizer d = over(pieces);
    std::string out;
    for (size_t i = 0; i < bytes.size();) {
      size_t n = 1 + rng() % 3;
      std::string part = d.push_bytes(std::string_view(bytes).substr(i, n));
      ASSERT_TRUE(utf8_valid(part));
      out += part;
      i += n;
    }
    out += d.finish();
    ASSERT_EQ(out, utf8_lossy(bytes));
  }
}

}  // namespace
}  // namespace brisk
