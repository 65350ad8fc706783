// Tests: the right-hand side of `is`.
#include <algorithm>

#include "text/jinja_interp.h"
#include "text/jinja_strings.h"

namespace brisk::jinja {
namespace {

const Val& value(Args& a, const char* name) {
  Bound(a, name, "value", 1);
  return a.pos[0];
}

bool is_defined(Interp&, Args& a) { return !value(a, "defined").is_undefined(); }
bool is_undefined(Interp&, Args& a) { return value(a, "undefined").is_undefined(); }
bool is_none(Interp&, Args& a) { return value(a, "none").is_none(); }
bool is_boolean(Interp&, Args& a) { return value(a, "boolean").is(Kind::kBool); }
bool is_true(Interp&, Args& a) { return value(a, "true").is(Kind::kBool) && a.pos[0].b; }
bool is_false(Interp&, Args& a) { return value(a, "false").is(Kind::kBool) && !a.pos[0].b; }
bool is_integer(Interp&, Args& a) { return value(a, "integer").is(Kind::kInt); }
bool is_float(Interp&, Args& a) { return value(a, "float").is(Kind::kFloat); }
bool is_number(Interp&, Args& a) { return value(a, "number").is_number(); }
bool is_string(Interp&, Args& a) { return value(a, "string").is_string(); }
bool is_mapping(Interp&, Args& a) { return value(a, "mapping").is(Kind::kDict); }
bool is_iterable_test(Interp&, Args& a) { return is_iterable(value(a, "iterable")); }
bool is_callable_test(Interp&, Args& a) { return is_callable(value(a, "callable")); }
bool is_escaped(Interp&, Args& a) { return value(a, "escaped").is_string() && a.pos[0].str().markup; }

// In Python: has a length and can be subscripted, so dicts and strings are sequences as well.
bool is_sequence(Interp&, Args& a) {
  switch (value(a, "sequence").kind) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
      return true;
    default:
      return false;
  }
}

template <CharClass wanted, CharClass other>
bool is_case(Interp& in, Args& a) {
  Val s = to_str(in.budget, value(a, "lower"));
  bool any = false;
  for (char32_t c : code_points(s.str().bytes)) {
    if (char_is(other, c) || char_is(CharClass::kTitleCase, c)) return false;
    any |= char_is(wanted, c);
  }
  return any;
}

bool remainder_is(Interp& in, const Val& x, const Val& by, Int wanted) {
  return equal(in.budget, arithmetic(in.budget, Op::kMod, x, by), Val::integer(wanted));
}
bool is_odd(Interp& in, Args& a) { return remainder_is(in, value(a, "odd"), Val::integer(2), 1); }
bool is_even(Interp& in, Args& a) { return remainder_is(in, value(a, "even"), Val::integer(2), 0); }
bool is_divisible(Interp& in, Args& a) {
  Bound p(a, "divisibleby", "value num", 2);
  return remainder_is(in, p[0], p[1], 0);
}

bool is_filter(Interp& in, Args& a) {
  hash_of(in.budget, value(a, "filter"));
  return a.pos[0].is_string() && find_filter(a.pos[0].str().bytes);
}
bool is_test(Interp& in, Args& a) {
  hash_of(in.budget, value(a, "test"));
  return a.pos[0].is_string() && find_test(a.pos[0].str().bytes);
}

bool is_eq(Interp& in, Args& a) {
  Bound p(a, "eq", "a b", 2);
  return equal(in.budget, p[0], p[1]);
}
bool is_ne(Interp& in, Args& a) {
  Bound p(a, "ne", "a b", 2);
  return !equal(in.budget, p[0], p[1]);
}
template <Order order>
bool is_ordered(Interp& in, Args& a) {
  Bound p(a, "comparison", "a b", 2);
  return compare(in.budget, p[0], p[1], order);
}
bool is_in(Interp& in, Args& a) {
  Bound p(a, "in", "value seq", 2);
  return contains(in.budget, p[1], p[0]);
}
bool is_same(Interp& in, Args& a) {
  Bound p(a, "sameas", "value other", 2);
  const Val &x = p[0], &y = p[1];
  if (x.kind != y.kind) return false;
  if (x.obj || y.obj)
    return x.obj == y.obj || (x.is_string() && x.str().bytes.empty() && y.str().bytes.empty());
  return x.is_undefined() ? false : equal(in.budget, x, y);
}

constexpr TestEntry kTests[] = {
    {"!=", is_ne},
    {"<", is_ordered<Order::kLt>},
    {"<=", is_ordered<Order::kLe>},
    {"==", is_eq},
    {">", is_ordered<Order::kGt>},
    {">=", is_ordered<Order::kGe>},
    {"boolean", is_boolean},
    {"callable", is_callable_test},
    {"defined", is_defined},
    {"divisibleby", is_divisible},
    {"eq", is_eq},
    {"equalto", is_eq},
    {"escaped", is_escaped},
    {"even", is_even},
    {"false", is_false},
    {"filter", is_filter},
    {"float", is_float},
    {"ge", is_ordered<Order::kGe>},
    {"greaterthan", is_ordered<Order::kGt>},
    {"gt", is_ordered<Order::kGt>},
    {"in", is_in},
    {"integer", is_integer},
    {"iterable", is_iterable_test},
    {"le", is_ordered<Order::kLe>},
    {"lessthan", is_ordered<Order::kLt>},
    {"lower", is_case<CharClass::kLower, CharClass::kUpper>},
    {"lt", is_ordered<Order::kLt>},
    {"mapping", is_mapping},
    {"ne", is_ne},
    {"none", is_none},
    {"number", is_number},
    {"odd", is_odd},
    {"sameas", is_same},
    {"sequence", is_sequence},
    {"string", is_string},
    {"test", is_test},
    {"true", is_true},
    {"undefined", is_undefined},
    {"upper", is_case<CharClass::kUpper, CharClass::kLower>},
};

}  // namespace

const TestEntry* find_test(std::string_view name) {
  auto it = std::lower_bound(std::begin(kTests), std::end(kTests), name,
                             [](const TestEntry& t, std::string_view n) { return t.name < n; });
  return it != std::end(kTests) && it->name == name ? it : nullptr;
}

}  // namespace brisk::jinja
