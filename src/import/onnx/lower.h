// Private: what a lowering function sees of one ONNX node and of the graph under construction.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "import/onnx/model.h"
#include "ir/graph.h"

namespace brisk::onnx_import {

class Importer;

// A graph under construction: the function itself, or the body of an If or Loop.
struct Frame {
  Graph* graph = nullptr;
  Frame* parent = nullptr;
  std::unordered_map<std::string, int> used_names;  // how often a value name was asked for
  std::vector<ValueId>* captures = nullptr;         // values of parent->graph that the body reads, in order
  std::map<ValueId, ValueId> inner;                 // of a value of parent->graph: its stand-in here
};

// Names visible to nodes. Bodies see their surroundings; functions see their parameters only.
struct Scope {
  Scope* parent = nullptr;
  Frame* frame = nullptr;
  std::unordered_map<std::string, ValueId> names;
  const std::map<std::string, Attribute>* arguments = nullptr;  // of the function call, for attribute references
  const std::map<std::string, int64_t>* opsets = nullptr;
  std::string prefix;  // of node names, in inlined functions
  int depth = 0;
};

// One node. Errors stick: after the first one every add() gives kNoValue, whose type() is an empty one, so lowering
// functions read as plain expressions and the importer looks at status() once at the end.
class Lower {
 public:
  Lower(Importer& importer, Scope& scope, const NodeDef& node, int64_t opset, std::vector<ValueId> inputs, std::string name)
      : importer(importer), scope(scope), node(node), opset(opset), inputs_(std::move(inputs)), name_(std::move(name)) {}

  Importer& importer;
  Scope& scope;
  const NodeDef& node;
  const int64_t opset;  // version of the node's domain

  // Operands.
  size_t count() const { return inputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i] != kNoValue; }
  ValueId in(size_t i) const { return i < inputs_.size() ? inputs_[i] : kNoValue; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  bool wants(size_t output) const { return output < node.outputs.size() && !node.outputs[output].empty(); }

  // What is known of a value.
  Graph& graph() const { return *scope.frame->graph; }
  const Type& type(ValueId v) const;
  DType dtype(ValueId v) const { return type(v).dtype; }
  std::optional<int> rank(ValueId v) const;
  const Constant* constant(ValueId v) const;
  // `v`, or the constant that it is: builders share weights between operators by a Reshape of them.
  ValueId through_view(ValueId v);
  std::optional<std::vector<int64_t>> numbers(ValueId v) const;  // elements, if all are known numbers
  std::optional<float> scalar(ValueId v) const;                  // of a constant of one element

  // Attributes, with the value where there is none.
  const Attribute* attribute(const std::string& name) const;
  int64_t i(const std::string& name, int64_t otherwise) const;
  float f(const std::string& name, float otherwise) const;
  std::string s(const std::string& name, const std::string& otherwise) const;
  std::vector<int64_t> ints(const std::string& name) const;
  std::vector<float> floats(const std::string& name) const;
  std::vector<std::string> strings(const std::string& name) const;
  ConstantPtr tensor(const std::string& name);

  // Building.
  ValueId add(OpId op, Attrs attrs, std::vector<ValueId> in);
  std::vector<ValueId> add_n(OpId op, Attrs attrs, std::vector<ValueId> in, size_t outputs);
  ValueId constant_value(ConstantPtr c);
  ValueId i64(const std::vector<int64_t>& values);          // a vector
  ValueId i64_scalar(int64_t value);
  ValueId scalar_of(DType t, double value);                 // rank 0
  ValueId cast(ValueId v, DType t);                         // nothing if it has that type
  ValueId shape_of(ValueId v, int64_t start = 0, int64_t end = INT64_MAX);
  ValueId reshape(ValueId v, const std::vector<int64_t>& shape) { return add(OpId::kReshape, NoAttrs{}, {v, i64(shape)}); }
  ValueId transpose(ValueId v, std::vector<int64_t> perm) { return add(OpId::kTranspose, TransposeAttrs{std::move(perm)}, {v}); }
  ValueId unsqueeze(ValueId v, std::vector<int64_t> axes);
  ValueId squeeze(ValueId v, std::vector<int64_t> axes);
  ValueId concat(std::vector<ValueId> v, int64_t axis) { return add(OpId::kConcat, AxisAttrs{axis}, std::move(v)); }
  ValueId slice(ValueId v, int64_t axis, int64_t start, int64_t end);
  ValueId reduce(OpId op, ValueId v, std::vector<int64_t> axes, bool keep = true);
  ValueId binary(OpId op, ValueId a, ValueId b) { return add(op, NoAttrs{}, {a, b}); }
  ValueId unary(OpId op, ValueId a) { return add(op, NoAttrs{}, {a}); }
  ValueId gather(ValueId v, ValueId ids, int64_t axis) { return add(OpId::kGather, AxisAttrs{axis}, {v, ids}); }

  // The node's results.
  void set(size_t output, ValueId v);
  const std::vector<ValueId>& results() const { return results_; }

  // A message for the user; kind kInvalid or kUnsupported. Returns kNoValue so that it can stand for a value.
  ValueId fail(Error e);
  ValueId refuse(std::string what) { return fail(unsupported(std::move(what))); }
  ValueId bad(std::string what) { return fail(invalid(std::move(what))); }
  bool failed() const { return error_.has_value(); }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::vector<ValueId> inputs_, results_;
  std::string name_;
  std::optional<Error> error_;
};

using LowerFn = void (*)(Lower&);

// The lowering of an operator; null if there is none.
LowerFn find_lowering(const std::string& domain, const std::string& op);

// Groups of the table, each in its own file: operator name -> function.
using LowerTable = std::unordered_map<std::string, LowerFn>;
void register_pointwise(LowerTable& t);
void register_shape(LowerTable& t);
void register_index(LowerTable& t);
void register_reduction(LowerTable& t);
void register_layers(LowerTable& t);
void register_quantization(LowerTable& t);
void register_control(LowerTable& t);
void register_attention(LowerTable& t);
void register_signal(LowerTable& t);
void register_contrib(LowerTable& t);
void register_contrib_attention(LowerTable& t);
void register_contrib_quantized(LowerTable& t);
void register_ml(LowerTable& t);
void register_trees(LowerTable& t);
void register_vision(LowerTable& t);

// "x = f(x)" helpers that several groups use.
void lower_direct(Lower& l, OpId op);  // the row of the same operands and no attributes
WindowAttrs window_attrs(Lower& l);     // of convolutions and pools

}  // namespace brisk::onnx_import
