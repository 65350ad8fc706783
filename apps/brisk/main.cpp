#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "api/backends.h"
#include "base/log.h"
#include "brisk_version.h"
#include "command.h"

namespace brisk::cli {
namespace {

constexpr Command kCommands[] = {
    {"build", "compile a model into an engine file", build_command},
    {"inspect", "what is inside an engine file", inspect_command},
    {"run", "one call of any model", run_command},
    {"generate", "text out of a prompt", generate_command},
    {"chat", "talk with a model", chat_command},
    {"bench", "time to first token, time per token, throughput", bench_command},
    {"serve", "OpenAI's API over HTTP", serve_command},
    {"eval", "perplexity on a text", eval_command},
    {"compare", "which layer of a build is wrong", compare_command},
    {"tokenize", "token ids and pieces of a text", tokenize_command},
    {"template", "the prompt that a conversation becomes", template_command},
};

std::string version_text() {
  std::string isa;
  if (auto cpu = BackendSet::create("cpu", 1); cpu.ok())
    for (auto& f : (*cpu)->registry().isa()) isa += (isa.empty() ? "" : ", ") + f;
  return std::string("brisk ") + BRISK_VERSION + " (" + BRISK_COMMIT + "), cpu: " + (isa.empty() ? "baseline" : isa);
}

// Memory can run out anywhere: that is an error of the machine, like others.
Status guarded(const Run& run) try {
  return run();
} catch (const std::bad_alloc&) {
  return environment("out of memory");
} catch (const std::exception& e) {
  return internal(e.what());
}

int main(int argc, char** argv) {
  CLI::App app("brisk: compiles trained models into engine files and serves them");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& e) {
    return std::string("brisk: error: ") + e.what() + "\nRun with --help for more information.\n";
  });
  app.add_flag_callback("--version", [] {
    std::printf("%s\n", version_text().c_str());
    throw CLI::Success();
  }, "version, commit and instruction sets");
  std::vector<std::pair<CLI::App*, Run>> runs;
  for (const Command& c : kCommands) {
    CLI::App* sub = app.add_subcommand(c.name, c.what);
    runs.emplace_back(sub, c.declare(*sub));
  }
  if (argc > 1 && argv[1][0] != '-' && std::ranges::none_of(kCommands, [&](const Command& c) { return std::string(argv[1]) == c.name; })) {
    log(LogLevel::kError, "'" + std::string(argv[1]) + "' is not a command; --help lists them");
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  for (auto& [sub, run] : runs)
    if (sub->parsed()) {
      Status s = guarded(run);
      if (s.ok() && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0))
        s = environment(std::string("the results could not be written: ") + std::strerror(errno));
      if (s.ok()) return 0;
      std::string text = s.error().message;
      if (s.error().kind == ErrorKind::kInternal) text += "\nThis is a bug in brisk; please report it with the lines above.";
      log(LogLevel::kError, text);
      return exit_code(s.error());
    }
  return 2;
}

}  // namespace
}  // namespace brisk::cli

int main(int argc, char** argv) { return brisk::cli::main(argc, argv); }
