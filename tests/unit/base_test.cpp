#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/checked.h"
#include "base/file.h"
#include "base/half.h"
#include "base/log.h"

namespace brisk {
namespace {

TEST(Checked, OverflowIsAnAnswer) {
  EXPECT_EQ(checked_mul(1 << 20, 1 << 20), int64_t{1} << 40);
  EXPECT_FALSE(checked_mul(INT64_MAX, 2));
  EXPECT_FALSE(checked_add(INT64_MAX, 1));
  EXPECT_TRUE(inside(10, 6, 16));
  EXPECT_FALSE(inside(10, UINT64_MAX, 16));
}

TEST(Half, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(bf16(1.00390625f).bits, 0x3f80);  // exactly between two values: to even
  EXPECT_EQ(bf16(1.01171875f).bits, 0x3f82);
  EXPECT_TRUE(std::isnan(float(bf16(NAN))));
  EXPECT_EQ(f16(65504.0f).bits, 0x7bff);
  EXPECT_FLOAT_EQ(float(f16(0.333251953125f)), 0.333251953125f);
}

TEST(Log, TerminalsGetNoControlCharacters) {
  EXPECT_EQ(printable("a\x1b[2Jb\r\x7f\n\tä"), "a?[2Jb??\n\tä");
}

TEST(File, UncommittedWriteLeavesTheOldFile) {
  auto path = std::filesystem::temp_directory_path() / ("brisk_base_test_" + std::to_string(::getpid()));
  auto text = [](const char* s) { return std::as_bytes(std::span(s, std::strlen(s))); };
  {
    auto f = AtomicFile::create(path);
    ASSERT_TRUE(f.ok());
    ASSERT_TRUE((*f)->write(text("old")).ok());
    ASSERT_TRUE((*f)->commit().ok());
  }
  {
    auto f = AtomicFile::create(path);
    ASSERT_TRUE((*f)->write(text("new")).ok());
  }
  EXPECT_EQ(*read_file(path), "old");
  std::filesystem::remove(path);
  auto gone = MappedFile::open(path);
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().kind, ErrorKind::kInvalid);
}

TEST(File, AMappingCutShortIsAnErrorAndNoSignal) {
  auto path = std::filesystem::temp_directory_path() / ("brisk_base_test_" + std::to_string(::getpid()));
  const std::vector<std::byte> data(40 * 4096, std::byte{7});
  for (const char* name : {"a", "b"}) {
    auto f = AtomicFile::create(path.string() + name);
    ASSERT_TRUE(f.ok());
    ASSERT_TRUE((*f)->write(data).ok());
    ASSERT_TRUE((*f)->commit().ok());
  }
  MappingWatch before;
  {
    auto cut = MappedFile::open(path.string() + "a"), whole = MappedFile::open(path.string() + "b");
    ASSERT_TRUE(cut.ok() && whole.ok());
    ASSERT_EQ(::truncate((path.string() + "a").c_str(), 4096), 0);
    EXPECT_FALSE((*cut)->check_size().ok());
    EXPECT_FALSE((*cut)->lost());
    auto bytes = (*cut)->bytes();
    EXPECT_EQ(bytes[0], std::byte{7});
    for (size_t page : {39, 20, 1}) EXPECT_EQ(bytes[page * 4096 + 5], std::byte{0}) << page;
    EXPECT_TRUE((*cut)->lost());
    EXPECT_EQ((*whole)->bytes().back(), std::byte{7});
    EXPECT_TRUE((*whole)->check_size().ok());
    EXPECT_FALSE((*whole)->lost());
    // Written elsewhere, what is gone is an error too, not a file of zeros.
    auto copy = AtomicFile::create(path.string() + "c");
    ASSERT_EQ(::truncate((path.string() + "b").c_str(), 4096), 0);
    auto written = (*copy)->write((*whole)->bytes());
    ASSERT_FALSE(written.ok());
    EXPECT_NE(written.error().message.find("cut short"), std::string::npos) << written.error().message;
  }
  EXPECT_FALSE(before.check().ok());
  EXPECT_TRUE(MappingWatch().check().ok());
  for (const char* name : {"a", "b"}) std::filesystem::remove(path.string() + name);
  EXPECT_FALSE(std::filesystem::exists(path.string() + "c"));
}

TEST(File, TargetsThatCannotBeWrittenAreErrors) {
  auto folder = std::filesystem::temp_directory_path() / ("brisk_base_folder_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "engine");
  auto onto_folder = AtomicFile::create(folder / "engine");
  ASSERT_FALSE(onto_folder.ok());
  EXPECT_NE(onto_folder.error().message.find("is a folder"), std::string::npos) << onto_folder.error().message;
  EXPECT_FALSE(AtomicFile::create(folder / "missing" / "engine").ok());
  EXPECT_FALSE(AtomicFile::create("/proc/brisk").ok());
  std::filesystem::remove(folder / "engine");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace brisk
