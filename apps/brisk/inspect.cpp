// brisk inspect F.engine
#include <cstdio>

#include "base/file.h"
#include "base/log.h"
#include "command.h"
#include "engine/engine_file.h"
#include "engine/inspect.h"
#include "runtime/temporary_memory.h"

namespace brisk::cli {
namespace {

Status inspect_engine(const std::string& path, bool json, const std::string& page) {
  BRISK_ASSIGN(auto content, read_engine_metadata(path));
  InspectExtras extras;
  extras.file = path.substr(path.rfind('/') + 1);
  BRISK_ASSIGN(auto file, MappedFile::open(path));
  extras.file_bytes = static_cast<int64_t>(file->bytes().size());
  BRISK_ASSIGN(extras.content_hash, engine_content_hash(path));
  if (auto baselines = read_baselines(path, extras.content_hash); baselines.ok()) extras.baselines = std::move(baselines).value();
  else log(LogLevel::kWarning, baselines.error().message);
  extras.memory = [&](const std::string& function, const std::map<std::string, int64_t>& symbols) -> std::optional<InspectMemory> {
    auto m = temporary_memory(content->functions.at(function), [&](const std::string& name) -> std::optional<int64_t> {
      auto it = symbols.find(name);
      return it == symbols.end() ? std::nullopt : std::optional(it->second);
    });
    return m ? std::optional(InspectMemory{m->arena_bytes, m->live_bytes, m->sum_bytes, m->in_place}) : std::nullopt;
  };
  InspectReport report = inspect(*content, extras);
  if (!page.empty()) {
    std::string html = inspect_html(report);
    BRISK_ASSIGN(auto out, AtomicFile::create(page));
    BRISK_TRY(out->write({reinterpret_cast<const std::byte*>(html.data()), html.size()}));
    return out->commit();
  }
  std::string text = json ? inspect_json(report) : inspect_text(report);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

}  // namespace

Run inspect_command(CLI::App& app) {
  struct Options { std::string engine, html; bool json = false; };
  auto o = std::make_shared<Options>();
  app.add_option("ENGINE", o->engine, "an engine file, of this or another machine")->required();
  auto* json = app.add_flag("--json", o->json, "one JSON object, with every step");
  app.add_option("--html", o->html, "write one self-contained page instead")->type_name("FILE")->excludes(json);
  add_log_level(app);
  return [o] { return inspect_engine(o->engine, o->json, o->html); };
}

}  // namespace brisk::cli
