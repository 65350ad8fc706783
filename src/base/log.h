// Messages for people, on stderr. printf-like cost only where the level is on.
#pragma once
#include <string>
#include <string_view>

namespace brisk {

enum class LogLevel { kError, kWarning, kInfo, kVerbose };

void set_log_level(LogLevel level);   // thread safe
LogLevel log_level();
// One line "brisk: warning: ..." on stderr, whole even with several threads.
void log(LogLevel level, std::string_view message);

inline bool log_enabled(LogLevel level) { return level <= log_level(); }

// The text without control characters but newline and tab: messages quote files, and terminals obey escape sequences.
std::string printable(std::string_view text);

}  // namespace brisk
