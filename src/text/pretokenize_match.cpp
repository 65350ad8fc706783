// The matcher of hand-compiled patterns.
#include <algorithm>
#include <memory>
#include <vector>

#include "text/pretokenize_parse.h"
#include "text/pretokenize_regex.h"

namespace brisk {
namespace {

// A node knows what follows it, so that matching is one walk with a retry stack no deeper than the pattern is long.
struct Node {
  enum Kind : uint8_t { kAccept, kSet, kChoice, kLook, kLineBegin, kLineEnd, kTextBegin, kTextEnd, kWordEdge };
  Kind kind = kAccept;
  bool negative = false;
  RegexMode mode = RegexMode::kGreedy;
  uint32_t min = 1, max = 1;
  uint32_t set = 0;                // index of the set
  uint32_t next = 0;
  std::vector<uint32_t> choices;   // kChoice: in order of preference; kLook: alternatives, each ending in an accept
};

constexpr size_t kMaxNodes = 2000;  // bounds the depth of the walk

class ClassRegex : public SplitRegex {
 public:
  static std::unique_ptr<const SplitRegex> build(const std::vector<RegexSequence>& alternatives) {
    auto regex = std::make_unique<ClassRegex>();
    regex->nodes_.push_back({});  // 0: accept
    for (const auto& sequence : alternatives) regex->roots_.push_back(regex->link(sequence, 0));
    if (regex->nodes_.size() > kMaxNodes) return nullptr;
    return regex;
  }

  Status find_all(std::span<const char32_t> text, TextSpan span, uint64_t& budget,
                  std::vector<TextSpan>& matches) const override {
    Walk walk{text.data(), span.begin, span.end, budget};
    std::vector<uint32_t> dead(roots_.size(), 0);
    uint32_t at = span.begin;
    while (at <= span.end) {
      uint32_t end = 0;
      bool found = match_at(walk, at, dead, end);
      if (walk.budget == 0) {
        budget = 0;
        return too_much_work();
      }
      if (found) matches.push_back({at, end});
      at = found && end > at ? end : at + 1;
    }
    budget = walk.budget;
    return {};
  }

 private:
  struct Walk {
    const char32_t* text;
    uint32_t begin, end;
    uint64_t budget;

    bool spend(uint64_t work) {
      budget = budget > work ? budget - work : 0;
      return budget > 0;
    }
  };

  uint32_t add(Node node) {
    nodes_.push_back(std::move(node));
    return uint32_t(nodes_.size() - 1);
  }

  uint32_t link(const RegexSequence& sequence, uint32_t next) {
    for (size_t i = sequence.size(); i-- > 0 && nodes_.size() <= kMaxNodes;) next = link(sequence[i], next);
    return next;
  }

  uint32_t link(const RegexItem& item, uint32_t next) {
    Node node;
    node.next = next;
    node.negative = item.negative;
    node.mode = item.mode;
    node.min = item.min, node.max = item.max;
    switch (item.kind) {
      case RegexItem::kSet:
        node.kind = Node::kSet;
        node.set = uint32_t(sets_.size());
        sets_.push_back(item.set);
        break;
      case RegexItem::kGroup:
        node.kind = Node::kChoice;
        if (item.min == 0 && item.mode == RegexMode::kLazy) node.choices.push_back(next);
        for (const auto& sequence : item.alternatives) node.choices.push_back(link(sequence, next));
        if (item.min == 0 && item.mode == RegexMode::kGreedy) node.choices.push_back(next);
        break;
      case RegexItem::kLook:
        node.kind = Node::kLook;
        for (const auto& sequence : item.alternatives) node.choices.push_back(link(sequence, 0));
        break;
      case RegexItem::kLineBegin: node.kind = Node::kLineBegin; break;
      case RegexItem::kLineEnd: node.kind = Node::kLineEnd; break;
      case RegexItem::kTextBegin: node.kind = Node::kTextBegin; break;
      case RegexItem::kTextEnd: node.kind = Node::kTextEnd; break;
      case RegexItem::kWordEdge: node.kind = Node::kWordEdge; break;
      case RegexItem::kNoWordEdge:
        node.kind = Node::kWordEdge;
        node.negative = true;
        break;
    }
    return add(std::move(node));
  }

  // An alternative that starts with an unlimited greedy run and failed at `at` with the run reaching `e` fails from
  // everywhere inside the run too: the ends it could try there are ends it has tried. dead[i] remembers e.
  bool match_at(Walk& walk, uint32_t at, std::vector<uint32_t>& dead, uint32_t& end) const {
    for (size_t i = 0; i < roots_.size(); ++i) {
      if (at < dead[i]) continue;
      if (run(walk, roots_[i], at, end)) return true;
      if (walk.budget == 0) return false;
      const Node& first = nodes_[roots_[i]];
      if (first.kind == Node::kSet && first.max == kNoLimit && first.mode != RegexMode::kLazy) {
        dead[i] = at + run_length(walk, first, at);
      }
    }
    return false;
  }

  uint32_t run_length(Walk& walk, const Node& node, uint32_t at) const {
    const CharSet& set = sets_[node.set];
    uint32_t most = std::min(node.max, walk.end - at), n = 0;
    while (n < most && set.contains(walk.text[at + n])) ++n;
    walk.spend(n + 1);
    return n;
  }

  bool run(Walk& walk, uint32_t index, uint32_t at, uint32_t& end) const {
    while (walk.budget > 0) {
      const Node& node = nodes_[index];
      switch (node.kind) {
        case Node::kAccept:
          end = at;
          return true;
        case Node::kSet:
          if (node.max == 1 && node.min == 1) {
            if (at >= walk.end || !sets_[node.set].contains(walk.text[at])) return false;
            walk.spend(1);
            ++at;
            break;
          }
          if (node.mode == RegexMode::kLazy) return run_lazy(walk, node, at, end);
          {
            uint32_t n = run_length(walk, node, at);
            if (n < node.min) return false;
            if (node.mode == RegexMode::kPossessive || nodes_[node.next].kind == Node::kAccept || n == node.min) {
              at += n;
              break;
            }
            for (;; --n) {
              if (run(walk, node.next, at + n, end)) return true;
              if (n == node.min || !walk.spend(1)) return false;
            }
          }
        case Node::kChoice:
          for (uint32_t choice : node.choices) {
            if (run(walk, choice, at, end)) return true;
          }
          return false;
        case Node::kLook: {
          bool hit = false;
          uint32_t ignored;
          for (size_t i = 0; !hit && i < node.choices.size(); ++i) hit = run(walk, node.choices[i], at, ignored);
          if (hit == node.negative) return false;
          break;
        }
        default:
          if (!holds(walk, node, at)) return false;
      }
      index = node.next;
    }
    return false;
  }

  bool run_lazy(Walk& walk, const Node& node, uint32_t at, uint32_t& end) const {
    const CharSet& set = sets_[node.set];
    for (uint32_t n = 0; walk.spend(1); ++n) {
      if (n >= node.min && run(walk, node.next, at + n, end)) return true;
      if (n == node.max || at + n >= walk.end || !set.contains(walk.text[at + n])) return false;
    }
    return false;
  }

  static bool holds(const Walk& walk, const Node& node, uint32_t at) {
    auto word = [&](uint32_t i) { return unicode::is(walk.text[i], unicode::kRegexWord); };
    switch (node.kind) {
      case Node::kLineBegin: return at == walk.begin || walk.text[at - 1] == '\n';
      case Node::kLineEnd: return at == walk.end || walk.text[at] == '\n';
      case Node::kTextBegin: return at == walk.begin;
      case Node::kTextEnd: return at == walk.end;
      default: {
        bool edge = (at > walk.begin && word(at - 1)) != (at < walk.end && word(at));
        return edge != node.negative;
      }
    }
  }

  std::vector<Node> nodes_;
  std::vector<CharSet> sets_;
  std::vector<uint32_t> roots_;
};

}  // namespace

Error too_much_work() {
  return invalid("text: a splitting pattern of the tokenizer needs too much work on this text");
}

std::unique_ptr<const SplitRegex> compile_class_regex(const Pattern& pattern) {
  auto alternatives = parse_class_regex(pattern);
  return alternatives ? ClassRegex::build(*alternatives) : nullptr;
}

Result<std::unique_ptr<const SplitRegex>> SplitRegex::compile(const Pattern& pattern) {
  constexpr size_t kMaxPattern = 64 << 10;
  if (pattern.text.size() > kMaxPattern) {
    return invalid("pattern of " + std::to_string(pattern.text.size()) + " bytes, at most " +
                   std::to_string(kMaxPattern) + " are allowed");
  }
  if (auto regex = compile_class_regex(pattern)) return regex;
  return compile_pcre_regex(pattern.text);
}

}  // namespace brisk
