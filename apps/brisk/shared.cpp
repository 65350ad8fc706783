#include <fstream>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "base/file.h"
#include "base/log.h"
#include "command.h"

namespace brisk::cli {

int exit_code(const Error& e) {
  switch (e.kind) {
    case ErrorKind::kInvalid: return 2;
    case ErrorKind::kUnsupported: return 3;
    default: return 1;
  }
}

void add_log_level(CLI::App& app) {
  static const std::map<std::string, LogLevel> levels = {
      {"error", LogLevel::kError}, {"warning", LogLevel::kWarning}, {"info", LogLevel::kInfo}, {"verbose", LogLevel::kVerbose}};
  app.add_option_function<std::string>(
         "--log-level", [](const std::string& name) { set_log_level(levels.at(name)); }, "messages down to this level")
      ->check(CLI::IsMember({"error", "warning", "info", "verbose"}))
      ->type_name("LEVEL");
}

void add_threads(CLI::App& app, int& threads) {
  app.add_option("--threads", threads, "compute threads; 0: all the process may use")->check(CLI::Range(0, 1024));
}

void add_size(CLI::App& app, const std::string& flag, int64_t& bytes, const std::string& what) {
  app.add_option_function<std::string>(
         flag,
         [&bytes, flag](const std::string& text) {
           auto n = parse_size(text);
           if (!n.ok()) throw CLI::ValidationError(flag, n.error().message);
           bytes = *n;
         },
         what)
      ->type_name("SIZE");
}

void add_memory(CLI::App& app, int64_t& bytes, const std::string& what) { add_size(app, "--memory", bytes, what); }

void add_runtime_flags(CLI::App& app, LLMOptions& o) {
  app.add_option("--max-model-len", o.max_model_len, "positions of one sequence; 0: as the model was made")->check(CLI::Range(0, INT32_MAX));
  app.add_option("--max-num-seqs", o.max_num_seqs, "sequences in one step")->check(CLI::Range(1, 4096));
  app.add_option("--max-batched-tokens", o.max_batched_tokens, "tokens in one step; longer prompts run in chunks")->check(CLI::Range(1, 65536));
  add_memory(app, o.memory_bytes, "cap on weights, state and scratch, such as 2G; 0: half of what is free");
  app.add_option("--kv-dtype", o.kv_dtype, "element type of the key/value cache")->check(CLI::IsMember({"fp32", "fp16", "bf16"}));
  app.add_option_function<std::string>(
         "--chat-template",
         [&o](const std::string& path) {
           auto text = read_file(path, 4 << 20);
           if (!text.ok()) throw CLI::ValidationError("--chat-template", text.error().message);
           o.chat_template = *text;
         },
         "Jinja file instead of the model's own template")
      ->type_name("FILE");
  add_threads(app, o.threads);
  add_log_level(app);
}

void add_sampling_flags(CLI::App& app, GenerateOptions& o) {
  app.add_option("-n,--max-tokens", o.max_tokens, "new tokens at most; 0: until the model stops")->check(CLI::Range(0, INT32_MAX));
  app.add_flag("--ignore-eos", o.ignore_eos, "go on past the end token");
  app.add_option("--temp", o.temperature, "temperature; 0: greedy")->check(CLI::Range(0.0f, 100.0f));
  app.add_option("--top-k", o.top_k, "sample from the k most likely; 0: all")->check(CLI::Range(0, INT32_MAX));
  app.add_option("--top-p", o.top_p, "sample from the smallest set of this probability")->check(CLI::Range(0.0f, 1.0f));
  app.add_option("--min-p", o.min_p, "drop tokens less likely than this share of the best")->check(CLI::Range(0.0f, 1.0f));
  app.add_option("--repeat-penalty", o.repetition_penalty, "divides the logits of tokens seen; 1: none")->check(CLI::Range(0.01f, 100.0f));
  app.add_option("--presence-penalty", o.presence_penalty, "subtracted once from tokens of the answer")->check(CLI::Range(-2.0f, 2.0f));
  app.add_option("--frequency-penalty", o.frequency_penalty, "subtracted for each time a token was said")->check(CLI::Range(-2.0f, 2.0f));
  // Read here, since CLI11 makes numbers that do not fit into the largest one.
  app.add_option_function<std::string>(
         "--seed",
         [&o](const std::string& text) {
           int64_t seed = 0;
           auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
           if (error != std::errc() || end != text.data() + text.size())
             throw CLI::ValidationError("--seed", "'" + text + "' is no whole number of 64 bits");
           o.seed = static_cast<uint64_t>(seed);
         },
         "of the random draws: the same seed, the same answer")
      ->type_name("INT");
  app.add_option("--stop", o.stop, "text that ends the answer; repeatable")->allow_extra_args(false);
}

Result<int64_t> parse_size(const std::string& text) {
  size_t used = 0;
  double n = -1;
  try {
    n = std::stod(text, &used);
  } catch (const std::exception&) {
  }
  std::string unit = text.substr(std::min(used, text.size()));
  if (!unit.empty() && (unit.back() == 'B' || unit.back() == 'b')) unit.pop_back();
  if (!unit.empty() && unit.back() == 'i') unit.pop_back();
  static const std::string units = "KMGT";
  double scale = 1;
  if (unit.size() == 1) {
    auto at = units.find(static_cast<char>(std::toupper(unit[0])));
    scale = at == std::string::npos ? -1 : std::pow(1024.0, static_cast<double>(at + 1));
  } else if (!unit.empty()) {
    scale = -1;
  }
  if (!(n >= 0) || scale < 0 || n * scale > 9e15) return invalid("'" + text + "' is not a size such as 512M or 2G");
  return static_cast<int64_t>(n * scale);
}

namespace {
double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
}  // namespace

Progress::Progress() : terminal_(::isatty(2) == 1), started_(seconds()) {}
Progress::~Progress() { close_line(); }

void Progress::close_line() {
  if (terminal_ && !stage_.empty()) std::fprintf(stderr, "\r\033[K");
}

void Progress::update(const std::string& stage, double fraction) {
  if (!log_enabled(LogLevel::kWarning)) return;
  bool fresh = stage != stage_;
  if (!fresh && fraction < 1 && fraction - shown_ < 0.01) return;
  double elapsed = seconds() - started_;
  if (fresh) started_ = seconds(), elapsed = 0;
  stage_ = stage;
  shown_ = fraction;
  if (!terminal_) {
    if (fresh) std::fprintf(stderr, "brisk: %s\n", stage.c_str());
    return;
  }
  if (fraction > 0.02 && fraction < 1)
    std::fprintf(stderr, "\r\033[K%-14s %3.0f %%  %.0f s left", stage.c_str(), 100 * fraction, elapsed * (1 - fraction) / fraction);
  else
    std::fprintf(stderr, "\r\033[K%-14s", stage.c_str());
}

int64_t peak_rss_bytes() {
  // Not getrusage: its maximum counts what the process that started this one had before it became brisk.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::atoll(line.c_str() + 6) * 1024;
  return 0;
}

}  // namespace brisk::cli
