// Filters around HTML and URLs, and Markup, the string type that marks text as escaped.
#include "text/jinja_filters.h"
#include "text/jinja_interp.h"
#include "text/jinja_strings.h"
#include "text/utf8.h"

namespace brisk::jinja {

Val escape_html(Budget& b, const Val& v) {
  if (v.is_string() && v.str().markup) return v;
  Val s = to_str(b, v);
  StrBuilder out(b);
  for_each_run(s.str(), 0, s.str().bytes.size(), [&](std::string_view chunk, bool data) {
    std::string piece;
    for (char c : chunk) {
      switch (c) {
        case '&':
          piece += "&amp;";
          break;
        case '<':
          piece += "&lt;";
          break;
        case '>':
          piece += "&gt;";
          break;
        case '\'':
          piece += "&#39;";
          break;
        case '"':
          piece += "&#34;";
          break;
        default:
          piece += c;
      }
    }
    out.add(piece, data);
  });
  return out.take(true);
}

namespace {

Val as_markup(Budget& b, const Val& v) {
  if (v.is_string() && v.str().markup) return v;
  StrBuilder out(b);
  write_str(out, v);
  return out.take(true);
}

Val as_plain(Budget& b, const Val& v) {
  StrBuilder out(b);
  write_str(out, v);
  return out.take(false);
}

Val safe(Interp& in, Args& a) {
  Bound p(a, "safe", "value", 1);
  return as_markup(in.budget, p[0]);
}
Val escape(Interp& in, Args& a) {
  Bound p(a, "escape", "value", 1);
  return escape_html(in.budget, p[0]);
}
Val forceescape(Interp& in, Args& a) {
  Bound p(a, "forceescape", "value", 1);
  return escape_html(in.budget, as_plain(in.budget, p[0]));
}

// Tags and comments out, runs of white space to one space, the common entities back to characters.
Val striptags(Interp& in, Args& a) {
  Bound p(a, "striptags", "value", 1);
  Val v = as_plain(in.budget, p[0]);
  for (auto [open, close] : {std::pair("<!--", "-->"), std::pair("<", ">")}) {
    const StrObj& s = v.str();
    StrBuilder out(in.budget);
    size_t at = 0;
    while (true) {
      size_t from = bytes_find(in.budget, s.bytes, open, at, s.bytes.size());
      size_t end =
          from == std::string::npos ? from : bytes_find(in.budget, s.bytes, close, from, s.bytes.size());
      if (end == std::string::npos) break;
      out.add(s, at, from);
      at = end + std::string_view(close).size();
    }
    out.add(s, at, s.bytes.size());
    v = out.take();
  }
  v = str_join(in.budget, in.str(" "), str_split(in.budget, v, Val::none(), -1, false));
  constexpr std::pair<const char*, const char*> entities[] = {
      {"&lt;", "<"},    {"&gt;", ">"},        {"&#39;", "'"}, {"&#34;", "\""},
      {"&quot;", "\""}, {"&nbsp;", "\u00a0"}, {"&amp;", "&"}};
  for (auto [from, to] : entities) v = str_replace(in.budget, v, in.str(from), in.str(to), -1);
  return v;
}

void quote(StrBuilder& out, const Val& v, bool query) {
  Val s = to_str(out.budget(), v);
  for_each_run(s.str(), 0, s.str().bytes.size(), [&](std::string_view chunk, bool data) {
    std::string piece;
    for (char c : chunk) {
      bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                   std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !query);
      constexpr char hex[] = "0123456789ABCDEF";
      auto u = static_cast<unsigned char>(c);
      if (plain) piece += c;
      else if (c == ' ' && query) piece += '+';
      else piece += {'%', hex[u >> 4], hex[u & 15]};
    }
    out.add(piece, data);
  });
}

Val urlencode(Interp& in, Args& a) {
  Bound p(a, "urlencode", "value", 1);
  StrBuilder out(in.budget);
  if (p[0].is_string() || !is_iterable(p[0])) {
    quote(out, p[0], false);
    return out.take();
  }
  std::vector<std::pair<Val, Val>> pairs;
  if (p[0].is(Kind::kDict)) {
    pairs = p[0].dict().items;
  } else {
    for (const Val& item : to_vector(in.budget, p[0])) {
      std::vector<Val> kv = to_vector(in.budget, item);
      if (kv.size() != 2) value_error("urlencode needs pairs");
      pairs.emplace_back(kv[0], kv[1]);
    }
  }
  for (size_t k = 0; k < pairs.size(); ++k) {
    if (k) out.text("&");
    quote(out, pairs[k].first, true);
    out.text("=");
    quote(out, pairs[k].second, true);
  }
  return out.take();
}

Val xmlattr(Interp& in, Args& a) {
  Bound p(a, "xmlattr", "d autospace", 1);
  if (!p[0].is(Kind::kDict)) type_error("xmlattr needs a mapping");
  StrBuilder out(in.budget);
  for (auto& [k, v] : p[0].dict().items) {
    if (v.is_none() || v.is_undefined()) continue;
    if (!k.is_string()) type_error("expected string or bytes-like object, got '" + type_name(k) + "'");
    const Val& key = k;
    if (key.str().bytes.find_first_of(" \t\n\r\f\v/>=") != std::string::npos)
      value_error("Invalid character in attribute name: '" + key.str().bytes + "'");
    if (out.size() || p.flag(1, true)) out.text(" ");
    out.add(escape_html(in.budget, key).str());
    out.text("=\"");
    out.add(escape_html(in.budget, v).str());
    out.text("\"");
  }
  return out.take();
}

constexpr FilterEntry kFilters[] = {
    {"e", escape},        {"escape", escape},       {"forceescape", forceescape},
    {"safe", safe},       {"striptags", striptags}, {"urlencode", urlencode},
    {"xmlattr", xmlattr},
};

}  // namespace

std::span<const FilterEntry> html_filters() { return kFilters; }

}  // namespace brisk::jinja
