// Objects of the interpreter that templates can hold: scopes, macros, functions, loops, cyclers, joiners.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_tables.h"

namespace brisk::jinja {

// Variables of one frame: template, loop iteration, macro call, with block. Small: searched linearly.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<NameId, Val>> vars;
  bool captured = false;  // a macro or a lazy loop holds on to it

  const Val* find(NameId name) const {
    for (const Scope* s = this; s; s = s->parent.get())
      for (auto& [n, v] : s->vars)
        if (n == name) return &v;
    return nullptr;
  }
  void set(NameId name, Val value) {
    for (auto& [n, v] : vars)
      if (n == name) {
        v = std::move(value);
        return;
      }
    vars.emplace_back(name, std::move(value));
  }
};
using ScopePtr = std::shared_ptr<Scope>;

struct MacroObj : Obj {
  const MacroDef* def = nullptr;
  ScopePtr scope;  // where it was defined
  bool is_generation = false;
};

struct FunctionObj : Obj {
  std::string_view name;
  Function call = nullptr;
  Val bound;  // for functions that belong to an object (a filter by name, a block)
  const Stmt* block = nullptr;
};

struct MethodObj : Obj {
  const MethodEntry* method = nullptr;
  Val self;
};

struct CyclerObj : Obj {
  std::vector<Val> items;
  size_t pos = 0;
};

struct JoinerObj : Obj {
  Val separator;
  bool used = false;
};

// The `loop` variable: an iterator with one item of look-ahead.
struct LoopObj : Obj {
  Interp* in = nullptr;
  std::unique_ptr<Iter> it;
  Val source;                  // for its length
  const Stmt* stmt = nullptr;  // for loop(...) of recursive loops
  ScopePtr scope;
  int64_t index0 = -1;
  int64_t depth0 = 0;
  Val previous, current, peeked;
  bool has_previous = false, has_peeked = false, ended = false;
  std::vector<Val> rest;  // items taken ahead to learn the length of an iterator, last first
  std::optional<Int> length;
  std::vector<Val> last_changed;
  bool changed_called = false;

  bool advance();  // to the next item, which becomes `current`
  bool peek();     // fills peeked
  Int total();
};

bool loop_next_pair(const Val& loop, Val& out);
std::optional<Int> loop_length(const Val& loop);
std::string loop_text(const Val& loop);
std::string macro_name(const Val& macro);

}  // namespace brisk::jinja
