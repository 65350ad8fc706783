// The values as text: numbers, str and repr.
#include <charconv>
#include <cmath>
#include <cstring>

#include "text/jinja_objects.h"
#include "text/jinja_value.h"
#include "text/utf8.h"
#include "text/utf8_props.h"

namespace brisk::jinja {

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
