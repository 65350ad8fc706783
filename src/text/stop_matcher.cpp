#include "text/stop_matcher.h"

#include <utility>

namespace brisk {

Result<StopMatcher> StopMatcher::create(const std::vector<std::string>& stops, bool include_stop) {
  StopMatcher m;
  m.include_stop_ = include_stop;
  size_t total = 0;
  for (size_t k = 0; k < stops.size(); ++k) {
    const std::string& s = stops[k];
    total += s.size();
    if (s.empty()) return invalid("stop string " + std::to_string(k) + " is empty");
    if (total > kMaxBytes)
      return invalid("stop strings of more than " + std::to_string(kMaxBytes) + " bytes together");
    uint32_t node = 0;
    for (char ch : s) {
      auto c = static_cast<unsigned char>(ch);
      uint32_t next = m.child(node, c);
      if (next == 0) {
        next = static_cast<uint32_t>(m.nodes_.size());
        m.nodes_[node].next.emplace_back(c, next);
        m.nodes_.emplace_back();
        m.nodes_[next].depth = m.nodes_[node].depth + 1;
      }
      node = next;
    }
    if (m.nodes_[node].stop < 0) {
      m.nodes_[node].stop = static_cast<int32_t>(k);
      m.nodes_[node].stop_length = static_cast<uint32_t>(s.size());
    }
  }
  m.link();
  return m;
}

uint32_t StopMatcher::child(uint32_t node, unsigned char c) const {
  for (auto [byte, next] : nodes_[node].next)
    if (byte == c) return next;
  return 0;
}

uint32_t StopMatcher::step(uint32_t node, unsigned char c) const {
  while (true) {
    if (uint32_t next = child(node, c)) return next;
    if (node == 0) return 0;
    node = nodes_[node].fail;
  }
}

// Failure links in order of depth; a node inherits the stop string of its suffix if it ends none itself.
void StopMatcher::link() {
  std::vector<uint32_t> order;
  for (auto& e : nodes_[0].next) order.push_back(e.second);
  for (size_t k = 0; k < order.size(); ++k) {
    uint32_t node = order[k];
    for (auto [c, next] : nodes_[node].next) {
      nodes_[next].fail = step(nodes_[node].fail, c);
      order.push_back(next);
    }
    const Node& f = nodes_[nodes_[node].fail];
    if (nodes_[node].stop < 0 && f.stop >= 0) {
      nodes_[node].stop = f.stop;
      nodes_[node].stop_length = f.stop_length;
    }
  }
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped()) return {};
  std::string all = std::exchange(held_, {});
  size_t before = all.size();
  all += text;
  for (size_t i = before; i < all.size(); ++i) {
    state_ = step(state_, static_cast<unsigned char>(all[i]));
    const Node& n = nodes_[state_];
    if (n.stop < 0) continue;
    matched_ = n.stop;
    all.resize(include_stop_ ? i + 1 : i + 1 - n.stop_length);
    return all;
  }
  size_t keep = nodes_[state_].depth;
  held_ = all.substr(all.size() - keep);
  all.resize(all.size() - keep);
  return all;
}

std::string StopMatcher::finish() {
  if (stopped()) return {};
  state_ = 0;
  return std::exchange(held_, {});
}

void StopMatcher::reset() {
  state_ = 0;
  held_.clear();
  matched_ = -1;
}

}  // namespace brisk
