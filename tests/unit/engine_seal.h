// Puts the size and the checksums of a changed engine file right again, as somebody who means harm would.
#pragma once
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <string>

#include "engine/layout.h"

namespace brisk::test {

// Every checksum whose place and section lie inside the file.
inline void seal(std::string& file) {
  layout::Header header;
  if (file.size() < sizeof header) return;
  std::memcpy(&header, file.data(), sizeof header);
  header.file_size = file.size();
  header.checksum = 0;
  size_t end = sizeof header;
  for (uint32_t i = 0; i < header.sections && end + sizeof(layout::SectionEntry) <= file.size(); ++i) {
    layout::SectionEntry entry;
    std::memcpy(&entry, file.data() + end, sizeof entry);
    if (entry.offset <= file.size() && entry.size <= file.size() - entry.offset)
      entry.checksum = XXH3_64bits(file.data() + entry.offset, entry.size);
    std::memcpy(file.data() + end, &entry, sizeof entry);
    end += sizeof entry;
  }
  std::memcpy(file.data(), &header, sizeof header);
  header.checksum = XXH3_64bits(file.data(), end);
  std::memcpy(file.data(), &header, sizeof header);
}

}  // namespace brisk::test
