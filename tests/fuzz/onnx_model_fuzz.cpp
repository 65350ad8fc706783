#include <onnx-ml.pb.h>

#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "import/onnx/model.h"

namespace brisk::fuzz {
namespace {

onnx::ValueInfoProto value(const std::string& name, std::initializer_list<int64_t> shape) {
  onnx::ValueInfoProto v;
  v.set_name(name);
  auto* tensor = v.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(onnx::TensorProto::FLOAT);
  for (int64_t size : shape) {
    auto* dim = tensor->mutable_shape()->add_dim();
    if (size < 0) dim->set_dim_param("batch");
    else dim->set_dim_value(size);
  }
  return v;
}

onnx::NodeProto node(const std::string& op, std::initializer_list<const char*> inputs, const std::string& output) {
  onnx::NodeProto n;
  n.set_op_type(op);
  n.set_name(op + "_" + output);
  for (const char* input : inputs) n.add_input(input);
  n.add_output(output);
  return n;
}

onnx::ModelProto linear_model() {
  onnx::ModelProto model;
  model.set_ir_version(9);
  auto* opset = model.add_opset_import();
  opset->set_version(18);
  auto* graph = model.mutable_graph();
  graph->set_name("g");
  *graph->add_input() = value("x", {-1, 3});
  *graph->add_output() = value("y", {-1, 2});
  auto* weight = graph->add_initializer();
  weight->set_name("w");
  weight->set_data_type(onnx::TensorProto::FLOAT);
  weight->add_dims(3);
  weight->add_dims(2);
  weight->set_raw_data(std::string(24, '\x3f'));
  auto gemm = node("Gemm", {"x", "w", ""}, "h");
  auto* alpha = gemm.add_attribute();
  alpha->set_name("alpha");
  alpha->set_type(onnx::AttributeProto::FLOAT);
  alpha->set_f(0.5f);
  *graph->add_node() = gemm;
  *graph->add_node() = node("Relu", {"h"}, "y");
  return model;
}

// The same with an If whose branches are graphs, and a function of its own.
onnx::ModelProto nested_model() {
  onnx::ModelProto model = linear_model();
  auto* graph = model.mutable_graph();
  auto choice = node("If", {"flag"}, "z");
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto* attribute = choice.add_attribute();
    attribute->set_name(branch);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    auto* body = attribute->mutable_g();
    body->set_name(branch);
    *body->add_node() = node("Neg", {"y"}, std::string("r_") + branch);
    *body->add_output() = value(std::string("r_") + branch, {-1, 2});
  }
  *graph->add_node() = choice;
  *graph->add_node() = node("Twice", {"z"}, "t");
  graph->mutable_node(graph->node_size() - 1)->set_domain("own");
  *graph->add_input() = value("flag", {});
  *graph->add_output() = value("t", {-1, 2});
  auto* own = model.add_opset_import();
  own->set_domain("own");
  own->set_version(1);
  auto* function = model.add_functions();
  function->set_name("Twice");
  function->set_domain("own");
  function->add_input("a");
  function->add_output("b");
  *function->add_opset_import() = model.opset_import(0);
  *function->add_node() = node("Add", {"a", "a"}, "b");
  return model;
}

}  // namespace

std::vector<std::string> seeds() { return {linear_model().SerializeAsString(), nested_model().SerializeAsString()}; }

bool parse(const uint8_t* data, size_t size) {
  return onnx_import::parse_model(MemoryFile(data, size).path()).ok();
}

}  // namespace brisk::fuzz
