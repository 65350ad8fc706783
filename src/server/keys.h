// API keys, kept as SHA-256. Immutable once filled.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "brisk/result.h"

namespace brisk {

class ApiKeys {
 public:
  // One key a line (blank lines and lines that begin with # are passed over), [8, 256] printable bytes each.
  Status add_lines(std::string_view text, std::string_view where);
  bool empty() const { return digests_.empty(); }

  // The key of "Bearer KEY": its number, else nothing. Takes the same time for every key of a length.
  std::optional<size_t> find(std::string_view authorization) const;

 private:
  std::vector<Sha256Digest> digests_;
};

}  // namespace brisk
