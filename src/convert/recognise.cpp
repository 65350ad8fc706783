#include "convert/recognise.h"

#include <algorithm>

namespace brisk::convert {
namespace {

bool contains(const std::string& name, std::string_view part) { return name.find(part) != std::string::npos; }

bool is_ids(const Value& v) {
  return is_integer(v.type.dtype) && v.type.ranked && v.type.rank() == 2 && !contains(v.name, "mask") &&
         !contains(v.name, "position") && !contains(v.name, "type");
}

// Roles of the inputs, and types in the three symbols.
Status sort_inputs(Graph& g, DecoderIo& io) {
  const Dim tokens = Dim::symbol(kTokens), past = Dim::symbol(kPast);
  std::vector<std::string> others;
  for (ValueId v : g.inputs) {
    const Value& in = g.value(v);
    const Type& t = in.type;
    bool integer = is_integer(t.dtype), flat = t.ranked && t.rank() == 2;
    if (io.ids < 0 && is_ids(in)) io.ids = v;
    else if (io.mask < 0 && flat && contains(in.name, "mask")) io.mask = v;
    else if (io.positions < 0 && flat && integer && contains(in.name, "position")) io.positions = v;
    else if (t.ranked && t.rank() == 4 && is_float(t.dtype)) io.past.push_back(v);
    else others.push_back("'" + in.name + "' " + to_string(t));
  }
  if (io.ids < 0) return unsupported("no input holds token ids");
  std::string all;
  for (auto& o : others) all += (all.empty() ? "" : ", ") + o;
  if (!all.empty()) return unsupported("inputs that a generative step does not have: " + all);

  auto batch = g.value(io.ids).type.shape[0].constant();
  if (batch && *batch != 1) return unsupported("input '" + g.value(io.ids).name + "' has a fixed batch of " + std::to_string(*batch));
  if (g.value(io.ids).type.shape[1].is_constant())
    return unsupported("input '" + g.value(io.ids).name + "' has a fixed number of tokens: " + to_string(g.value(io.ids).type));
  if (batch) io.batch = Dim(1);
  g.value(io.ids).type.shape = {io.batch, tokens};
  if (io.mask >= 0) g.value(io.mask).type.shape = {io.batch, io.past.empty() ? tokens : past + tokens};
  if (io.positions >= 0) g.value(io.positions).type.shape = {io.batch, tokens};
  for (ValueId v : io.past) {
    Shape& s = g.value(v).type.shape;
    s[0] = io.batch;
    s[2] = past;
  }
  g.symbols[kBatch] = {};
  g.symbols[kTokens] = {};
  g.symbols[kPast] = {0, 1, INT64_MAX};
  return {};
}

Status sort_results(Graph& g, DecoderIo& io) {
  for (ValueId v : g.outputs) {
    const Value& out = g.value(v);
    if (out.type.ranked && out.type.rank() == 3 && is_float(out.type.dtype) && io.logits < 0) io.logits = v;
    else if (out.type.ranked && out.type.rank() == 4) io.present.push_back(v);
    else return unsupported("result '" + out.name + "' " + to_string(out.type) + " is neither logits nor a cache");
  }
  if (io.logits < 0) return unsupported("no result holds logits [batch, tokens, vocabulary]");
  auto vocab = g.value(io.logits).type.shape[2].constant();
  if (!vocab || *vocab < 2) return unsupported("result '" + g.value(io.logits).name + "' " + to_string(g.value(io.logits).type) + " has no known number of logits");
  io.vocab = *vocab;
  if (io.present.size() < io.past.size())
    return unsupported(std::to_string(io.past.size()) + " caches go in, " + std::to_string(io.present.size()) + " come out");
  return {};
}

// Elements of a head in the keys or values that join the past `v`; 0 where no reader says.
int64_t head_size(const Graph& g, ValueId v) {
  for (const Node& n : g.nodes)
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.inputs[i] != v) continue;
      if (n.op == OpId::kConcat && n.inputs.size() == 2)
        if (const Type& t = g.value(n.inputs[1 - i]).type; t.ranked && t.rank() == 4) return t.shape[3].constant_or(0);
      if (n.op == OpId::kAttention && (i == 4 || i == 5) && n.inputs[i - 3] >= 0) {
        const Type& t = g.value(n.inputs[i - 3]).type;
        int64_t heads = std::get<SdpaAttrs>(n.attrs).kv_heads, width = t.ranked ? t.shape.back().constant_or(0) : 0;
        return t.ranked && t.rank() == 3 ? (heads > 0 ? width / heads : 0) : width;
      }
    }
  return 0;
}

// Some builders name the size of heads; what joins the cache knows the number.
bool name_sizes(Graph& g, const DecoderIo& io) {
  bool changed = false;
  for (ValueId v : io.past) {
    Dim& size = g.value(v).type.shape[3];
    if (size.is_constant()) continue;
    if (int64_t n = head_size(g, v); n > 0) size = n, changed = true;
  }
  return changed;
}

// Rows of the table that ids are looked up in; 0: they are not.
int64_t embedding_rows(const Graph& g, ValueId ids) {
  std::vector<bool> from_ids(g.values.size());
  from_ids[static_cast<size_t>(ids)] = true;
  for (const Node& n : g.nodes) {
    if ((n.op == OpId::kGather || n.op == OpId::kEmbedding) && from_ids[static_cast<size_t>(n.inputs[1])] && g.constant(n.inputs[0]))
      return g.constant(n.inputs[0])->shape[0];
    if (n.op == OpId::kCast || n.op == OpId::kIdentity || n.op == OpId::kReshape)
      if (from_ids[static_cast<size_t>(n.inputs[0])]) from_ids[static_cast<size_t>(n.outputs[0])] = true;
  }
  return 0;
}

}  // namespace

bool is_candidate(const Graph& g) {
  bool ids = std::any_of(g.inputs.begin(), g.inputs.end(), [&](ValueId v) { return is_ids(g.value(v)); });
  bool rows = std::any_of(g.outputs.begin(), g.outputs.end(), [&](ValueId v) {
    const Type& t = g.value(v).type;
    return t.ranked && t.rank() == 3 && is_float(t.dtype);
  });
  return ids && rows;
}

Result<DecoderIo> recognise(Graph& g) {
  DecoderIo io;
  BRISK_TRY(sort_inputs(g, io));
  auto s = infer_graph(g);
  if (s.ok() && name_sizes(g, io)) s = infer_graph(g);
  if (!s.ok()) return unsupported("shapes: " + s.error().message);
  BRISK_TRY(sort_results(g, io));
  int64_t rows = embedding_rows(g, io.ids);
  const std::string& name = g.value(io.logits).name;
  if (!contains(name, "logits") && io.vocab != rows)
    return unsupported("result '" + name + "' holds " + std::to_string(io.vocab) + " numbers a token, the ids have " + std::to_string(rows));
  return io;
}

}  // namespace brisk::convert
