#include "text/jinja_strings.h"

#include <algorithm>
#include <cstring>

#include "text/jinja_interp.h"
#include "text/utf8.h"

namespace brisk::jinja {

std::vector<char32_t> code_points(std::string_view s) {
  std::vector<char32_t> out;
  for (size_t i = 0; i < s.size();) {
    Utf8Char c = utf8_decode(s, i);
    out.push_back(c.cp);
    i += c.size;
  }
  return out;
}

size_t bytes_find(Budget& b, std::string_view s, std::string_view what, size_t from, size_t to) {
  if (from > to) return s.npos;
  b.step((to - from) / 32 + 1);
  if (what.empty()) return from;
  const void* p = memmem(s.data() + from, to - from, what.data(), what.size());
  return p ? static_cast<size_t>(static_cast<const char*>(p) - s.data()) : s.npos;
}

size_t bytes_rfind(Budget& b, std::string_view s, std::string_view what, size_t from, size_t to) {
  if (from > to || what.size() > to - from) return s.npos;
  // Backwards there is no linear search at hand: each place is charged by what it may compare.
  for (size_t i = to - what.size() + 1; i-- > from;) {
    if (what.empty()) return i;
    if (s[i] != what[0]) continue;
    b.step(what.size() / 32 + 1);
    if (std::memcmp(s.data() + i, what.data(), what.size()) == 0) return i;
  }
  b.step((to - from) / 32 + 1);
  return s.npos;
}

namespace {

// Calls f(code point, bytes of it, from_data) for each character.
template <class F>
void each_char(const StrObj& s, F&& f) {
  for_each_run(s, 0, s.bytes.size(), [&](std::string_view chunk, bool data) {
    for (size_t i = 0; i < chunk.size();) {
      Utf8Char c = utf8_decode(chunk, i);
      f(c.cp, chunk.substr(i, c.size), data);
      i += c.size;
    }
  });
}

constexpr char32_t kSigma = 0x3A3;

// A capital sigma at byte i is a final one: after a cased letter and not before one, ignorable marks aside.
bool sigma_is_final(std::string_view s, size_t i) {
  auto relevant = [](char32_t c) { return !char_is(CharClass::kCaseIgnorable, c); };
  size_t k = i;
  bool before = false;
  while (k > 0) {
    do --k;
    while (k > 0 && utf8_is_continuation(s[k]));
    char32_t c = utf8_decode(s, k).cp;
    if (!relevant(c)) continue;
    before = char_is(CharClass::kCased, c);
    break;
  }
  if (!before) return false;
  for (k = i + 2; k < s.size();) {
    Utf8Char c = utf8_decode(s, k);
    if (relevant(c.cp)) return !char_is(CharClass::kCased, c.cp);
    k += c.size;
  }
  return true;
}

class CaseMapper {
 public:
  CaseMapper(Budget& b, const StrObj& s) : s_(s), out_(b) {}
  // f(code point) gives the mapping of the next character; characters come in order.
  template <class F>
  Val run(F&& f) {
    size_t at = 0;
    std::string piece;
    for_each_run(s_, 0, s_.bytes.size(), [&](std::string_view chunk, bool data) {
      piece.clear();
      for (size_t i = 0; i < chunk.size();) {
        Utf8Char c = utf8_decode(chunk, i);
        CaseMap map = f(c.cp);
        if (c.cp == kSigma && map == CaseMap::kLower)
          utf8_append(piece, sigma_is_final(s_.bytes, at) ? 0x3C2 : 0x3C3);
        else append_mapped(piece, map, c.cp);
        i += c.size;
        at += c.size;
      }
      out_.add(piece, data);
    });
    return out_.take(s_.markup);
  }

 private:
  const StrObj& s_;
  StrBuilder out_;
};

}  // namespace

Val str_map(Budget& b, const Val& s, CaseMap map) {
  return CaseMapper(b, s.str()).run([map](char32_t) { return map; });
}

Val str_capitalize(Budget& b, const Val& s) {
  bool first = true;
  return CaseMapper(b, s.str()).run([&](char32_t) {
    return std::exchange(first, false) ? CaseMap::kTitle : CaseMap::kLower;
  });
}

Val str_title(Budget& b, const Val& s) {
  bool in_word = false;
  return CaseMapper(b, s.str()).run([&](char32_t c) {
    CaseMap map = in_word ? CaseMap::kLower : CaseMap::kTitle;
    in_word = char_is(CharClass::kCased, c);
    return map;
  });
}

Val str_swapcase(Budget& b, const Val& s) {
  return CaseMapper(b, s.str()).run([&](char32_t c) {
    return char_is(CharClass::kUpper, c) ? CaseMap::kLower : CaseMap::kUpper;
  });
}

Val str_strip(Budget& b, const Val& s, const Val& chars, bool left, bool right) {
  need_defined(chars);
  if (!chars.is_none() && !chars.is_string()) type_error("strip arg must be None or str");
  std::vector<char32_t> set;
  if (chars.is_string()) {
    set = code_points(chars.str().bytes);
    std::sort(set.begin(), set.end());
  }
  auto cut = [&](char32_t c) {
    return chars.is_none() ? char_is_space(c) : std::binary_search(set.begin(), set.end(), c);
  };
  std::string_view bytes = s.str().bytes;
  size_t from = 0, to = bytes.size();
  b.step(bytes.size() / 64 + set.size() / 8);
  while (left && from < to) {
    Utf8Char c = utf8_decode(bytes, from);
    if (!cut(c.cp)) break;
    from += c.size;
  }
  while (right && from < to) {
    size_t i = to - 1;
    while (i > from && utf8_is_continuation(bytes[i])) --i;
    if (!cut(utf8_decode(bytes, i).cp)) break;
    to = i;
  }
  return substr(b, s, from, to);
}

Val str_replace(Budget& b, const Val& s, const Val& from, const Val& to, Int count) {
  auto &o = s.str(), &what = from.str();
  StrBuilder out(b);
  size_t at = 0;
  if (what.bytes.empty()) {  // between all characters
    each_char(o, [&](char32_t, std::string_view raw, bool data) {
      if (count != 0) {
        out.add(to.str());
        --count;
      }
      out.add(raw, data);
    });
    if (count != 0) out.add(to.str());
    return out.take(o.markup);
  }
  while (count != 0) {
    size_t hit = bytes_find(b, o.bytes, what.bytes, at, o.bytes.size());
    if (hit == std::string::npos) break;
    out.add(o, at, hit);
    out.add(to.str());
    at = hit + what.bytes.size();
    --count;
  }
  out.add(o, at, o.bytes.size());
  return out.take(o.markup);
}

namespace {

std::vector<Val> split_space(Budget& b, const Val& s, Int max, bool from_right) {
  std::string_view bytes = s.str().bytes;
  std::vector<std::pair<size_t, size_t>> words;  // byte ranges
  bool open = false;
  for (size_t i = 0; i < bytes.size();) {
    Utf8Char c = utf8_decode(bytes, i);
    if (char_is_space(c.cp)) open = false;
    else if (!open) words.emplace_back(i, i + c.size), open = true;
    else words.back().second = i + c.size;
    i += c.size;
  }
  b.step(bytes.size() / 32 + words.size());
  if (max >= 0 && static_cast<Int>(words.size()) > max) {
    auto n = static_cast<size_t>(max);
    if (from_right) {  // what comes before the last words stays as it is
      size_t drop = words.size() - n - 1;
      words[drop].first = 0;
      words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(drop));
    } else {
      words.resize(n + 1);
      words.back().second = bytes.size();
    }
  }
  std::vector<Val> out;
  for (auto [from, to] : words) out.push_back(substr(b, s, from, to));
  return out;
}

}  // namespace

std::vector<Val> str_split(Budget& b, const Val& s, const Val& separator, Int max, bool from_right) {
  need_defined(separator);
  if (separator.is_none()) return split_space(b, s, max, from_right);
  if (!separator.is_string()) type_error("must be str or None, not " + type_name(separator));
  std::string_view bytes = s.str().bytes, what = separator.str().bytes;
  if (what.empty()) value_error("empty separator");
  std::vector<Val> out;
  if (from_right) {
    size_t end = bytes.size();
    for (; max != 0; --max) {
      size_t hit = bytes_rfind(b, bytes, what, 0, end);
      if (hit == bytes.npos) break;
      out.push_back(substr(b, s, hit + what.size(), end));
      end = hit;
    }
    out.push_back(substr(b, s, 0, end));
    std::reverse(out.begin(), out.end());
    return out;
  }
  size_t at = 0;
  for (; max != 0; --max) {
    size_t hit = bytes_find(b, bytes, what, at, bytes.size());
    if (hit == bytes.npos) break;
    out.push_back(substr(b, s, at, hit));
    at = hit + what.size();
  }
  out.push_back(substr(b, s, at, bytes.size()));
  return out;
}

std::vector<Val> str_splitlines(Budget& b, const Val& s, bool keep_ends) {
  std::string_view bytes = s.str().bytes;
  std::vector<Val> out;
  size_t start = 0;
  for (size_t i = 0; i < bytes.size();) {
    Utf8Char c = utf8_decode(bytes, i);
    size_t end = i;
    i += c.size;
    if (!char_is_line_break(c.cp)) continue;
    if (c.cp == '\r' && i < bytes.size() && bytes[i] == '\n') ++i;
    out.push_back(substr(b, s, start, keep_ends ? i : end));
    start = i;
  }
  if (start < bytes.size()) out.push_back(substr(b, s, start, bytes.size()));
  return out;
}

Val str_join(Budget& b, const Val& separator, const std::vector<Val>& items) {
  bool markup = separator.str().markup;
  StrBuilder out(b);
  for (size_t k = 0; k < items.size(); ++k) {
    if (k) out.add(separator.str());
    if (markup) out.add(escape_html(b, items[k]).str());
    else out.add(items[k].str());
  }
  return out.take(markup);
}

Val str_pad(Budget& b, const Val& s, Int left, Int right, const Val& fill) {
  if (!fill.is_string() || fill.str().length != 1)
    type_error("The fill character must be exactly one character long");
  if (left > static_cast<Int>(b.max_string) || right > static_cast<Int>(b.max_string))
    b.check_string(b.max_string + 1);
  StrBuilder out(b);
  for (Int k = 0; k < left; ++k) out.add(fill.str());
  out.add(s.str());
  for (Int k = 0; k < right; ++k) out.add(fill.str());
  return out.take(s.str().markup);
}

Val str_center(Budget& b, const Val& s, Int width, const Val& fill) {
  Int pad = std::max<Int>(0, width - s.str().length);
  Int left = pad / 2 + (pad & width & 1);  // as CPython: an odd rest goes left where the width is odd
  return str_pad(b, s, left, pad - left, fill);
}

}  // namespace brisk::jinja
