// SHA-256 (OpenSSL's). Not thread-safe: an object a thread. Throws std::runtime_error where OpenSSL has no SHA-256 (a
// broken installation: there is no going on with wrong digests), std::bad_alloc without memory.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace brisk {

using Sha256Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  // Of all that was added; the object is ready for the next message.
  Sha256Digest finish();

 private:
  struct Free {
    void operator()(void* context) const;
  };
  void start();
  std::unique_ptr<void, Free> context_;  // EVP_MD_CTX
};

Sha256Digest sha256(std::string_view text);
std::string hex(const Sha256Digest& digest);  // 64 lower-case digits

}  // namespace brisk
