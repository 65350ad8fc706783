#include "quantize/fragment.h"

#include <algorithm>
#include <map>
#include <set>

namespace brisk {

Fragment cut(const Graph& whole, size_t from, size_t to) {
  Fragment f;
  f.graph.name = whole.name;
  f.graph.symbols = whole.symbols;
  f.graph.next_symbol = whole.next_symbol;
  std::map<ValueId, ValueId> map = {{kNoValue, kNoValue}};
  auto take = [&](ValueId v) {
    const Value& value = whole.value(v);
    if (value.constant) return f.graph.add_constant(value.name, value.constant);
    for (const StateSpec& s : whole.states)
      if (s.value == v) return f.graph.add_state(s);
    f.inputs.push_back(v);
    return f.graph.add_input(value.name, value.type);
  };
  std::set<ValueId> made;
  for (size_t i = from; i < to; ++i) {
    Node n = whole.nodes[i];
    for (ValueId& v : n.inputs) {
      auto known = map.find(v);
      if (known == map.end()) known = map.emplace(v, take(v)).first;
      v = known->second;
    }
    for (ValueId& v : n.outputs) {
      if (v < 0) continue;
      made.insert(v);
      v = map[v] = f.graph.add_value(whole.value(v).name, whole.value(v).type);
    }
    f.graph.nodes.push_back(std::move(n));
  }
  std::set<ValueId> read(whole.outputs.begin(), whole.outputs.end());
  for (size_t i = to; i < whole.nodes.size(); ++i) read.insert(whole.nodes[i].inputs.begin(), whole.nodes[i].inputs.end());
  for (ValueId v : made)
    if (read.count(v)) {
      f.outputs.push_back(v);
      f.graph.outputs.push_back(map[v]);
    }
  return f;
}

}  // namespace brisk
