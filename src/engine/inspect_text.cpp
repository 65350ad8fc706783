// The report for a terminal, and as a page.
#include <cmath>
#include <cstdio>

#include "engine/inspect.h"

namespace brisk {
namespace {

std::string number(double v, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, v);
  return text;
}

std::string bytes_text(int64_t n) {
  if (n < 10'000) return std::to_string(n) + " B";
  double v = static_cast<double>(n);
  if (v < 1e6) return number(v / 1e3, 1) + " kB";
  return v < 1e9 ? number(v / 1e6, 1) + " MB" : number(v / 1e9, 2) + " GB";
}

std::string memory_text(const InspectMemory& m) {
  return bytes_text(m.placed) + " (" + bytes_text(m.live) + " alive at once, " + bytes_text(m.sum) + " without sharing; " +
         std::to_string(m.in_place) + " results in place)";
}

std::string sqnr_text(float db) { return std::isfinite(db) ? number(static_cast<double>(db), 1) + " dB" : std::string("lossless"); }

std::string range_text(const PlanSymbol& s) {
  return s.name + " " + std::to_string(s.min) + " / " + std::to_string(s.opt) + " / " + (s.max == INT64_MAX ? std::string("any") : std::to_string(s.max));
}

std::string joined(const std::vector<std::string>& list, const char* none) {
  std::string out;
  for (auto& s : list) out += (out.empty() ? "" : ", ") + s;
  return out.empty() ? none : out;
}

std::string bits_text(const InspectReport::WeightGroup& g) {
  return g.elements ? number(8.0 * static_cast<double>(g.bytes) / static_cast<double>(g.elements), 2) : std::string("-");
}

std::string figure_text(double v) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}

std::string corner_text(const InspectReport::Corner& c) {
  std::string at;
  for (auto& [name, v] : c.symbols) at += (at.empty() ? "" : ", ") + name + " " + std::to_string(v);
  return at.empty() ? "static" : c.name + " (" + at + ")";
}

// The facts of the first part, in order: shared by text and page.
std::vector<std::pair<std::string, std::string>> facts(const InspectReport& r) {
  std::vector<std::pair<std::string, std::string>> out;
  if (!r.file.empty()) out.emplace_back("file", r.file + (r.file_bytes ? ", " + bytes_text(r.file_bytes) : ""));
  if (!r.content_hash.empty()) out.emplace_back("sha256", r.content_hash);
  out.emplace_back("target", r.device + ", instruction sets: " + joined(r.required_isa, "baseline"));
  for (auto& [key, value] : r.metadata) out.emplace_back(key, value);
  if (r.max_context) out.emplace_back("max context", std::to_string(r.max_context) + " tokens");
  out.emplace_back("tokenizer", r.tokenizer_bytes ? bytes_text(r.tokenizer_bytes) : "none");
  out.emplace_back("chat template", r.chat_template_bytes ? bytes_text(r.chat_template_bytes) : "none");
  out.emplace_back("weights", bytes_text(r.weight_bytes));
  return out;
}

// Control characters of a stranger's names must not reach a terminal.
std::string visible(const std::string& s) {
  std::string out;
  for (char c : s) {
    auto u = static_cast<unsigned char>(c);
    if (u >= 0x20 && u != 0x7f) {
      out += c;
    } else {
      char text[8];
      std::snprintf(text, sizeof text, "\\x%02x", u);
      out += text;
    }
  }
  return out;
}

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> head) { add(std::move(head)); }
  void add(std::vector<std::string> row) {
    for (auto& cell : row) cell = visible(cell);
    rows_.push_back(std::move(row));
  }
  std::string print() const {
    std::vector<size_t> width;
    for (auto& r : rows_)
      for (size_t i = 0; i < r.size(); ++i) {
        if (i == width.size()) width.push_back(0);
        width[i] = std::max(width[i], r[i].size());
      }
    std::string out;
    for (auto& r : rows_) {
      std::string line = " ";
      for (size_t i = 0; i < r.size(); ++i) {
        line += " " + r[i];
        if (i + 1 < r.size()) line.append(width[i] > r[i].size() ? width[i] - r[i].size() + 1 : 1, ' ');
      }
      out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "layers.12.q" -> "layers.*.q"
std::string pattern(const std::string& name) {
  std::string out;
  for (char c : name)
    if (c < '0' || c > '9') out += c;
    else if (out.empty() || out.back() != '*') out += '*';
  return out;
}

// Fused steps carry the names of all they were made of.
std::string shortened(const std::string& name) {
  constexpr size_t kMax = 60;
  return name.size() > kMax ? name.substr(0, kMax - 3) + "..." : name;
}

// One line for all steps that differ in the numbers of their names only, in order of the first.
std::string steps_text(const std::vector<InspectReport::Row>& rows) {
  struct Group { const InspectReport::Row* first; int count = 0; int64_t bytes = 0; double ms = 0; bool timed = false; };
  std::vector<Group> groups;
  std::map<std::string, size_t> index;
  for (auto& r : rows) {
    std::string key = r.op + '\n' + pattern(r.name) + '\n' + r.kernel + '\n' + r.in + '\n' + r.out + '\n' + r.precision + '\n' + std::to_string(r.depth);
    auto [it, fresh] = index.emplace(key, groups.size());
    if (fresh) groups.push_back({&r});
    Group& g = groups[it->second];
    ++g.count;
    g.bytes += r.weight_bytes;
    g.ms += r.ms.value_or(0);
    g.timed = g.timed || r.ms;
  }
  TextTable table({"count", "operator", "name", "kernel", "result", "precision", "weights", "ms"});
  for (const Group& g : groups)
    table.add({std::to_string(g.count), std::string(static_cast<size_t>(2 * g.first->depth), ' ') + g.first->op,
               shortened(g.count > 1 ? pattern(g.first->name) : g.first->name), g.first->kernel, g.first->out, g.first->precision,
               g.bytes ? bytes_text(g.bytes) : "", g.timed ? number(g.ms, 3) : ""});
  return table.print();
}

std::string function_text(const InspectReport::Function& f) {
  std::string out = "\nfunction " + visible(f.name) + ": " + std::to_string(f.rows.size()) + " steps, shapes " +
                    (f.shapes_proven ? "proven for all sizes" : "checked when they are bound") + "\n";
  for (auto& s : f.symbols) out += "  symbol (min / opt / max)  " + visible(range_text(s)) + "\n";
  TextTable io({"", "", ""});
  for (auto& [name, type] : f.inputs) io.add({"input", name, type});
  for (auto& [name, type] : f.outputs) io.add({"output", name, type});
  std::string listed = io.print();
  out += listed.substr(listed.find('\n') + 1);
  if (!f.states.empty())
    out += "  states: " + std::to_string(f.states.size()) + ", " + bytes_text(f.state_bytes_per_token) + " a token, " +
           bytes_text(f.state_bytes_per_sequence) + " a sequence\n";
  for (auto& c : f.corners)
    if (c.memory) out += "  temporaries at " + visible(corner_text(c)) + ": " + memory_text(*c.memory) + "\n";
  return out + steps_text(f.rows);
}

std::string html_escape(const std::string& s) {
  std::string out;
  for (char c : visible(s)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string html_row(const std::vector<std::string>& cells, const char* tag = "td") {
  std::string out = "<tr>";
  for (auto& c : cells) out += std::string("<") + tag + ">" + html_escape(c) + "</" + tag + ">";
  return out + "</tr>\n";
}

std::string html_table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  std::string out = "<table>\n" + (head.empty() ? std::string() : html_row(head, "th"));
  for (auto& r : rows) out += html_row(r);
  return out + "</table>\n";
}

std::string html_function(const InspectReport::Function& f) {
  std::vector<std::vector<std::string>> io, arena, steps;
  for (auto& s : f.symbols) io.push_back({"symbol", s.name, range_text(s).substr(s.name.size() + 1)});
  for (auto& [name, type] : f.inputs) io.push_back({"input", name, type});
  for (auto& [name, type] : f.outputs) io.push_back({"output", name, type});
  for (auto& [name, what] : f.states) io.push_back({"state", name, what});
  for (auto& c : f.corners)
    if (c.memory) arena.push_back({corner_text(c), memory_text(*c.memory)});
  for (auto& r : f.rows)
    steps.push_back({std::to_string(steps.size()), std::string(static_cast<size_t>(r.depth), '>') + r.op, r.name, r.kernel, r.in, r.out, r.precision,
                     r.weight_bytes ? bytes_text(r.weight_bytes) : "", r.ms ? number(*r.ms, 3) : ""});
  std::string out = "<h2>Function " + html_escape(f.name) + "</h2>\n<p>Shapes are " +
                    (f.shapes_proven ? "proven for all sizes" : "checked when they are bound") + ".</p>\n" + html_table({"", "name", "type or min / opt / max"}, io);
  if (!arena.empty()) out += "<h3>Temporaries</h3>\n" + html_table({"sizes", "bytes"}, arena);
  return out + "<details open><summary>" + std::to_string(f.rows.size()) + " steps</summary>\n" +
         html_table({"", "operator", "name", "kernel", "operands", "results", "precision", "weights", "ms"}, steps) + "</details>\n";
}

std::vector<std::vector<std::string>> weight_rows(const InspectReport& r) {
  std::vector<std::vector<std::string>> rows;
  for (auto& g : r.weights)
    rows.push_back({g.encoding, g.packing.empty() ? "plain" : g.packing, std::to_string(g.tensors), std::to_string(g.elements), bytes_text(g.bytes), bits_text(g)});
  return rows;
}
const std::vector<std::string> kWeightHead = {"encoding", "packing", "tensors", "elements", "bytes", "bits an element"};

std::vector<std::vector<std::string>> baseline_rows(const InspectReport& r) {
  std::vector<std::vector<std::string>> rows;
  for (auto& b : r.baselines) {
    std::string settings, figures;
    for (auto& [key, value] : b.settings) settings += (settings.empty() ? "" : ", ") + key + " " + value;
    for (auto& [key, value] : b.figures) figures += (figures.empty() ? "" : ", ") + key + " " + figure_text(value);
    rows.push_back({b.name, settings, figures});
  }
  return rows;
}

std::vector<std::vector<std::string>> pairs_rows(const std::map<std::string, std::string>& map) {
  std::vector<std::vector<std::string>> rows;
  for (auto& [key, value] : map) rows.push_back({key, value});
  return rows;
}

std::vector<std::vector<std::string>> loss_rows(const InspectReport& r) {
  std::vector<std::vector<std::string>> rows;
  for (auto& l : r.layer_loss) rows.push_back({l.name, l.encoding, sqnr_text(l.sqnr_db)});
  return rows;
}

// Weights that differ in the numbers of their names only as one line, with the worst of them.
std::vector<std::vector<std::string>> loss_groups(const InspectReport& r) {
  struct Group { const LayerLoss* worst; int count = 0; };
  std::vector<Group> groups;
  std::map<std::pair<std::string, std::string>, size_t> index;
  for (auto& l : r.layer_loss) {
    auto [it, fresh] = index.emplace(std::pair(pattern(l.name), l.encoding), groups.size());
    if (fresh) groups.push_back({&l});
    Group& g = groups[it->second];
    ++g.count;
    if (l.sqnr_db < g.worst->sqnr_db) g.worst = &l;
  }
  std::vector<std::vector<std::string>> rows;
  for (const Group& g : groups) {
    bool many = g.count > 1, lossy = std::isfinite(g.worst->sqnr_db);
    rows.push_back({std::to_string(g.count), many ? pattern(g.worst->name) : g.worst->name, g.worst->encoding, sqnr_text(g.worst->sqnr_db),
                    many && lossy ? g.worst->name : ""});
  }
  return rows;
}

std::string text_section(const char* title, std::vector<std::string> head, const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
  TextTable table(std::move(head));
  for (auto& r : rows) table.add(r);
  return std::string("\n") + title + "\n" + table.print();
}

}  // namespace

std::string inspect_text(const InspectReport& r) {
  std::string out;
  for (auto& [key, value] : facts(r)) {
    std::string name = visible(key);
    out += name + std::string(name.size() < 16 ? 16 - name.size() : 1, ' ') + visible(value) + "\n";
  }
  out += text_section("weights", kWeightHead, weight_rows(r));
  for (auto& f : r.functions) out += function_text(f);
  out += text_section("loss of the weights' encodings (signal to quantisation noise)", {"count", "weight", "encoding", "lowest SQNR", "of"}, loss_groups(r));
  out += text_section("baselines", {"name", "settings", "figures"}, baseline_rows(r));
  return out + text_section("build record", {"key", "value"}, pairs_rows(r.build_record));
}

std::string inspect_html(const InspectReport& r) {
  std::vector<std::vector<std::string>> first;
  for (auto& [key, value] : facts(r)) first.push_back({key, value});
  std::string title = html_escape(r.file.empty() ? "engine" : r.file);
  std::string out = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + title + "</title>\n<style>\n"
      "body{font:14px/1.4 system-ui,sans-serif;margin:2em;color:#222;background:#fff}\n"
      "table{border-collapse:collapse;margin:.5em 0}\n"
      "td,th{border:1px solid #ccc;padding:.15em .5em;text-align:left;vertical-align:top;overflow-wrap:anywhere}\n"
      "th{background:#eee}summary{cursor:pointer}\n"
      "</style></head><body>\n<h1>" + title + "</h1>\n" + html_table({}, first);
  auto section = [&](const char* heading, const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
    if (!rows.empty()) out += std::string("<h2>") + heading + "</h2>\n" + html_table(head, rows);
  };
  section("Weights", kWeightHead, weight_rows(r));
  section("Baselines", {"name", "settings", "figures"}, baseline_rows(r));
  for (auto& f : r.functions) out += html_function(f);
  section("Loss of the weights' encodings", {"weight", "encoding", "SQNR"}, loss_rows(r));
  section("Build record", {"key", "value"}, pairs_rows(r.build_record));
  return out + "</body></html>\n";
}

}  // namespace brisk
