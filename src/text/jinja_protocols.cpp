// Python's protocols over the values: truth, equality, hash, order, `in`, len, iteration, str and repr.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "text/jinja_objects.h"
#include "text/jinja_value.h"
#include "text/utf8.h"
#include "text/utf8_props.h"

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

bool is_iterable(const Val& v) {
  switch (v.kind) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kView:
    case Kind::kRange:
    case Kind::kIterator:
    case Kind::kLoop:
      return true;
    default:
      return false;
  }
}

namespace {

struct EmptyIter : Iter {
  bool next(Val&) override { return false; }
};
struct ListIter : Iter {
  Val list;
  size_t k = 0;
  explicit ListIter(Val v) : list(std::move(v)) {}
  bool next(Val& out) override {
    if (k >= list.list().items.size()) return false;
    out = list.list().items[k++];
    return true;
  }
};
struct DictIter : Iter {
  Budget& b;
  Val dict;
  ViewObj::Part part;
  size_t k = 0;
  DictIter(Budget& budget, Val d, ViewObj::Part p) : b(budget), dict(std::move(d)), part(p) {}
  bool next(Val& out) override {
    auto& items = dict.dict().items;
    if (k >= items.size()) return false;
    auto& [key, value] = items[k++];
    if (part == ViewObj::kItems) out = make_pair(b, key, value);
    else out = part == ViewObj::kKeys ? key : value;
    return true;
  }
};
struct StrIter : Iter {
  Budget& b;
  Val s;
  size_t i = 0;
  StrIter(Budget& budget, Val v) : b(budget), s(std::move(v)) {}
  bool next(Val& out) override {
    auto& bytes = s.str().bytes;
    if (i >= bytes.size()) return false;
    size_t n = utf8_decode(bytes, i).size;
    StrBuilder one(b);
    one.add(s.str(), i, i + n);
    out = one.take();
    i += n;
    return true;
  }
};
struct RangeIter : Iter {
  Val range;
  Int k = 0;
  explicit RangeIter(Val v) : range(std::move(v)) {}
  bool next(Val& out) override {
    auto& r = range.as<RangeObj>();
    if (k >= r.length) return false;
    out = Val::integer(r.start + k++ * r.step);
    return true;
  }
};
struct SharedIter : Iter {
  Budget& b;
  Val source;
  SharedIter(Budget& budget, Val v) : b(budget), source(std::move(v)) {}
  bool next(Val& out) override {
    b.step();
    return source.as<IteratorObj>().it->next(out);
  }
};
struct LoopIter : Iter {
  Val loop;
  explicit LoopIter(Val v) : loop(std::move(v)) {}
  bool next(Val& out) override { return loop_next_pair(loop, out); }
};

}  // namespace

std::unique_ptr<Iter> iterate(Budget& b, const Val& v) {
  switch (v.kind) {
    case Kind::kUndefined:
      return std::make_unique<EmptyIter>();
    case Kind::kString:
      return std::make_unique<StrIter>(b, v);
    case Kind::kList:
    case Kind::kTuple:
      return std::make_unique<ListIter>(v);
    case Kind::kDict:
      return std::make_unique<DictIter>(b, v, ViewObj::kKeys);
    case Kind::kView:
      return std::make_unique<DictIter>(b, v.as<ViewObj>().dict, v.as<ViewObj>().part);
    case Kind::kRange:
      return std::make_unique<RangeIter>(v);
    case Kind::kIterator:
      return std::make_unique<SharedIter>(b, v);
    case Kind::kLoop:
      return std::make_unique<LoopIter>(v);
    default:
      type_error("'" + type_name(v) + "' object is not iterable");
  }
}

std::vector<Val> to_vector(Budget& b, const Val& v) {
  if (v.is_sequence_object()) return b.step(v.list().items.size()), v.list().items;
  std::vector<Val> out;
  auto it = iterate(b, v);
  Val x;
  while (it->next(x)) {
    b.step();
    if (out.size() >= b.max_items)
      fail("LimitError", "a list of more than " + std::to_string(b.max_items) + " items");
    out.push_back(x);
  }
  return out;
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

std::string int_text(Int i) { return to_text(Json(i)); }

std::string float_text(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::scientific).ptr;
  std::string_view s(buffer, end - buffer);
  std::string sign = s[0] == '-' ? "-" : "";
  s.remove_prefix(sign.size());
  size_t e = s.find('e');
  int exponent = std::atoi(std::string(s.substr(e + 1)).c_str());
  std::string digits(1, s[0]);
  if (e > 2) digits += s.substr(2, e - 2);
  int n = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {  // the border where repr changes to an exponent
    std::string out = sign + digits[0];
    if (n > 1) out += "." + digits.substr(1);
    std::string x = std::to_string(std::abs(exponent));
    return out + (exponent < 0 ? "e-" : "e+") + (x.size() < 2 ? "0" + x : x);
  }
  if (exponent < 0) return sign + "0." + std::string(-exponent - 1, '0') + digits;
  if (n <= exponent + 1) return sign + digits + std::string(exponent + 1 - n, '0') + ".0";
  return sign + digits.substr(0, exponent + 1) + "." + digits.substr(exponent + 1);
}

namespace {

void append_escape(std::string& out, char32_t c) {
  char buffer[16];
  const char* form = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
  std::snprintf(buffer, sizeof buffer, form, static_cast<unsigned>(c));
  out += buffer;
}

void repr_str(StrBuilder& out, const StrObj& s) {
  if (s.markup) out.text("Markup(");
  bool twice = s.bytes.find('\'') != std::string::npos && s.bytes.find('"') == std::string::npos;
  char quote = twice ? '"' : '\'';
  out.text({&quote, 1});
  for_each_run(s, 0, s.bytes.size(), [&](std::string_view chunk, bool data) {
    std::string piece;
    for (size_t i = 0; i < chunk.size();) {
      Utf8Char c = utf8_decode(chunk, i);
      std::string_view raw = chunk.substr(i, c.size);
      i += c.size;
      if (c.cp == '\\' || c.cp == static_cast<char32_t>(quote)) piece += '\\', piece += raw;
      else if (c.cp == '\n') piece += "\\n";
      else if (c.cp == '\r') piece += "\\r";
      else if (c.cp == '\t') piece += "\\t";
      else if (c.cp >= 0x20 && c.cp < 0x7F) piece += raw;
      else if (c.cp >= 0x80 && char_is(CharClass::kPrintable, c.cp)) piece += raw;
      else append_escape(piece, c.cp);
    }
    out.add(piece, data);
  });
  out.text({&quote, 1});
  if (s.markup) out.text(")");
}

void repr_items(StrBuilder& out, const std::vector<Val>& items, const char* open, const char* close) {
  out.text(open);
  for (size_t k = 0; k < items.size(); ++k) {
    if (k) out.text(", ");
    write_repr(out, items[k]);
  }
  out.text(close);
}

void repr_dict(StrBuilder& out, const DictObj& d) {
  out.text("{");
  for (size_t k = 0; k < d.items.size(); ++k) {
    if (k) out.text(", ");
    write_repr(out, d.items[k].first);
    out.text(": ");
    write_repr(out, d.items[k].second);
  }
  out.text("}");
}

void repr_range(StrBuilder& out, const RangeObj& r) {
  out.text("range(" + int_text(r.start) + ", " + int_text(r.stop));
  if (r.step != 1) out.text(", " + int_text(r.step));
  out.text(")");
}

void repr_namespace(StrBuilder& out, NamespaceObj& ns) {
  thread_local int nested = 0;  // a namespace may hold itself
  struct Guard {
    Guard() { ++nested; }
    ~Guard() { --nested; }
  } guard;
  out.text("<Namespace {");
  for (size_t k = 0; k < ns.attributes.size(); ++k) {
    if (nested > 20) fail("RecursionError", "a namespace that holds itself is printed");
    if (k) out.text(", ");
    write_repr(out, make_str(out.budget(), ns.attributes[k].first));
    out.text(": ");
    write_repr(out, ns.attributes[k].second);
  }
  out.text("}>");
}

}  // namespace

void write_repr(StrBuilder& out, const Val& v) {
  out.budget().step();
  switch (v.kind) {
    case Kind::kUndefined:
      return out.text("Undefined");
    case Kind::kNone:
      return out.text("None");
    case Kind::kBool:
      return out.text(v.b ? "True" : "False");
    case Kind::kInt:
      return out.text(int_text(v.i));
    case Kind::kFloat:
      return out.text(float_text(v.f));
    case Kind::kString:
      return repr_str(out, v.str());
    case Kind::kList:
      return repr_items(out, v.list().items, "[", "]");
    case Kind::kTuple:
      return repr_items(out, v.list().items, "(", v.list().items.size() == 1 ? ",)" : ")");
    case Kind::kDict:
      return repr_dict(out, v.dict());
    case Kind::kView: {
      out.text(type_name(v) + "(");
      repr_items(out, to_vector(out.budget(), v), "[", "]");
      return out.text(")");
    }
    case Kind::kRange:
      return repr_range(out, v.as<RangeObj>());
    case Kind::kNamespace:
      return repr_namespace(out, v.as<NamespaceObj>());
    case Kind::kMacro:
      return out.text("<Macro '" + macro_name(v) + "'>");
    case Kind::kLoop:
      return out.text(loop_text(v));
    default:
      return out.text("<" + type_name(v) + " object>");
  }
}

void write_str(StrBuilder& out, const Val& v) {
  if (v.is_string()) out.add(v.str());
  else if (!v.is_undefined()) write_repr(out, v);
}

Val to_str(Budget& b, const Val& v) {
  if (v.is_string()) return v;
  StrBuilder out(b);
  write_str(out, v);
  return out.take();
}

}  // namespace brisk::jinja
