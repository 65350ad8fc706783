#include "base/log.h"

#include <atomic>
#include <cstdio>
#include <string>

namespace brisk {
namespace {
std::atomic<LogLevel> g_level{LogLevel::kWarning};
constexpr const char* kName[] = {"error: ", "warning: ", "", ""};
}  // namespace

void set_log_level(LogLevel level) { g_level = level; }
LogLevel log_level() { return g_level; }

void log(LogLevel level, std::string_view message) {
  if (!log_enabled(level)) return;
  std::string line = "brisk: ";
  line += kName[static_cast<int>(level)];
  line += message;
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace brisk
