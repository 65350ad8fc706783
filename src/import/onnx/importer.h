// Private: the walk over graphs, functions and bodies.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "import/onnx/lower.h"

namespace brisk::onnx_import {

class Importer {
 public:
  explicit Importer(const ModelDef& model) : model_(model) {}
  Result<Graph> run();

  // A body as a closed block whose formal inputs have the given types. Captured values of the surrounding frame are
  // appended to `captures` (those already there become inputs of this block as well, in the same order).
  Result<Graph> block(Scope& outer, const GraphDef& g, const std::vector<Type>& formals, std::vector<ValueId>& captures);
  // A body's nodes put into the surrounding graph, its inputs bound to values; gives its results.
  Result<std::vector<ValueId>> inline_graph(Scope& outer, const GraphDef& g, const std::vector<ValueId>& arguments, const std::string& prefix);

  std::string unique_name(Frame& f, const std::string& wanted);
  std::vector<std::string> notes;

 private:
  struct Problem {
    std::string where, what;
  };
  Status nodes(Scope& scope, const std::vector<NodeDef>& nodes, const std::string& where);
  Status node(Scope& scope, const NodeDef& n, size_t index, const std::string& where);
  Status initializers(Scope& scope, const GraphDef& g);
  Result<std::vector<ValueId>> call(Scope& scope, const FunctionDef& f, const NodeDef& n, std::vector<ValueId> inputs, const std::string& name);
  const FunctionDef* function(const NodeDef& n) const;
  Result<ValueId> lookup(Scope& scope, const std::string& name);
  Result<ValueId> result(Scope& scope, const std::string& name);  // lookup of what a graph gives back
  ValueId bring(Frame& to, Frame& from, ValueId v);
  int64_t opset_of(const Scope& scope, const std::string& domain) const;
  void find_unsupported(const std::vector<NodeDef>& nodes, const std::string& where, int depth);
  Status inputs(Scope& scope, const GraphDef& g);
  Error all_problems() const;
  bool poisoned(const Scope& scope, ValueId v) const;

  const ModelDef& model_;
  std::vector<Problem> problems_;
  std::set<const FunctionDef*> visited_;
  std::set<std::pair<const Graph*, ValueId>> poison_;  // results of nodes that could not be lowered
};

// Indices of nodes so that definitions come before uses; an error naming a node of a cycle.
Result<std::vector<size_t>> execution_order(const std::vector<NodeDef>& nodes);

}  // namespace brisk::onnx_import
