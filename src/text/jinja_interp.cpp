// Statements, macros and loops.
#include "text/jinja_interp.h"

#include <algorithm>

namespace brisk::jinja {

Interp::Interp(const Ast& ast, Budget& b, std::tm t, int us)
    : budget(b), now(t), microseconds(us), ast_(ast) {
  context_ = std::make_shared<Scope>();
  root_ = inner(context_, ast.own);
}

Interp::~Interp() {
  for (ScopePtr& s : captured_) s->vars.clear();
  for (auto& o : mutable_) {
    if (auto* ns = dynamic_cast<NamespaceObj*>(o.get())) ns->attributes.clear();
    if (auto* it = dynamic_cast<IteratorObj*>(o.get())) it->it.reset();
    if (auto* m = dynamic_cast<MacroObj*>(o.get())) m->scope.reset();
    if (auto* l = dynamic_cast<LoopObj*>(o.get())) {
      l->it.reset();
      l->scope.reset();
      l->source = l->previous = l->current = l->peeked = Val();
      l->rest.clear();
      l->last_changed.clear();
    }
  }
}

ScopePtr Interp::inner(const ScopePtr& parent, const OwnNames& own) {
  auto s = std::make_shared<Scope>();
  s->parent = parent;
  s->vars = own;
  return s;
}

void Interp::define(std::string_view name, Val v) {
  auto it = ast_.name_ids.find(name);
  if (it != ast_.name_ids.end())
    context_->set(it->second, std::move(v));  // else the template never asks for it
}

void Interp::run(StrBuilder& out) { exec(ast_.body, root_, out); }

Val Interp::make_namespace() {
  auto ns = std::make_shared<NamespaceObj>();
  ns->charge(budget, 256);
  keep(ns);
  return Val(Kind::kNamespace, std::move(ns));
}

Flow Interp::exec(const Body& body, const ScopePtr& scope, StrBuilder& out) {
  Deeper deeper(*this);
  for (const auto& s : body)
    if (Flow f = exec(*s, scope, out); f != Flow::kNext) return f;
  return Flow::kNext;
}

Flow Interp::exec(const Stmt& s, const ScopePtr& scope, StrBuilder& out) {
  budget.step();
  line_ = s.line;
  switch (s.kind) {
    case StmtKind::kText:
      out.add(s.text.str());
      break;
    case StmtKind::kPrint:
      write_str(out, eval(*s.expr, scope));
      break;
    case StmtKind::kIf:
      return exec(truthy(eval(*s.expr, scope)) ? s.body : s.other, scope, out);
    case StmtKind::kFor:
      exec_for(s, scope, eval(*s.expr, scope), 0, out);
      break;
    case StmtKind::kSet:
      assign(*s.target, eval(*s.expr, scope), scope);
      break;
    case StmtKind::kSetBlock:
      return exec_set_block(s, scope);
    case StmtKind::kMacro:
      assign(*s.target, make_macro(*s.macro, scope), scope);
      break;
    case StmtKind::kCallBlock:
      exec_call_block(s, scope, out);
      break;
    case StmtKind::kFilterBlock:
      return exec_filter_block(s, scope, out);
    case StmtKind::kWith:
      return exec_with(s, scope, out);
    case StmtKind::kScope:
      return exec(s.body, inner(scope, s.own), out);
    case StmtKind::kBlock:
      exec(s.body, inner(s.scoped ? scope : root_, s.own), out);
      break;
    case StmtKind::kGeneration: {
      Args none;
      write_str(out, call(make_macro(*s.macro, scope), none));
      break;
    }
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
    case StmtKind::kNeedsLoader:
      type_error("'" + s.name + "': a chat template cannot load other templates");
  }
  return Flow::kNext;
}

// The items of a loop that pass its `if`, tested one at a time as the loop goes.
struct LoopFilterIter : Iter {
  Interp& in;
  const Stmt& s;
  ScopePtr scope;
  std::unique_ptr<Iter> source;
  LoopFilterIter(Interp& i, const Stmt& stmt, ScopePtr sc, std::unique_ptr<Iter> src)
      : in(i), s(stmt), scope(std::move(sc)), source(std::move(src)) {}
  bool next(Val& out) override {
    while (source->next(out)) {
      in.budget.step();
      ScopePtr test = in.inner(scope);
      in.assign(*s.target, out, test);
      if (truthy(in.eval(*s.test, test))) return true;
    }
    return false;
  }
};

namespace {

// Hands a loop object to `keep` at the end if a template still holds on to it.
struct LoopKeeper {
  std::shared_ptr<LoopObj>& loop;
  std::vector<std::shared_ptr<Obj>>& kept;
  ~LoopKeeper() {
    if (loop.use_count() > 1) kept.push_back(loop);
  }
};

}  // namespace

void Interp::exec_for(const Stmt& s, const ScopePtr& scope, const Val& items, int64_t depth0,
                      StrBuilder& out) {
  auto loop = std::make_shared<LoopObj>();
  LoopKeeper keeper{loop, mutable_};
  loop->charge(budget, sizeof(LoopObj));
  loop->in = this;
  loop->it = iterate(budget, items);
  if (s.test) loop->it = std::make_unique<LoopFilterIter>(*this, s, scope, std::move(loop->it));
  else loop->source = items;
  loop->stmt = s.recursive ? &s : nullptr;
  loop->scope = scope;
  loop->depth0 = depth0;
  auto loop_name = ast_.name_ids.find("loop");
  ScopePtr frame;
  bool any = false;
  while (loop->advance()) {
    any = true;
    if (frame && frame.use_count() == 1 && !frame->captured) frame->vars = s.own;
    else frame = inner(scope, s.own);
    if (loop_name != ast_.name_ids.end()) frame->set(loop_name->second, Val(Kind::kLoop, loop));
    assign(*s.target, loop->current, frame);
    if (exec(s.body, frame, out) == Flow::kBreak) break;
  }
  if (!any && !s.other.empty()) exec(s.other, inner(scope, s.other_own), out);
}

Val Interp::run_loop(LoopObj& parent, const Val& items) {
  if (!parent.stmt) type_error("The loop must have the 'recursive' marker to be called recursively.");
  if (calls_ >= kMaxCalls) fail("RecursionError", "maximum recursion depth exceeded");
  ++calls_;
  StrBuilder out(budget);
  Deeper deeper(*this);
  struct Leave {
    int& n;
    ~Leave() { --n; }
  } leave{calls_};
  exec_for(*parent.stmt, parent.scope, items, parent.depth0 + 1, out);
  return out.take();
}

Flow Interp::exec_set_block(const Stmt& s, const ScopePtr& scope) {
  StrBuilder out(budget);
  if (Flow f = exec(s.body, inner(scope, s.own), out); f != Flow::kNext) return f;
  Val v = out.take();
  if (s.expr) v = eval_filter(*s.expr, scope, &v);
  assign(*s.target, v, scope);
  return Flow::kNext;
}

Flow Interp::exec_filter_block(const Stmt& s, const ScopePtr& scope, StrBuilder& out) {
  StrBuilder block(budget);
  ScopePtr frame = inner(scope, s.own);
  if (Flow f = exec(s.body, frame, block); f != Flow::kNext) return f;
  Val v = block.take();
  v = eval_filter(*s.expr, frame, &v);
  if (!v.is_string()) type_error("sequence item 0: expected str instance, " + type_name(v) + " found");
  out.add(v.str());
  return Flow::kNext;
}

Flow Interp::exec_with(const Stmt& s, const ScopePtr& scope, StrBuilder& out) {
  ScopePtr frame = inner(scope, s.own);
  for (size_t k = 0; k < s.targets.size(); ++k) assign(*s.targets[k], eval(*s.values[k], scope), frame);
  return exec(s.body, frame, out);
}

void Interp::assign(const Expr& target, const Val& value, const ScopePtr& scope) {
  if (target.op == Op::kName) return scope->set(target.name, value);
  if (target.op == Op::kNsRef) {
    const Val* ns = scope->find(target.name);
    if (!ns || !ns->is(Kind::kNamespace))
      fail("TemplateRuntimeError", "cannot assign attribute on non-namespace object");
    if (target.text[0] == '_')
      fail("SecurityError", "a namespace cannot hold the attribute '" + target.text + "'");
    auto& obj = ns->as<NamespaceObj>();
    if (Val* old = obj.find(target.text)) {
      *old = value;
      return;
    }
    obj.charge(budget, sizeof(Val) + target.text.size() + 32);
    obj.attributes.emplace_back(target.text, value);
    return;
  }
  std::vector<Val> items = to_vector(budget, value);
  if (items.size() != target.args.size())
    value_error(items.size() < target.args.size()
                    ? "not enough values to unpack (expected " + std::to_string(target.args.size()) +
                          ", got " + std::to_string(items.size()) + ")"
                    : "too many values to unpack (expected " + std::to_string(target.args.size()) + ")");
  for (size_t k = 0; k < items.size(); ++k) assign(*target.args[k], items[k], scope);
}

Val Interp::make_macro(const MacroDef& def, const ScopePtr& scope) {
  auto m = std::make_shared<MacroObj>();
  m->charge(budget, sizeof(MacroObj));
  m->def = &def;
  m->scope = scope;
  for (ScopePtr s = scope; s && !s->captured; s = s->parent) {
    s->captured = true;
    captured_.push_back(s);
  }
  return Val(Kind::kMacro, std::move(m));
}

std::string macro_name(const Val& macro) { return macro.as<MacroObj>().def->name; }

// The frame of a macro call with all parameters bound.
ScopePtr Interp::bind_macro(const MacroObj& m, Args& args) {
  const MacroDef& d = *m.def;
  ScopePtr frame = inner(m.scope, d.own);
  auto take = [&](std::string_view name) -> std::optional<Val> {
    for (size_t k = 0; k < args.kw.size(); ++k) {
      if (args.kw[k].first != name) continue;
      Val v = std::move(args.kw[k].second);
      args.kw.erase(args.kw.begin() + static_cast<std::ptrdiff_t>(k));
      return v;
    }
    return std::nullopt;
  };
  size_t first_default = d.params.size() - d.defaults.size();
  size_t given = std::min(args.pos.size(), d.params.size());
  bool caller_param = false;
  for (size_t k = 0; k < given; ++k) {
    frame->set(d.params[k], args.pos[k]);
    if (take(d.param_names[k]))
      type_error("macro '" + d.name + "' got several values for '" + d.param_names[k] + "'");
  }
  std::vector<size_t> missing;
  for (size_t k = given; k < d.params.size(); ++k) {
    caller_param |= d.param_names[k] == "caller";
    if (auto v = take(d.param_names[k])) frame->set(d.params[k], *v);
    else missing.push_back(k);
  }
  for (size_t k : missing) {  // in order: a default may use parameters before it
    Val v = k >= first_default ? eval(*d.defaults[k - first_default], frame)
                               : make_undefined_hint("parameter '" + d.param_names[k] + "' was not provided");
    frame->set(d.params[k], std::move(v));
  }
  if (d.uses_caller && !caller_param) {
    auto v = take("caller");
    frame->set(ast_.name_ids.find("caller")->second, v ? *v : make_undefined_hint("No caller defined"));
  }
  if (d.uses_kwargs) {
    auto kwargs = new_dict(budget);
    for (auto& [k, v] : args.kw) kwargs->put(budget, str(k), v);
    frame->set(ast_.name_ids.find("kwargs")->second, make_dict(budget, std::move(kwargs)));
  } else if (!args.kw.empty()) {
    type_error("macro '" + d.name + "' takes no keyword argument '" + args.kw[0].first + "'");
  }
  if (d.uses_varargs) {
    std::vector<Val> rest(args.pos.begin() + static_cast<std::ptrdiff_t>(given), args.pos.end());
    frame->set(ast_.name_ids.find("varargs")->second, make_list(budget, std::move(rest), Kind::kTuple));
  } else if (args.pos.size() > d.params.size()) {
    type_error("macro '" + d.name + "' takes not more than " + std::to_string(d.params.size()) +
               " argument(s)");
  }
  return frame;
}

Val Interp::call_macro(const MacroObj& m, Args& args) {
  struct Leave {
    int& n;
    ~Leave() { --n; }
  };
  if (calls_ >= kMaxCalls) fail("RecursionError", "maximum recursion depth exceeded");
  ++calls_;
  Leave leave{calls_};
  int line = line_;
  ScopePtr frame = bind_macro(m, args);
  StrBuilder out(budget);
  exec(m.def->body, frame, out);
  line_ = line;
  return out.take();
}

void Interp::exec_call_block(const Stmt& s, const ScopePtr& scope, StrBuilder& out) {
  Val caller = make_macro(*s.macro, scope);
  write_str(out, eval_call(*s.expr, scope, &caller));
}

Val Interp::call_block(const Stmt& block) {
  if (calls_ >= kMaxCalls) fail("RecursionError", "maximum recursion depth exceeded");
  ++calls_;
  struct Leave {
    int& n;
    ~Leave() { --n; }
  } leave{calls_};
  StrBuilder out(budget);
  exec(block.body, inner(root_, block.own), out);
  return out.take();
}

// Loops.

bool LoopObj::peek() {
  if (has_peeked) return true;
  if (!rest.empty()) {
    peeked = std::move(rest.back());
    rest.pop_back();
    return has_peeked = true;
  }
  if (ended || !it || !it->next(peeked)) {
    ended = true;
    return false;
  }
  return has_peeked = true;
}

bool LoopObj::advance() {
  in->budget.step();
  if (!peek()) return false;
  if (index0 >= 0) {
    previous = std::move(current);
    has_previous = true;
  }
  current = std::move(peeked);
  has_peeked = false;
  ++index0;
  return true;
}

Int LoopObj::total() {
  if (length) return *length;
  if (!source.is_undefined() || source.obj)
    if (auto n = length_of(source)) return *(length = n);
  std::vector<Val> ahead;
  while (peek()) {
    in->budget.step();
    ahead.push_back(std::move(peeked));
    has_peeked = false;
  }
  length = static_cast<Int>(ahead.size()) + index0 + 1;
  rest.assign(std::make_move_iterator(ahead.rbegin()), std::make_move_iterator(ahead.rend()));
  return *length;
}

bool loop_next_pair(const Val& loop, Val& out) {  // iterating `loop` itself goes on with the loop's items
  auto& l = loop.as<LoopObj>();
  if (!l.advance()) return false;
  out = make_pair(l.in->budget, l.current, loop);
  return true;
}
std::optional<Int> loop_length(const Val& loop) { return loop.as<LoopObj>().total(); }
std::string loop_text(const Val& loop) {
  auto& l = loop.as<LoopObj>();
  return "<LoopContext " + std::to_string(l.index0 + 1) + "/" + int_text(l.total()) + ">";
}

}  // namespace brisk::jinja
