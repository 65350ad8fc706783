// Ids and texts against the `tokenizers` package; tools/oracles/tokenizer.py writes the goldens.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"
#include "tokenizer_gguf_reader.h"

namespace brisk {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

json read_golden(const char* name) {
  auto text = read_file(std::string(BRISK_TEST_DATA "/") + name);
  EXPECT_TRUE(text.ok()) << (text.ok() ? "" : text.error().message);
  return text.ok() ? json::parse(*text) : json();
}

std::shared_ptr<const Tokenizer> reloaded(Result<TokenizerModel> model) {
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
  if (!model.ok()) return nullptr;
  auto made = make_tokenizer(std::move(*model));
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  if (!made.ok()) return nullptr;
  std::string bytes = (*made)->serialize();
  auto loaded = Tokenizer::deserialize(std::as_bytes(std::span(bytes)));
  EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message);
  return loaded.ok() ? *loaded : nullptr;
}

void expect_ids(const Tokenizer& t, const std::string& text, EncodeOptions options, const json& expected) {
  auto ids = t.encode(text, options);
  ASSERT_TRUE(ids.ok()) << ids.error().message;
  EXPECT_EQ(*ids, expected.get<Ids>()) << "text: " << json(text).dump();
}

TEST(TokenizerGolden, EveryKindOfTokenizerJson) {
  json golden = read_golden("tokenizer_goldens.json");
  auto texts = golden["texts"].get<std::vector<std::string>>();
  ASSERT_GT(texts.size(), 50u);
  ASSERT_GE(golden["goldens"].size(), 20u);
  for (const json& one : golden["goldens"]) {
    SCOPED_TRACE(one["name"].get<std::string>());
    std::string file = one["tokenizer"].dump();
    auto t = reloaded(tokenizer_from_json({.tokenizer_json = file}));
    ASSERT_TRUE(t);
    for (size_t i = 0; i < texts.size(); ++i) {
      expect_ids(*t, texts[i], {.add_special = true, .parse_special = true}, one["special"][i]);
      expect_ids(*t, texts[i], {.add_special = false, .parse_special = false}, one["plain"][i]);
      EXPECT_EQ(t->decode(one["special"][i].get<Ids>()), one["decoded"][i].get<std::string>()) << json(texts[i]).dump();
    }
  }
}

TEST(TokenizerGolden, SmolLm2FromGguf) {
  std::string path = BRISK_TEST_DATA "/../../.cache/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!is_file(path)) GTEST_SKIP() << path << " is not there (tools/setup.sh test fetches it)";
  auto file = read_file(path);
  ASSERT_TRUE(file.ok());
  auto t = reloaded(tokenizer_from_gguf(GgufFieldsReader(*file).read()));
  ASSERT_TRUE(t);
  json golden = read_golden("smollm2_tokens.json");
  ASSERT_GT(golden["cases"].size(), 50u);
  for (const json& one : golden["cases"]) {
    std::string text = one["text"];
    expect_ids(*t, text, {.add_special = true, .parse_special = true}, one["special"]);
    expect_ids(*t, text, {.add_special = false, .parse_special = false}, one["plain"]);
    EXPECT_EQ(t->decode(one["plain"].get<Ids>(), false), one["decoded"].get<std::string>());
  }
}

// What a file without its tokenizer_config.json leaves open, and what the other files add.
TEST(TokenizerGolden, ConfigurationFiles) {
  json golden = read_golden("tokenizer_goldens.json");
  std::string file;
  for (const json& one : golden["goldens"]) {
    if (one["name"] == "llama2") file = one["tokenizer"].dump();
  }
  auto plain = reloaded(tokenizer_from_json({.tokenizer_json = file}));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->bos(), 1);
  EXPECT_EQ(plain->eos(), 2);
  EXPECT_TRUE(plain->adds_bos());
  auto t = reloaded(tokenizer_from_json(
      {.tokenizer_json = file,
       .tokenizer_config = R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "add_bos_token": false,
                               "add_eos_token": true, "chat_template": [{"name": "rag", "template": "r"},
                               {"name": "default", "template": "d"}]})",
       .generation_config = R"({"eos_token_id": [2, 260]})"}));
  ASSERT_TRUE(t);
  EXPECT_FALSE(t->adds_bos());
  EXPECT_EQ(t->encode("").value(), Ids{2});
  EXPECT_EQ(t->chat_template(), "d");
  EXPECT_TRUE(t->is_eos(2) && t->is_eos(260) && !t->is_eos(1));
  auto named = tokenizer_from_json({.tokenizer_json = file, .tokenizer_config = "{}", .chat_template = "from the file"});
  ASSERT_TRUE(named.ok());
  EXPECT_EQ(named->chat_template, "from the file");
}

std::string failure(const json& file, ErrorKind kind) {
  std::string text = file.dump();
  auto model = tokenizer_from_json({.tokenizer_json = text});
  if (model.ok()) return "accepted";
  EXPECT_EQ(model.error().kind, kind) << model.error().message;
  return model.error().message;
}

TEST(TokenizerGolden, ErrorsNameTheField) {
  json good = read_golden("tokenizer_goldens.json")["goldens"][1]["tokenizer"];
  auto broken = [&](const char* where, json value, ErrorKind kind = ErrorKind::kInvalid) {
    json file = good;
    file[json::json_pointer(where)] = std::move(value);
    return failure(file, kind);
  };
  EXPECT_NE(broken("/model/vocab", "no map").find("model.vocab"), std::string::npos);
  EXPECT_NE(broken("/model/vocab/!", -3).find("model.vocab"), std::string::npos);
  EXPECT_NE(broken("/model/vocab/!", 4000000000u).find("4000000000"), std::string::npos);
  EXPECT_NE(broken("/model/merges/0", json::array({"a"})).find("model.merges"), std::string::npos);
  EXPECT_NE(broken("/model/merges/0", json::array({"no", "such"})).find("'no'"), std::string::npos);
  EXPECT_NE(broken("/added_tokens/0/content", 5).find("added_tokens[0].content"), std::string::npos);
  EXPECT_NE(broken("/pre_tokenizer/pretokenizers/0/individual_digits", "x").find("pretokenizers[0]"), std::string::npos);
  std::string all = [&] {
    json file = good;
    file["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
    file["decoder"] = {{"type", "CTC"}};
    return failure(file, ErrorKind::kUnsupported);
  }();
  EXPECT_NE(all.find("UnicodeScripts"), std::string::npos);
  EXPECT_NE(all.find("CTC"), std::string::npos);
  json deep = {{"type", "NFC"}};
  for (int i = 0; i < 25; ++i) deep = {{"type", "Sequence"}, {"normalizers", json::array({deep})}};
  EXPECT_NE(broken("/normalizer", deep).find("deep"), std::string::npos);
  std::string nested(100000, '[');
  EXPECT_FALSE(tokenizer_from_json({.tokenizer_json = nested}).ok());
  EXPECT_FALSE(tokenizer_from_json({}).ok());
}

}  // namespace
}  // namespace brisk
