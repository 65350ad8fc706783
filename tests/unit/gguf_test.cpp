#include "import/gguf/gguf_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "../fuzz/memory_file.h"
#include "import/gguf/blocks.h"
#include "import/gguf/import.h"
#include "model_files.h"
#include "text/tokenizer.h"

namespace brisk {
namespace {

using test::GgufWriter;
using test::gguf_string;
using test::raw;
using test::TestFolder;
using test::TinyLlama;

GgufWriter sample() {
  GgufWriter g;
  g.add("u8", 0, raw<uint8_t>(200)), g.add("i8", 1, raw<int8_t>(-3)), g.add("u16", 2, raw<uint16_t>(60000));
  g.add("i16", 3, raw<int16_t>(-300)), g.add("u32", 4, raw<uint32_t>(4000000000u)), g.add("i32", 5, raw<int32_t>(-7));
  g.add("f32", 6, raw(0.5f)), g.add("bool", 7, raw<uint8_t>(1)), g.add("u64", 10, raw<uint64_t>(1) ), g.add("i64", 11, raw<int64_t>(-1));
  g.add("f64", 12, raw(0.25)), g.add_text("text", "hello"), g.add_texts("texts", {"a", "", "ccc"});
  g.add("numbers", 9, raw<uint32_t>(3) + raw<uint64_t>(2) + raw<int16_t>(5) + raw<int16_t>(-6));
  g.add("nested", 9, raw<uint32_t>(9) + raw<uint64_t>(1) + raw<uint32_t>(0) + raw<uint64_t>(2) + raw<uint8_t>(1) + raw<uint8_t>(2));
  g.tensor("b", {2, 32}, 8, std::string(68, '\1'));
  g.tensor("a", {3}, 0, test::raw_floats({1, 2, 3}));
  return g;
}

auto open_bytes(const std::string& bytes) {  // a file in memory: thousands of them take no time
  fuzz::MemoryFile file(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return GgufFile::open(file.path());
}

Error error_of(const std::string& bytes) {
  auto r = open_bytes(bytes);
  return r.ok() ? internal("accepted") : r.error();
}

TEST(Gguf, ReadsEveryTypeAndTensorsInRowMajorOrder) {
  TestFolder dir;
  auto r = GgufFile::open(dir.write("m.gguf", sample().build()));
  ASSERT_TRUE(r.ok()) << r.error().message;
  const GgufFile& f = **r;
  struct Case { const char* key; int64_t value; };
  for (auto [key, value] : std::initializer_list<Case>{{"u8", 200}, {"i8", -3}, {"u16", 60000}, {"i16", -300}, {"u32", 4000000000}, {"i32", -7}, {"u64", 1}, {"i64", -1}})
    EXPECT_EQ(**f.integer(key, INT64_MIN, INT64_MAX), value) << key;
  EXPECT_EQ(**f.number("f32"), 0.5);
  EXPECT_EQ(**f.number("f64"), 0.25);
  EXPECT_TRUE(**f.flag("bool"));
  EXPECT_EQ(**f.text("text"), "hello");
  EXPECT_EQ(**f.texts("texts"), (std::vector<std::string_view>{"a", "", "ccc"}));
  EXPECT_EQ(**f.numbers("numbers"), (std::vector<double>{5, -6}));
  EXPECT_FALSE(f.integer("absent", 0, 1)->has_value());
  ASSERT_EQ(f.tensors().size(), 2u);
  EXPECT_EQ(f.tensor("b")->shape, (Dims{2, 32}));
  EXPECT_EQ(f.tensor("b")->bytes.size(), 68u);
  EXPECT_EQ(f.tensor("c"), nullptr);
}

TEST(Gguf, WrongTypesAndRangesNameFileAndKey) {
  TestFolder dir;
  auto f = *GgufFile::open(dir.write("m.gguf", sample().build()));
  for (const auto& e : {f->integer("text", 0, 1).error(), f->integer("u8", 0, 100).error(), f->text("u8").error(), f->texts("numbers").error(), f->numbers("texts").error(), f->flag("u8").error()}) {
    EXPECT_EQ(e.kind, ErrorKind::kInvalid);
    EXPECT_NE(e.message.find("m.gguf: metadata '"), std::string::npos) << e.message;
  }
  EXPECT_NE(f->integer("u8", 0, 100).error().message.find("'u8' is 200, allowed are 0 to 100"), std::string::npos);
}

TEST(Gguf, EveryTruncationIsRefused) {
  std::string whole = sample().build();
  for (size_t n = 0; n < whole.size(); ++n) {
    Error e = error_of(whole.substr(0, n));
    ASSERT_EQ(e.kind, ErrorKind::kInvalid) << n << " bytes: " << e.message;
    ASSERT_TRUE(e.message.starts_with("/proc/self/fd/")) << e.message;
  }
}

TEST(Gguf, EveryFlippedBitIsRefusedOrHarmless) {
  GgufWriter g = sample();
  std::string whole = g.build();
  size_t header = g.header().size();
  int refused = 0;
  for (size_t bit = 0; bit < header * 8; ++bit) {
    std::string s = whole;
    s[bit / 8] = static_cast<char>(s[bit / 8] ^ 1 << bit % 8);
    auto r = open_bytes(s);
    if (!r.ok()) {
      ++refused;
      ASSERT_NE(r.error().kind, ErrorKind::kInternal) << r.error().message;
      continue;
    }
    for (const GgufTensor& t : (*r)->tensors())  // what was accepted lies inside the file
      ASSERT_LE(t.bytes.size(), s.size());
  }
  EXPECT_GT(refused, static_cast<int>(header));
}

TEST(Gguf, ClaimedCountsAreHeldAgainstTheFile) {
  std::string s = sample().build();
  for (size_t at : {8u, 16u})
    for (uint64_t count : {uint64_t{1} << 20, uint64_t{1} << 40, UINT64_MAX}) {
      std::string bad = s;
      bad.replace(at, 8, raw(count));
      EXPECT_NE(error_of(bad).message.find("bytes are left"), std::string::npos);
    }
  GgufWriter array;
  array.add("x", 9, raw<uint32_t>(6) + raw<uint64_t>(UINT64_MAX / 4));
  EXPECT_NE(error_of(array.build()).message.find("bytes are left"), std::string::npos);
  GgufWriter texts;
  texts.add("x", 9, raw<uint32_t>(8) + raw<uint64_t>(uint64_t{1} << 60));
  EXPECT_NE(error_of(texts.build()).message.find("bytes are left"), std::string::npos);
}

TEST(Gguf, NestedArraysHaveADepthLimit) {
  std::string value = raw<uint32_t>(0) + raw<uint64_t>(0);
  for (int i = 0; i < 1000; ++i) value = raw<uint32_t>(9) + raw<uint64_t>(1) + value;
  GgufWriter g;
  g.add("x", 9, value);
  EXPECT_NE(error_of(g.build()).message.find("nested deeper"), std::string::npos);
}

TEST(Gguf, TensorsAreUniqueAlignedInsideAndApart) {
  std::string floats = test::raw_floats(std::vector<float>(16));
  auto with = [&](auto&& fill) {
    GgufWriter g;
    fill(g);
    return error_of(g.build()).message;
  };
  EXPECT_NE(with([&](GgufWriter& g) { g.tensor("x", {16}, 0, floats), g.tensor("x", {16}, 0, floats); }).find("occurs twice"), std::string::npos);
  EXPECT_NE(with([&](GgufWriter& g) { g.tensor("x", {16}, 0, floats), g.tensor("y", {16}, 0, floats, 32); }).find("overlaps"), std::string::npos);
  EXPECT_NE(with([&](GgufWriter& g) { g.tensor("x", {16}, 0, floats, 4); }).find("alignment"), std::string::npos);
  EXPECT_NE(with([&](GgufWriter& g) { g.tensor("x", {17}, 0, floats); }).find("does not fit"), std::string::npos);
  EXPECT_NE(with([&](GgufWriter& g) { g.tensor("x", {uint64_t{1} << 40, uint64_t{1} << 40}, 0, floats); }).find("does not fit"), std::string::npos);
  EXPECT_NE(with([&](GgufWriter& g) { g.tensor("x", {16}, 2, floats); }).find("not whole Q4_0 blocks"), std::string::npos);
  EXPECT_NE(with([&](GgufWriter& g) { g.tensor("x", {0}, 0, ""); }).find("dimension 0"), std::string::npos);
  EXPECT_NE(with([&](GgufWriter& g) { g.add_u32("k", 1), g.add_u32("k", 1); }).find("'k' occurs twice"), std::string::npos);
  EXPECT_NE(with([&](GgufWriter& g) { g.add_u32("general.alignment", 48); }).find("general.alignment is 48"), std::string::npos);
}

TEST(Gguf, OtherVersionsAreNamed) {
  GgufWriter g = sample();
  g.version = 2;
  EXPECT_TRUE(open_bytes(g.build()).ok());
  g.version = 1;
  EXPECT_EQ(error_of(g.build()).kind, ErrorKind::kUnsupported);
  g.version = 3u << 24;
  EXPECT_NE(error_of(g.build()).message.find("big-endian"), std::string::npos);
}

TEST(Gguf, SplitModelsOpenAllTheirParts) {
  TestFolder dir;
  auto part = [&](uint16_t number, uint16_t total) {
    GgufWriter g;
    g.add("split.no", 2, raw(number)), g.add("split.count", 2, raw<uint16_t>(3)), g.add("split.tensors.count", 5, raw<int32_t>(total));
    g.tensor("t" + std::to_string(number), {1}, 0, raw(static_cast<float>(number)));
    return g.build();
  };
  std::string first = dir.write("m-00001-of-00003.gguf", part(0, 3)), second = dir.write("m-00002-of-00003.gguf", part(1, 3));
  auto missing = GgufFile::open(first);
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("m-00003-of-00003.gguf: no such file"), std::string::npos) << missing.error().message;
  dir.write("m-00003-of-00003.gguf", part(2, 3));
  for (const auto& path : {first, second}) {
    auto r = GgufFile::open(path);
    ASSERT_TRUE(r.ok()) << r.error().message;
    ASSERT_EQ((*r)->tensors().size(), 3u);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(load_float((*r)->tensors()[i].bytes.data(), DType::kF32, 0), static_cast<float>(i));
  }
  dir.write("m-00003-of-00003.gguf", part(1, 3));
  EXPECT_NE(GgufFile::open(first).error().message.find("split.no"), std::string::npos);
  dir.write("m-00003-of-00003.gguf", part(2, 3)), dir.write("m-00001-of-00003.gguf", part(0, 9));
  EXPECT_NE(GgufFile::open(first).error().message.find("split.tensors.count is 9"), std::string::npos);
  EXPECT_NE(GgufFile::open(dir.write("other.gguf", part(0, 3))).error().message.find("its name must end in"), std::string::npos);
}

// tests/data/gguf_blocks.json: tools/oracles/gguf_blocks.py
TEST(Gguf, BlocksDecodeToTheOraclesNumbers) {
  std::ifstream file(BRISK_TEST_DATA "/gguf_blocks.json");
  auto cases = nlohmann::json::parse(file);
  auto unhex = [](const std::string& s) {
    std::vector<std::byte> out;
    for (size_t i = 0; i + 1 < s.size(); i += 2) out.push_back(static_cast<std::byte>(std::stoi(s.substr(i, 2), nullptr, 16)));
    return out;
  };
  for (const auto& c : cases) {
    const BlockFormat* f = block_format(c["type"]);
    ASSERT_NE(f, nullptr);
    EXPECT_EQ(f->name, c["name"]);
    auto blocks = unhex(c["blocks"]), wanted = unhex(c["values"]);
    int64_t n = c["elements"];
    ASSERT_EQ(static_cast<int64_t>(blocks.size()), n / f->elements * f->bytes);
    auto got = to_floats(*decode_tensor(*f, {1, n}, blocks, nullptr));
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], load_float(wanted.data(), DType::kF32, static_cast<int64_t>(i))) << f->name << " element " << i;
  }
  EXPECT_EQ(cases.size(), 13u);
}

TEST(Gguf, PlainTensorsShareTheMappingUnlessMisaligned) {
  auto memory = std::make_shared<std::vector<std::byte>>(64);
  std::span<const std::byte> bytes(*memory);
  const BlockFormat& f32 = *block_format(0);
  auto shared = decode_tensor(f32, {4}, bytes.subspan(0, 16), memory), copied = decode_tensor(f32, {4}, bytes.subspan(1, 16), memory);
  EXPECT_EQ(shared->data.bytes.data(), bytes.data());
  EXPECT_EQ(shared->data.owner, memory);
  EXPECT_NE(copied->data.bytes.data(), bytes.data() + 1);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(copied->data.bytes.data()) % 4, 0u);
}

TEST(GgufImport, UnsupportedThingsAreListedAtOnce) {
  TestFolder dir;
  GgufWriter g = TinyLlama::gguf_metadata();
  g.add_text("llama.rope.scaling.type", "longrope"), g.add_u32("llama.expert_count", 8);
  for (const auto& w : TinyLlama::weights()) {
    bool odd = w.gguf == "blk.1.ffn_up.weight";
    g.tensor(w.gguf, {w.shape.begin(), w.shape.end()}, odd ? 28 : 0, odd ? std::string(w.values.size() * 8, '\0') : test::raw_floats(w.values));
  }
  g.tensor("blk.0.ffn_gate_inp.weight", {1}, 0, raw(1.0f));
  auto r = import_gguf(dir.write("m.gguf", g.build()));
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::kUnsupported);
  for (const char* part : {"4 things", "'longrope'", "'llama.expert_count' is 8", "'blk.1.ffn_up.weight': element type F64", "'blk.0.ffn_gate_inp.weight'"})
    EXPECT_NE(r.error().message.find(part), std::string::npos) << part << " in " << r.error().message;

  GgufWriter other;
  other.add_text("general.architecture", "mamba");
  other.tensor("x", {256}, 19, std::string(50, '\0'));
  auto unknown = import_gguf(dir.write("n.gguf", other.build()));
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("architecture 'mamba'"), std::string::npos);
  EXPECT_NE(unknown.error().message.find("IQ1_S"), std::string::npos);
}

TEST(GgufImport, TokenizerTemplateAndEndIdsComeAlong) {
  TestFolder dir;
  auto import_with = [&](std::vector<std::string> tokens, const std::string& model) {
    GgufWriter g = TinyLlama::gguf_metadata();
    g.add_text("tokenizer.ggml.model", model), g.add_texts("tokenizer.ggml.tokens", tokens), g.add_texts("tokenizer.ggml.merges", {"a b"});
    std::string types = raw<uint32_t>(5) + raw<uint64_t>(tokens.size());
    for (const auto& t : tokens) types += raw<int32_t>(t.starts_with("<|") ? 3 : 1);
    g.add("tokenizer.ggml.token_type", 9, types), g.add_text("tokenizer.chat_template", "{{ messages }}");
    for (const auto& w : TinyLlama::weights()) g.tensor(w.gguf, {w.shape.begin(), w.shape.end()}, 0, TinyLlama::gguf_bytes(w));
    return import_gguf(dir.write("m.gguf", g.build()));
  };
  auto m = import_with({"a", "<|im_start|>", "<|im_end|>", "b", "ab", "<|endoftext|>"}, "gpt2");
  ASSERT_TRUE(m.ok()) << m.error().message;
  EXPECT_EQ(m->generation_config, R"({"bos_token_id":1,"eos_token_id":[2,5]})");
  EXPECT_EQ(m->chat_template, "{{ messages }}");
  auto t = Tokenizer::deserialize(std::as_bytes(std::span(m->tokenizer)));
  ASSERT_TRUE(t.ok()) << t.error().message;
  EXPECT_EQ(*(*t)->encode("abba<|im_end|>"), (std::vector<int32_t>{4, 3, 0, 2}));
  auto large = import_with(std::vector<std::string>(41, "a"), "gpt2");
  ASSERT_FALSE(large.ok());
  EXPECT_NE(large.error().message.find("41 entries, the embedding only 40 rows"), std::string::npos) << large.error().message;
  auto unknown = import_with({"a", "b", "ab"}, "rwkv");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(unknown.error().message.find("1 thing is not supported"), std::string::npos) << unknown.error().message;
}

TEST(GgufImport, DamagedModelsAreInvalid) {
  TestFolder dir;
  auto error = [&](auto&& change) {
    GgufWriter g = TinyLlama::gguf_metadata();
    change(g);
    auto r = import_gguf(dir.write("m.gguf", g.build()));
    return r.ok() ? internal("accepted") : r.error();
  };
  auto weights = TinyLlama::weights();
  auto all_but = [&](GgufWriter& g, const std::string& left_out, const std::string& reshaped = "") {
    for (const auto& w : weights)
      if (w.gguf != left_out) {
        std::vector<uint64_t> shape(w.shape.begin(), w.shape.end());
        if (w.gguf == reshaped) std::swap(shape[0], shape[1]);
        g.tensor(w.gguf, shape, 0, test::raw_floats(w.values));
      }
  };
  Error missing = error([&](GgufWriter& g) { all_but(g, "blk.1.attn_k.weight"); });
  EXPECT_EQ(missing.kind, ErrorKind::kInvalid);
  EXPECT_NE(missing.message.find("1 tensors are missing: blk.1.attn_k.weight"), std::string::npos) << missing.message;
  Error shape = error([&](GgufWriter& g) { all_but(g, "", "blk.0.ffn_up.weight"); });
  EXPECT_EQ(shape.kind, ErrorKind::kInvalid);
  EXPECT_NE(shape.message.find("'blk.0.ffn_up.weight' has shape [64, 96], the configuration wants [96, 64]"), std::string::npos) << shape.message;

  GgufWriter layers;
  layers.add_text("general.architecture", "llama"), layers.add_u32("llama.block_count", 2000000000);
  layers.add_u32("llama.embedding_length", 64), layers.add_u32("llama.attention.head_count", 4);
  layers.add_u32("llama.feed_forward_length", 96), layers.add_u32("llama.context_length", 128);
  layers.tensor("token_embd.weight", {40, 64}, 0, std::string(40 * 64 * 4, '\0'));
  auto r = import_gguf(dir.write("m.gguf", layers.build()));
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().message.find("number of layers is 2000000000, allowed are 1 to 1"), std::string::npos) << r.error().message;
}

}  // namespace
}  // namespace brisk
