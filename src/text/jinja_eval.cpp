// Expressions.
#include <algorithm>

#include "text/jinja_interp.h"

namespace brisk::jinja {

Val Interp::eval_name(const Expr& e, const Scope& scope) {
  if (const Val* v = scope.find(e.name)) return *v;
  if (const GlobalEntry* g = find_global(e.text)) {
    auto f = std::make_shared<FunctionObj>();
    f->name = g->name;
    f->call = g->call;
    return Val(Kind::kFunction, std::move(f));
  }
  if (e.text == "self" && !ast_.blocks.empty()) return Val(Kind::kSelf, nullptr);
  return make_undefined("", e.text);
}

Val Interp::eval(const Expr& e, const ScopePtr& scope) {
  Deeper deeper(*this);
  budget.step();
  auto arg = [&](size_t k) { return eval(*e.args[k], scope); };
  switch (e.op) {
    case Op::kConst:
      return e.value;
    case Op::kName:
      return eval_name(e, *scope);
    case Op::kList:
    case Op::kTuple: {
      std::vector<Val> items;
      items.reserve(e.args.size());
      for (const ExprPtr& a : e.args) items.push_back(eval(*a, scope));
      return make_list(budget, std::move(items), e.op == Op::kList ? Kind::kList : Kind::kTuple);
    }
    case Op::kDict:
      return eval_dict(e, scope);
    case Op::kGetattr:
      return getattr(arg(0), e.text);
    case Op::kGetitem: {
      Val object = arg(0);
      return getitem(object, arg(1));
    }
    case Op::kSlice:
      return eval_slice(e, scope);
    case Op::kCall:
      return eval_call(e, scope, nullptr);
    case Op::kFilter:
      return eval_filter(e, scope, nullptr);
    case Op::kTest:
      return Val::boolean(eval_test(e, scope));
    case Op::kNot:
      return Val::boolean(!truthy(arg(0)));
    case Op::kNeg:
      return negate(arg(0));
    case Op::kPos:
      return positive(arg(0));
    case Op::kAnd: {
      Val x = arg(0);
      return truthy(x) ? arg(1) : x;
    }
    case Op::kOr: {
      Val x = arg(0);
      return truthy(x) ? x : arg(1);
    }
    case Op::kCond:
      if (truthy(arg(1))) return arg(0);
      if (e.args[2]) return arg(2);
      return make_undefined_hint("the inline if-expression on line " + std::to_string(e.line) +
                                 " evaluated to false and no else section was defined.");
    case Op::kCompare:
      return Val::boolean(eval_compare(e, scope));
    case Op::kConcat: {
      std::vector<Val> parts;
      for (const ExprPtr& a : e.args) parts.push_back(eval(*a, scope));
      return join_concat(budget, parts);
    }
    case Op::kNsRef:
      break;
    default: {
      Val x = arg(0);
      return arithmetic(budget, e.op, x, arg(1));
    }
  }
  fail("TemplateRuntimeError", "not an expression");
}

Val Interp::eval_dict(const Expr& e, const ScopePtr& scope) {
  auto d = new_dict(budget);
  for (size_t k = 0; k + 1 < e.args.size(); k += 2) {
    Val key = eval(*e.args[k], scope);
    d->put(budget, key, eval(*e.args[k + 1], scope));
  }
  return make_dict(budget, std::move(d));
}

Val Interp::eval_slice(const Expr& e, const ScopePtr& scope) {
  Val object = eval(*e.args[0], scope);
  Val part[3];
  for (size_t k = 0; k < 3; ++k) part[k] = e.args[k + 1] ? eval(*e.args[k + 1], scope) : Val::none();
  return slice(budget, object, part[0], part[1], part[2]);
}

bool Interp::eval_compare(const Expr& e, const ScopePtr& scope) {
  Val x = eval(*e.args[0], scope);
  for (size_t k = 0; k < e.ops.size(); ++k) {
    Val y = eval(*e.args[k + 1], scope);
    bool holds = false;
    switch (e.ops[k]) {
      case Cmp::kEq:
        holds = equal(budget, x, y);
        break;
      case Cmp::kNe:
        holds = !equal(budget, x, y);
        break;
      case Cmp::kLt:
        holds = compare(budget, x, y, Order::kLt);
        break;
      case Cmp::kLe:
        holds = compare(budget, x, y, Order::kLe);
        break;
      case Cmp::kGt:
        holds = compare(budget, x, y, Order::kGt);
        break;
      case Cmp::kGe:
        holds = compare(budget, x, y, Order::kGe);
        break;
      case Cmp::kIn:
        holds = contains(budget, y, x);
        break;
      case Cmp::kNotIn:
        holds = !contains(budget, y, x);
        break;
    }
    if (!holds) return false;
    x = std::move(y);
  }
  return true;
}

Args Interp::eval_args(const Expr& e, const ScopePtr& scope, size_t first) {
  Args args;
  for (size_t k = first; k < e.args.size(); ++k) args.pos.push_back(eval(*e.args[k], scope));
  if (e.star)
    for (Val& v : to_vector(budget, eval(*e.star, scope))) args.pos.push_back(std::move(v));
  for (const Keyword& k : e.keywords) args.kw.emplace_back(k.name, eval(*k.value, scope));
  if (e.star_star) {
    Val more = eval(*e.star_star, scope);
    if (!more.is(Kind::kDict)) type_error("argument after ** must be a mapping, not " + type_name(more));
    for (auto& [k, v] : more.dict().items) {
      if (!k.is_string()) type_error("keywords must be strings");
      for (auto& [name, old] : args.kw)
        if (name == k.str().bytes) type_error("got multiple values for keyword argument '" + name + "'");
      args.kw.emplace_back(k.str().bytes, v);
      budget.step(args.kw.size() / 8);
    }
  }
  return args;
}

Val Interp::eval_call(const Expr& e, const ScopePtr& scope, const Val* caller) {
  Val f = eval(*e.args[0], scope);
  Args args = eval_args(e, scope, 1);
  if (caller) {
    for (auto& [name, v] : args.kw)
      if (name == "caller") type_error("the caller is given twice");
    args.kw.emplace_back("caller", *caller);
  }
  line_ = e.line;
  return call(f, args);
}

Val Interp::eval_filter(const Expr& e, const ScopePtr& scope, const Val* piped) {
  if (!e.filter) fail("TemplateRuntimeError", "No filter named '" + e.text + "' found.");
  Val value;
  if (!e.args[0]) value = *piped;
  else if (e.args[0]->op == Op::kFilter) value = eval_filter(*e.args[0], scope, piped);
  else value = eval(*e.args[0], scope);
  Args args = eval_args(e, scope, 1);
  args.pos.insert(args.pos.begin(), std::move(value));
  line_ = e.line;
  return e.filter->call(*this, args);
}

bool Interp::eval_test(const Expr& e, const ScopePtr& scope) {
  if (!e.test) fail("TemplateRuntimeError", "No test named '" + e.text + "' found.");
  Val value = eval(*e.args[0], scope);
  Args args = eval_args(e, scope, 1);
  args.pos.insert(args.pos.begin(), std::move(value));
  return e.test->call(*this, args);
}

Val Interp::apply_filter(std::string_view name, Args& args) {
  const FilterEntry* f = find_filter(name);
  if (!f) fail("TemplateRuntimeError", "No filter named '" + std::string(name) + "'.");
  Deeper deeper(*this);
  return f->call(*this, args);
}

bool Interp::apply_test(std::string_view name, Args& args) {
  const TestEntry* t = find_test(name);
  if (!t) fail("TemplateRuntimeError", "No test named '" + std::string(name) + "'.");
  return t->call(*this, args);
}

Val Interp::call(const Val& f, Args& args) {
  Deeper deeper(*this);
  budget.step();
  switch (f.kind) {
    case Kind::kUndefined:
      fail_undefined(f);
    case Kind::kMacro:
      return call_macro(f.as<MacroObj>(), args);
    case Kind::kFunction: {
      auto& fn = f.as<FunctionObj>();
      return fn.block ? call_block(*fn.block) : fn.call(*this, args);
    }
    case Kind::kMethod:
      return f.as<MethodObj>().method->call(*this, f.as<MethodObj>().self, args);
    case Kind::kLoop: {
      if (args.pos.size() != 1) type_error("a recursive loop takes one argument");
      return run_loop(f.as<LoopObj>(), args.pos[0]);
    }
    case Kind::kJoiner: {
      auto& j = f.as<JoinerObj>();
      if (std::exchange(j.used, true)) return j.separator;
      return str("");
    }
    default:
      type_error("'" + type_name(f) + "' object is not callable");
  }
}

namespace {

std::string owner_name(const Val& v) {
  if (v.is_none()) return "None";
  if (v.is(Kind::kNamespace)) return "Namespace object";
  return type_name(v) + " object";
}

std::optional<Val> loop_attribute(LoopObj& l, std::string_view name) {
  if (name == "index") return Val::integer(l.index0 + 1);
  if (name == "index0") return Val::integer(l.index0);
  if (name == "first") return Val::boolean(l.index0 == 0);
  if (name == "last") return Val::boolean(!l.peek());
  if (name == "length") return Val::integer(l.total());
  if (name == "revindex") return Val::integer(l.total() - l.index0);
  if (name == "revindex0") return Val::integer(l.total() - l.index0 - 1);
  if (name == "depth") return Val::integer(l.depth0 + 1);
  if (name == "depth0") return Val::integer(l.depth0);
  if (name == "previtem")
    return l.has_previous ? l.previous : make_undefined_hint("there is no previous item");
  if (name == "nextitem") return l.peek() ? l.peeked : make_undefined_hint("there is no next item");
  return std::nullopt;
}

std::optional<Val> macro_attribute(Interp& in, const MacroDef& d, std::string_view name) {
  if (name == "name") return in.str(d.name);
  if (name == "catch_kwargs") return Val::boolean(d.uses_kwargs);
  if (name == "catch_varargs") return Val::boolean(d.uses_varargs);
  if (name == "caller") return Val::boolean(d.uses_caller);
  if (name != "arguments") return std::nullopt;
  std::vector<Val> names;
  for (const std::string& p : d.param_names) names.push_back(in.str(p));
  return make_list(in.budget, std::move(names), Kind::kTuple);
}

std::optional<Val> number_attribute(const Val& v, std::string_view name) {
  bool whole = v.is_integral();
  if (name == "real") return whole ? Val::integer(v.as_int()) : v;
  if (name == "imag") return whole ? Val::integer(0) : Val::real(0);
  if (whole && name == "numerator") return Val::integer(v.as_int());
  if (whole && name == "denominator") return Val::integer(1);
  return std::nullopt;
}

}  // namespace

std::optional<Val> Interp::plain_attribute(const Val& object, std::string_view name) {
  auto unsafe = [&] {
    return make_undefined_hint(
        "access to attribute '" + std::string(name) + "' of '" + type_name(object) + "' object is unsafe.",
        "SecurityError");
  };
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__")) return unsafe();
  switch (object.kind) {
    case Kind::kNamespace:
      if (Val* v = object.as<NamespaceObj>().find(name)) return *v;
      return std::nullopt;
    case Kind::kLoop:
      if (auto v = loop_attribute(object.as<LoopObj>(), name)) return v;
      break;
    case Kind::kMacro:
      return macro_attribute(*this, *object.as<MacroObj>().def, name);
    case Kind::kCycler: {
      auto& c = object.as<CyclerObj>();
      if (name == "current") return c.items[c.pos];
      if (name == "pos") return Val::integer(static_cast<Int>(c.pos));
      break;
    }
    case Kind::kTuple:
      if (const char* const* f = object.list().fields)
        for (size_t k = 0; f[k]; ++k)
          if (name == f[k]) return object.list().items[k];
      break;
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      if (auto v = number_attribute(object, name)) return v;
      break;
    case Kind::kRange: {
      auto& r = object.as<RangeObj>();
      if (name == "start") return Val::integer(r.start);
      if (name == "stop") return Val::integer(r.stop);
      if (name == "step") return Val::integer(r.step);
      break;
    }
    case Kind::kSelf: {
      auto it = ast_.blocks.find(name);
      if (it == ast_.blocks.end()) return std::nullopt;
      auto f = std::make_shared<FunctionObj>();
      f->block = it->second;
      return Val(Kind::kFunction, std::move(f));
    }
    default:
      break;
  }
  const MethodEntry* m = find_method(object.kind, name);
  if (!m) return std::nullopt;
  if (!m->call) return unsafe();
  auto bound = std::make_shared<MethodObj>();
  bound->depth = depth_of(object) + 1;
  bound->method = m;
  bound->self = object;
  return Val(Kind::kMethod, std::move(bound));
}

std::optional<Val> Interp::plain_item(const Val& object, const Val& key) {
  auto position = [&](Int n) -> std::optional<Int> {
    if (!key.is_integral()) return std::nullopt;
    Int k = key.as_int();
    if (k < 0) k += n;
    return k >= 0 && k < n ? std::optional<Int>(k) : std::nullopt;
  };
  switch (object.kind) {
    case Kind::kUndefined:
      fail_undefined(object);
    case Kind::kString: {
      auto k = position(object.str().length);
      return k ? std::optional<Val>(char_at(budget, object, static_cast<size_t>(*k))) : std::nullopt;
    }
    case Kind::kList:
    case Kind::kTuple: {
      auto k = position(static_cast<Int>(object.list().items.size()));
      return k ? std::optional<Val>(object.list().items[static_cast<size_t>(*k)]) : std::nullopt;
    }
    case Kind::kRange: {
      auto& r = object.as<RangeObj>();
      auto k = position(r.length);
      return k ? std::optional<Val>(Val::integer(r.start + *k * r.step)) : std::nullopt;
    }
    case Kind::kDict: {
      if (key.is(Kind::kList) || key.is(Kind::kDict) || key.is(Kind::kView)) return std::nullopt;
      const Val* v = key.is_string() ? object.dict().find(key.str().bytes) : object.dict().find(budget, key);
      return v ? std::optional<Val>(*v) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

Val Interp::getattr(const Val& object, std::string_view name) {
  need_defined(object);
  if (auto v = plain_attribute(object, name)) return *v;
  if (object.is(Kind::kDict)) {
    if (const Val* v = object.dict().find(name)) return *v;
  }
  return make_undefined(owner_name(object), std::string(name));
}

Val Interp::getitem(const Val& object, const Val& key) {
  if (auto v = plain_item(object, key)) return *v;
  if (key.is_string()) {
    if (auto v = plain_attribute(object, key.str().bytes)) return *v;
    return make_undefined(owner_name(object), key.str().bytes);
  }
  StrBuilder name(budget);
  write_repr(name, key);
  return make_undefined_hint(owner_name(object) + " has no element " + name.bytes());
}

}  // namespace brisk::jinja
