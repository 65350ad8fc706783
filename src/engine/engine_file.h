// The .engine file: write an EngineContent, read one back after proving it sound.
#pragma once
#include <memory>
#include <string>

#include "engine/plan.h"

namespace brisk {

// Writes through an AtomicFile, so an interrupted build leaves an old file untouched. Same content: same bytes.
Status write_engine(const EngineContent& content, const std::string& path);

struct ReadOptions {
  bool verify_checksums = false;  // reads every page; off by default so that loading stays in milliseconds
};

// Maps the file and proves: header, sections inside the file, metadata (FlatBuffers verifier), indices, attribute
// structs, arity and types of every step by the operator table, weight bytes inside their section and as many as the
// kernel's packing needs, kernels known to `registry` in the stored version and runnable on its instruction sets, symbol
// ranges. Errors name file, step or section, and both sides of a mismatch. Weight bytes point into the mapping.
Result<std::shared_ptr<const EngineContent>> read_engine(const std::string& path, const Registry& registry,
                                                         const ReadOptions& options = {});

// Only the metadata sections, without a registry: for `inspect` and for engines of other machines.
Result<std::shared_ptr<const EngineContent>> read_engine_metadata(const std::string& path);

// Hash of the file's content (hex SHA-256), to which F.engine.json binds its baselines.
Result<std::string> engine_content_hash(const std::string& path);

}  // namespace brisk
