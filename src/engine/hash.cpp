#include <openssl/evp.h>

#include <algorithm>
#include <memory>

#include "base/file.h"
#include "engine/engine_file.h"

namespace brisk {

Result<std::string> engine_content_hash(const std::string& path) {
  BRISK_ASSIGN(auto file, MappedFile::open(path));
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  bool ok = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  // In pieces, so that a file cut short meanwhile is noticed before its lost pages are touched.
  constexpr size_t kPiece = 16 << 20;
  auto bytes = file->bytes();
  for (size_t at = 0; ok && at < bytes.size(); at += kPiece) {
    BRISK_TRY(file->check_size());
    auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
    ok = EVP_DigestUpdate(context.get(), piece.data(), piece.size()) == 1;
  }
  BRISK_TRY(file->check_size());
  if (!ok || EVP_DigestFinal_ex(context.get(), digest, &size) != 1) return environment(path + ": OpenSSL cannot compute SHA-256");
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += "0123456789abcdef"[digest[i] >> 4];
    hex += "0123456789abcdef"[digest[i] & 15];
  }
  return hex;
}

}  // namespace brisk
