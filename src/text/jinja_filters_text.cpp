// Filters of one value: text and numbers.
#include <cmath>

#include "text/jinja_filters.h"
#include "text/jinja_interp.h"
#include "text/jinja_strings.h"
#include "text/utf8.h"

namespace brisk::jinja {
namespace {

Val string(Interp& in, Args& a) {
  Bound p(a, "string", "value", 1);
  return to_str(in.budget, p[0]);
}
template <CaseMap map>
Val mapped(Interp& in, Args& a) {
  Bound p(a, "upper", "s", 1);
  return str_map(in.budget, to_str(in.budget, p[0]), map);
}
Val capitalize(Interp& in, Args& a) {
  Bound p(a, "capitalize", "s", 1);
  return str_capitalize(in.budget, to_str(in.budget, p[0]));
}

// Words start after white space, '-' and opening brackets; str.title would also cut at apostrophes.
Val title(Interp& in, Args& a) {
  Bound p(a, "title", "s", 1);
  Val s = to_str(in.budget, p[0]);
  const StrObj& o = s.str();
  StrBuilder out(in.budget);
  size_t word = 0;
  auto flush = [&](size_t end) {
    if (word >= end) return;
    size_t first = word + utf8_decode(o.bytes, word).size;
    out.add(str_map(in.budget, substr(in.budget, s, word, first), CaseMap::kUpper).str());
    out.add(str_map(in.budget, substr(in.budget, s, first, end), CaseMap::kLower).str());
  };
  for (size_t i = 0; i < o.bytes.size();) {
    Utf8Char c = utf8_decode(o.bytes, i);
    bool cut = char_is_space(c.cp) || c.cp == '-' || c.cp == '(' || c.cp == '{' || c.cp == '[' || c.cp == '<';
    if (cut) {
      flush(i);
      out.add(o, i, i + c.size);
      word = i + c.size;
    }
    i += c.size;
  }
  flush(o.bytes.size());
  return out.take(o.markup);
}

Val trim(Interp& in, Args& a) {
  Bound p(a, "trim", "value chars", 1);
  return str_strip(in.budget, to_str(in.budget, p[0]), p.get(1, Val::none()), true, true);
}
Val replace(Interp& in, Args& a) {
  Bound p(a, "replace", "s old new count", 3);
  Val r = str_replace(in.budget, to_str(in.budget, p[0]), to_str(in.budget, p[1]), to_str(in.budget, p[2]),
                      p.present(3) ? p.integer(3, -1) : -1);
  if (!r.str().markup) return r;
  StrBuilder plain(in.budget);
  plain.add(r.str());
  return plain.take();
}
Val center(Interp& in, Args& a) {
  Bound p(a, "center", "value width", 1);
  return str_center(in.budget, to_str(in.budget, p[0]), p.integer(1, 80), in.str(" "));
}

Val indent(Interp& in, Args& a) {
  Bound p(a, "indent", "s width first blank", 1);
  if (!p[0].is_string())
    type_error("unsupported operand type(s) for +=: '" + type_name(p[0]) + "' and 'str'");
  Val pad = p.has(1) && p[1].is_string()
                ? p[1]
                : arithmetic(in.budget, Op::kMul, in.str(" "), Val::integer(p.integer(1, 4)));
  Val s = arithmetic(in.budget, Op::kAdd, p[0], in.str("\n"));
  std::vector<Val> lines = str_splitlines(in.budget, s, false);
  StrBuilder out(in.budget);
  if (p.flag(2, false)) out.add(pad.str());
  for (size_t k = 0; k < lines.size(); ++k) {
    if (k) out.text("\n");
    if (k && (p.flag(3, false) || !lines[k].str().bytes.empty())) out.add(pad.str());
    out.add(lines[k].str());
  }
  return out.take(p[0].str().markup);
}

Val truncate(Interp& in, Args& a) {
  Bound p(a, "truncate", "s length killwords end leeway", 1);
  need_defined(p[0]);
  Int length = p.integer(1, 255), leeway = p.present(4) ? p.integer(4, 5) : 5;
  Val end = p.get(3, in.str("..."));
  if (!end.is_string()) type_error("the end of a truncated text must be a string");
  Int end_length = end.str().length;
  if (length < end_length)
    fail("AssertionError", "expected length >= " + int_text(end_length) + ", got " + int_text(length));
  if (leeway < 0) fail("AssertionError", "expected leeway >= 0, got " + int_text(leeway));
  auto n = length_of(p[0]);
  if (!n) type_error("object of type '" + type_name(p[0]) + "' has no len()");
  if (*n <= length + leeway) return p[0];
  Val cut = slice(in.budget, p[0], Val::none(), Val::integer(length - end_length), Val::none());
  if (!cut.is_string()) type_error("only strings can be truncated");
  if (!p.flag(2, false)) cut = str_split(in.budget, cut, in.str(" "), 1, true)[0];
  return arithmetic(in.budget, Op::kAdd, cut, end);
}

bool is_word(char32_t c) { return c == '_' || char_is_alnum(c); }

Val wordcount(Interp& in, Args& a) {
  Bound p(a, "wordcount", "s", 1);
  Int n = 0;
  bool inside = false;
  for (char32_t c : code_points(to_str(in.budget, p[0]).str().bytes)) {
    if (is_word(c) && !inside) ++n;
    inside = is_word(c);
  }
  return Val::integer(n);
}

// Breaks one line as Python's textwrap does, with white space kept inside lines and dropped at their ends.
class Wrapper {
 public:
  Wrapper(Interp& in, const Val& line, Int width, bool break_long, bool break_hyphens)
      : in_(in), line_(line), bytes_(line.str().bytes), width_(width), break_long_(break_long) {
    chunk(break_hyphens);
  }

  std::vector<Val> lines() {
    std::vector<Val> out;
    size_t at = 0;
    while (at < chunks_.size()) {
      if (!out.empty() && chunks_[at].space) ++at;
      size_t first = at;
      Int used = 0;
      while (at < chunks_.size() && used + chunks_[at].length <= width_) used += chunks_[at++].length;
      if (at < chunks_.size() && chunks_[at].length > width_) at = split_long(at, first, used);
      size_t last = at;
      if (last > first && chunks_[last - 1].space) --last;
      if (last > first) out.push_back(substr(in_.budget, line_, chunks_[first].from, chunks_[last - 1].to));
      in_.budget.step();
    }
    return out;
  }

 private:
  struct Chunk {
    size_t from, to;
    Int length;
    bool space;
  };

  void chunk(bool hyphens) {
    auto space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
    for (size_t i = 0; i < bytes_.size();) {
      size_t from = i;
      bool s = space(bytes_[i]);
      while (i < bytes_.size() && space(bytes_[i]) == s) {
        bool cut = hyphens && bytes_[i] == '-' && i > from + 1 && i + 2 < bytes_.size() && letter(i - 1) &&
                   letter(i - 2) && letter(i + 1) && letter(i + 2);
        ++i;
        if (cut) break;
      }
      chunks_.push_back({from, i, static_cast<Int>(utf8_length(bytes_.substr(from, i - from))), s});
    }
  }
  bool letter(size_t i) const {
    char c = bytes_[i] | 32;
    return (c >= 'a' && c <= 'z') || static_cast<unsigned char>(bytes_[i]) >= 0x80;
  }

  // A chunk that fits on no line: cut it where this line ends, or let it stand alone.
  size_t split_long(size_t at, size_t first, Int used) {
    Int space = width_ < 1 ? 1 : width_ - used;
    if (!break_long_) return at == first ? at + 1 : at;
    Chunk c = chunks_[at];
    size_t to = c.from;
    for (Int k = 0; k < space; ++k) to += utf8_decode(bytes_, to).size;
    if (to == c.from) return at;
    chunks_[at] = {c.from, to, space, c.space};
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                   {to, c.to, c.length - space, c.space});
    in_.budget.step(chunks_.size() / 8);
    return at + 1;
  }

  Interp& in_;
  const Val& line_;
  std::string_view bytes_;
  Int width_;
  bool break_long_;
  std::vector<Chunk> chunks_;
};

Val wordwrap(Interp& in, Args& a) {
  Bound p(a, "wordwrap", "s width break_long_words wrapstring break_on_hyphens", 1);
  Val glue = p.present(3) ? p[3] : in.str("\n");
  Int width = p.integer(1, 79);
  if (width <= 0) value_error("invalid width " + int_text(width) + " (must be > 0)");
  if (!p[0].is_string() || !glue.is_string()) type_error("wordwrap needs strings");
  std::vector<Val> out;
  for (const Val& line : str_splitlines(in.budget, p[0], false)) {
    Wrapper w(in, line, width, p.flag(2, true), p.flag(4, true));
    out.push_back(str_join(in.budget, glue, w.lines()));
  }
  return str_join(in.budget, glue, out);
}

Val format(Interp& in, Args& a) {
  if (a.pos.empty()) type_error("format() needs a value");
  Val form = to_str(in.budget, a.pos[0]);
  std::vector<Val> rest(a.pos.begin() + 1, a.pos.end());
  if (!rest.empty() && !a.kw.empty())
    fail("FilterArgumentError", "can't handle positional and keyword arguments at the same time");
  if (a.kw.empty())
    return format_percent(in.budget, form, make_list(in.budget, std::move(rest), Kind::kTuple));
  auto d = new_dict(in.budget);
  for (auto& [k, v] : a.kw) d->put(in.budget, in.str(k), v);
  return format_percent(in.budget, form, make_dict(in.budget, std::move(d)));
}

Val default_value(Interp& in, Args& a) {
  Bound p(a, "default", "value default_value boolean", 1);
  if (p[0].is_undefined() || (p.flag(2, false) && !truthy(p[0]))) return p.get(1, in.str(""));
  return p[0];
}

Val attribute(Interp& in, Args& a) {
  Bound p(a, "attr", "obj name", 2);
  need_defined(p[0]);
  std::string name = to_str(in.budget, p[1]).str().bytes;
  auto v = in.plain_attribute(p[0], name);
  return v ? *v : make_undefined(type_name(p[0]) + " object", name);
}

Val to_int(Interp& in, Args& a) {
  Bound p(a, "int", "value default base", 1);
  need_defined(p[0]);
  Val otherwise = p.get(1, Val::integer(0));
  const Val& v = p[0];
  if (v.is_integral()) return Val::integer(v.as_int());
  if (v.is(Kind::kFloat)) {
    if (std::isnan(v.f)) return otherwise;
    if (std::isinf(v.f)) fail("OverflowError", "cannot convert float infinity to integer");
    return Val::integer(float_to_int(v.f));
  }
  if (!v.is_string()) return otherwise;
  Int base = p.integer(2, 10);
  if (base != 0 && (base < 2 || base > 36)) return otherwise;
  if (auto n = parse_int(v.str().bytes, static_cast<int>(base))) return Val::integer(*n);
  auto d = parse_float(v.str().bytes);
  if (!d || !std::isfinite(*d)) return otherwise;
  return Val::integer(float_to_int(*d));
}

Val to_float(Interp& in, Args& a) {
  Bound p(a, "float", "value default", 1);
  need_defined(p[0]);
  if (p[0].is_number()) return Val::real(p[0].as_double());
  if (p[0].is_string())
    if (auto d = parse_float(p[0].str().bytes)) return Val::real(*d);
  return p.get(1, Val::real(0));
}

Val absolute(Interp&, Args& a) {
  Bound p(a, "abs", "x", 1);
  need_defined(p[0]);
  if (!p[0].is_number()) type_error("bad operand type for abs(): '" + type_name(p[0]) + "'");
  if (p[0].is(Kind::kFloat)) return Val::real(std::fabs(p[0].f));
  return p[0].as_int() < 0 ? negate(p[0]) : Val::integer(p[0].as_int());
}

Val round_number(Interp& in, Args& a) {
  Bound p(a, "round", "value precision method", 1);
  need_defined(p[0]);
  Int digits = p.integer(1, 0);
  std::string method = p.has(2) && p[2].is_string() ? p[2].str().bytes : "common";
  if (method != "common" && method != "ceil" && method != "floor")
    fail("FilterArgumentError", "method must be common, ceil or floor");
  if (!p[0].is_number()) type_error("type " + type_name(p[0]) + " doesn't define __round__ method");
  if (method == "common") {
    if (p[0].is(Kind::kFloat)) return Val::real(round_float(p[0].f, digits));
    Int n = p[0].as_int();
    if (digits >= 0) return Val::integer(n);
    if (digits < -38) return Val::integer(0);
    Int unit = 1;
    for (Int k = 0; k < -digits; ++k) unit *= 10;
    Int q = n / unit, r = n % unit;
    Int twice = 2 * (r < 0 ? -r : r);
    if (twice > unit || (twice == unit && (q & 1))) q += n < 0 ? -1 : 1;
    return Val::integer(q * unit);
  }
  Val scale = arithmetic(in.budget, Op::kPow, Val::integer(10), Val::integer(digits));
  double x = arithmetic(in.budget, Op::kMul, p[0], scale).as_double();
  if (!std::isfinite(x)) fail("OverflowError", "cannot convert float infinity to integer");
  Int whole = float_to_int(method == "ceil" ? std::ceil(x) : std::floor(x));
  return arithmetic(in.budget, Op::kDiv, Val::integer(whole), scale);
}

Val filesizeformat(Interp& in, Args& a) {
  Bound p(a, "filesizeformat", "value binary", 1);
  need_defined(p[0]);
  double bytes = 0;
  if (p[0].is_number()) bytes = p[0].as_double();
  else if (auto d = p[0].is_string() ? parse_float(p[0].str().bytes) : std::nullopt) bytes = *d;
  else value_error("could not convert to float");
  bool binary = p.flag(1, false);
  double base = binary ? 1024 : 1000;
  if (bytes == 1) return in.str("1 Byte");
  char out[64];
  if (bytes < base) {
    std::snprintf(out, sizeof out, "%.0f Bytes", std::trunc(bytes) + 0.0);
    return in.str(out);
  }
  double unit = base;
  constexpr const char* prefixes = "kMGTPEZY";
  int k = 0;
  while (k < 7 && bytes >= unit * base) unit *= base, ++k;
  char prefix = binary && k == 0 ? 'K' : prefixes[k];
  std::snprintf(out, sizeof out, "%.1f %c%sB", base * bytes / (unit * base), prefix, binary ? "i" : "");
  return in.str(out);
}

Val unavailable(Interp&, Args&) {
  fail("TemplateRuntimeError", "the filters pprint, random and urlize are not available in chat templates");
}

constexpr FilterEntry kFilters[] = {
    {"abs", absolute},
    {"attr", attribute},
    {"capitalize", capitalize},
    {"center", center},
    {"d", default_value},
    {"default", default_value},
    {"filesizeformat", filesizeformat},
    {"float", to_float},
    {"format", format},
    {"indent", indent},
    {"int", to_int},
    {"lower", mapped<CaseMap::kLower>},
    {"pprint", unavailable},
    {"random", unavailable},
    {"replace", replace},
    {"round", round_number},
    {"string", string},
    {"title", title},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", mapped<CaseMap::kUpper>},
    {"urlize", unavailable},
    {"wordcount", wordcount},
    {"wordwrap", wordwrap},
};

}  // namespace

std::span<const FilterEntry> text_filters() { return kFilters; }

}  // namespace brisk::jinja
