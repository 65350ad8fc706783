// Tokenizers made by hand: the parts that goldens of whole vocabularies do not reach.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace brisk {
namespace {

TokenizerModel byte_level_model() {
  TokenizerModel m;
  m.byte_level = true;
  for (int b = 0; b < 256; ++b) m.tokens.push_back(std::string(1, char(b)));
  auto merge = [&](std::string left, std::string right) {
    auto id = [&](const std::string& s) {
      return uint32_t(std::find(m.tokens.begin(), m.tokens.end(), s) - m.tokens.begin());
    };
    m.merges.push_back({id(left), id(right), uint32_t(m.tokens.size())});
    m.tokens.push_back(left + right);
  };
  merge("a", "a"), merge("aa", "aa"), merge("l", "o"), merge("lo", "w"), merge(" ", "lo");
  m.types.assign(m.tokens.size(), TokenType::kNormal);
  m.added.push_back({.id = int32_t(m.tokens.size()), .content = "<end>", .special = true});
  m.eos = m.added[0].id;
  m.end_ids = {m.eos};
  m.suffix_ids = {m.eos};
  m.tokens.push_back("<end>");
  m.types.push_back(TokenType::kControl);
  PretokenizeStep step;
  step.op = PretokenizeOp::kByteLevel;
  step.flags = 2;
  m.pretokenizers.push_back(step);
  return m;
}

std::shared_ptr<const Tokenizer> made(TokenizerModel model) {
  auto t = make_tokenizer(std::move(model));
  EXPECT_TRUE(t.ok()) << t.error().message;
  return std::move(t).value();
}

std::vector<std::string> pieces(const Tokenizer& t, std::string_view text, EncodeOptions options = {}) {
  auto ids = t.encode(text, options);
  EXPECT_TRUE(ids.ok());
  std::vector<std::string> out;
  for (int32_t id : *ids) out.emplace_back(t.token_bytes(id));
  return out;
}

TEST(Tokenizer, MergesByRankAndKeepsEveryByte) {
  auto t = made(byte_level_model());
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces(*t, "low low", {.add_special = false}), (Pieces{"low", " ", "low"}));
  EXPECT_EQ(pieces(*t, "aaaaa", {.add_special = false}), (Pieces{"aaaa", "a"}));
  std::string broken("a\0\xff\xf0\x9f", 5);
  auto ids = t->encode(broken, {.add_special = false});
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(ids->size(), 5u);
  EXPECT_EQ(t->decode(*ids), std::string("a\0\xEF\xBF\xBD\xEF\xBF\xBD", 8));
}

TEST(Tokenizer, SpecialTokensOnlyWhereAskedFor) {
  auto t = made(byte_level_model());
  int32_t end = t->eos();
  EXPECT_EQ(t->encode("a<end>").value(), (std::vector<int32_t>{'a', end, end}));
  EXPECT_EQ(t->encode("a<end>", {.add_special = false}).value(), (std::vector<int32_t>{'a', end}));
  EXPECT_EQ(t->encode("<end>", {.add_special = false, .parse_special = false}).value(),
            (std::vector<int32_t>{'<', 'e', 'n', 'd', '>'}));
  EXPECT_TRUE(t->is_eos(end) && t->is_control(end));
  EXPECT_FALSE(t->is_eos('a') || t->is_control(-1) || t->is_eos(100000));
  EXPECT_EQ(t->decode(std::vector<int32_t>{'a', end, -5, 99999}), "a");
  EXPECT_EQ(t->decode(std::vector<int32_t>{'a', end}, false), "a<end>");
}

TEST(Tokenizer, AddedTokensTakeSpacesAndKeepToWords) {
  auto m = byte_level_model();
  m.added[0].lstrip = m.added[0].rstrip = true;
  m.added.push_back({.id = 'X', .content = "cat", .single_word = true});
  auto t = made(std::move(m));
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces(*t, "b \xE3\x80\x80<end> \n b", {.add_special = false}), (Pieces{"b", "<end>", "b"}));
  EXPECT_EQ(pieces(*t, "cat", {.add_special = false}), (Pieces{"X"}));
  EXPECT_EQ(pieces(*t, "cats", {.add_special = false}).size(), 4u);
}

TEST(Tokenizer, LongWordsCostNoMoreThanTheirLength) {
  auto t = made(byte_level_model());
  auto ids = t->encode(std::string(1 << 20, 'a'), {.add_special = false});
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(ids->size(), size_t{1} << 18);
  for (char c : {' ', '\n', '\'', '1'}) {
    EXPECT_EQ(t->decode(t->encode(std::string(1 << 18, c) + "x").value()), std::string(1 << 18, c) + "x");
  }
}

TEST(Tokenizer, ExpensivePatternIsAnError) {
  auto m = byte_level_model();
  PretokenizeStep step;
  step.pattern = {R"((?:\p{L}+)+\d)", true};
  m.pretokenizers.insert(m.pretokenizers.begin(), step);
  auto t = made(std::move(m));
  auto ids = t->encode(std::string(5000, 'a'));
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().kind, ErrorKind::kInvalid);
  EXPECT_TRUE(t->encode("short1").ok());
}

TEST(Tokenizer, ReplacementsDoNotGrowWithoutEnd) {
  auto m = byte_level_model();
  for (int i = 0; i < 3; ++i) {
    m.normalizers.push_back({.op = NormalizeOp::kReplace, .pattern = {"a", false}, .content = std::string(4000, 'a')});
  }
  auto t = made(std::move(m));
  auto ids = t->encode("banana");
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().kind, ErrorKind::kInvalid);
}

TEST(Tokenizer, BadModelsAreErrors) {
  auto broken = [](auto change) {
    auto m = byte_level_model();
    change(m);
    auto t = make_tokenizer(std::move(m));
    return t.ok() ? std::string() : t.error().message;
  };
  EXPECT_NE(broken([](auto& m) { m.tokens.clear(); }), "");
  EXPECT_NE(broken([](auto& m) { m.eos = 5000; }), "");
  EXPECT_NE(broken([](auto& m) { m.end_ids = {-1}; }), "");
  EXPECT_NE(broken([](auto& m) { m.merges[1].right = 5000; }), "");
  EXPECT_NE(broken([](auto& m) { m.added[0].id = -2; }), "");
  EXPECT_NE(broken([](auto& m) { m.pretokenizers[0] = {.pattern = {"(", true}}; }), "");
  EXPECT_NE(broken([](auto& m) { m.kind = TokenizerKind::kUnigram; }), "");
  EXPECT_NE(broken([](auto& m) { m.word_suffix.assign(1000, 'x'); }), "");
}

TEST(Tokenizer, SerializedFormIsTheSameTokenizer) {
  auto t = made(byte_level_model());
  std::string bytes = t->serialize();
  EXPECT_EQ(bytes, made(byte_level_model())->serialize());
  auto loaded = Tokenizer::deserialize(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ((*loaded)->serialize(), bytes);
  EXPECT_EQ((*loaded)->encode("low <end>low").value(), t->encode("low <end>low").value());
}

TEST(Tokenizer, DamagedBytesNeverCrash) {
  std::string good = made(byte_level_model())->serialize();
  for (size_t n = 0; n < good.size(); n += 7) {
    std::string cut = good.substr(0, n);
    EXPECT_FALSE(Tokenizer::deserialize(std::as_bytes(std::span(cut))).ok()) << n;
  }
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bad = good;
    for (int k = 0; k < 3; ++k) bad[random() % bad.size()] = char(random());
    auto t = Tokenizer::deserialize(std::as_bytes(std::span(bad)));
    if (t.ok()) {
      auto ids = (*t)->encode("low aaaa<end> 12");
      if (ids.ok()) (*t)->decode(*ids);
    }
  }
}

}  // namespace
}  // namespace brisk
