#include "brisk/builder.h"

#include <chrono>
#include <cstring>

#include "api/compile_file.h"
#include "base/file.h"
#include "base/log.h"
#include "compiler/load_model.h"
#include "engine/engine_file.h"
#include "engine/layout.h"

namespace brisk {

bool is_engine_file(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file.ok()) return false;
  auto bytes = (*file)->bytes();
  return bytes.size() >= sizeof layout::kMagic && std::memcmp(bytes.data(), layout::kMagic, sizeof layout::kMagic) == 0;
}

Result<EngineContent> compile_file(const std::string& path, const BuildConfig& config, const BackendSet& backend,
                                   BuildReport* report) {
  CompileOptions options;
  options.generative = config.generative;
  options.device = config.device;
  options.label = config.label;
  options.progress = config.progress;
  if (!config.precision.empty()) {
    BRISK_ASSIGN(options.precision, precision_from_name(config.precision));
  }
  for (auto& [pattern, name] : config.keep) {
    BRISK_ASSIGN(options.keep[pattern], precision_from_name(name));
  }
  for (auto& text : config.profiles) {
    BRISK_ASSIGN(options.profiles.emplace_back(), parse_profile(text));
  }
  options.workspace_bytes = config.workspace_bytes;
  options.mark_outputs = config.mark_outputs;
  options.threads = backend.threads();
  using Source = CompileOptions::Calibration::Source;
  options.calibration.source = config.calibration.empty() ? Source::kSampled : config.calibration == "none" ? Source::kNone : Source::kText;
  if (options.calibration.source == Source::kText) {
    BRISK_ASSIGN(options.calibration.text, read_file(config.calibration));
    BRISK_ASSIGN(options.input_hashes["calibration.sha256"], hash_model(config.calibration));
  }
  options.passes.disabled.insert(config.disabled_passes.begin(), config.disabled_passes.end());
  options.passes.dump_after = config.dump_after;
  options.passes.dump = config.dump;
  if (config.progress) config.progress("import", 0);
  MappingWatch watch;
  BRISK_ASSIGN(Model model, load_model(path, config.tokenizer_dir));
  std::vector<std::string> notes = model.notes;
  BRISK_ASSIGN(options.input_hashes["model.sha256"], hash_model(path));
  CompileReport r;
  BRISK_ASSIGN(auto content, compile(std::move(model), options, {backend.registry(), backend.device(), backend.context()}, &r));
  if (auto whole = watch.check(); !whole.ok()) return std::move(whole).error().in(path);
  if (report) {
    report->notes = std::move(notes);
    report->notes.insert(report->notes.end(), r.notes.begin(), r.notes.end());
    report->precision = r.precision;
    report->calibration = r.calibration;
    for (auto& p : r.passes) report->passes.push_back({p.name, p.rewrites, p.nodes, p.ms});
    for (auto& w : r.weights) report->weights.push_back({w.name, w.encoding, w.sqnr_db, w.elements});
  }
  return content;
}

Result<BuildReport> Builder::build(const std::string& model, const std::string& engine_path) {
  auto start = std::chrono::steady_clock::now();
  {
    // A place that cannot be written is an error now, not after the work.
    BRISK_ASSIGN(auto trial, AtomicFile::create(engine_path));
  }
  BRISK_ASSIGN(auto backend, BackendSet::create(config_.device, config_.threads));
  BuildReport report;
  BRISK_ASSIGN(auto content, compile_file(model, config_, *backend, &report));
  if (config_.progress) config_.progress("write", 0);
  BRISK_TRY(write_engine(content, engine_path));
  BRISK_ASSIGN(auto written, MappedFile::open(engine_path));
  report.file_bytes = written->bytes().size();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace brisk
