// brisk build MODEL -o F.engine
#include <csignal>
#include <cmath>
#include <cstdio>
#include <unistd.h>

#include "base/file.h"
#include "brisk/builder.h"
#include "command.h"

namespace brisk::cli {
namespace {

struct Options {
  std::string model, output;
  BuildConfig config;
  std::vector<std::string> keep;
};

extern "C" void interrupted(int signal) {
  remove_temporary_files();
  ::_exit(128 + signal);
}

void print_report(const Options& o, const BuildReport& r) {
  double worst = INFINITY;
  std::string where;
  int64_t elements = 0;
  for (auto& w : r.weights) {
    elements += w.elements;
    if (w.sqnr_db < worst) worst = w.sqnr_db, where = w.name;
  }
  for (auto& n : r.notes) std::fprintf(stderr, "note: %s\n", n.c_str());
  std::printf("%s: %s, %.1f MB, %.1f M weights in %zu tensors, built in %.1f s\n", o.output.c_str(), r.precision.c_str(),
              static_cast<double>(r.file_bytes) / 1e6, static_cast<double>(elements) / 1e6, r.weights.size(), r.seconds);
  if (!r.calibration.empty()) std::printf("4-bit weights fitted: %s\n", r.calibration.c_str());
  if (std::isfinite(worst)) std::printf("lowest weight SQNR %.1f dB (%s); all of them: brisk inspect\n", worst, where.c_str());
  for (auto& p : r.passes)
    if (p.rewrites) std::printf("  %-20s %4d rewrites, %5lld nodes left, %.1f ms\n", p.name.c_str(), p.rewrites, static_cast<long long>(p.nodes), p.ms);
}

Status build(Options& o) {
  for (int s : {SIGINT, SIGTERM}) std::signal(s, interrupted);
  for (auto& pair : o.keep) {
    auto at = pair.rfind('=');
    if (at == std::string::npos) return invalid("--keep '" + pair + "': wanted NAME=dtype");
    o.config.keep[pair.substr(0, at)] = pair.substr(at + 1);
  }
  BuildReport report;
  {
    Progress progress;
    o.config.progress = [&](const std::string& stage, double fraction) { progress.update(stage, fraction); };
    o.config.dump = [](const std::string& pass, const std::string& graph) { std::printf("--- after %s\n%s", pass.c_str(), graph.c_str()); };
    BRISK_ASSIGN(report, Builder(o.config).build(o.model, o.output));
  }
  print_report(o, report);
  return {};
}

}  // namespace

Run build_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("MODEL", o->model, "a .gguf or .onnx file, or a Hugging Face folder")->required();
  app.add_option("-o,--output", o->output, "the engine file to write")->required()->type_name("FILE");
  app.add_option("--device", o->config.device, "what the engine is for")->check(CLI::IsMember({"cpu", "ref"}));
  app.add_option("--precision", o->config.precision, "of weights; default: what the file has if quantised, else bf16")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16", "int8", "int8w", "int4w"}));
  app.add_option("--label", o->config.label, "version label stored in the engine");
  app.add_option("--tokenizer", o->config.tokenizer_dir, "folder with tokenizer files, for models that bring none")->type_name("DIR");
  app.add_option("--calib", o->config.calibration, "int4w: UTF-8 text that weights are fitted to; none: they are rounded; default: text that the model samples")
      ->type_name("FILE|none");
  app.add_option("--keep", o->keep, "NAME=dtype: keep a weight (NAME may end in *) in another precision")->allow_extra_args(false);
  app.add_option("--profile", o->config.profiles,
                 "INPUT:min,opt,max;INPUT:... with shapes such as 1x128: sizes the engine is made for, one shape: that size alone; repeatable, one plan each")
      ->allow_extra_args(false);
  add_size(app, "--workspace", o->config.workspace_bytes, "hard cap on scratch, such as 64M; 0: none");
  app.add_option("--mark-output", o->config.mark_outputs, "NODE or VALUE whose result becomes a result of the model, too; repeatable")->allow_extra_args(false);
  app.add_option("--disable-pass", o->config.disabled_passes, "leave a pass out; repeatable")->allow_extra_args(false);
  app.add_option("--dump-after", o->config.dump_after, "print the graph after a pass, or after all");
  add_threads(app, o->config.threads);
  add_log_level(app);
  return [o] { return build(*o); };
}

}  // namespace brisk::cli
