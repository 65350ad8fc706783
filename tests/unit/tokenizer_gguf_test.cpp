// Tokenizers from the metadata of GGUF files, without a file.
#include "text/tokenizer_gguf.h"

#include <gtest/gtest.h>

#include <deque>

#include "text/pretokenize.h"
#include "text/pretokenize_names.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace brisk {
namespace {

// Fields of a byte-level vocabulary: the 256 bytes, "ab", "abc" and a special token. Owns its strings.
struct Sample {
  std::deque<std::string> strings;
  GgufTokenizerFields fields;

  explicit Sample(std::string pre) {
    fields.model = "gpt2";
    fields.pre = std::move(pre);
    for (int b = 0; b < 256; ++b) {
      std::string token;
      unicode::append(token, byte_to_char(uint8_t(b)));
      add(token, 1);
    }
    add("ab", 1), add("abc", 1), add("<|im_end|>", 3);
    fields.merges = {"a b", "ab c"};
    fields.eos = 258;
  }
  void add(const std::string& token, int type) {
    strings.push_back(token);
    fields.tokens.push_back(strings.back());
    fields.types.push_back(type);
  }
};

constexpr std::string_view kNames[] = {
    "default", "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano",
    "deepseek-llm", "deepseek-coder", "deepseek-v3", "spark2_5", "youtu", "falcon", "mpt", "starcoder", "gpt-2", "phi-2",
    "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "modern-bert", "jais-2",
    "sarvam-moe", "jina-v1-en", "jina-v2-code", "roberta-bpe", "refact", "command-r", "qwen2", "deepseek-r1-qwen",
    "kormo", "f2llmv2", "qwen35", "stablelm2", "olmo", "dbrx", "smaug-bpe", "poro-chat", "chatglm-bpe", "glm4", "glm5",
    "viking", "jais", "tekken", "smollm", "codeshell", "bloom", "gpt3-finnish", "exaone", "exaone4", "exaone-moe",
    "chameleon", "minerva-7b", "megrez", "gpt-4o", "llama4", "kanana2", "talkie", "granite-embed-multi-97m",
    "granite-embed-multi-311m", "gemma4", "tiny_aya", "cohere2moe", "superbpe", "trillion", "granite-docling",
    "bailingmoe", "bailingmoe2", "llada-moe", "seed-coder", "hunyuan", "hunyuan-dense", "hy_v4", "joyai-llm", "kimi-k2",
    "ufakzeka", "grok-2", "afmoe", "laguna", "minimax-m2", "solar-open", "mellum2", "minicpm5", "whitespace"};

TEST(TokenizerGguf, EveryNamedSplittingKeepsTheText) {
  const std::string text = "abc ABC's don't I'LL  12345,678 \n\n\tnaïve café 世界 こんにちは 한국어 नमस्ते (x != y); // end  \r\n 🙂 ";
  for (std::string_view name : kNames) {
    SCOPED_TRACE(name);
    bool known = false;
    const NamedPretokenizer& found = find_pretokenizer(name, known);
    EXPECT_TRUE(known);
    if (found.names.starts_with("gemma4") || found.names == "whitespace") continue;  // not byte-level
    auto model = tokenizer_from_gguf(Sample(std::string(name)).fields);
    ASSERT_TRUE(model.ok()) << model.error().message;
    auto t = make_tokenizer(std::move(*model));
    ASSERT_TRUE(t.ok()) << t.error().message;
    auto ids = (*t)->encode(text, {.add_special = false});
    ASSERT_TRUE(ids.ok()) << ids.error().message;
    EXPECT_EQ((*t)->decode(*ids), text);
    EXPECT_EQ((*ids)[0], 257);  // "abc"
  }
}

TEST(TokenizerGguf, KnownPatternsAreCompiledByHand) {
  for (std::string_view name : {"default", "gpt-2", "llama-bpe", "qwen2", "qwen35", "gpt-4o", "tekken", "deepseek-llm",
                                "deepseek-coder", "deepseek-v3", "kimi-k2", "smollm", "falcon", "bailingmoe", "bloom",
                                "youtu", "jais-2", "gemma4"}) {
    bool known = false;
    for (std::string_view pattern : find_pretokenizer(name, known).splits) {
      EXPECT_TRUE(compile_class_regex({std::string(pattern), true})) << name << ": " << pattern;
    }
  }
}

TEST(TokenizerGguf, MissingOrUnknownSplittingIsNoError) {
  for (const char* name : {"", "never-heard-of"}) {
    auto model = tokenizer_from_gguf(Sample(name).fields);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(model->pretokenizers.size(), 4u);
  }
}

TEST(TokenizerGguf, EndsAndStrangeIds) {
  Sample sample("qwen2");
  sample.fields.eos = 1'000'000;
  sample.fields.bos = -7;
  auto model = tokenizer_from_gguf(sample.fields);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->end_ids, (std::vector<int32_t>{11, 258}));  // the default, and the one known by name
}

TEST(TokenizerGguf, KimiWithoutMergesJoinsTheLowestId) {
  Sample sample("kimi-k2");
  sample.fields.merges.clear();
  auto model = tokenizer_from_gguf(sample.fields);
  ASSERT_TRUE(model.ok()) << model.error().message;
  auto t = make_tokenizer(std::move(*model));
  ASSERT_TRUE(t.ok()) << t.error().message;
  EXPECT_EQ((*t)->encode("abcab", {.add_special = false}).value(), (std::vector<int32_t>{257, 256}));
}

TEST(TokenizerGguf, ErrorsNameTheKey) {
  auto failure = [](auto change) {
    Sample sample("gpt-2");
    change(sample.fields);
    auto model = tokenizer_from_gguf(sample.fields);
    return model.ok() ? Error{ErrorKind::kInternal, "accepted"} : model.error();
  };
  EXPECT_NE(failure([](auto& f) { f.tokens.clear(); }).message.find("tokens"), std::string::npos);
  EXPECT_NE(failure([](auto& f) { f.types.resize(3); }).message.find("token_type"), std::string::npos);
  EXPECT_NE(failure([](auto& f) { f.scores.resize(3); }).message.find("scores"), std::string::npos);
  EXPECT_NE(failure([](auto& f) { f.merges.clear(); }).message.find("merges"), std::string::npos);
  EXPECT_EQ(failure([](auto& f) { f.model = "rwkv"; }).kind, ErrorKind::kUnsupported);
}

// SentencePiece by scores: "▁ab" wins over "bc" by its score; what is missing becomes bytes.
TEST(TokenizerGguf, ScoresDecideAndBytesFillIn) {
  Sample sample("default");
  auto& f = sample.fields;
  f = {};
  f.model = "llama";
  sample.add("<unk>", 2), sample.add("<s>", 3), sample.add("</s>", 3);
  for (int b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", b);
    sample.add(name, 6);
  }
  f.scores.assign(f.tokens.size(), 0.0f);
  auto piece = [&](const char* text, float score) {
    sample.add(text, 1);
    f.scores.push_back(score);
  };
  piece("\xE2\x96\x81", -9), piece("a", -9), piece("b", -9), piece("c", -9), piece("ab", -2), piece("bc", -3);
  piece("\xE2\x96\x81" "ab", -1);
  auto model = tokenizer_from_gguf(f);
  ASSERT_TRUE(model.ok()) << model.error().message;
  auto t = make_tokenizer(std::move(*model));
  ASSERT_TRUE(t.ok()) << t.error().message;
  EXPECT_EQ((*t)->encode("abc").value(), (std::vector<int32_t>{1, 265, 262}));
  EXPECT_EQ((*t)->encode("é\xff", {.add_special = false}).value(), (std::vector<int32_t>{259, 0xC3 + 3, 0xA9 + 3, 0xFF + 3}));
  EXPECT_EQ((*t)->decode((*t)->encode("ab  é c").value()), "ab  é c");
}

}  // namespace
}  // namespace brisk
