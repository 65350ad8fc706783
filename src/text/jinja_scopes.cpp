#include "text/jinja_scopes.h"

#include <array>
#include <set>

namespace brisk::jinja {
namespace {

enum class Load : uint8_t { kContext, kOuter, kOwn, kParameter };

// What one frame knows of names after the statements seen so far.
struct Symbols {
  const Symbols* parent = nullptr;
  std::map<NameId, Load> loads;  // names the frame itself holds
  std::set<NameId> stores;

  bool outer_knows(NameId n) const {
    for (const Symbols* s = parent; s; s = s->parent)
      if (s->loads.count(n)) return true;
    return false;
  }
  void load(NameId n) {
    if (!loads.count(n) && !outer_knows(n)) loads[n] = Load::kContext;
  }
  void store(NameId n) {
    stores.insert(n);
    if (!loads.count(n)) loads[n] = outer_knows(n) ? Load::kOuter : Load::kOwn;
  }
  void parameter(NameId n) {
    stores.insert(n);
    loads[n] = Load::kParameter;
  }
  // After an if: what only some ways assign comes from outside on the others.
  void merge(const std::array<Symbols, 2>& ways) {
    std::map<NameId, size_t> counts;
    for (const Symbols& w : ways)
      for (NameId n : w.stores)
        if (!stores.count(n)) ++counts[n];
    for (const Symbols& w : ways) {
      for (auto [n, l] : w.loads) loads[n] = l;
      stores.insert(w.stores.begin(), w.stores.end());
    }
    for (auto [n, count] : counts)
      if (count < ways.size()) loads[n] = outer_knows(n) ? Load::kOuter : Load::kContext;
  }
};

class Finder {
 public:
  explicit Finder(Ast& ast) : ast_(ast) {}

  void run() {
    Symbols root;
    body(ast_.body, root);
    take(root, ast_.own);
    frames(ast_.body, root);
  }

 private:
  void take(const Symbols& s, OwnNames& own) const {
    for (auto [n, l] : s.loads)
      if (l == Load::kOwn) own.emplace_back(n, make_undefined("", ast_.names[n]));
  }

  void expr(const ExprPtr& e, Symbols& s) const {
    if (!e) return;
    if (e->op == Op::kName || e->op == Op::kNsRef) s.load(e->name);
    for (const ExprPtr& a : e->args) expr(a, s);
    for (const Keyword& k : e->keywords) expr(k.value, s);
    expr(e->star, s);
    expr(e->star_star, s);
  }

  void target(const Expr& e, Symbols& s, bool parameter) const {
    if (e.op == Op::kNsRef) s.load(e.name);
    else if (e.op != Op::kName)
      for (const ExprPtr& a : e.args) target(*a, s, parameter);
    else if (parameter) s.parameter(e.name);
    else s.store(e.name);
  }

  // What the statements of a body say about the names of their own frame.
  void body(const Body& list, Symbols& s) const {
    for (const auto& st : list) statement(*st, s);
  }

  void statement(const Stmt& st, Symbols& s) const {
    switch (st.kind) {
      case StmtKind::kPrint:
      case StmtKind::kFor:
      case StmtKind::kCallBlock:
      case StmtKind::kFilterBlock:
        return expr(st.expr, s);
      case StmtKind::kSet:
        expr(st.expr, s);
        return target(*st.target, s, false);
      case StmtKind::kSetBlock:
      case StmtKind::kMacro:
        return target(*st.target, s, false);
      case StmtKind::kWith:
        for (const ExprPtr& v : st.values) expr(v, s);
        return;
      case StmtKind::kIf: {
        expr(st.expr, s);
        std::array<Symbols, 2> ways = {s, s};
        body(st.body, ways[0]);
        body(st.other, ways[1]);
        return s.merge(ways);
      }
      default:
        return;
    }
  }

  // The frames inside a body whose frame's analysis is complete.
  void frames(Body& list, const Symbols& outer) {
    for (auto& st : list) frame(*st, outer);
  }

  void frame(Stmt& st, const Symbols& outer) {
    Symbols s;
    s.parent = &outer;
    switch (st.kind) {
      case StmtKind::kIf:
        frames(st.body, outer);
        return frames(st.other, outer);
      case StmtKind::kFor: {
        auto loop = ast_.name_ids.find("loop");
        if (loop != ast_.name_ids.end()) s.parameter(loop->second);
        target(*st.target, s, true);
        finish(st.body, s, st.own);
        Symbols other;
        other.parent = &outer;
        return finish(st.other, other, st.other_own);
      }
      case StmtKind::kMacro:
      case StmtKind::kCallBlock:
      case StmtKind::kGeneration: {
        MacroDef& m = *st.macro;
        for (NameId p : m.params) s.parameter(p);
        for (const char* special : {"caller", "varargs", "kwargs"})
          if (auto it = ast_.name_ids.find(special); it != ast_.name_ids.end()) s.parameter(it->second);
        for (const ExprPtr& d : m.defaults) expr(d, s);
        return finish(m.body, s, m.own);
      }
      case StmtKind::kWith:
        for (const ExprPtr& t : st.targets) target(*t, s, false);
        return finish(st.body, s, st.own);
      case StmtKind::kSetBlock:
      case StmtKind::kFilterBlock:
      case StmtKind::kScope:
        return finish(st.body, s, st.own);
      case StmtKind::kBlock:
        s.parent = nullptr;
        return finish(st.body, s, st.own);
      default:
        return;
    }
  }

  void finish(Body& list, Symbols& s, OwnNames& own) {
    body(list, s);
    take(s, own);
    frames(list, s);
  }

  Ast& ast_;
};

}  // namespace

void find_own_names(Ast& ast) { Finder(ast).run(); }

}  // namespace brisk::jinja
