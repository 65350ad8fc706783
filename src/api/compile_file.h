// From a model's path to engine content, with a backend picked: what Builder, ExecutionContext and the command line share.
#pragma once
#include <string>

#include "api/backends.h"
#include "brisk/builder.h"
#include "compiler/compile.h"

namespace brisk {

Result<EngineContent> compile_file(const std::string& model, const BuildConfig& config, const BackendSet& backend,
                                   BuildReport* report = nullptr);

// Is the file an engine by its magic?
bool is_engine_file(const std::string& path);

}  // namespace brisk
