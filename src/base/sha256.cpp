#include "base/sha256.h"

#include <openssl/evp.h>

#include <new>
#include <stdexcept>

namespace brisk {
namespace {

EVP_MD_CTX* of(const auto& context) { return static_cast<EVP_MD_CTX*>(context.get()); }
void must(int ok) {
  if (ok != 1) throw std::runtime_error("OpenSSL cannot compute SHA-256");
}

}  // namespace

void Sha256::Free::operator()(void* context) const { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context)); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (!context_) throw std::bad_alloc();
  start();
}

void Sha256::start() {
  // Looked up once: OpenSSL 3 would do it by name at every call.
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  must(algorithm && EVP_DigestInit_ex2(of(context_), algorithm, nullptr));
}

void Sha256::add(std::span<const std::byte> bytes) { must(EVP_DigestUpdate(of(context_), bytes.data(), bytes.size())); }

Sha256Digest Sha256::finish() {
  Sha256Digest digest;
  must(EVP_DigestFinal_ex(of(context_), digest.data(), nullptr));
  start();
  return digest;
}

Sha256Digest sha256(std::string_view text) {
  Sha256 sha;
  sha.add(text);
  return sha.finish();
}

std::string hex(const Sha256Digest& digest) {
  std::string out;
  for (uint8_t byte : digest) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

}  // namespace brisk
