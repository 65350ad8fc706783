// The parser's class, shared by the two files that implement it: expressions and statements.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"
#include "text/jinja_parser.h"

namespace brisk::jinja {

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}
  Ast parse();

 private:
  // Tokens.
  const Token& now() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is_op(std::string_view op) const { return now().kind == Tok::kOperator && now().text == op; }
  bool is_name(std::string_view name) const { return now().kind == Tok::kName && now().text == name; }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  std::string expect_any_name();
  [[noreturn]] void bad(std::string what) const { throw SyntaxError{now().line, std::move(what)}; }
  std::string describe() const;

  struct Nest {  // counts one level for as long as it lives
    Parser& p;
    explicit Nest(Parser& parser) : p(parser) {
      if (++p.nesting_ > kMaxNesting) p.bad("nested deeper than " + std::to_string(kMaxNesting) + " levels");
    }
    ~Nest() { --p.nesting_; }
  };

  void link();  // one more link in a chain
  void unknown(const char* what, const std::string& name);

  // Expressions (jinja_parser.cpp).
  ExprPtr make(Op op, int line) const;
  ExprPtr binary(Op op, ExprPtr x, ExprPtr y) const;
  ExprPtr expression(bool with_condition = true);
  ExprPtr conditional();
  ExprPtr or_expr();
  ExprPtr and_expr();
  ExprPtr not_expr();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter = true);
  ExprPtr primary();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr e);
  ExprPtr filters(ExprPtr e);
  ExprPtr filter_chain(ExprPtr e, bool first_without_pipe);
  ExprPtr test(ExprPtr e);
  ExprPtr subscript(ExprPtr e);
  ExprPtr subscribed();
  ExprPtr call(ExprPtr callee);
  void call_arguments(Expr& into);
  enum class TupleOf { kExpressions, kNoCondition, kTargets };
  ExprPtr tuple(TupleOf of, std::string_view end_word = "", bool in_parentheses = false);
  bool tuple_ends(std::string_view end_word) const;
  ExprPtr target_item();
  ExprPtr assign_target(bool with_tuple, bool with_namespace, std::string_view end_word = "");

  // Statements (jinja_parser_stmt.cpp).
  using Words = std::initializer_list<std::string_view>;
  Body body(Words end_words);          // stops before the tag that starts with an end word
  Body body_to(std::string_view end);  // also takes `end` and its tag end
  std::unique_ptr<Stmt> statement();
  std::unique_ptr<Stmt> stmt(StmtKind kind, int line) const;
  std::unique_ptr<Stmt> parse_for(int line);
  std::unique_ptr<Stmt> parse_if(int line);
  std::unique_ptr<Stmt> parse_set(int line);
  std::unique_ptr<Stmt> parse_with(int line);
  std::unique_ptr<Stmt> parse_macro(int line);
  std::unique_ptr<Stmt> parse_call_block(int line);
  std::unique_ptr<Stmt> parse_filter_block(int line);
  std::unique_ptr<Stmt> parse_block(int line);
  std::unique_ptr<Stmt> parse_generation(int line);
  std::unique_ptr<Stmt> parse_autoescape(int line);
  std::unique_ptr<Stmt> parse_loader(int line, const std::string& tag);
  void signature(MacroDef& m);
  void finish_macro(MacroDef& m, std::string_view end);
  void end_tag();

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;  // open loops in this function: where break and continue may stand
  bool soft_ =
      false;  // directly inside an if or a conditional: unknown filters fail when reached, not before
  bool namespace_targets_ = false;
  int chain_ =
      0;  // operators, filters and subscripts so far in the open expressions: bounds the tree's depth
  std::vector<SyntaxError>
      unknown_;  // unknown filters and tests that are errors unless a conditional holds them
  Ast ast_;
};

}  // namespace brisk::jinja
