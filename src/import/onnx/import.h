// ONNX to IR. Every operator of every version is lowered to rows of the operator table by a function of table.cpp.
//
// The result has one function, "main". Declared dims of graph inputs become symbols (a dim_param that is a name is one
// symbol wherever it occurs; anything else, such as "?", "-1" or a formula, is a symbol of its own); all other declared
// shapes are ignored. Local functions are inlined; bodies of If and Loop become closed blocks, Scan becomes Loop.
// Errors: kInvalid for a malformed file (with node index, name, operator and opset), kUnsupported listing all nodes
// that brisk lacks. Weights may point into mapped external files.
#pragma once
#include <string>

#include "brisk/result.h"
#include "ir/graph.h"

namespace brisk {

Result<Model> import_onnx(const std::string& path);

}  // namespace brisk
