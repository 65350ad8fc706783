// Python's protocols over the values: truth, equality, hash, order, `in`, len. Others: jinja_iterate.cpp, jinja_repr.cpp.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "text/jinja_objects.h"
#include "text/jinja_value.h"
#include "text/utf8.h"

namespace brisk::jinja {

std::string type_name(const Val& v) {
  switch (v.kind) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return v.str().markup ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kView: {
      constexpr const char* names[] = {"dict_keys", "dict_values", "dict_items"};
      return names[v.as<ViewObj>().part];
    }
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return "generator";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kMacro:
      return "Macro";
    case Kind::kFunction:
      return "function";
    case Kind::kMethod:
      return "builtin_function_or_method";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kCycler:
      return "Cycler";
    case Kind::kJoiner:
      return "Joiner";
    case Kind::kSelf:
      return "TemplateReference";
  }
  return "object";
}

std::optional<Int> length_of(const Val& v) {
  switch (v.kind) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return v.str().length;
    case Kind::kList:
    case Kind::kTuple:
      return v.list().items.size();
    case Kind::kDict:
      return v.dict().items.size();
    case Kind::kView:
      return v.as<ViewObj>().dict.dict().items.size();
    case Kind::kRange:
      return v.as<RangeObj>().length;
    case Kind::kLoop:
      return loop_length(v);
    default:
      return std::nullopt;
  }
}

bool truthy(const Val& v) {
  switch (v.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return v.b;
    case Kind::kInt:
      return v.i != 0;
    case Kind::kFloat:
      return v.f != 0;
    case Kind::kLoop:
      return true;
    default: {
      auto n = length_of(v);
      return !n || *n != 0;
    }
  }
}

namespace {

// -1, 0, 1; 2 when not comparable (NaN).
int compare_numbers(const Val& x, const Val& y) {
  if (x.is_integral() && y.is_integral()) return x.as_int() < y.as_int() ? -1 : x.as_int() > y.as_int();
  double a = x.as_double(), b = y.as_double();
  if (std::isnan(a) || std::isnan(b)) return 2;
  if (a != b || std::isinf(a)) return a < b ? -1 : a > b;
  // Equal as doubles: an integer beyond 2^53 may still differ from the float.
  if (std::fabs(a) >= 0x1p126) return 0;
  if (x.is_integral()) return x.as_int() < static_cast<Int>(b) ? -1 : x.as_int() > static_cast<Int>(b);
  if (y.is_integral()) return static_cast<Int>(a) < y.as_int() ? -1 : static_cast<Int>(a) > y.as_int();
  return 0;
}

bool equal_dicts(Budget& b, const DictObj& x, const DictObj& y) {
  if (x.items.size() != y.items.size()) return false;
  for (auto& [k, v] : x.items) {
    const Val* other = y.find(b, k);
    if (!other || !equal(b, v, *other)) return false;
  }
  return true;
}

bool equal_ranges(const RangeObj& x, const RangeObj& y) {
  if (x.length != y.length) return false;
  if (x.length == 0) return true;
  return x.start == y.start && (x.length == 1 || x.step == y.step);
}

}  // namespace

bool equal(Budget& b, const Val& x, const Val& y) {
  b.step();
  if (x.is_number() && y.is_number()) return compare_numbers(x, y) == 0;
  if (x.kind != y.kind) return false;
  if (x.obj && x.obj == y.obj) return true;
  switch (x.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      b.step(std::min(x.str().bytes.size(), y.str().bytes.size()) / 32);
      return x.str().bytes == y.str().bytes;
    case Kind::kList:
    case Kind::kTuple: {
      auto &p = x.list().items, &q = y.list().items;
      if (p.size() != q.size()) return false;
      for (size_t k = 0; k < p.size(); ++k)
        if (!equal(b, p[k], q[k])) return false;
      return true;
    }
    case Kind::kDict:
      return equal_dicts(b, x.dict(), y.dict());
    case Kind::kRange:
      return equal_ranges(x.as<RangeObj>(), y.as<RangeObj>());
    case Kind::kView: {
      auto &p = x.as<ViewObj>(), &q = y.as<ViewObj>();
      if (p.part == ViewObj::kValues || q.part != p.part) return false;
      if (p.part == ViewObj::kItems) return equal_dicts(b, p.dict.dict(), q.dict.dict());
      for (auto& [k, v] : p.dict.dict().items)
        if (!q.dict.dict().find(b, k)) return false;
      return p.dict.dict().items.size() == q.dict.dict().items.size();
    }
    default:
      return false;
  }
}

size_t hash_of(Budget& b, const Val& v) {
  switch (v.kind) {
    case Kind::kBool:
    case Kind::kInt:
      return std::hash<double>()(static_cast<double>(v.as_int()));
    case Kind::kFloat:
      return std::hash<double>()(v.f);
    case Kind::kString:
      b.step(v.str().bytes.size() / 32);
      return std::hash<std::string_view>()(v.str().bytes);
    case Kind::kTuple: {
      size_t h = 0x9E37;
      for (const Val& x : v.list().items) b.step(), h = h * 1000003 ^ hash_of(b, x);
      return h;
    }
    case Kind::kList:
    case Kind::kDict:
    case Kind::kView:
      if (v.is(Kind::kView) && v.as<ViewObj>().part == ViewObj::kValues)
        return std::hash<const void*>()(v.obj.get());
      type_error("unhashable type: '" + type_name(v) + "'");
    case Kind::kRange:
      return static_cast<size_t>(v.as<RangeObj>().length);
    case Kind::kUndefined:
    case Kind::kNone:
      return static_cast<size_t>(v.kind);
    default:
      return std::hash<const void*>()(v.obj.get());
  }
}

bool compare(Budget& b, const Val& x, const Val& y, Order op) {
  need_defined(x);
  need_defined(y);
  b.step();
  auto holds = [op](int c) {
    switch (op) {
      case Order::kLt:
        return c == -1;
      case Order::kLe:
        return c == -1 || c == 0;
      case Order::kGt:
        return c == 1;
      case Order::kGe:
        return c == 1 || c == 0;
    }
    return false;
  };
  if (x.is_number() && y.is_number()) return holds(compare_numbers(x, y));
  if (x.is_string() && y.is_string()) {
    b.step(std::min(x.str().bytes.size(), y.str().bytes.size()) / 32);
    int c = x.str().bytes.compare(y.str().bytes);  // bytes of UTF-8 sort as code points
    return holds(c < 0 ? -1 : c > 0);
  }
  if (x.kind == y.kind && x.is_sequence_object()) {
    auto &p = x.list().items, &q = y.list().items;
    for (size_t k = 0; k < std::min(p.size(), q.size()); ++k)
      if (!equal(b, p[k], q[k])) return compare(b, p[k], q[k], op);
    return holds(p.size() < q.size() ? -1 : p.size() > q.size());
  }
  constexpr const char* signs[] = {"<", "<=", ">", ">="};
  type_error(std::string("'") + signs[static_cast<int>(op)] + "' not supported between instances of '" +
             type_name(x) + "' and '" + type_name(y) + "'");
}

bool contains(Budget& b, const Val& container, const Val& item) {
  switch (container.kind) {
    case Kind::kString: {
      if (!item.is_string())
        type_error("'in <string>' requires string as left operand, not " + type_name(item));
      auto &hay = container.str().bytes, &needle = item.str().bytes;
      b.step((hay.size() + needle.size()) / 32);
      return needle.empty() || memmem(hay.data(), hay.size(), needle.data(), needle.size());
    }
    case Kind::kList:
    case Kind::kTuple:
      for (const Val& v : container.list().items)
        if (equal(b, v, item)) return true;
      return false;
    case Kind::kDict:
      return container.dict().find(b, item) != nullptr;
    case Kind::kView:
      if (container.as<ViewObj>().part == ViewObj::kKeys)
        return container.as<ViewObj>().dict.dict().find(b, item);
      break;
    case Kind::kRange: {
      auto& r = container.as<RangeObj>();
      if (!item.is_number() || r.length == 0) return false;
      if (item.is(Kind::kFloat) && (item.f != std::floor(item.f) || std::fabs(item.f) > 1e18)) return false;
      Int n = item.is(Kind::kFloat) ? static_cast<Int>(item.f) : item.as_int();
      Int last = r.start + (r.length - 1) * r.step;
      return n >= std::min(r.start, last) && n <= std::max(r.start, last) && (n - r.start) % r.step == 0;
    }
    default:
      break;
  }
  if (!is_iterable(container)) type_error("argument of type '" + type_name(container) + "' is not iterable");
  auto it = iterate(b, container);
  Val v;
  while (it->next(v))
    if (equal(b, v, item)) return true;
  return false;
}

bool is_callable(const Val& v) {
  switch (v.kind) {
    case Kind::kUndefined:  // jinja2's Undefined has a __call__ (that fails)
    case Kind::kMacro:
    case Kind::kFunction:
    case Kind::kMethod:
    case Kind::kLoop:
    case Kind::kJoiner:
      return true;
    default:
      return false;
  }
}

}  // namespace brisk::jinja
