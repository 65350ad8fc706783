#include <algorithm>

#include "base/file.h"
#include "base/sha256.h"
#include "engine/engine_file.h"

namespace brisk {

Result<std::string> engine_content_hash(const std::string& path) {
  BRISK_ASSIGN(auto file, MappedFile::open(path));
  Sha256 sha;
  // In pieces, so that a file cut short meanwhile is noticed before its lost pages are touched.
  constexpr size_t kPiece = 16 << 20;
  auto bytes = file->bytes();
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    BRISK_TRY(file->check_size());
    sha.add(bytes.subspan(at, std::min(kPiece, bytes.size() - at)));
  }
  BRISK_TRY(file->check_size());
  return hex(sha.finish());
}

}  // namespace brisk
