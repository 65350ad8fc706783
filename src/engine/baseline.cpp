#include "engine/baseline.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace brisk {
namespace {

using Json = nlohmann::ordered_json;
constexpr uint64_t kMaxBytes = 1 << 20;
constexpr const char* kHash = "content_sha256";

Result<Baseline> parse_baseline(const Json& j) {
  Baseline b;
  if (!j.is_object() || !j.contains("name") || !j["name"].is_string()) return invalid("has no name");
  b.name = j["name"].get<std::string>();
  for (const char* part : {"settings", "figures"})
    if (!j.contains(part) || !j[part].is_object()) return invalid("'" + b.name + "' has no object '" + part + "'");
  for (auto& [key, value] : j["settings"].items()) {
    if (!value.is_string()) return invalid("'" + b.name + "': setting '" + key + "' is no string");
    b.settings[key] = value.get<std::string>();
  }
  for (auto& [key, value] : j["figures"].items()) {
    if (!value.is_number()) return invalid("'" + b.name + "': figure '" + key + "' is no number");
    b.figures[key] = value.get<double>();
  }
  return b;
}

Result<std::vector<Baseline>> parse_baselines(const std::string& text, const std::string& content_hash) {
  Json j = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!j.is_object() || !j.contains(kHash) || !j[kHash].is_string() || !j.contains("baselines") || !j["baselines"].is_array())
    return invalid(std::string("wanted an object with ") + kHash + " and baselines");
  if (auto bound = j[kHash].get<std::string>(); bound != content_hash)
    return invalid("its baselines belong to other content (sha256 " + bound.substr(0, 64) + ", the engine has " + content_hash + "); measure again");
  std::vector<Baseline> out;
  for (const Json& entry : j["baselines"]) {
    auto b = parse_baseline(entry);
    if (!b.ok()) return std::move(b).error().in("baseline " + std::to_string(out.size()));
    out.push_back(std::move(b).value());
  }
  return out;
}

}  // namespace

std::string baseline_path(const std::string& engine_path) { return engine_path + ".json"; }

Result<std::vector<Baseline>> read_baselines(const std::string& engine_path, const std::string& content_hash) {
  std::string path = baseline_path(engine_path);
  if (!is_file(path)) return std::vector<Baseline>();
  BRISK_ASSIGN(std::string text, read_file(path, kMaxBytes));
  auto list = parse_baselines(text, content_hash);
  if (!list.ok()) return std::move(list).error().in(path);
  return list;
}

Status write_baselines(const std::string& engine_path, const std::string& content_hash, const std::vector<Baseline>& baselines) {
  Json list = Json::array();
  for (const Baseline& b : baselines) {
    for (auto& [key, value] : b.figures)
      if (!std::isfinite(value)) return invalid("baseline '" + b.name + "': figure '" + key + "' is not finite");
    list.push_back({{"name", b.name}, {"settings", b.settings}, {"figures", b.figures}});
  }
  Json j = {{kHash, content_hash}, {"baselines", std::move(list)}};
  std::string text = j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  BRISK_ASSIGN(auto file, AtomicFile::create(baseline_path(engine_path)));
  BRISK_TRY(file->write({reinterpret_cast<const std::byte*>(text.data()), text.size()}));
  return file->commit();
}

}  // namespace brisk
