// Statements.
#include <utility>

#include "text/jinja_parser_impl.h"
#include "text/jinja_scopes.h"
#include "text/jinja_tables.h"

namespace brisk::jinja {

Ast parse(std::string_view source) {
  if (source.size() > kMaxSource)
    throw SyntaxError{1, "the template has " + std::to_string(source.size()) + " bytes, the limit is " +
                             std::to_string(kMaxSource)};
  return Parser(source).parse();
}

Ast Parser::parse() {
  ast_.body = body({});
  if (!unknown_.empty()) throw unknown_[0];
  find_own_names(ast_);
  return std::move(ast_);
}

std::unique_ptr<Stmt> Parser::stmt(StmtKind kind, int line) const {
  auto s = std::make_unique<Stmt>();
  s->kind = kind;
  s->line = line;
  return s;
}

void Parser::end_tag() {
  if (now().kind != Tok::kTagEnd) bad("expected the end of the tag, got " + describe());
  take();
}

Body Parser::body(Words end_words) {
  Nest nest(*this);
  Body out;
  while (true) {
    int line = now().line;
    switch (now().kind) {
      case Tok::kEnd:
        if (end_words.size()) bad("the template ends before '" + std::string(*(end_words.end() - 1)) + "'");
        return out;
      case Tok::kText: {
        auto s = stmt(StmtKind::kText, line);
        s->text = make_const_str(take().text);
        out.push_back(std::move(s));
        break;
      }
      case Tok::kPrintBegin: {
        take();
        auto s = stmt(StmtKind::kPrint, line);
        s->expr = tuple(TupleOf::kExpressions);
        if (now().kind != Tok::kPrintEnd) bad("expected '}}', got " + describe());
        take();
        out.push_back(std::move(s));
        break;
      }
      default: {  // a tag begins
        take();
        for (std::string_view w : end_words)
          if (is_name(w)) return out;
        out.push_back(statement());
        end_tag();
      }
    }
  }
}

Body Parser::body_to(std::string_view end) {
  end_tag();
  Body out = body({end});
  take();
  return out;
}

std::unique_ptr<Stmt> Parser::statement() {
  int line = now().line;
  std::string tag = expect_any_name();
  if (tag == "for") return parse_for(line);
  if (tag == "if") return parse_if(line);
  if (tag == "set") return parse_set(line);
  if (tag == "with") return parse_with(line);
  if (tag == "macro") return parse_macro(line);
  if (tag == "call") return parse_call_block(line);
  if (tag == "filter") return parse_filter_block(line);
  if (tag == "block") return parse_block(line);
  if (tag == "generation") return parse_generation(line);
  if (tag == "autoescape") return parse_autoescape(line);
  if (tag == "print") {
    auto s = stmt(StmtKind::kPrint, line);
    s->expr = tuple(TupleOf::kExpressions);
    return s;
  }
  if (tag == "break" || tag == "continue") {
    if (loops_ == 0) bad("'" + tag + "' outside of a loop");
    return stmt(tag == "break" ? StmtKind::kBreak : StmtKind::kContinue, line);
  }
  if (tag == "include" || tag == "import" || tag == "from" || tag == "extends")
    return parse_loader(line, tag);
  bad("unknown tag '" + tag + "'");
}

std::unique_ptr<Stmt> Parser::parse_for(int line) {
  auto s = stmt(StmtKind::kFor, line);
  bool outer_soft = soft_;
  s->target = assign_target(true, false, "in");
  expect_name("in");
  s->expr = tuple(TupleOf::kNoCondition, "recursive");
  soft_ = false;  // the body is a frame of its own
  if (skip_name("if")) s->test = expression();
  s->recursive = skip_name("recursive");
  end_tag();
  ++loops_;
  s->body = body({"else", "endfor"});
  --loops_;
  if (skip_name("else")) {
    end_tag();
    s->other = body({"endfor"});
  }
  take();
  soft_ = outer_soft;
  return s;
}

std::unique_ptr<Stmt> Parser::parse_if(int line) {
  Nest nest(*this);
  auto s = stmt(StmtKind::kIf, line);
  bool outer_soft = soft_;
  soft_ = true;
  s->expr = tuple(TupleOf::kNoCondition);
  end_tag();
  s->body = body({"elif", "else", "endif"});
  // elif chains are long in real templates: built with a loop, nested to the right.
  Stmt* last = s.get();
  while (is_name("elif")) {
    int at = take().line;
    auto next = stmt(StmtKind::kIf, at);
    next->expr = tuple(TupleOf::kNoCondition);
    end_tag();
    next->body = body({"elif", "else", "endif"});
    Stmt* p = next.get();
    last->other.push_back(std::move(next));
    last = p;
    if (++nesting_ > kMaxNesting * 4) bad("too many elif");
  }
  for (Stmt* p = s.get(); p != last; p = p->other[0].get()) --nesting_;
  if (skip_name("else")) {
    end_tag();
    last->other = body({"endif"});
  }
  expect_name("endif");
  soft_ = outer_soft;
  return s;
}

std::unique_ptr<Stmt> Parser::parse_set(int line) {
  ExprPtr target = assign_target(true, true);
  if (skip_op("=")) {
    auto s = stmt(StmtKind::kSet, line);
    s->target = std::move(target);
    s->expr = tuple(TupleOf::kExpressions);
    return s;
  }
  auto s = stmt(StmtKind::kSetBlock, line);
  s->target = std::move(target);
  if (is_op("|")) s->expr = filter_chain(nullptr, false);
  bool outer_soft = std::exchange(soft_, false);
  s->body = body_to("endset");
  soft_ = outer_soft;
  return s;
}

std::unique_ptr<Stmt> Parser::parse_with(int line) {
  auto s = stmt(StmtKind::kWith, line);
  bool outer_soft = std::exchange(soft_, false);
  while (now().kind != Tok::kTagEnd) {
    if (!s->targets.empty()) expect_op(",");
    s->targets.push_back(assign_target(true, false, "="));
    expect_op("=");
    s->values.push_back(expression());
  }
  s->body = body_to("endwith");
  soft_ = outer_soft;
  return s;
}

void Parser::signature(MacroDef& m) {
  expect_op("(");
  while (!is_op(")")) {
    if (!m.params.empty()) expect_op(",");
    if (is_op(")") && !m.params.empty()) break;
    ExprPtr name = assign_target(false, false);
    if (name->op != Op::kName) bad("expected a parameter's name");
    m.params.push_back(name->name);
    m.param_names.push_back(name->text);
    if (skip_op("=")) m.defaults.push_back(expression());
    else if (!m.defaults.empty()) bad("a parameter without default after one with");
  }
  take();
}

namespace {

// Which of the special names a macro's body reads. A name that the body itself assigned first does not count.
struct SpecialNames {
  MacroDef& m;
  const Ast& ast;
  void name(const std::string& n) {
    if (n == "caller") m.uses_caller = true;
    if (n == "varargs") m.uses_varargs = true;
    if (n == "kwargs") m.uses_kwargs = true;
  }
  void visit(const ExprPtr& e) {
    if (!e) return;
    if (e->op == Op::kName) name(e->text);
    for (const ExprPtr& a : e->args) visit(a);
    for (const Keyword& k : e->keywords) visit(k.value);
    visit(e->star);
    visit(e->star_star);
  }
  void visit(const Body& body) {
    for (const auto& s : body) {
      visit(s->expr);
      visit(s->test);
      for (const ExprPtr& v : s->values) visit(v);
      visit(s->body);
      visit(s->other);
      if (!s->macro) continue;
      for (const ExprPtr& d : s->macro->defaults) visit(d);
      visit(s->macro->body);
    }
  }
};

}  // namespace

void Parser::finish_macro(MacroDef& m, std::string_view end) {
  int outer_loops = std::exchange(loops_, 0);
  bool outer_soft = std::exchange(soft_, false);
  m.body = body_to(end);
  loops_ = outer_loops;
  soft_ = outer_soft;
  SpecialNames{m, ast_}.visit(m.body);
  for (const std::string& p : m.param_names) {  // an explicit parameter of that name is an ordinary one
    if (p == "varargs") m.uses_varargs = false;
    if (p == "kwargs") m.uses_kwargs = false;
  }
}

std::unique_ptr<Stmt> Parser::parse_macro(int line) {
  auto s = stmt(StmtKind::kMacro, line);
  s->macro = std::make_unique<MacroDef>();
  s->target = make(Op::kName, line);
  s->target->text = s->macro->name = expect_any_name();
  s->target->name = ast_.intern(s->target->text);
  signature(*s->macro);
  finish_macro(*s->macro, "endmacro");
  return s;
}

std::unique_ptr<Stmt> Parser::parse_call_block(int line) {
  auto s = stmt(StmtKind::kCallBlock, line);
  s->macro = std::make_unique<MacroDef>();
  s->macro->name = "caller";
  if (is_op("(")) signature(*s->macro);
  s->expr = expression();
  if (s->expr->op != Op::kCall) bad("expected a call");
  finish_macro(*s->macro, "endcall");
  return s;
}

std::unique_ptr<Stmt> Parser::parse_filter_block(int line) {
  auto s = stmt(StmtKind::kFilterBlock, line);
  bool outer_soft = std::exchange(soft_, false);
  s->expr = filter_chain(nullptr, true);
  s->body = body_to("endfilter");
  soft_ = outer_soft;
  return s;
}

std::unique_ptr<Stmt> Parser::parse_block(int line) {
  auto s = stmt(StmtKind::kBlock, line);
  s->name = expect_any_name();
  s->scoped = skip_name("scoped");
  bool required = skip_name("required");
  if (ast_.blocks.count(s->name)) bad("block '" + s->name + "' is defined twice");
  ast_.blocks[s->name] = s.get();
  int outer_loops = std::exchange(loops_, 0);
  bool outer_soft = std::exchange(soft_, false);
  s->body = body_to("endblock");
  loops_ = outer_loops;
  soft_ = outer_soft;
  if (required) bad("a required block needs a template that extends this one");
  skip_name(s->name);
  return s;
}

// {% generation %}: transformers marks the assistant's tokens with it; it is a call block, so it has its own scope.
std::unique_ptr<Stmt> Parser::parse_generation(int line) {
  auto s = stmt(StmtKind::kGeneration, line);
  s->macro = std::make_unique<MacroDef>();
  s->macro->name = "caller";
  finish_macro(*s->macro, "endgeneration");
  return s;
}

std::unique_ptr<Stmt> Parser::parse_autoescape(int line) {
  auto s = stmt(StmtKind::kScope, line);
  s->expr = expression();
  bool off = s->expr->op == Op::kConst && s->expr->value.is(Kind::kBool) && !s->expr->value.b;
  if (!off) bad("only 'autoescape false' is supported: prompts are not HTML");
  bool outer_soft = std::exchange(soft_, false);
  s->body = body_to("endautoescape");
  soft_ = outer_soft;
  return s;
}

std::unique_ptr<Stmt> Parser::parse_loader(int line, const std::string& tag) {
  auto s = stmt(StmtKind::kNeedsLoader, line);
  s->name = tag;
  while (now().kind != Tok::kTagEnd && now().kind != Tok::kEnd) take();
  return s;
}

}  // namespace brisk::jinja
