// Engine files that are damaged, or made to harm: an error or a sound content, never a crash, never memory without bound.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "base/file.h"
#include "engine/layout.h"
#include "engine_generated.h"
#include "engine_sample.h"
#include "engine_seal.h"

namespace brisk {
namespace {

using test::TemporaryPath;

std::string sample_bytes() {
  TemporaryPath file("hostile-sample.engine");
  EXPECT_TRUE(write_engine(test::sample_content(1), file.path).ok());
  return *read_file(file.path);
}

Result<std::shared_ptr<const EngineContent>> read_bytes(const std::string& bytes) {
  static const Registry registry = test::sample_registry();
  TemporaryPath file("hostile.engine");
  std::ofstream(file.path, std::ios::binary) << bytes;
  return read_engine(file.path, registry, {.verify_checksums = true});
}

std::string error_of(const std::string& bytes) {
  auto r = read_bytes(bytes);
  return r.ok() ? "" : r.error().message;
}

// A file that holds only this metadata section.
std::string with_metadata(flatbuffers::FlatBufferBuilder& b, flatbuffers::Offset<fb::Engine> root) {
  b.Finish(root, fb::EngineIdentifier());
  layout::Header header{};
  std::memcpy(header.magic, layout::kMagic, sizeof header.magic);
  header.version = layout::kFormatVersion;
  header.sections = 1;
  layout::SectionEntry entry{layout::Section::kMetadata, 0, 128, b.GetSize(), 0};
  std::string file(128, '\0');
  std::memcpy(file.data(), &header, sizeof header);
  std::memcpy(file.data() + sizeof header, &entry, sizeof entry);
  file.append(reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize());
  test::seal(file);
  return file;
}

flatbuffers::Offset<fb::Engine> engine_of(flatbuffers::FlatBufferBuilder& b, flatbuffers::Offset<fb::Plan> plan) {
  auto name = b.CreateString("step");
  auto functions = b.CreateVector(std::vector{fb::CreateFunction(b, name, plan)});
  fb::EngineBuilder e(b);
  e.add_functions(functions);
  return e.Finish();
}

TEST(EngineHostile, TruncatedFilesAreErrors) {
  std::string bytes = sample_bytes();
  std::mt19937 random(7);
  for (int i = 0; i < 400; ++i) {
    size_t size = i < 250 ? static_cast<size_t>(i) : random() % bytes.size();
    std::string cut = bytes.substr(0, size);
    EXPECT_FALSE(read_bytes(cut).ok()) << size;
    test::seal(cut);
    EXPECT_FALSE(read_bytes(cut).ok()) << size;
  }
  EXPECT_NE(error_of(bytes.substr(0, 1000)).find("truncated or overlong: 1000 bytes"), std::string::npos);
  EXPECT_NE(error_of(bytes + "x").find("truncated or overlong"), std::string::npos);
  EXPECT_NE(error_of("GGUF" + bytes.substr(4)).find("not an engine file"), std::string::npos);
}

TEST(EngineHostile, DamageIsFoundByChecksums) {
  std::string bytes = sample_bytes();
  layout::SectionEntry entry;
  std::mt19937 random(8);
  for (uint32_t i = 0; i < layout::kSectionKinds; ++i) {
    std::memcpy(&entry, bytes.data() + sizeof(layout::Header) + i * sizeof entry, sizeof entry);
    std::string damaged = bytes;
    damaged[entry.offset + random() % entry.size] ^= 0x10;
    EXPECT_NE(error_of(damaged).find("is damaged (checksum)"), std::string::npos) << i;
  }
  bytes[40] ^= 1;
  EXPECT_NE(error_of(bytes).find("the header is damaged"), std::string::npos);
}

TEST(EngineHostile, OtherFormatVersionsSayWhatToDo) {
  std::string bytes = sample_bytes();
  bytes[8] = 9;
  EXPECT_NE(error_of(bytes).find("engine format 9, this brisk reads format 2; a newer brisk made it"), std::string::npos) << error_of(bytes);
  bytes[8] = 0;
  EXPECT_NE(error_of(bytes).find("engine format 0, this brisk reads format 2; build the engine again"), std::string::npos);
}

TEST(EngineHostile, OversizedClaimsAreErrors) {
  const std::string bytes = sample_bytes();
  auto with_entry = [&](uint32_t i, auto change) {
    std::string copy = bytes;
    layout::SectionEntry entry;
    char* at = copy.data() + sizeof(layout::Header) + i * sizeof entry;
    std::memcpy(&entry, at, sizeof entry);
    change(entry);
    std::memcpy(at, &entry, sizeof entry);
    test::seal(copy);
    return error_of(copy);
  };
  for (uint32_t i = 0; i < layout::kSectionKinds; ++i) {
    EXPECT_NE(with_entry(i, [](auto& e) { e.size = UINT64_MAX; }).find("inside the file"), std::string::npos);
    EXPECT_NE(with_entry(i, [](auto& e) { e.offset = UINT64_MAX - 63; }).find("inside the file"), std::string::npos);
    EXPECT_NE(with_entry(i, [](auto& e) { e.offset += 1; }).find("not aligned"), std::string::npos);
    EXPECT_NE(with_entry(i, [](auto& e) { e.offset = 0; }).find("inside the file"), std::string::npos);
    EXPECT_NE(with_entry(i, [](auto& e) { e.kind = static_cast<layout::Section>(99); }).find("unknown kind 99"), std::string::npos);
  }
  EXPECT_NE(with_entry(1, [](auto& e) { e.kind = layout::Section::kMetadata; }).find("occurs twice"), std::string::npos);
  EXPECT_NE(with_entry(4, [](auto& e) { e.size = 64; }).find("weight section of 64 bytes"), std::string::npos);
}

TEST(EngineHostile, FlippedBitsWithRightChecksums) {
  const std::string bytes = sample_bytes();
  layout::SectionEntry metadata;
  std::memcpy(&metadata, bytes.data() + sizeof(layout::Header), sizeof metadata);
  std::mt19937 random(9);
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string copy = bytes;
    for (size_t n = 1 + random() % 3; n > 0; --n) copy[metadata.offset + random() % metadata.size] ^= static_cast<char>(1 << random() % 8);
    test::seal(copy);
    auto r = read_bytes(copy);
    accepted += r.ok();
    if (!r.ok()) EXPECT_NE(r.error().message.find("hostile.engine: "), std::string::npos);
  }
  EXPECT_GT(accepted, 100);  // names and the like; else the checksums were not put right
  EXPECT_LT(accepted, 2900);
}

TEST(EngineHostile, OneObjectNamedManyTimesIsNotCopiedManyTimes) {
  {
    flatbuffers::FlatBufferBuilder b;
    auto feature = b.CreateString(std::string(1 << 20, 'x'));
    auto isa = b.CreateVector(std::vector(1 << 18, feature));
    fb::EngineBuilder e(b);
    e.add_required_isa(isa);
    auto root = e.Finish();
    EXPECT_NE(error_of(with_metadata(b, root)).find("far more memory than its size explains"), std::string::npos);
  }
  {
    flatbuffers::FlatBufferBuilder b;
    auto op = b.CreateString("Add");
    auto step = fb::CreateStep(b, op);
    auto steps = b.CreateVector(std::vector(1 << 19, step));
    fb::PlanBuilder p(b);
    p.add_steps(steps);
    auto plan = p.Finish();
    EXPECT_NE(error_of(with_metadata(b, engine_of(b, plan))).find("far more memory than its size explains"), std::string::npos);
  }
}

TEST(EngineHostile, DimensionsThatExplodeAreRefused) {
  std::string product = "(a+b)", deep(200, '('), many = "a", nested = "a";
  for (int i = 0; i < 40; ++i) product += "*(a+b+c)";
  for (int i = 0; i < 16; ++i) nested = "((" + nested + ")//2+1)*(c+d)";
  for (int i = 0; i < 100; ++i) many += "+a" + std::to_string(i);
  for (const std::string& text : {product, deep, many, nested, std::string(30000, 'n'), std::string("1//0*("), std::string()}) {
    flatbuffers::FlatBufferBuilder b;
    auto dims = b.CreateVector(std::vector{b.CreateString(text)});
    fb::PlanBuilder p(b);
    p.add_dims(dims);
    auto plan = p.Finish();
    EXPECT_NE(error_of(with_metadata(b, engine_of(b, plan))).find("is malformed or too large"), std::string::npos) << text;
  }
}

TEST(EngineHostile, BlocksNestedTooDeepAreRefused) {
  for (int depth : {20, 1000}) {
    flatbuffers::FlatBufferBuilder b;
    auto op = b.CreateString("Identity");
    flatbuffers::Offset<fb::Plan> plan = fb::PlanBuilder(b).Finish();
    for (int i = 0; i < depth; ++i) {
      auto blocks = b.CreateVector(std::vector{plan});
      fb::StepBuilder s(b);
      s.add_op(op);
      s.add_blocks(blocks);
      auto step = s.Finish();
      auto steps = b.CreateVector(std::vector{step});
      fb::PlanBuilder p(b);
      p.add_steps(steps);
      plan = p.Finish();
    }
    std::string error = error_of(with_metadata(b, engine_of(b, plan)));
    EXPECT_NE(error.find(depth == 20 ? "blocks nested more than 16 deep" : "metadata is malformed"), std::string::npos) << error;
  }
}

TEST(EngineHostile, ManyViewsOfViewsAreRefused) {
  EngineContent c;
  test::PlanBuilder b(c);
  int32_t v = b.input("x", DType::kF32, {4});
  for (int i = 0; i < 2000; ++i) v = b.view("v", v, {2, 2});
  b.plan.outputs = {v};
  c.functions["main"] = b.plan;
  TemporaryPath file("views.engine");
  ASSERT_TRUE(write_engine(c, file.path).ok());
  EXPECT_FALSE(read_engine_metadata(file.path).ok());
  std::reverse(c.functions["main"].values.begin() + 1, c.functions["main"].values.end());  // the longest chain comes first
  for (size_t i = 1; i < c.functions["main"].values.size(); ++i) c.functions["main"].values[i].view_of = i == 2000 ? 0 : static_cast<int32_t>(i + 1);
  c.functions["main"].outputs = {1};
  ASSERT_TRUE(write_engine(c, file.path).ok());
  auto r = read_engine_metadata(file.path);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().message.find("more than 1024 views"), std::string::npos) << r.error().message;
}

}  // namespace
}  // namespace brisk
