#include "text/prompt.h"

#include <gtest/gtest.h>

namespace brisk {
namespace {

// Bytes as tokens 0 to 255, then <|end|> (special), <think> (added, not special), "ab" (added, plain).
std::shared_ptr<const Tokenizer> tokenizer(bool normalized = false) {
  TokenizerModel m;
  m.kind = TokenizerKind::kBpe;
  m.byte_level = true;
  for (int b = 0; b < 256; ++b) m.tokens.push_back(std::string(1, static_cast<char>(b)));
  for (const char* s : {"<|end|>", "<think>", "ab", "<|end|>>"}) m.tokens.push_back(s);
  m.types.assign(m.tokens.size(), TokenType::kNormal);
  m.types[256] = m.types[259] = TokenType::kControl;
  m.types[257] = m.types[258] = TokenType::kUserDefined;
  m.added = {{.id = 256, .content = "<|end|>", .normalized = normalized, .special = true},
             {.id = 257, .content = "<think>", .normalized = normalized},
             {.id = 258, .content = "ab"},
             {.id = 259, .content = "<|end|>>", .normalized = normalized, .special = true}};
  auto t = make_tokenizer(std::move(m));
  EXPECT_TRUE(t.ok()) << (t.ok() ? "" : t.error().message);
  return t.ok() ? *t : nullptr;
}

// Text in brackets is data.
RenderedPrompt prompt(std::string_view marked) {
  RenderedPrompt p;
  for (char c : marked) {
    if (c == '[' || c == ']') {
      p.segments.push_back({p.segments.empty() ? 0 : p.segments.back().end, p.text.size(), c == ']'});
    } else {
      p.text += c;
    }
  }
  p.segments.push_back({p.segments.empty() ? 0 : p.segments.back().end, p.text.size(), false});
  return p;
}

std::vector<int32_t> ids(const Tokenizer& t, std::string_view marked) {
  auto r = encode_prompt(t, prompt(marked));
  EXPECT_TRUE(r.ok());
  std::vector<int32_t> tokens;
  if (r.ok())
    for (int32_t id : *r)
      if (id >= 256) tokens.push_back(id);
  return tokens;
}

TEST(Prompt, TokensOfTheTemplateOnly) {
  for (bool normalized : {false, true}) {
    auto t = tokenizer(normalized);
    ASSERT_TRUE(t);
    using Ids = std::vector<int32_t>;
    EXPECT_EQ(ids(*t, "x<|end|>[hello]<|end|>"), (Ids{256, 256}));
    EXPECT_EQ(ids(*t, "x<|end|>[<|end|>]<|end|>"), (Ids{256, 256}));
    EXPECT_EQ(ids(*t, "<|en[d|>]<|end|>"), (Ids{256}));
    EXPECT_EQ(ids(*t, "[<think>]<think>"), (Ids{257}));
    EXPECT_EQ(ids(*t, "[ab]a[b]"), (Ids{258, 258}));  // no markup: text like any other
    if (!normalized)
      EXPECT_EQ(ids(*t, "<|end|>[>]"), (Ids{256}));  // data does not swallow the template's token
    EXPECT_EQ(ids(*t, "<|end|>>"), (Ids{259}));
  }
}

TEST(Prompt, PlainDataChangesNothing) {
  auto t = tokenizer();
  ASSERT_TRUE(t);
  RenderedPrompt p = prompt("<|end|>a[b c]<think>[ x]ab");
  auto guarded = encode_prompt(*t, p);
  auto plain = t->encode(p.text, {.add_special = false});
  ASSERT_TRUE(guarded.ok() && plain.ok());
  EXPECT_EQ(*guarded, *plain);
}

TEST(Prompt, TheStreamIsTheDecodedText) {
  auto t = tokenizer();
  ASSERT_TRUE(t);
  for (bool skip : {true, false}) {
    auto all = t->encode("é<|end|>ab \xF0\x9F\x98\x80 \xFF<think>");
    ASSERT_TRUE(all.ok());
    Detokenizer d = make_detokenizer(t, skip);
    std::string out;
    for (int32_t id : *all) out += d.push(id);
    EXPECT_EQ(out + d.finish(), t->decode(*all, skip));
  }
}

}  // namespace
}  // namespace brisk
