// GGUF files of the Llama family to the IR: Model.functions["step"].
#pragma once
#include <string>

#include "ir/graph.h"

namespace brisk {

// Opens the file (and the other parts of a split model). Plain weights stay in the mapping, which the model keeps alive;
// quantised ones become planes with the same numbers. Errors: kInvalid (damaged: file, field, limit), kUnsupported
// (all that is not supported, listed), kEnvironment (cannot read).
Result<Model> import_gguf(const std::string& path);

}  // namespace brisk
