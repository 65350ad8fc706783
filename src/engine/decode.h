// The metadata section of an engine file as an EngineContent. Internal to this folder.
#pragma once
#include <span>

#include "engine/plan.h"

namespace brisk {

// Runs the FlatBuffers verifier, then copies everything out under a budget of memory that grows with the section only
// (a hostile buffer may refer to one object many times). Enumerators, ranks and the places of weights inside
// `weight_section` are checked here, everything else in check.h.
Status decode_metadata(std::span<const std::byte> metadata, std::span<const std::byte> weight_section, EngineContent& out);

}  // namespace brisk
