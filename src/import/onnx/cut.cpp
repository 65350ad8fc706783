#include "import/onnx/cut.h"

#include <deque>
#include <filesystem>
#include <unordered_map>

#include "base/file.h"
#include "import/onnx/model.h"
#include "import/onnx/proto_tensor.h"
#include "import/onnx/tensor_proto.h"
#include "onnx-ml.pb.h"

namespace brisk {
namespace {

// What a node reads, with what its bodies read from outside.
void names_read(const onnx::NodeProto& n, std::set<std::string>& out) {
  for (const auto& name : n.input())
    if (!name.empty()) out.insert(name);
  for (const auto& a : n.attribute()) {
    if (!a.has_g()) continue;
    std::set<std::string> inner, own;
    for (const auto& v : a.g().input()) own.insert(v.name());
    for (const auto& t : a.g().initializer()) own.insert(t.name());
    for (const auto& m : a.g().node()) {
      names_read(m, inner);
      own.insert(m.output().begin(), m.output().end());
    }
    for (const auto& v : a.g().output()) inner.insert(v.name());
    for (const auto& name : inner)
      if (!own.count(name)) out.insert(name);
  }
}

class Cutter {
 public:
  Cutter(onnx::ModelProto& m, const CutPoints& points) : g_(*m.mutable_graph()), points_(points) {
    for (int i = 0; i < g_.node_size(); ++i)
      for (const auto& name : g_.node(i).output()) producer_.emplace(name, i);
    for (int i = 0; i < g_.initializer_size(); ++i) initializer_.emplace(g_.initializer(i).name(), i);
  }

  // Breadth first, so that each value is met at its least distance.
  Result<Cut> walk(const std::string& output, int64_t depth) {
    if (!producer_.count(output)) return invalid("no node of the graph makes '" + output + "'");
    Cut cut;
    cut.whole = true;
    std::deque<std::pair<std::string, int64_t>> open = {{output, 0}};
    std::set<std::string> seen = {output};
    while (!open.empty()) {
      auto [name, distance] = open.front();
      open.pop_front();
      if (auto it = initializer_.find(name); it != initializer_.end()) {
        kept_initializers_.insert(it->second);
        continue;
      }
      auto made = producer_.find(name);
      bool point = points_.count(name) > 0;
      if (point && (made == producer_.end() || distance >= depth)) {
        cut.inputs.insert(name);
        cut.whole = cut.whole && made == producer_.end();
        continue;
      }
      if (made == producer_.end()) return invalid("'" + name + "' is neither made by a node nor known");
      if (!kept_nodes_.insert(made->second).second) continue;
      std::set<std::string> reads;
      names_read(g_.node(made->second), reads);
      for (const auto& r : reads)
        if (seen.insert(r).second) open.emplace_back(r, distance + 1);
    }
    cut.nodes = kept_nodes_.size();
    return cut;
  }

  Status keep(const Cut& cut, const std::string& output, onnx_import::ExternalFiles& external) {
    onnx::GraphProto out;
    out.set_name(g_.name());
    for (int i : kept_nodes_) *out.add_node() = std::move(*g_.mutable_node(i));
    for (int i : kept_initializers_) {
      onnx::TensorProto& t = *out.add_initializer();
      t = std::move(*g_.mutable_initializer(i));
      if (t.external_data_size() == 0) continue;
      const std::string name = t.name();
      BRISK_ASSIGN(auto value, onnx_import::take_tensor(t, &external));
      if (!t.ParseFromString(format_tensor_proto(*value, name))) return internal("a tensor cannot be read back");
    }
    for (const std::string& name : cut.inputs) {
      auto& [dtype, shape] = points_.at(name);
      auto* v = out.add_input();
      v->set_name(name);
      auto* t = v->mutable_type()->mutable_tensor_type();
      t->set_elem_type(onnx_import::onnx_of_dtype(dtype));
      t->mutable_shape();
      for (int64_t n : shape) t->mutable_shape()->add_dim()->set_dim_value(n);
    }
    out.add_output()->set_name(output);
    g_ = std::move(out);
    return {};
  }

 private:
  onnx::GraphProto& g_;
  const CutPoints& points_;
  std::unordered_map<std::string, int> producer_, initializer_;
  std::set<int> kept_nodes_, kept_initializers_;  // in order
};

}  // namespace

Result<Cut> cut_onnx(const std::string& path, const std::string& output, int64_t depth, const CutPoints& points, const std::string& to) {
  BRISK_ASSIGN(auto text, read_file(path, int64_t{INT32_MAX}));  // the importer has read it: it is sound
  onnx::ModelProto m;
  if (!m.ParseFromString(text)) return invalid(path + ": not an ONNX model");
  Cutter cutter(m, points);
  BRISK_ASSIGN(Cut cut, cutter.walk(output, depth));
  std::string folder = std::filesystem::path(path).parent_path().string();
  onnx_import::ExternalFiles external(folder.empty() ? "." : folder);
  BRISK_TRY(cutter.keep(cut, output, external));
  if (m.ByteSizeLong() > static_cast<size_t>(INT32_MAX)) return invalid("the part of the model is larger than the 2 GiB that protobuf can hold");
  std::string bytes = m.SerializeAsString();
  BRISK_ASSIGN(auto file, AtomicFile::create(to));
  BRISK_TRY(file->write({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}));
  BRISK_TRY(file->commit());
  return cut;
}

}  // namespace brisk
