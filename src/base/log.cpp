#include "base/log.h"

#include <atomic>
#include <cstdio>
#include <string>

namespace brisk {
namespace {
std::atomic<LogLevel> g_level{LogLevel::kWarning};
constexpr const char* kName[] = {"error: ", "warning: ", "", ""};
}  // namespace

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f) c = '?';
  return out;
}

void set_log_level(LogLevel level) { g_level = level; }
LogLevel log_level() { return g_level; }

void log(LogLevel level, std::string_view message) {
  if (!log_enabled(level)) return;
  std::string line = "brisk: ";
  line += kName[static_cast<int>(level)];
  line += printable(message);
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace brisk
