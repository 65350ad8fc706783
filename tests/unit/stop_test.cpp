#include <gtest/gtest.h>

#include <random>

#include "text/stop_matcher.h"

namespace brisk {
namespace {

std::string run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces,
                int* matched = nullptr, bool include_stop = false) {
  auto m = StopMatcher::create(stops, include_stop);
  EXPECT_TRUE(m.ok());
  std::string out;
  for (const std::string& p : pieces) out += m->push(p);
  if (matched) *matched = m->matched();
  return out + m->finish();
}

TEST(Stop, TextBeforeTheStopStringOnly) {
  int matched = -1;
  EXPECT_EQ(run({"\nUser:", "</s>"}, {"Hello", "\nUs", "er: x"}, &matched), "Hello");
  EXPECT_EQ(matched, 0);
  EXPECT_EQ(run({"\nUser:", "</s>"}, {"a</", "s>b"}, &matched, true), "a</s>");
  EXPECT_EQ(matched, 1);
}

TEST(Stop, HoldsBackOnlyWhatCouldStop) {
  auto m = StopMatcher::create({"STOP"});
  ASSERT_TRUE(m.ok());
  EXPECT_EQ(m->push("abcS"), "abc");
  EXPECT_EQ(m->held(), 1u);
  EXPECT_EQ(m->push("TS"), "ST");  // only the last S may start it
  EXPECT_EQ(m->push("x"), "Sx");
  EXPECT_EQ(m->push("STO"), "");
  EXPECT_EQ(m->finish(), "STO");
  EXPECT_FALSE(m->stopped());
}

TEST(Stop, LongestOfThoseThatEndTogether) {
  int matched = -1;
  EXPECT_EQ(run({"b", "ab", "xab"}, {"--xab--"}, &matched), "--");
  EXPECT_EQ(matched, 2);
  EXPECT_EQ(run({"abcd", "bc"}, {"abcd"}, &matched), "a");  // "bc" is complete first
  EXPECT_EQ(matched, 1);
}

TEST(Stop, NothingAfterTheStop) {
  auto m = StopMatcher::create({"."});
  ASSERT_TRUE(m.ok());
  EXPECT_EQ(m->push("a.b"), "a");
  EXPECT_EQ(m->push("c"), "");
  EXPECT_EQ(m->finish(), "");
  m->reset();
  EXPECT_EQ(m->push("d"), "d");
}

TEST(Stop, RefusesEmptyAndHuge) {
  EXPECT_FALSE(StopMatcher::create({"a", ""}).ok());
  EXPECT_FALSE(StopMatcher::create({std::string(StopMatcher::kMaxBytes + 1, 'x')}).ok());
  StopMatcher none;
  EXPECT_EQ(none.push("text"), "text");
}

// Against the obvious search, over random texts cut at random places.
TEST(Stop, SameAsSearchingTheWholeText) {
  std::mt19937 rng(7);
  auto word = [&](size_t longest) {
    std::string s(1 + rng() % longest, 'a');
    for (char& c : s) c = "ab"[rng() % 2];
    return s;
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> stops(1 + rng() % 3);
    for (auto& s : stops) s = word(5);
    std::string text = word(30);
    size_t end = std::string::npos, length = 0;
    for (size_t i = 1; i <= text.size() && end == std::string::npos; ++i)
      for (const auto& s : stops)
        if (std::string_view(text).substr(0, i).ends_with(s)) end = i, length = std::max(length, s.size());
    std::vector<std::string> pieces;
    for (size_t i = 0; i < text.size();) {
      size_t n = 1 + rng() % 4;
      pieces.push_back(text.substr(i, n));
      i += n;
    }
    std::string expected = end == std::string::npos ? text : text.substr(0, end - length);
    ASSERT_EQ(run(stops, pieces), expected) << text;
  }
}

}  // namespace
}  // namespace brisk
