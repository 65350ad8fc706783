#include <gtest/gtest.h>

#include <cmath>

#include "tensor/dim.h"

namespace brisk {
namespace {

const Dim past = Dim::symbol("past"), seq = Dim::symbol("seq"), n = Dim::symbol("n");

std::optional<int64_t> at(const Dim& d, int64_t p, int64_t s) {
  return d.evaluate([&](const std::string& name) -> std::optional<int64_t> {
    if (name == "past") return p;
    if (name == "seq") return s;
    return std::nullopt;
  });
}

TEST(Dim, EqualExpressionsHaveEqualForms) {
  EXPECT_EQ((past + seq) - past, seq);
  EXPECT_EQ(Dim::floor_div(Dim(4) * n, 4), n);
  EXPECT_EQ(Dim::floor_div(past * seq * 6, seq * 2), past * 3);
  EXPECT_EQ(past * seq, seq * past);
  EXPECT_EQ(Dim::mod(n * 8, 4), Dim(0));
  EXPECT_EQ(Dim::max(n + 2, n + 1), n + 2);
  EXPECT_EQ(Dim::min(n, Dim(7)), Dim::min(Dim(7), n));
  EXPECT_FALSE(n + 1 == n);
}

TEST(Dim, FloorDivisionAndModulusAreThoseOfPython) {
  for (int64_t a : {-7, -1, 0, 5, 7})
    for (int64_t b : {-3, -1, 2, 7}) {
      int64_t q = static_cast<int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b)));
      EXPECT_EQ(Dim::floor_div(a, b), Dim(q)) << a << " " << b;
      EXPECT_EQ(Dim::mod(a, b), Dim(a - q * b)) << a << " " << b;
    }
  EXPECT_EQ(at(Dim::floor_div(past, seq), 7, 0), std::nullopt);
  EXPECT_EQ(at(Dim::mod(past - 9, Dim(4)), 2, 0), 1);
}

TEST(Dim, EvaluationNoticesOverflowAndMissingSymbols) {
  Dim d = past * past * past;
  EXPECT_EQ(at(d, 1 << 20, 0), int64_t{1} << 60);
  EXPECT_EQ(at(d, 1 << 22, 0), std::nullopt);
  EXPECT_EQ(at(n, 1, 1), std::nullopt);
}

TEST(Dim, PrintedFormIsReadBack) {
  for (const Dim& d : {past * 2 + seq + 1, Dim::floor_div(past + 3, 4) * seq, Dim::min(past, seq * 5) - 7,
                       Dim::mod(past + seq, seq), Dim(-3), Dim::max(n, past * past), Dim(0) - n}) {
    auto back = Dim::parse(d.to_string());
    ASSERT_TRUE(back) << d.to_string();
    EXPECT_EQ(*back, d) << d.to_string();
  }
  for (const char* bad : {"", "2*", "(a", "a b", "min(a)", "99999999999999999999", "a++b"}) EXPECT_FALSE(Dim::parse(bad)) << bad;
  EXPECT_FALSE(Dim::parse(std::string(10000, '(')));
}

TEST(Dim, MinimumAndMaximumAbsorbEachOther) {
  Dim a = Dim::symbol("a"), b = Dim::symbol("b");
  EXPECT_EQ(Dim::max(Dim::min(a, b), b), b);
  EXPECT_EQ(Dim::min(b, Dim::max(a, b)), b);
  EXPECT_EQ(Dim::max(Dim::max(a, b), a), Dim::max(a, b));
  EXPECT_EQ(Dim::min(a, Dim::min(a, b)), Dim::min(a, b));
  EXPECT_EQ(Dim::max(Dim::min(a, 128), a), a);
  EXPECT_FALSE(Dim::max(Dim(2) * Dim::min(a, b), b) == b);
}

TEST(Dim, SubstitutionSimplifies) {
  Dim d = Dim::floor_div(past + seq, 2);
  EXPECT_EQ(d.substitute([](const std::string& s) -> std::optional<Dim> { return s == "past" ? std::optional<Dim>(Dim::symbol("seq") * 3) : std::nullopt; }), seq * 2);
}

}  // namespace
}  // namespace brisk
