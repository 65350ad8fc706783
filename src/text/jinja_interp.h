// Runs a parsed template once. Not shared between threads; the Ast is.
#pragma once
#include <ctime>
#include <string>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_objects.h"
#include "text/jinja_tables.h"

namespace brisk::jinja {

enum class Flow : uint8_t { kNext, kBreak, kContinue };

class Interp {
 public:
  Interp(const Ast& ast, Budget& budget, std::tm now, int microseconds);
  ~Interp();
  Interp(const Interp&) = delete;

  void define(std::string_view name, Val v);  // a variable of the context
  void run(StrBuilder& out);
  int line() const { return line_; }

  Budget& budget;
  const std::tm now;
  const int microseconds;

  // Used by filters, tests, methods and globals.
  Val str(std::string_view s, bool data = false) { return make_str(budget, s, data); }
  Val call(const Val& f, Args& args);
  Val getattr(const Val& object, std::string_view name);
  Val getitem(const Val& object, const Val& key);
  std::optional<Val> plain_attribute(const Val& object, std::string_view name);  // Python's getattr
  std::optional<Val> plain_item(const Val& object, const Val& key);              // object[key], if that works
  Val apply_filter(std::string_view name, Args& args);
  bool apply_test(std::string_view name, Args& args);
  Val run_loop(LoopObj& parent, const Val& items);  // loop(...) of a recursive loop
  Val call_block(const Stmt& block);                // self.name()
  Val make_namespace();

 private:
  struct Deeper {  // one level of the C++ stack, for as long as it lives
    Interp& in;
    explicit Deeper(Interp& i) : in(i) {
      if (++in.depth_ > kMaxDepth) fail("RecursionError", "maximum recursion depth exceeded");
    }
    ~Deeper() { --in.depth_; }
  };
  static constexpr int kMaxDepth = 4000;
  static constexpr int kMaxCalls = 200;  // nested macro calls

  // Statements (jinja_interp.cpp).
  Flow exec(const Body& body, const ScopePtr& scope, StrBuilder& out);
  Flow exec(const Stmt& s, const ScopePtr& scope, StrBuilder& out);
  void exec_for(const Stmt& s, const ScopePtr& scope, const Val& items, int64_t depth0, StrBuilder& out);
  Flow exec_set_block(const Stmt& s, const ScopePtr& scope);
  Flow exec_filter_block(const Stmt& s, const ScopePtr& scope, StrBuilder& out);
  Flow exec_with(const Stmt& s, const ScopePtr& scope, StrBuilder& out);
  void exec_call_block(const Stmt& s, const ScopePtr& scope, StrBuilder& out);
  void assign(const Expr& target, const Val& value, const ScopePtr& scope);
  Val make_macro(const MacroDef& def, const ScopePtr& scope);
  Val call_macro(const MacroObj& m, Args& args);
  ScopePtr bind_macro(const MacroObj& m, Args& args);
  ScopePtr inner(const ScopePtr& parent, const OwnNames& own = {});

  // Expressions (jinja_eval.cpp).
  Val eval(const Expr& e, const ScopePtr& scope);
  Val eval_name(const Expr& e, const Scope& scope);
  Val eval_slice(const Expr& e, const ScopePtr& scope);
  Val eval_call(const Expr& e, const ScopePtr& scope, const Val* caller);
  Val eval_filter(const Expr& e, const ScopePtr& scope, const Val* piped);
  bool eval_test(const Expr& e, const ScopePtr& scope);
  bool eval_compare(const Expr& e, const ScopePtr& scope);
  Val eval_dict(const Expr& e, const ScopePtr& scope);
  Args eval_args(const Expr& e, const ScopePtr& scope, size_t first);

  const Ast& ast_;
  ScopePtr context_, root_;
  int depth_ = 0;
  int calls_ = 0;
  int line_ = 0;
  // What could sit on a cycle of references; emptied when the rendering ends.
  std::vector<ScopePtr> captured_;
  std::vector<std::shared_ptr<Obj>> mutable_;
  void keep(std::shared_ptr<Obj> o) { mutable_.push_back(std::move(o)); }
  friend struct LoopFilterIter;
};

// Arithmetic (jinja_arith.cpp).
Val arithmetic(Budget& b, Op op, const Val& x, const Val& y);
Val negate(const Val& x);
Val positive(const Val& x);
Val slice(Budget& b, const Val& object, const Val& start, const Val& stop, const Val& step);
Val join_concat(Budget& b, const std::vector<Val>& parts);  // the ~ operator

// Formatting (jinja_format.cpp, jinja_printf.cpp): str.format, %, format specs.
Val format_braces(Interp& in, const Val& form, const Args& args);
Val format_percent(Budget& b, const Val& form, const Val& values);
void format_spec(StrBuilder& out, const Val& v, std::string_view spec);      // format(v, spec)
std::string fixed_text(double d, int precision, char type, bool alternate);  // printf's e, f, g and capitals

// JSON text as transformers' tojson makes it (jinja_tojson.cpp).
Val to_json(Interp& in, Args& args);

// Numbers from text as Python's int() and float() read it; nothing if it is not a number.
std::optional<Int> parse_int(std::string_view s, int base);
std::optional<double> parse_float(std::string_view s);
Int float_to_int(double d);  // truncates; throws for infinities, NaN and what is too big
double round_float(double d, Int digits);

// HTML escaping of Markup.
Val escape_html(Budget& b, const Val& v);

}  // namespace brisk::jinja
