// Methods of strings.
#include <algorithm>

#include "text/jinja_interp.h"
#include "text/jinja_strings.h"
#include "text/utf8.h"

namespace brisk::jinja {
namespace {

void need_str(const Val& v) {
  need_defined(v);
  if (!v.is_string()) type_error("must be str, not " + type_name(v));
}

template <CaseMap map>
Val mapped(Interp& in, const Val& s, Args& a) {
  Bound(a, "str method", "");
  return str_map(in.budget, s, map);
}
template <Val (*f)(Budget&, const Val&)>
Val simple(Interp& in, const Val& s, Args& a) {
  Bound(a, "str method", "");
  return f(in.budget, s);
}
template <bool left, bool right>
Val strip(Interp& in, const Val& s, Args& a) {
  Bound p(a, "strip", "chars");
  return str_strip(in.budget, s, p.get(0, Val::none()), left, right);
}

template <bool from_right>
Val split(Interp& in, const Val& s, Args& a) {
  Bound p(a, "split", "sep maxsplit");
  return make_list(in.budget, str_split(in.budget, s, p.get(0, Val::none()), p.integer(1, -1), from_right));
}
Val splitlines(Interp& in, const Val& s, Args& a) {
  Bound p(a, "splitlines", "keepends");
  return make_list(in.budget, str_splitlines(in.budget, s, p.flag(0, false)));
}

Val replace(Interp& in, const Val& s, Args& a) {
  Bound p(a, "replace", "old new count", 2);
  need_str(p[0]);
  need_str(p[1]);
  return str_replace(in.budget, s, p[0], p[1], p.integer(2, -1));
}

Val join(Interp& in, const Val& s, Args& a) {
  Bound p(a, "join", "iterable", 1);
  std::vector<Val> items = to_vector(in.budget, p[0]);
  for (size_t k = 0; k < items.size(); ++k)
    if (!items[k].is_string())
      type_error("sequence item " + std::to_string(k) + ": expected str instance, " + type_name(items[k]) +
                 " found");
  return str_join(in.budget, s, items);
}

// Byte range that the optional start and end arguments select; nothing if the start lies behind the end.
struct Span {
  size_t from, to;
  bool valid;
};
Span span_of(const StrObj& s, const Bound& p, size_t k) {
  Int n = s.length;
  auto place = [&](size_t arg, Int otherwise) {
    if (!p.present(arg)) return otherwise;
    Int i = p.integer(arg, 0);
    return i < 0 ? std::max<Int>(0, i + n) : i;
  };
  Int from = place(k, 0), to = std::min(place(k + 1, n), n);
  if (from > n || from > to) return {0, 0, false};
  return {s.offset_of(static_cast<size_t>(from)), s.offset_of(static_cast<size_t>(to)), true};
}

Int char_index(const StrObj& s, size_t byte) {
  return s.ascii ? static_cast<Int>(byte)
                 : static_cast<Int>(utf8_length(std::string_view(s.bytes).substr(0, byte)));
}

template <bool from_right, bool must>
Val find(Interp& in, const Val& s, Args& a) {
  Bound p(a, "find", "sub start end", 1);
  need_str(p[0]);
  Span r = span_of(s.str(), p, 1);
  size_t hit = std::string::npos;
  if (r.valid)
    hit = (from_right ? bytes_rfind : bytes_find)(in.budget, s.str().bytes, p[0].str().bytes, r.from, r.to);
  if (hit == std::string::npos) {
    if (must) value_error("substring not found");
    return Val::integer(-1);
  }
  return Val::integer(char_index(s.str(), hit));
}

Val count(Interp& in, const Val& s, Args& a) {
  Bound p(a, "count", "sub start end", 1);
  need_str(p[0]);
  Span r = span_of(s.str(), p, 1);
  if (!r.valid) return Val::integer(0);
  std::string_view what = p[0].str().bytes;
  if (what.empty())
    return Val::integer(
        static_cast<Int>(utf8_length(std::string_view(s.str().bytes).substr(r.from, r.to - r.from))) + 1);
  Int n = 0;
  for (size_t at = r.from; (at = bytes_find(in.budget, s.str().bytes, what, at, r.to)) != std::string::npos;
       at += what.size())
    ++n;
  return Val::integer(n);
}

template <bool at_end>
Val starts_or_ends(Interp& in, const Val& s, Args& a) {
  Bound p(a, at_end ? "endswith" : "startswith", "prefix start end", 1);
  Span r = span_of(s.str(), p, 1);
  need_defined(p[0]);
  std::vector<Val> options;
  if (p[0].is(Kind::kTuple)) options = p[0].list().items;
  else options.push_back(p[0]);
  std::string_view part = std::string_view(s.str().bytes).substr(r.from, r.to - r.from);
  for (const Val& o : options) {
    if (!o.is_string())
      type_error(std::string(at_end ? "endswith" : "startswith") +
                 " first arg must be str or a tuple of str, not " + type_name(o));
    in.budget.step(o.str().bytes.size() / 32);
    if (r.valid && (at_end ? part.ends_with(o.str().bytes) : part.starts_with(o.str().bytes)))
      return Val::boolean(true);
  }
  return Val::boolean(false);
}

template <bool suffix>
Val remove(Interp& in, const Val& s, Args& a) {
  Bound p(a, suffix ? "removesuffix" : "removeprefix", "part", 1);
  need_str(p[0]);
  std::string_view bytes = s.str().bytes, part = p[0].str().bytes;
  if (part.empty() || !(suffix ? bytes.ends_with(part) : bytes.starts_with(part))) return s;
  return suffix ? substr(in.budget, s, 0, bytes.size() - part.size())
                : substr(in.budget, s, part.size(), bytes.size());
}

template <bool from_right>
Val partition(Interp& in, const Val& s, Args& a) {
  Bound p(a, "partition", "sep", 1);
  need_str(p[0]);
  std::string_view what = p[0].str().bytes;
  if (what.empty()) value_error("empty separator");
  size_t n = s.str().bytes.size();
  size_t hit = (from_right ? bytes_rfind : bytes_find)(in.budget, s.str().bytes, what, 0, n);
  std::vector<Val> out;
  if (hit == std::string::npos) {
    out = {s, in.str(""), in.str("")};
    if (from_right) std::swap(out[0], out[2]);
  } else {
    out = {substr(in.budget, s, 0, hit), substr(in.budget, s, hit, hit + what.size()),
           substr(in.budget, s, hit + what.size(), n)};
  }
  return make_list(in.budget, std::move(out), Kind::kTuple);
}

// side: -1 left-justified, 1 right-justified, 0 centred
template <int side>
Val justify(Interp& in, const Val& s, Args& a) {
  Bound p(a, "justify", "width fillchar", 1);
  Int width = p.integer(0, 0), pad = std::max<Int>(0, width - s.str().length);
  Val fill = p.get(1, in.str(" "));
  if (side == 0) return str_center(in.budget, s, width, fill);
  return str_pad(in.budget, s, side > 0 ? pad : 0, side > 0 ? 0 : pad, fill);
}

Val zfill(Interp& in, const Val& s, Args& a) {
  Bound p(a, "zfill", "width", 1);
  Int pad = p.integer(0, 0) - s.str().length;
  if (pad <= 0) return s;
  if (pad > static_cast<Int>(in.budget.max_string)) in.budget.check_string(in.budget.max_string + 1);
  StrBuilder out(in.budget);
  size_t sign = !s.str().bytes.empty() && (s.str().bytes[0] == '-' || s.str().bytes[0] == '+');
  out.add(s.str(), 0, sign);
  out.text(std::string(static_cast<size_t>(pad), '0'));
  out.add(s.str(), sign, s.str().bytes.size());
  return out.take();
}

Val expandtabs(Interp& in, const Val& s, Args& a) {
  Bound p(a, "expandtabs", "tabsize");
  Int size = p.integer(0, 8), column = 0;
  if (size > 1000) value_error("tabs of more than 1000 columns");
  StrBuilder out(in.budget);
  for_each_run(s.str(), 0, s.str().bytes.size(), [&](std::string_view chunk, bool data) {
    for (size_t i = 0; i < chunk.size();) {
      size_t n = utf8_decode(chunk, i).size;
      if (chunk[i] == '\t') {
        Int pad = size > 0 ? size - column % size : 0;
        out.add(std::string(static_cast<size_t>(pad), ' '), data);
        column += pad;
      } else {
        out.add(chunk.substr(i, n), data);
        column = chunk[i] == '\n' || chunk[i] == '\r' ? 0 : column + 1;
      }
      i += n;
    }
  });
  return out.take(s.str().markup);
}

template <CharClass what>
Val all_are(Interp& in, const Val& s, Args& a) {
  Bound(a, "str method", "");
  in.budget.step(s.str().bytes.size() / 8);
  auto cps = code_points(s.str().bytes);
  bool yes = std::all_of(cps.begin(), cps.end(), [](char32_t c) { return char_is(what, c); });
  return Val::boolean(yes && (!cps.empty() || what == CharClass::kPrintable));
}
Val isspace(Interp& in, const Val& s, Args& a) {
  Bound(a, "isspace", "");
  auto cps = code_points(s.str().bytes);
  return Val::boolean(!cps.empty() && std::all_of(cps.begin(), cps.end(), char_is_space));
}
Val isalnum(Interp& in, const Val& s, Args& a) {
  Bound(a, "isalnum", "");
  auto cps = code_points(s.str().bytes);
  return Val::boolean(!cps.empty() && std::all_of(cps.begin(), cps.end(), char_is_alnum));
}
Val isascii(Interp&, const Val& s, Args& a) {
  Bound(a, "isascii", "");
  return Val::boolean(s.str().ascii);
}
Val isidentifier(Interp&, const Val& s, Args& a) {
  Bound(a, "isidentifier", "");
  auto cps = code_points(s.str().bytes);
  if (cps.empty() || !char_is(CharClass::kIdentStart, cps[0])) return Val::boolean(false);
  return Val::boolean(
      std::all_of(cps.begin(), cps.end(), [](char32_t c) { return char_is(CharClass::kIdentPart, c); }));
}

// islower and isupper: at least one letter of that case and none of the other.
template <CharClass wanted, CharClass other>
Val one_case(Interp&, const Val& s, Args& a) {
  Bound(a, "str method", "");
  bool any = false;
  for (char32_t c : code_points(s.str().bytes)) {
    if (char_is(other, c) || char_is(CharClass::kTitleCase, c)) return Val::boolean(false);
    any |= char_is(wanted, c);
  }
  return Val::boolean(any);
}

Val istitle(Interp&, const Val& s, Args& a) {
  Bound(a, "istitle", "");
  bool any = false, after_cased = false;
  for (char32_t c : code_points(s.str().bytes)) {
    bool big = char_is(CharClass::kUpper, c) || char_is(CharClass::kTitleCase, c),
         small = char_is(CharClass::kLower, c);
    if ((big && after_cased) || (small && !after_cased)) return Val::boolean(false);
    after_cased = big || small;
    any |= after_cased;
  }
  return Val::boolean(any);
}

Val format(Interp& in, const Val& s, Args& a) { return format_braces(in, s, a); }
Val format_map(Interp& in, const Val& s, Args& a) {
  Bound p(a, "format_map", "mapping", 1);
  need_defined(p[0]);
  if (!p[0].is(Kind::kDict)) type_error("format_map needs a mapping");
  Args named;
  for (auto& [k, v] : p[0].dict().items)
    if (k.is_string()) named.kw.emplace_back(k.str().bytes, v);
  return format_braces(in, s, named);
}

constexpr MethodEntry kMethods[] = {
    {"capitalize", simple<str_capitalize>},
    {"casefold", mapped<CaseMap::kFold>},
    {"center", justify<0>},
    {"count", count},
    {"endswith", starts_or_ends<true>},
    {"expandtabs", expandtabs},
    {"find", find<false, false>},
    {"format", format},
    {"format_map", format_map},
    {"index", find<false, true>},
    {"isalnum", isalnum},
    {"isalpha", all_are<CharClass::kAlpha>},
    {"isascii", isascii},
    {"isdecimal", all_are<CharClass::kDecimal>},
    {"isdigit", all_are<CharClass::kDigit>},
    {"isidentifier", isidentifier},
    {"islower", one_case<CharClass::kLower, CharClass::kUpper>},
    {"isnumeric", all_are<CharClass::kNumeric>},
    {"isprintable", all_are<CharClass::kPrintable>},
    {"isspace", isspace},
    {"istitle", istitle},
    {"isupper", one_case<CharClass::kUpper, CharClass::kLower>},
    {"join", join},
    {"ljust", justify<-1>},
    {"lower", mapped<CaseMap::kLower>},
    {"lstrip", strip<true, false>},
    {"partition", partition<false>},
    {"removeprefix", remove<false>},
    {"removesuffix", remove<true>},
    {"replace", replace},
    {"rfind", find<true, false>},
    {"rindex", find<true, true>},
    {"rjust", justify<1>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", strip<false, true>},
    {"split", split<false>},
    {"splitlines", splitlines},
    {"startswith", starts_or_ends<false>},
    {"strip", strip<true, true>},
    {"swapcase", simple<str_swapcase>},
    {"title", simple<str_title>},
    {"upper", mapped<CaseMap::kUpper>},
    {"zfill", zfill},
};

}  // namespace

const MethodEntry* find_string_method(std::string_view name) {
  for (const MethodEntry& m : kMethods)
    if (m.name == name) return &m;
  return nullptr;
}

}  // namespace brisk::jinja
