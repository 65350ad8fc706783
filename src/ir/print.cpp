#include "ir/graph.h"

namespace brisk {
namespace {

std::string indent(int depth) { return std::string(static_cast<size_t>(depth) * 2, ' '); }

std::string ref(const Graph& g, ValueId v) { return v < 0 ? "-" : "%" + g.value(v).name; }

std::string constant_note(const Constant& c) {
  std::string s = " " + to_string(c.encoding);
  if (c.encoding.plain()) {
    s.clear();
    if (c.count() <= 8) {
      s = " = [";
      for (int64_t i = 0; i < c.count(); ++i) {
        char text[32];
        if (is_float(c.dtype)) std::snprintf(text, sizeof text, "%.6g", static_cast<double>(load_float(c.data.bytes.data(), c.dtype, i)));
        else std::snprintf(text, sizeof text, "%lld", static_cast<long long>(load_int(c.data.bytes.data(), c.dtype, i)));
        s += (i ? ", " : "") + std::string(text);
      }
      s += "]";
    }
  }
  return s;
}

void print_graph(const Graph& g, int depth, std::string& out) {
  out += indent(depth) + "graph " + g.name + " (";
  for (size_t i = 0; i < g.inputs.size(); ++i)
    out += (i ? ", " : "") + ref(g, g.inputs[i]) + ": " + to_string(g.value(g.inputs[i]).type);
  out += ") {\n";
  for (const StateSpec& s : g.states)
    out += indent(depth + 1) + "state %" + s.name + ": " + std::string(dtype_name(s.dtype)) +
           (s.kind == StateSpec::Kind::kPagedKv
                ? " paged " + std::to_string(s.kv_heads) + " x " + std::to_string(s.head_dim)
                : " slots of " + std::to_string(s.width)) + "\n";
  for (size_t v = 0; v < g.values.size(); ++v)
    if (auto& c = g.values[v].constant)
      out += indent(depth + 1) + "const %" + g.values[v].name + ": " + to_string(g.values[v].type) + constant_note(*c) + "\n";
  for (const Node& n : g.nodes) {
    out += indent(depth + 1);
    for (size_t i = 0; i < n.outputs.size(); ++i) out += (i ? ", " : "") + ref(g, n.outputs[i]);
    out += " = " + std::string(op_name(n.op)) + "(";
    for (size_t i = 0; i < n.inputs.size(); ++i) out += (i ? ", " : "") + ref(g, n.inputs[i]);
    out += ")" + to_string(n.attrs) + " : ";
    for (size_t i = 0; i < n.outputs.size(); ++i)
      out += (i ? ", " : "") + (n.outputs[i] < 0 ? std::string("-") : to_string(g.value(n.outputs[i]).type));
    out += "\n";
    for (const Graph& b : n.blocks) print_graph(b, depth + 2, out);
  }
  out += indent(depth + 1) + "return ";
  for (size_t i = 0; i < g.outputs.size(); ++i) out += (i ? ", " : "") + ref(g, g.outputs[i]);
  out += "\n" + indent(depth) + "}\n";
}

}  // namespace

std::string print(const Graph& g) {
  std::string out;
  print_graph(g, 0, out);
  return out;
}

}  // namespace brisk
