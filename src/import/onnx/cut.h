// A part of an ONNX file as a file of its own.
#pragma once
#include <map>
#include <set>
#include <string>

#include "brisk/result.h"
#include "tensor/tensor.h"

namespace brisk {

// Values that may become inputs of a cut: their names, types and sizes.
using CutPoints = std::map<std::string, std::pair<DType, Dims>>;

struct Cut {
  std::set<std::string> inputs;  // those of the cut points that it reads
  size_t nodes = 0;
  bool whole = false;            // all that `output` depends on is in it: a larger depth changes nothing
};

// Writes the nodes that lead to the value `output` to a model of its own: those at most `depth` nodes away, and beyond that
// what lies before the next cut points. Initialisers come along, external ones inside the file. kInvalid: no node makes
// `output`, or what it reads leads to a value that is neither made nor a cut point.
Result<Cut> cut_onnx(const std::string& path, const std::string& output, int64_t depth, const CutPoints& points, const std::string& to);

}  // namespace brisk
