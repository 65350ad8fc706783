// The bytes of an engine file, outside in:
//
//   Header        64 bytes
//   SectionEntry  one for each section, in the order of their offsets
//   sections      the weights start on a page (and each weight on 64 bytes), the others on 64 bytes; zeros between
//
// Numbers are little-endian. The metadata section is a FlatBuffer (engine.fbs) and is read first; the weights come last
// and are only mapped. Checksums are XXH3-64 and catch damage, not malice: see check.h for what is proven.
#pragma once
#include <bit>
#include <cstdint>

namespace brisk::layout {

static_assert(std::endian::native == std::endian::little, "engine files are read in place");

inline constexpr char kMagic[8] = {'\x89', 'B', 'R', 'I', 'S', 'K', '\r', '\n'};
inline constexpr uint32_t kFormatVersion = 2;
inline constexpr uint32_t kMaxSections = 64;
inline constexpr uint64_t kPage = 4096;
inline constexpr uint64_t kAlignment = 64;

enum class Section : uint32_t { kMetadata = 1, kTokenizer, kChatTemplate, kGenerationConfig, kWeights };
inline constexpr uint32_t kSectionKinds = 5;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t sections;
  uint64_t file_size;
  uint64_t checksum;  // of this header with checksum 0, followed by the section table
  uint8_t reserved[32];
};
static_assert(sizeof(Header) == 64);

struct SectionEntry {
  Section kind;
  uint32_t reserved;
  uint64_t offset;
  uint64_t size;
  uint64_t checksum;
};
static_assert(sizeof(SectionEntry) == 32);

// Metadata beyond this is refused (the FlatBuffers format itself ends at 2 GiB).
inline constexpr uint64_t kMaxMetadata = 1u << 30;

}  // namespace brisk::layout
