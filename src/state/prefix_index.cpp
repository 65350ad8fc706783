#include "state/prefix_index.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <new>

#include <openssl/evp.h>

namespace brisk {
namespace {

// SHA-256 with the algorithm looked up once (OpenSSL 3 looks it up by name at every call otherwise).
class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    if (!context_) throw std::bad_alloc();
    start();
  }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(const void* data, size_t size) { EVP_DigestUpdate(context_, data, size); }
  void add_u64(uint64_t v) {
    uint8_t le[8];
    for (int i = 0; i < 8; ++i) le[i] = static_cast<uint8_t>(v >> (8 * i));
    add(le, sizeof le);
  }
  // And ready for the next message.
  PrefixKey finish() {
    PrefixKey key;
    EVP_DigestFinal_ex(context_, key.data(), nullptr);
    start();
    return key;
  }

 private:
  void start() {
    static const EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    EVP_DigestInit_ex2(context_, sha256, nullptr);
  }
  EVP_MD_CTX* context_;
};

}  // namespace

PrefixKey prefix_root(std::string_view model_key, std::string_view salt, int64_t block_tokens) {
  Sha256 sha;
  sha.add_u64(model_key.size());
  sha.add(model_key.data(), model_key.size());
  sha.add_u64(salt.size());
  sha.add(salt.data(), salt.size());
  sha.add_u64(static_cast<uint64_t>(block_tokens));
  return sha.finish();
}

void extend_prefix_keys(const PrefixKey& root, std::span<const int32_t> tokens, int64_t block_tokens,
                        std::vector<PrefixKey>& keys) {
  const size_t per_block = static_cast<size_t>(block_tokens);
  const size_t whole = tokens.size() / per_block;
  if (keys.size() >= whole) return;
  Sha256 sha;
  std::vector<uint8_t> bytes(per_block * 4);
  for (size_t b = keys.size(); b < whole; ++b) {
    const PrefixKey& parent = b ? keys[b - 1] : root;
    sha.add(parent.data(), parent.size());
    for (size_t i = 0; i < per_block; ++i) {
      const auto v = static_cast<uint32_t>(tokens[b * per_block + i]);
      for (size_t k = 0; k < 4; ++k) bytes[i * 4 + k] = static_cast<uint8_t>(v >> (8 * k));
    }
    sha.add(bytes.data(), bytes.size());
    keys.push_back(sha.finish());
  }
}

std::optional<BlockId> PrefixIndex::find(const PrefixKey& key, const PrefixKey& parent,
                                         std::span<const int32_t> tokens) const {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return std::nullopt;
  const Entry& e = it->second;
  if (e.parent != parent || !std::equal(tokens.begin(), tokens.end(), e.tokens.begin(), e.tokens.end())) return std::nullopt;
  return e.block;
}

bool PrefixIndex::insert(BlockId block, const PrefixKey& key, const PrefixKey& parent, std::span<const int32_t> tokens) {
  auto& mine = key_of_[static_cast<size_t>(block)];
  if (mine || entries_.contains(key)) return false;
  entries_.emplace(key, Entry{block, parent, {tokens.begin(), tokens.end()}});
  mine = key;
  return true;
}

void PrefixIndex::erase(BlockId block) {
  auto& mine = key_of_[static_cast<size_t>(block)];
  if (!mine) return;
  entries_.erase(*mine);
  mine.reset();
}

}  // namespace brisk
