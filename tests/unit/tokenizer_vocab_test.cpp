// Real vocabularies: BRISK_VOCAB_DIR names a folder of NAME.gguf with NAME.gguf.inp (texts) and NAME.gguf.out (ids), as
// in the `models` folder of llama.cpp's sources. All that are there are checked; those without texts must load.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "text/tokenizer.h"
#include "tokenizer_gguf_reader.h"

namespace brisk {
namespace {

std::vector<std::string> split_texts(const std::string& all) {
  constexpr std::string_view kMark = "\n__ggml_vocab_test__\n";
  std::vector<std::string> texts;
  size_t at = 0;
  for (size_t end; (end = all.find(kMark, at)) != std::string::npos; at = end + kMark.size()) {
    texts.push_back(all.substr(at, end - at));
  }
  if (at < all.size()) texts.push_back(all.substr(at));
  return texts;
}

std::vector<std::vector<int32_t>> split_ids(const std::string& all) {
  std::vector<std::vector<int32_t>> rows;
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    auto& row = rows.emplace_back();
    for (int32_t id; words >> id;) row.push_back(id);
  }
  return rows;
}

void check_texts(const Tokenizer& tokenizer, const std::string& path) {
  auto texts = read_file(path + ".inp"), ids = read_file(path + ".out");
  ASSERT_TRUE(texts.ok() && ids.ok()) << path;
  auto inputs = split_texts(*texts);
  auto expected = split_ids(*ids);
  ASSERT_EQ(inputs.size(), expected.size()) << path;
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto got = tokenizer.encode(inputs[i], {.add_special = false, .parse_special = false});
    ASSERT_TRUE(got.ok()) << got.error().message;
    EXPECT_EQ(*got, expected[i]) << path << " case " << i << ": '" << inputs[i] << "'";
  }
}

TEST(TokenizerVocab, RealVocabulariesGiveTheExpectedIds) {
  const char* folder = std::getenv("BRISK_VOCAB_DIR");
  if (!folder) GTEST_SKIP() << "BRISK_VOCAB_DIR names no folder with ggml-vocab-*.gguf";
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  ASSERT_FALSE(paths.empty()) << folder;
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    auto file = read_file(path);
    ASSERT_TRUE(file.ok());
    auto model = tokenizer_from_gguf(GgufFieldsReader(*file).read());
    ASSERT_TRUE(model.ok()) << model.error().message;
    auto made = make_tokenizer(std::move(*model));
    ASSERT_TRUE(made.ok()) << made.error().message;
    std::string bytes = (*made)->serialize();
    auto loaded = Tokenizer::deserialize(std::as_bytes(std::span(bytes)));
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ((*loaded)->serialize(), bytes);
    if (is_file(path + ".inp")) check_texts(**loaded, path);
  }
}

}  // namespace
}  // namespace brisk
