#include "server/keys.h"

#include <openssl/crypto.h>
#include <strings.h>

namespace brisk {
Status ApiKeys::add_lines(std::string_view text, std::string_view where) {
  for (size_t line = 1; !text.empty(); ++line) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view key = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!key.empty() && key.back() == '\r') key.remove_suffix(1);
    if (key.empty() || key[0] == '#') continue;
    bool good = key.size() >= 8 && key.size() <= 256;
    for (char c : key) good = good && c > 0x20 && c < 0x7f;
    if (!good) return invalid(std::string(where) + ", line " + std::to_string(line) + ": a key has 8 to 256 printable characters without spaces");
    digests_.push_back(sha256(key));
  }
  if (digests_.empty()) return invalid(std::string(where) + ": no key in it");
  return {};
}

std::optional<size_t> ApiKeys::find(std::string_view authorization) const {
  constexpr std::string_view kBearer = "Bearer ";
  if (authorization.size() <= kBearer.size() || ::strncasecmp(authorization.data(), kBearer.data(), kBearer.size()) != 0) return std::nullopt;
  const Sha256Digest wanted = sha256(authorization.substr(kBearer.size()));
  std::optional<size_t> found;
  for (size_t i = 0; i < digests_.size(); ++i)
    if (CRYPTO_memcmp(digests_[i].data(), wanted.data(), wanted.size()) == 0) found = i;
  return found;
}

}  // namespace brisk
