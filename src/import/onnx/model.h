// An ONNX model as plain structures, read from protobuf by parse.cpp and checked as far as its form goes. The rest of
// the importer knows only these, so that protobuf stays in two files.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "brisk/result.h"
#include "tensor/tensor.h"

namespace brisk::onnx_import {

struct GraphDef;

struct Attribute {
  enum class Kind : uint8_t { kInt, kFloat, kString, kTensor, kGraph, kInts, kFloats, kStrings, kOther };
  Kind kind = Kind::kOther;
  int64_t i = 0;
  float f = 0;
  std::string s;
  ConstantPtr tensor;       // null with a message in `s` if its element type is not supported
  std::shared_ptr<const GraphDef> graph;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> strings;
  std::string reference;    // inside functions: the name of the caller's attribute that is meant
};

struct NodeDef {
  std::string op, domain, overload, name;  // domain "" is ai.onnx
  std::vector<std::string> inputs, outputs;  // "": absent
  std::map<std::string, Attribute> attributes;
};

// A declared type. Only those of graph inputs are used: declared result shapes are often wrong.
struct TypeDef {
  struct Dim {
    int64_t value = -1;  // -1: not given
    std::string name;
  };
  bool tensor = true;      // false: sequence, map, optional, sparse
  int32_t dtype = 0;       // TensorProto.DataType
  bool ranked = false;
  std::vector<Dim> shape;
};

struct ValueDef {
  std::string name;
  TypeDef type;
};

struct InitializerDef {
  std::string name;
  ConstantPtr value;
  std::string problem;  // why value is null
};

struct GraphDef {
  std::string name;
  std::vector<NodeDef> nodes;
  std::vector<InitializerDef> initializers;
  std::vector<ValueDef> inputs, outputs;
};

struct FunctionDef {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs, attributes;
  std::map<std::string, Attribute> defaults;
  std::vector<NodeDef> nodes;
  std::map<std::string, int64_t> opsets;
};

struct ModelDef {
  GraphDef graph;
  std::vector<FunctionDef> functions;
  std::map<std::string, int64_t> opsets;  // domain -> version; "ai.onnx" is stored as ""
  int64_t ir_version = 0;
  std::string producer;
};

// TensorProto.DataType <-> DType; nullopt (0) for those that brisk lacks.
std::optional<DType> dtype_of_onnx(int32_t data_type);
int32_t onnx_of_dtype(DType t);
std::string onnx_dtype_name(int32_t data_type);

// Reads and checks the file's form: size, nesting, duplicate names, tensor sizes against the bytes that are there.
// External data is looked for inside the model's folder only.
Result<ModelDef> parse_model(const std::string& path);

}  // namespace brisk::onnx_import
