#include "engine/inspect.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "op/step_io.h"

namespace brisk {
namespace {

std::string type_text(const PlanValue& v) {
  return std::string(dtype_name(v.dtype)) + (v.ranked ? to_string(v.shape) : std::string("[...]"));
}

class Reporter {
 public:
  Reporter(const EngineContent& content, const InspectExtras& extras) : content_(content), extras_(extras) {}

  InspectReport::Function function(const std::string& name, const Plan& p) const {
    InspectReport::Function f;
    f.name = name;
    f.symbols = p.symbols;
    f.shapes_proven = p.shapes_proven;
    auto list = [&](const std::vector<int32_t>& ids, auto& out) {
      for (int32_t v : ids) out.emplace_back(value(p, v).name, type_text(value(p, v)));
    };
    list(p.inputs, f.inputs);
    list(p.outputs, f.outputs);
    for (const PlanState& s : p.states) {
      bool paged = s.kind == PlanState::Kind::kPagedKv;
      std::string dtype(dtype_name(s.dtype));
      f.states.emplace_back(s.name, paged ? dtype + " keys and values, " + std::to_string(s.kv_heads) + " heads of " + std::to_string(s.head_dim)
                                          : dtype + "[" + std::to_string(s.width) + "] a sequence");
      (paged ? f.state_bytes_per_token : f.state_bytes_per_sequence) += paged ? s.unit_bytes() / kBlockTokens : s.unit_bytes();
    }
    corners(name, p, f);
    rows(name, p, 0, f.rows);
    return f;
  }

 private:
  static const PlanValue& value(const Plan& p, int32_t v) { return p.values[static_cast<size_t>(v)]; }

  void corners(const std::string& name, const Plan& p, InspectReport::Function& f) const {
    struct Pick { const char* name; int64_t PlanSymbol::*member; };
    for (Pick pick : {Pick{"min", &PlanSymbol::min}, {"opt", &PlanSymbol::opt}, {"max", &PlanSymbol::max}}) {
      InspectReport::Corner c{pick.name, {}, {}};
      bool bounded = true;
      for (const PlanSymbol& s : p.symbols) {
        c.symbols[s.name] = s.*pick.member;
        bounded = bounded && s.*pick.member != INT64_MAX;
      }
      if (bounded && extras_.memory) c.memory = extras_.memory(name, c.symbols);
      if (bounded) f.corners.push_back(std::move(c));
      if (p.symbols.empty()) break;
    }
  }

  void rows(const std::string& function, const Plan& p, int depth, std::vector<InspectReport::Row>& out) const {
    for (size_t i = 0; i < p.steps.size(); ++i) {
      const PlanStep& s = p.steps[i];
      InspectReport::Row r;
      r.op = op_name(s.op);
      r.name = s.name;
      r.depth = depth;
      r.kernel = !s.kernel.empty() ? s.kernel + " v" + std::to_string(s.kernel_version) : op_def(s.op).is(kView) ? "view" : "control flow";
      if (s.dynamic) r.kernel += ", sized at run time";
      if (in_place(p, s)) r.kernel += ", in place";
      for (int32_t v : s.inputs) operand(p, v, r);
      for (int32_t v : s.outputs) r.out += (r.out.empty() ? "" : ", ") + (v < 0 ? std::string("-") : type_text(value(p, v)));
      if (depth == 0 && extras_.step_ms) r.ms = extras_.step_ms(function, i);
      out.push_back(std::move(r));
      for (const Plan& b : s.blocks) rows(function, b, depth + 1, out);
    }
  }

  void operand(const Plan& p, int32_t v, InspectReport::Row& r) const {
    r.in += r.in.empty() ? "" : ", ";
    if (v < 0) {
      r.in += "-";
      return;
    }
    r.in += type_text(value(p, v));
    v = root_of(p, v);
    if (value(p, v).kind != PlanValue::Kind::kWeight) return;
    const Weight& w = content_.weights[static_cast<size_t>(value(p, v).weight)];
    r.precision += (r.precision.empty() ? "" : ", ") + weight_encoding(w);
    r.weight_bytes += static_cast<int64_t>(w.bytes.bytes.size());
  }

 public:
  static std::string weight_encoding(const Weight& w) {
    return w.encoding.plain() ? std::string(dtype_name(w.dtype)) : to_string(w.encoding);
  }

 private:
  const EngineContent& content_;
  const InspectExtras& extras_;
};

nlohmann::ordered_json row_json(const InspectReport::Row& r) {
  nlohmann::ordered_json j = {{"op", r.op}, {"name", r.name}, {"kernel", r.kernel}, {"in", r.in}, {"out", r.out},
                              {"precision", r.precision}, {"weight_bytes", r.weight_bytes}, {"depth", r.depth}};
  if (r.ms) j["ms"] = *r.ms;
  return j;
}

nlohmann::ordered_json function_json(const InspectReport::Function& f) {
  using Json = nlohmann::ordered_json;
  Json j = {{"name", f.name}, {"symbols", Json::array()}, {"inputs", Json::array()}, {"outputs", Json::array()}, {"states", Json::array()}};
  for (const PlanSymbol& s : f.symbols) {
    Json symbol = {{"name", s.name}, {"min", s.min}, {"opt", s.opt}};
    symbol["max"] = s.max == INT64_MAX ? Json() : Json(s.max);
    j["symbols"].push_back(std::move(symbol));
  }
  for (auto& [name, type] : f.inputs) j["inputs"].push_back({{"name", name}, {"type", type}});
  for (auto& [name, type] : f.outputs) j["outputs"].push_back({{"name", name}, {"type", type}});
  for (auto& [name, what] : f.states) j["states"].push_back({{"name", name}, {"holds", what}});
  j["state_bytes_per_token"] = f.state_bytes_per_token;
  j["state_bytes_per_sequence"] = f.state_bytes_per_sequence;
  j["shapes_proven"] = f.shapes_proven;
  j["arena"] = Json::array();
  for (auto& c : f.corners) {
    Json corner = {{"at", c.name}, {"symbols", c.symbols}};
    if (c.memory) corner["bytes"] = c.memory->placed, corner["live_bytes"] = c.memory->live, corner["sum_bytes"] = c.memory->sum, corner["in_place"] = c.memory->in_place;
    j["arena"].push_back(std::move(corner));
  }
  j["steps"] = Json::array();
  for (auto& r : f.rows) j["steps"].push_back(row_json(r));
  return j;
}

}  // namespace

InspectReport inspect(const EngineContent& content, const InspectExtras& extras) {
  InspectReport r;
  r.file = extras.file;
  r.content_hash = extras.content_hash;
  r.file_bytes = extras.file_bytes;
  r.max_context = content.max_context;
  r.tokenizer_bytes = static_cast<int64_t>(content.tokenizer.size());
  r.chat_template_bytes = static_cast<int64_t>(content.chat_template.size());
  r.device = content.device;
  r.required_isa = content.required_isa;
  r.metadata = content.metadata;
  r.build_record = content.build_record;
  r.layer_loss = content.layer_loss;
  r.baselines = extras.baselines;
  std::map<std::pair<std::string, std::string>, InspectReport::WeightGroup> groups;
  for (const Weight& w : content.weights) {
    std::string encoding = Reporter::weight_encoding(w);
    auto& g = groups.try_emplace({encoding, w.packing}, InspectReport::WeightGroup{encoding, w.packing}).first->second;
    ++g.tensors;
    g.elements += w.shape.count();
    g.bytes += static_cast<int64_t>(w.bytes.bytes.size());
    r.weight_bytes += static_cast<int64_t>(w.bytes.bytes.size());
  }
  for (auto& [key, g] : groups) r.weights.push_back(g);
  std::stable_sort(r.weights.begin(), r.weights.end(), [](auto& a, auto& b) { return a.bytes > b.bytes; });
  Reporter reporter(content, extras);
  for (auto& [name, plan] : content.functions) r.functions.push_back(reporter.function(name, plan));
  return r;
}

std::string inspect_json(const InspectReport& r) {
  using Json = nlohmann::ordered_json;
  Json j = {{"file", r.file}, {"file_bytes", r.file_bytes}, {"content_sha256", r.content_hash}, {"device", r.device},
            {"required_isa", r.required_isa}, {"max_context", r.max_context}, {"metadata", r.metadata}, {"build_record", r.build_record},
            {"tokenizer_bytes", r.tokenizer_bytes}, {"chat_template_bytes", r.chat_template_bytes}, {"weight_bytes", r.weight_bytes},
            {"weights", Json::array()}, {"functions", Json::array()}, {"layer_loss", Json::array()}, {"baselines", Json::array()}};
  for (auto& g : r.weights)
    j["weights"].push_back({{"encoding", g.encoding}, {"packing", g.packing}, {"tensors", g.tensors}, {"elements", g.elements}, {"bytes", g.bytes}});
  for (auto& f : r.functions) j["functions"].push_back(function_json(f));
  for (auto& l : r.layer_loss) {
    Json sqnr = std::isfinite(l.sqnr_db) ? Json(l.sqnr_db) : Json();  // null: nothing was lost
    j["layer_loss"].push_back({{"name", l.name}, {"encoding", l.encoding}, {"sqnr_db", sqnr}});
  }
  for (auto& b : r.baselines) j["baselines"].push_back({{"name", b.name}, {"settings", b.settings}, {"figures", b.figures}});
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace brisk
