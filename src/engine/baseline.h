// Measured baselines of an engine, beside it in F.engine.json and bound to its content: an engine's own bytes hold no
// measurements, so that equal builds stay equal.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "brisk/result.h"

namespace brisk {

// One measurement: what was run, where, and its figures with the unit in the name ("ttft_ms", "peak_rss_bytes").
struct Baseline {
  std::string name;                             // "bench", "eval", ...
  std::map<std::string, std::string> settings;  // "machine", "threads", "prompt_len", ...
  std::map<std::string, double> figures;
};

std::string baseline_path(const std::string& engine_path);  // F.engine -> F.engine.json

// `content_hash` as engine_content_hash() gives it. No file: an empty list. A file that is malformed or belongs to other
// content is an error that says so.
Result<std::vector<Baseline>> read_baselines(const std::string& engine_path, const std::string& content_hash);
// Replaces the file (atomically).
Status write_baselines(const std::string& engine_path, const std::string& content_hash, const std::vector<Baseline>& baselines);

}  // namespace brisk
