#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
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

}  // namespace
}  // namespace brisk
