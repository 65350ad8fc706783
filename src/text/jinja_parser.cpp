// Expressions. Precedence from loose to tight: if-else, or, and, not, comparisons, + -, ~, * / // %, **, unary,
// then postfix, filters and tests.
#include <algorithm>
#include <utility>

#include "text/jinja_parser_impl.h"
#include "text/jinja_tables.h"

namespace brisk::jinja {

bool Parser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  take();
  return true;
}
bool Parser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}
std::string Parser::describe() const {
  switch (now().kind) {
    case Tok::kEnd:
      return "the end of the template";
    case Tok::kPrintEnd:
      return "'}}'";
    case Tok::kTagEnd:
      return "'%}'";
    default:
      return "'" + now().text.substr(0, 40) + "'";
  }
}
void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) bad("expected '" + std::string(op) + "', got " + describe());
}
void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) bad("expected '" + std::string(name) + "', got " + describe());
}
std::string Parser::expect_any_name() {
  if (now().kind != Tok::kName) bad("expected a name, got " + describe());
  return take().text;
}

ExprPtr Parser::make(Op op, int line) const {
  auto e = std::make_unique<Expr>();
  e->op = op;
  e->line = line;
  return e;
}
ExprPtr Parser::binary(Op op, ExprPtr x, ExprPtr y) const {
  auto e = make(op, x->line);
  e->args.push_back(std::move(x));
  e->args.push_back(std::move(y));
  return e;
}

void Parser::link() {
  if (++chain_ > kMaxChain) bad("an expression of more than " + std::to_string(kMaxChain) + " operators");
}

void Parser::unknown(const char* what, const std::string& name) {
  if (!soft_) unknown_.push_back({now().line, std::string("there is no ") + what + " '" + name + "'"});
}

ExprPtr Parser::expression(bool with_condition) {
  Nest nest(*this);
  int outer_chain = chain_;
  ExprPtr e = with_condition ? conditional() : or_expr();
  chain_ = outer_chain;
  return e;
}

ExprPtr Parser::conditional() {
  int line = now().line;
  size_t unknown_before = unknown_.size();
  ExprPtr e = or_expr();
  if (!is_name("if")) return e;
  // What a conditional holds may be unknown: it fails when it is reached.
  unknown_.erase(unknown_.begin() + static_cast<std::ptrdiff_t>(unknown_before), unknown_.end());
  bool outer_soft = std::exchange(soft_, true);
  while (skip_name("if")) {
    link();
    auto c = make(Op::kCond, line);
    c->args.push_back(std::move(e));
    c->args.push_back(or_expr());
    c->args.push_back(skip_name("else") ? expression() : nullptr);
    e = std::move(c);
    line = now().line;
  }
  soft_ = outer_soft;
  return e;
}

ExprPtr Parser::or_expr() {
  ExprPtr e = and_expr();
  while (skip_name("or")) link(), e = binary(Op::kOr, std::move(e), and_expr());
  return e;
}
ExprPtr Parser::and_expr() {
  ExprPtr e = not_expr();
  while (skip_name("and")) link(), e = binary(Op::kAnd, std::move(e), not_expr());
  return e;
}
ExprPtr Parser::not_expr() {
  int line = now().line;
  if (!skip_name("not")) return comparison();
  Nest nest(*this);
  auto e = make(Op::kNot, line);
  e->args.push_back(not_expr());
  return e;
}

ExprPtr Parser::comparison() {
  constexpr std::string_view signs[] = {"==", "!=", "<", "<=", ">", ">="};
  ExprPtr first = sum();
  ExprPtr e;
  while (true) {
    auto sign =
        std::find_if(std::begin(signs), std::end(signs), [&](std::string_view s) { return is_op(s); });
    Cmp op;
    if (sign != std::end(signs)) {
      take();
      op = static_cast<Cmp>(sign - std::begin(signs));
    } else if (skip_name("in")) {
      op = Cmp::kIn;
    } else if (is_name("not") && look().kind == Tok::kName && look().text == "in") {
      take();
      take();
      op = Cmp::kNotIn;
    } else {
      break;
    }
    if (!e) {
      e = make(Op::kCompare, first->line);
      e->args.push_back(std::move(first));
    }
    e->ops.push_back(op);
    e->args.push_back(sum());
  }
  return e ? std::move(e) : std::move(first);
}

ExprPtr Parser::sum() {
  ExprPtr e = concat();
  while (is_op("+") || is_op("-")) {
    link();
    Op op = take().text == "+" ? Op::kAdd : Op::kSub;
    e = binary(op, std::move(e), concat());
  }
  return e;
}
ExprPtr Parser::concat() {
  ExprPtr first = product();
  if (!is_op("~")) return first;
  auto e = make(Op::kConcat, first->line);
  e->args.push_back(std::move(first));
  while (skip_op("~")) e->args.push_back(product());
  return e;
}
ExprPtr Parser::product() {
  ExprPtr e = power();
  while (true) {
    Op op = is_op("*")    ? Op::kMul
            : is_op("/")  ? Op::kDiv
            : is_op("//") ? Op::kFloorDiv
            : is_op("%")  ? Op::kMod
                          : Op::kConst;
    if (op == Op::kConst) return e;
    link();
    take();
    e = binary(op, std::move(e), power());
  }
}
ExprPtr Parser::power() {
  ExprPtr e = unary();
  while (skip_op("**")) link(), e = binary(Op::kPow, std::move(e), unary());  // from the left, unlike Python
  return e;
}

ExprPtr Parser::unary(bool with_filter) {
  Nest nest(*this);
  int line = now().line;
  ExprPtr e;
  if (is_op("-") || is_op("+")) {
    e = make(take().text == "-" ? Op::kNeg : Op::kPos, line);
    e->args.push_back(unary(false));
  } else {
    e = primary();
  }
  e = postfix(std::move(e));
  return with_filter ? filters(std::move(e)) : std::move(e);
}

ExprPtr Parser::primary() {
  const Token t = take();
  auto constant = [&](Val v) {
    auto e = make(Op::kConst, t.line);
    e->value = std::move(v);
    return e;
  };
  if (t.kind == Tok::kName) {
    if (t.text == "true" || t.text == "True") return constant(Val::boolean(true));
    if (t.text == "false" || t.text == "False") return constant(Val::boolean(false));
    if (t.text == "none" || t.text == "None") return constant(Val::none());
    auto e = make(Op::kName, t.line);
    e->name = ast_.intern(t.text);
    e->text = t.text;
    return e;
  }
  if (t.kind == Tok::kString) {
    std::string s = t.text;
    while (now().kind == Tok::kString) s += take().text;
    return constant(make_const_str(std::move(s)));
  }
  if (t.kind == Tok::kInt) return constant(Val::integer(t.i));
  if (t.kind == Tok::kFloat) return constant(Val::real(t.f));
  if (t.kind == Tok::kOperator && t.text == "(") {
    ExprPtr e = tuple(TupleOf::kExpressions, "", true);
    expect_op(")");
    return e;
  }
  if (t.kind == Tok::kOperator && t.text == "[") return list();
  if (t.kind == Tok::kOperator && t.text == "{") return dict();
  if (t.kind != Tok::kEnd) --at_;
  bad("unexpected " + describe());
}

ExprPtr Parser::list() {
  auto e = make(Op::kList, now().line);
  while (!is_op("]")) {
    if (!e->args.empty()) expect_op(",");
    if (is_op("]")) break;
    e->args.push_back(expression());
  }
  take();
  return e;
}

ExprPtr Parser::dict() {
  auto e = make(Op::kDict, now().line);
  while (!is_op("}")) {
    if (!e->args.empty()) expect_op(",");
    if (is_op("}")) break;
    e->args.push_back(expression());
    expect_op(":");
    e->args.push_back(expression());
  }
  take();
  return e;
}

ExprPtr Parser::postfix(ExprPtr e) {
  for (;; link()) {
    if (is_op(".") || is_op("[")) e = subscript(std::move(e));
    else if (is_op("(")) e = call(std::move(e));
    else return e;
  }
}

ExprPtr Parser::filters(ExprPtr e) {
  for (;; link()) {
    if (is_op("|")) e = filter_chain(std::move(e), false);
    else if (is_name("is")) e = test(std::move(e));
    else if (is_op("(")) e = call(std::move(e));
    else return e;
  }
}

ExprPtr Parser::filter_chain(ExprPtr e, bool first_without_pipe) {
  while (is_op("|") || first_without_pipe) {
    if (!first_without_pipe) take();
    first_without_pipe = false;
    auto f = make(Op::kFilter, now().line);
    f->text = expect_any_name();
    while (skip_op(".")) f->text += "." + expect_any_name();
    f->filter = find_filter(f->text);
    if (!f->filter) unknown("filter", f->text);
    link();
    f->args.push_back(std::move(e));
    if (is_op("(")) call_arguments(*f);
    e = std::move(f);
  }
  return e;
}

ExprPtr Parser::test(ExprPtr e) {
  int line = take().line;
  bool negated = skip_name("not");
  auto t = make(Op::kTest, line);
  t->text = expect_any_name();
  while (skip_op(".")) t->text += "." + expect_any_name();
  t->test = find_test(t->text);
  if (!t->test) unknown("test", t->text);
  t->args.push_back(std::move(e));
  bool starts_value = now().kind == Tok::kName || now().kind == Tok::kString || now().kind == Tok::kInt ||
                      now().kind == Tok::kFloat || is_op("[") || is_op("{");
  if (is_op("(")) {
    call_arguments(*t);
  } else if (starts_value && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) bad("tests cannot be chained with 'is'");
    t->args.push_back(postfix(primary()));
  }
  if (!negated) return t;
  auto n = make(Op::kNot, line);
  n->args.push_back(std::move(t));
  return n;
}

ExprPtr Parser::subscript(ExprPtr e) {
  int line = now().line;
  if (take().text == ".") {
    if (now().kind == Tok::kName) {
      auto g = make(Op::kGetattr, line);
      g->text = take().text;
      g->args.push_back(std::move(e));
      return g;
    }
    if (now().kind != Tok::kInt) bad("expected a name or a number, got " + describe());
    auto index = make(Op::kConst, line);
    index->value = Val::integer(take().i);
    return binary(Op::kGetitem, std::move(e), std::move(index));
  }
  std::vector<ExprPtr> items;
  while (!is_op("]")) {
    if (!items.empty()) expect_op(",");
    items.push_back(subscribed());
  }
  take();
  if (items.empty()) bad("expected a subscript");
  if (items.size() == 1 && items[0]->op == Op::kSlice) {
    items[0]->args[0] = std::move(e);
    return std::move(items[0]);
  }
  if (items.size() == 1) return binary(Op::kGetitem, std::move(e), std::move(items[0]));
  auto t = make(Op::kTuple, line);
  for (ExprPtr& item : items) {
    if (item->op == Op::kSlice) bad("a slice among several subscripts");
    t->args.push_back(std::move(item));
  }
  return binary(Op::kGetitem, std::move(e), std::move(t));
}

// One subscript: an expression, or a slice whose args[0] is filled in by the caller.
ExprPtr Parser::subscribed() {
  int line = now().line;
  auto s = make(Op::kSlice, line);
  s->args.resize(4);
  if (!is_op(":")) {
    ExprPtr e = expression();
    if (!is_op(":")) return e;
    s->args[1] = std::move(e);
  }
  expect_op(":");
  auto absent = [&] { return is_op("]") || is_op(",") || is_op(":"); };
  if (!absent()) s->args[2] = expression();
  if (skip_op(":") && !absent()) s->args[3] = expression();
  return s;
}

ExprPtr Parser::call(ExprPtr callee) {
  auto e = make(Op::kCall, now().line);
  e->args.push_back(std::move(callee));
  call_arguments(*e);
  return e;
}

void Parser::call_arguments(Expr& into) {
  expect_op("(");
  bool comma_needed = false;
  while (!is_op(")")) {
    if (comma_needed) {
      expect_op(",");
      if (is_op(")")) break;
    }
    comma_needed = true;
    if (is_op("*")) {
      if (into.star || into.star_star) bad("an argument after *arguments or **arguments");
      take();
      into.star = expression();
    } else if (is_op("**")) {
      if (into.star_star) bad("**arguments twice");
      take();
      into.star_star = expression();
    } else if (now().kind == Tok::kName && look().kind == Tok::kOperator && look().text == "=") {
      if (into.star_star) bad("an argument after **arguments");
      std::string name = take().text;
      take();
      for (const Keyword& k : into.keywords)
        if (k.name == name) bad("argument '" + name + "' twice");
      into.keywords.push_back({std::move(name), expression()});
    } else {
      if (into.star || into.star_star || !into.keywords.empty()) bad("a plain argument after a named one");
      into.args.push_back(expression());
    }
  }
  expect_op(")");
}

bool Parser::tuple_ends(std::string_view end_word) const {
  Tok k = now().kind;
  if (k == Tok::kPrintEnd || k == Tok::kTagEnd || k == Tok::kEnd || is_op(")")) return true;
  return !end_word.empty() && is_name(end_word);
}

ExprPtr Parser::tuple(TupleOf of, std::string_view end_word, bool in_parentheses) {
  int line = now().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (!tuple_ends(end_word)) {
    items.push_back(of == TupleOf::kTargets ? target_item() : expression(of == TupleOf::kExpressions));
    if (!is_op(",")) break;
    is_tuple = true;
    take();
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !in_parentheses) bad("expected an expression, got " + describe());
  auto e = make(Op::kTuple, line);
  e->args = std::move(items);
  return e;
}

// Item of an assignment target: a name, `namespace.name`, or a tuple of them in parentheses.
ExprPtr Parser::target_item() {
  if (namespace_targets_ && now().kind == Tok::kName && look().kind == Tok::kOperator && look().text == ".") {
    auto e = make(Op::kNsRef, now().line);
    e->name = ast_.intern(now().text);
    take();
    take();
    e->text = expect_any_name();
    return e;
  }
  return primary();
}

namespace {
void check_target(const Expr& e) {
  bool reserved = e.op == Op::kName && (e.text == "true" || e.text == "false" || e.text == "none" ||
                                        e.text == "True" || e.text == "False" || e.text == "None");
  bool fine =
      (e.op == Op::kName && !reserved) || e.op == Op::kNsRef || e.op == Op::kTuple || e.op == Op::kList;
  if (!fine) throw SyntaxError{e.line, "cannot assign to this expression"};
  if (e.op == Op::kTuple || e.op == Op::kList)
    for (const ExprPtr& a : e.args) check_target(*a);
}
}  // namespace

ExprPtr Parser::assign_target(bool with_tuple, bool with_namespace, std::string_view end_word) {
  namespace_targets_ = with_namespace;
  ExprPtr e = with_tuple ? tuple(TupleOf::kTargets, end_word) : target_item();
  namespace_targets_ = false;
  check_target(*e);
  return e;
}

}  // namespace brisk::jinja
