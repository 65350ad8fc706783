#include <google/protobuf/io/coded_stream.h>

#include <filesystem>
#include <optional>
#include <unordered_set>

#include "base/file.h"
#include "import/onnx/model.h"
#include "import/onnx/proto_tensor.h"
#include "onnx-ml.pb.h"

namespace brisk::onnx_import {
namespace {

constexpr int kMaxNesting = 200;  // protobuf messages inside each other: about 60 levels of If

// Which fields of which messages are messages themselves (onnx-ml.proto; the generated code is protobuf's lite form, which
// cannot tell). What is not listed is text, bytes or numbers.
enum Message : uint8_t { kModel, kGraph, kNode, kAttribute, kTensor, kInfo, kType, kTypeOf, kShape, kFunction, kSparse, kTraining, kLeaf };
struct Field {
  Message in;
  uint8_t number;
  Message type;
};
constexpr Field kFields[] = {
    {kModel, 7, kGraph},      {kModel, 8, kLeaf},       {kModel, 14, kLeaf},     {kModel, 20, kTraining}, {kModel, 25, kFunction},
    {kGraph, 1, kNode},       {kGraph, 5, kTensor},     {kGraph, 11, kInfo},     {kGraph, 12, kInfo},     {kGraph, 13, kInfo},
    {kGraph, 14, kLeaf},      {kGraph, 15, kSparse},    {kGraph, 16, kLeaf},     {kNode, 5, kAttribute},  {kNode, 9, kLeaf},
    {kAttribute, 5, kTensor}, {kAttribute, 6, kGraph},  {kAttribute, 10, kTensor}, {kAttribute, 11, kGraph}, {kAttribute, 14, kType},
    {kAttribute, 15, kType},  {kAttribute, 22, kSparse}, {kAttribute, 23, kSparse}, {kTensor, 3, kLeaf},   {kTensor, 13, kLeaf},
    {kTensor, 16, kLeaf},     {kInfo, 2, kType},        {kInfo, 4, kLeaf},       {kType, 1, kTypeOf},     {kType, 4, kTypeOf},
    {kType, 5, kTypeOf},      {kType, 8, kTypeOf},      {kType, 9, kTypeOf},     {kTypeOf, 1, kType},     {kTypeOf, 2, kShape},
    {kShape, 1, kLeaf},       {kFunction, 7, kNode},    {kFunction, 9, kLeaf},   {kFunction, 11, kAttribute}, {kFunction, 12, kInfo},
    {kFunction, 14, kLeaf},   {kSparse, 1, kTensor},    {kSparse, 2, kTensor},   {kTraining, 1, kGraph},  {kTraining, 2, kGraph},
    {kTraining, 3, kLeaf},    {kTraining, 4, kLeaf}};

std::optional<Message> message_type(Message in, uint32_t number) {
  for (const Field& f : kFields)
    if (f.in == in && f.number == number) return f.type;
  return std::nullopt;
}

// Is all there that the message says? Protobuf makes room for a string of a claimed length before it looks, so lengths are
// walked through first; nothing is copied.
bool lengths_hold(const uint8_t* data, int size, Message type = kModel, int depth = 0) {
  if (depth > kMaxNesting) return false;
  google::protobuf::io::CodedInputStream in(data, size);
  while (const uint32_t tag = in.ReadTag()) {
    uint64_t number = 0;
    uint32_t length = 0;
    switch (tag & 7) {
      case 0:
        if (!in.ReadVarint64(&number)) return false;
        break;
      case 1: length = 8; break;
      case 5: length = 4; break;
      case 2:
        if (!in.ReadVarint32(&length)) return false;
        break;
      default: return false;  // groups: ONNX has none
    }
    const int at = in.CurrentPosition();
    if (length > static_cast<uint32_t>(size - at)) return false;
    const auto inner = (tag & 7) == 2 ? message_type(type, tag >> 3) : std::nullopt;
    if (inner && !lengths_hold(data + at, static_cast<int>(length), *inner, depth + 1)) return false;
    if (!in.Skip(static_cast<int>(length))) return false;
  }
  return in.CurrentPosition() == size;
}

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
  const Error broken = invalid(path + ": not an ONNX model, or cut off (protobuf does not parse)");
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  const int size = static_cast<int>(bytes.size());
  if (!lengths_hold(data, size)) return broken;
  google::protobuf::io::CodedInputStream stream(data, size);
  stream.SetTotalBytesLimit(INT32_MAX);
  stream.SetRecursionLimit(kMaxNesting);
  onnx::ModelProto m;
  if (!m.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) return broken;
  std::string folder = std::filesystem::path(path).parent_path().string();
  auto out = Parser(folder.empty() ? "." : folder).model(m);
  if (!out.ok()) return std::move(out).error().in(path);
  return out;
}

}  // namespace brisk::onnx_import
