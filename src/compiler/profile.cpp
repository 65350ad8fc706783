#include "compiler/profile.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>

namespace brisk {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 40;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out(1);
  for (char c : text)
    if (c == at) out.emplace_back();
    else out.back() += c;
  return out;
}

Result<std::vector<int64_t>> parse_shape(const std::string& text) {
  std::vector<int64_t> out;
  for (const std::string& part : split(text, 'x')) {
    int64_t n = -1;
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), n);
    if (error != std::errc() || end != part.data() + part.size() || n < 0 || n > kMaxSize)
      return invalid("'" + text + "' is no shape such as 1x128 (sizes from 0 to 2^40)");
    out.push_back(n);
  }
  if (out.size() > static_cast<size_t>(kMaxRank)) return invalid("'" + text + "' has rank " + std::to_string(out.size()) + ", at most " + std::to_string(kMaxRank));
  return out;
}

Result<Profile::Range> parse_range(const std::string& text) {
  auto parts = split(text, ',');
  if (parts.size() != 1 && parts.size() != 3) return invalid("'" + text + "': wanted min,opt,max or one shape");
  Profile::Range r;
  BRISK_ASSIGN(r.min, parse_shape(parts[0]));
  r.opt = r.max = r.min;
  if (parts.size() == 3) {
    BRISK_ASSIGN(r.opt, parse_shape(parts[1]));
    BRISK_ASSIGN(r.max, parse_shape(parts[2]));
  }
  if (r.opt.size() != r.min.size() || r.max.size() != r.min.size()) return invalid("'" + text + "': the shapes differ in rank");
  for (size_t a = 0; a < r.min.size(); ++a)
    if (r.min[a] > r.opt[a] || r.opt[a] > r.max[a]) return invalid("'" + text + "': axis " + std::to_string(a) + " does not rise from min to max");
  return r;
}

std::string range_text(const SymbolRange& r) { return std::to_string(r.min) + "," + std::to_string(r.opt) + "," + std::to_string(r.max); }

// Symbols replaced by numbers in all types of a graph and its blocks.
void substitute(Graph& g, const std::map<std::string, int64_t>& known) {
  auto number = [&](const std::string& name) -> std::optional<Dim> {
    auto it = known.find(name);
    return it == known.end() ? std::nullopt : std::optional<Dim>(Dim(it->second));
  };
  for (Value& v : g.values) {
    for (Dim& d : v.type.shape) d = d.substitute(number);
    if (v.type.elements)
      for (Dim& d : *v.type.elements) d = d.substitute(number);
  }
  for (auto& [name, n] : known) g.symbols.erase(name);
  for (Node& n : g.nodes)
    for (Graph& b : n.blocks) substitute(b, known);
}

// The edit distance, for names that come near.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t best = std::min({row[j] + 1, row[j - 1] + 1, corner + (a[i - 1] == b[j - 1] ? 0 : 1)});
      corner = row[j];
      row[j] = best;
    }
  }
  return row[b.size()];
}

std::string nearest(const Graph& g, const std::string& name) {
  constexpr size_t kLongest = 300;  // of names that are compared
  std::string best;
  size_t least = SIZE_MAX;
  auto look = [&](const std::string& s) {
    if (s.empty() || s.size() > kLongest || name.size() > kLongest) return;
    if (size_t d = distance(s, name); d < least) least = d, best = s;
  };
  for (const Node& n : g.nodes) {
    look(n.name);
    for (ValueId v : n.outputs)
      if (v >= 0) look(g.value(v).name);
  }
  return best;
}

}  // namespace

Result<Profile> parse_profile(const std::string& text) {
  Profile p;
  for (const std::string& item : split(text, ';')) {
    if (item.empty()) continue;
    auto at = item.rfind(':');  // names may hold colons, shapes do not
    if (at == std::string::npos || at == 0) return invalid("profile '" + item + "': wanted INPUT:min,opt,max");
    auto range = parse_range(item.substr(at + 1));
    if (!range.ok()) return std::move(range).error().in("profile of '" + item.substr(0, at) + "'");
    if (!p.inputs.emplace(item.substr(0, at), std::move(*range)).second) return invalid("profile: '" + item.substr(0, at) + "' is named twice");
  }
  if (p.inputs.empty()) return invalid("profile '" + text + "': wanted INPUT:min,opt,max;...");
  return p;
}

Status apply_profile(Graph& g, const Profile& profile) {
  std::map<std::string, SymbolRange> ranges;
  for (auto& [name, r] : profile.inputs) {
    auto found = std::find_if(g.inputs.begin(), g.inputs.end(), [&](ValueId v) { return g.value(v).name == name; });
    if (found == g.inputs.end()) {
      std::string all;
      for (ValueId v : g.inputs) all += (all.empty() ? "" : ", ") + g.value(v).name;
      return invalid("profile: the model has no input '" + name + "'; it has " + all);
    }
    Type& t = g.value(*found).type;
    if (!t.ranked) {
      t.ranked = true;
      t.shape.clear();
      for (size_t a = 0; a < r.min.size(); ++a) t.shape.push_back(Dim::symbol(name + "_" + std::to_string(a)));
    }
    std::string place = "profile: input '" + name + "'";
    if (t.shape.size() != r.min.size()) return invalid(place + " has rank " + std::to_string(t.shape.size()) + " " + to_string(t.shape) + ", given are shapes of rank " + std::to_string(r.min.size()));
    for (size_t a = 0; a < r.min.size(); ++a) {
      SymbolRange wanted{r.min[a], r.opt[a], r.max[a]};
      std::string axis = place + " axis " + std::to_string(a);
      if (auto fixed = t.shape[a].constant()) {
        if (*fixed != wanted.min || *fixed != wanted.max) return invalid(axis + " is " + std::to_string(*fixed) + " in the model, given " + range_text(wanted));
        continue;
      }
      auto symbol = t.shape[a].as_symbol();
      if (!symbol) continue;  // follows from others
      auto [it, fresh] = ranges.emplace(*symbol, wanted);
      const SymbolRange& other = it->second;
      if (!fresh && (other.min != wanted.min || other.opt != wanted.opt || other.max != wanted.max))
        return invalid(axis + " is '" + *symbol + "': given " + range_text(wanted) + " here and " + range_text(other) + " elsewhere");
    }
  }
  std::map<std::string, int64_t> fixed;
  for (auto& [symbol, r] : ranges) {
    if (r.min == r.max) fixed[symbol] = r.min;
    else g.symbols[symbol] = r;
  }
  substitute(g, fixed);
  if (auto s = infer_graph(g); !s.ok()) return std::move(s).error().in("at the profile's sizes");
  return {};
}

Status mark_output(Graph& g, const std::string& name) {
  std::vector<ValueId> wanted;
  for (const Node& n : g.nodes) {
    for (ValueId v : n.outputs)
      if (v >= 0 && (n.name == name || g.value(v).name == name)) wanted.push_back(v);
  }
  for (ValueId v : g.inputs)
    if (g.value(v).name == name) wanted.push_back(v);
  if (wanted.empty()) {
    std::string near = nearest(g, name);
    return invalid("--mark-output: no node or value '" + name + "'" + (near.empty() ? "" : "; the nearest name is '" + near + "'"));
  }
  for (ValueId v : wanted)
    if (!g.is_output(v)) {
      if (g.is_input(v)) {
        BRISK_ASSIGN(v, g.add(OpId::kIdentity, NoAttrs{}, {v}, name));
        g.value(v).name = name + ":marked";
      }
      g.outputs.push_back(v);
    }
  return {};
}

}  // namespace brisk
