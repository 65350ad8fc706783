#include <google/protobuf/io/coded_stream.h>

#include <filesystem>
#include <unordered_set>

#include "base/file.h"
#include "import/onnx/model.h"
#include "import/onnx/proto_tensor.h"
#include "onnx-ml.pb.h"

namespace brisk::onnx_import {
namespace {

constexpr int kMaxNesting = 200;  // protobuf messages inside each other: about 60 levels of If

std::string plain_domain(const std::string& d) { return d == "ai.onnx" ? "" : d; }

class Parser {
 public:
  explicit Parser(std::string folder) : external_(std::move(folder)) {}

  Result<ModelDef> model(onnx::ModelProto& m) {
    ModelDef out;
    out.ir_version = m.ir_version();
    out.producer = m.producer_name();
    for (const auto& o : m.opset_import()) out.opsets[plain_domain(o.domain())] = o.version();
    if (!m.has_graph()) return invalid("there is no graph (not an ONNX model?)");
    BRISK_TRY(graph(*m.mutable_graph(), out.graph));
    for (auto& f : *m.mutable_functions()) BRISK_TRY(function(f, out.functions.emplace_back()));
    return out;
  }

 private:
  static TypeDef type(const onnx::TypeProto& t) {
    TypeDef out;
    out.tensor = t.has_tensor_type();
    if (!out.tensor) return out;
    out.dtype = t.tensor_type().elem_type();
    out.ranked = t.tensor_type().has_shape();
    for (const auto& d : t.tensor_type().shape().dim()) {
      TypeDef::Dim dim;
      if (d.has_dim_value()) dim.value = d.dim_value();
      if (d.has_dim_param()) dim.name = d.dim_param();
      out.shape.push_back(std::move(dim));
    }
    return out;
  }

  Status attribute(onnx::AttributeProto& a, Attribute& out) {
    using P = onnx::AttributeProto;
    using K = Attribute::Kind;
    out.reference = a.ref_attr_name();
    auto kind = a.type();
    // Files of IR version 1 leave the type out.
    if (kind == P::UNDEFINED)
      kind = a.has_i() ? P::INT : a.has_f() ? P::FLOAT : a.has_s() ? P::STRING : a.has_t() ? P::TENSOR : a.has_g() ? P::GRAPH
             : a.ints_size() ? P::INTS : a.floats_size() ? P::FLOATS : a.strings_size() ? P::STRINGS : P::UNDEFINED;
    switch (kind) {
      case P::INT: out.kind = K::kInt; out.i = a.i(); return {};
      case P::FLOAT: out.kind = K::kFloat; out.f = a.f(); return {};
      case P::STRING: out.kind = K::kString; out.s = a.s(); return {};
      case P::INTS: out.kind = K::kInts; out.ints.assign(a.ints().begin(), a.ints().end()); return {};
      case P::FLOATS: out.kind = K::kFloats; out.floats.assign(a.floats().begin(), a.floats().end()); return {};
      case P::STRINGS: out.kind = K::kStrings; out.strings.assign(a.strings().begin(), a.strings().end()); return {};
      case P::TENSOR: {
        out.kind = K::kTensor;
        if (!out.reference.empty()) return {};
        auto t = take_tensor(*a.mutable_t(), &external_);
        if (!t.ok() && t.error().kind == ErrorKind::kUnsupported) return out.s = t.error().message, Status();
        if (!t.ok()) return std::move(t).error();
        out.tensor = std::move(*t);
        return {};
      }
      case P::GRAPH: {
        out.kind = K::kGraph;
        auto g = std::make_shared<GraphDef>();
        BRISK_TRY(graph(*a.mutable_g(), *g));
        out.graph = std::move(g);
        return {};
      }
      default: return {};
    }
  }

  Status nodes(google::protobuf::RepeatedPtrField<onnx::NodeProto>& from, std::vector<NodeDef>& to) {
    to.reserve(static_cast<size_t>(from.size()));
    for (auto& n : from) {
      NodeDef& out = to.emplace_back();
      out.op = n.op_type();
      out.domain = plain_domain(n.domain());
      out.overload = n.overload();
      out.name = n.name();
      out.inputs.assign(n.input().begin(), n.input().end());
      out.outputs.assign(n.output().begin(), n.output().end());
      for (auto& a : *n.mutable_attribute()) {
        auto s = attribute(a, out.attributes[a.name()]);
        if (!s.ok())
          return std::move(s).error().in("node " + std::to_string(to.size() - 1) + " '" + out.name + "' (" + out.op + "): attribute '" + a.name() + "'");
      }
    }
    return {};
  }

  Status graph(onnx::GraphProto& g, GraphDef& out) {
    out.name = g.name();
    if (g.sparse_initializer_size()) return unsupported("graph '" + g.name() + "': sparse initialisers");
    std::unordered_set<std::string> names;
    for (auto& t : *g.mutable_initializer()) {
      if (!names.insert(t.name()).second) return invalid("graph '" + g.name() + "': two initialisers named '" + t.name() + "'");
      auto c = take_tensor(t, &external_);
      if (!c.ok() && c.error().kind != ErrorKind::kUnsupported) return std::move(c).error().in("initialiser '" + t.name() + "'");
      out.initializers.push_back({t.name(), c.ok() ? *c : nullptr, c.ok() ? "" : c.error().message});
    }
    std::unordered_set<std::string> inputs;
    for (const auto& v : g.input()) {
      if (!inputs.insert(v.name()).second) return invalid("graph '" + g.name() + "': two inputs named '" + v.name() + "'");
      out.inputs.push_back({v.name(), type(v.type())});
    }
    for (const auto& v : g.output()) out.outputs.push_back({v.name(), type(v.type())});
    return nodes(*g.mutable_node(), out.nodes);
  }

  Status function(onnx::FunctionProto& f, FunctionDef& out) {
    out.name = f.name();
    out.domain = plain_domain(f.domain());
    out.overload = f.overload();
    out.inputs.assign(f.input().begin(), f.input().end());
    out.outputs.assign(f.output().begin(), f.output().end());
    out.attributes.assign(f.attribute().begin(), f.attribute().end());
    for (auto& a : *f.mutable_attribute_proto()) BRISK_TRY(attribute(a, out.defaults[a.name()]));
    for (const auto& o : f.opset_import()) out.opsets[plain_domain(o.domain())] = o.version();
    auto s = nodes(*f.mutable_node(), out.nodes);
    if (!s.ok()) return std::move(s).error().in("function '" + f.name() + "'");
    return {};
  }

  ExternalFiles external_;
};

}  // namespace

Result<ModelDef> parse_model(const std::string& path) {
  BRISK_ASSIGN(auto file, MappedFile::open(path));
  auto bytes = file->bytes();
  if (bytes.size() > static_cast<size_t>(INT32_MAX))
    return invalid(path + ": " + std::to_string(bytes.size()) +
                   " bytes; protobuf ends at 2 GiB. Save the model with external data (onnx.save_model(..., save_as_external_data=True))");
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  stream.SetTotalBytesLimit(INT32_MAX);
  stream.SetRecursionLimit(kMaxNesting);
  onnx::ModelProto m;
  if (!m.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    return invalid(path + ": not an ONNX model, or cut off (protobuf does not parse)");
  std::string folder = std::filesystem::path(path).parent_path().string();
  auto out = Parser(folder.empty() ? "." : folder).model(m);
  if (!out.ok()) return std::move(out).error().in(path);
  return out;
}

}  // namespace brisk::onnx_import
