// The command line: one file a command, one table in main.cpp. Messages go to stderr, results to stdout.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "brisk/llm.h"
#include "brisk/result.h"

namespace brisk::cli {

// A command declares its flags on `app` and gives back what to run once they are parsed.
using Run = std::function<Status()>;
struct Command {
  const char* name;
  const char* what;
  Run (*declare)(CLI::App& app);
};

Run build_command(CLI::App&), inspect_command(CLI::App&), run_command(CLI::App&), generate_command(CLI::App&),
    chat_command(CLI::App&), bench_command(CLI::App&), eval_command(CLI::App&), tokenize_command(CLI::App&),
    template_command(CLI::App&), serve_command(CLI::App&), compare_command(CLI::App&);

// 0 done, 1 the work failed, 2 wrong usage or bad input, 3 something is not supported.
int exit_code(const Error& e);

// Flags that several commands share.
void add_log_level(CLI::App& app);
void add_threads(CLI::App& app, int& threads);
void add_size(CLI::App& app, const std::string& flag, int64_t& bytes, const std::string& what);  // FLAG SIZE
void add_memory(CLI::App& app, int64_t& bytes, const std::string& what);  // --memory SIZE
// --max-model-len --max-num-seqs --max-batched-tokens --memory --kv-dtype --threads --chat-template --log-level
void add_runtime_flags(CLI::App& app, LLMOptions& options);
// --temp --top-k ... --seed --stop, as `generate` and `chat` take them.
void add_sampling_flags(CLI::App& app, GenerateOptions& options);

// "512", "64K", "1.5G" -> bytes.
Result<int64_t> parse_size(const std::string& text);

// A progress line on terminals, one plain line a stage elsewhere; silent below LogLevel::kWarning.
class Progress {
 public:
  Progress();
  ~Progress();
  void update(const std::string& stage, double fraction);

 private:
  void close_line();
  bool terminal_;
  std::string stage_;
  double shown_ = -1;
  double started_ = 0;
};

int64_t peak_rss_bytes();

}  // namespace brisk::cli
