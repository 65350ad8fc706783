// Zip archives in memory: entries stored or deflated, read with and without zip64; written stored, without dates.
// Format: PKWARE APPNOTE 6.3. Nothing is allocated on a claimed size alone: a deflated entry cannot claim more than
// deflate's largest ratio allows.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "brisk/result.h"

namespace brisk {

Result<std::map<std::string, std::string>> unzip(std::string_view archive);
Result<std::string> zip(const std::map<std::string, std::string>& entries);  // each below 4 GiB, and all of them

}  // namespace brisk
