// One table each for what grows: filters, tests, methods, globals. To add one, write its function in the file of
// its kind and a row in that file's table; nothing else changes.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja_value.h"

namespace brisk::jinja {

class Interp;

// Arguments of a call.
struct Args {
  std::vector<Val> pos;
  std::vector<std::pair<std::string, Val>> kw;
};

// A filter's value is args.pos[0], a test's too; methods get their object as `self`.
using Function = Val (*)(Interp&, Args&);
using TestFunction = bool (*)(Interp&, Args&);
using MethodFunction = Val (*)(Interp&, const Val& self, Args&);

struct FilterEntry {
  std::string_view name;
  Function call;
};
struct TestEntry {
  std::string_view name;
  TestFunction call;
};
struct MethodEntry {
  std::string_view name;
  MethodFunction call;  // null: exists in Python, but the sandbox forbids it
};
struct GlobalEntry {
  std::string_view name;
  Function call;
};

const FilterEntry* find_filter(std::string_view name);
const TestEntry* find_test(std::string_view name);
const MethodEntry* find_method(Kind kind, std::string_view name);
const MethodEntry* find_string_method(std::string_view name);
const GlobalEntry* find_global(std::string_view name);

// Binds arguments to the parameters named in `names` (separated by spaces); the first `required` ones must be
// there. Throws TypeError as Python does.
class Bound {
 public:
  Bound(Args& args, std::string_view function, std::string_view names, size_t required = 0);
  bool has(size_t k) const { return values_[k].has_value(); }
  const Val& operator[](size_t k) const { return *values_[k]; }
  Val get(size_t k, Val otherwise) const { return has(k) ? *values_[k] : std::move(otherwise); }
  bool flag(size_t k, bool otherwise) const { return has(k) ? truthy(*values_[k]) : otherwise; }
  Int integer(size_t k, Int otherwise) const;  // TypeError unless an int
  bool present(size_t k) const { return has(k) && !values_[k]->is_none(); }

 private:
  std::vector<std::optional<Val>> values_;
};

}  // namespace brisk::jinja
