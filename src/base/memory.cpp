#include "base/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace brisk {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// The number after `key` in a file of "key value" lines; with an empty key the first number.
std::optional<int64_t> number_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    if (!key.empty() && word != key) continue;
    if (!key.empty() && !(file >> word)) return std::nullopt;
    if (word.empty() || word.size() > 18 || word.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;  // "max"
    return std::stoll(word);
  }
  return std::nullopt;
}

int64_t left_in_machine() {
  if (auto kb = number_in("/proc/meminfo", "MemAvailable:")) return *kb * 1024;
  return static_cast<int64_t>(::sysconf(_SC_AVPHYS_PAGES)) * static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
}

// Of the control group (version 2) and those around it.
int64_t left_in_groups() {
  std::ifstream file("/proc/self/cgroup");
  std::string group;
  for (std::string line; std::getline(file, line);)
    if (line.rfind("0::/", 0) == 0) group = line.substr(3);
  int64_t left = kNoLimit;
  while (!group.empty()) {
    const std::string folder = "/sys/fs/cgroup" + (group == "/" ? "" : group);
    if (auto most = number_in(folder + "/memory.max", "")) {
      int64_t used = number_in(folder + "/memory.current", "").value_or(0);
      used -= number_in(folder + "/memory.stat", "inactive_file").value_or(0);
      left = std::min(left, std::max<int64_t>(0, *most - std::max<int64_t>(0, used)));
    }
    if (group == "/") break;
    group.resize(std::max<size_t>(1, group.rfind('/')));
  }
  return left;
}

}  // namespace

int64_t available_memory() { return std::min(left_in_machine(), left_in_groups()); }

}  // namespace brisk
