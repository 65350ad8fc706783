#include "text/json_value.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "text/utf8.h"

namespace brisk {

const Json* Json::find(std::string_view name) const {
  if (const Object* o = as_object())
    for (const Member& m : *o)
      if (m.first == name) return &m.second;
  return nullptr;
}

void Json::set(std::string_view name, Json value) {
  if (is_null()) v_ = Object{};
  Object& o = std::get<Object>(v_);
  for (Member& m : o) {
    if (m.first != name) continue;
    m.second = std::move(value);
    return;
  }
  o.emplace_back(std::string(name), std::move(value));
}

namespace {

class JsonParser {
 public:
  JsonParser(std::string_view s, const JsonLimits& limits) : s_(s), limits_(limits) {}

  Result<Json> parse() {
    BRISK_ASSIGN(Json v, value(0));
    space();
    if (i_ != s_.size()) return bad("text after the value");
    return v;
  }

 private:
  Error bad(const char* what) const { return invalid("JSON, byte " + std::to_string(i_) + ": " + what); }
  void space() {
    while (i_ < s_.size() && (s_[i_] == ' ' || s_[i_] == '\n' || s_[i_] == '\r' || s_[i_] == '\t')) ++i_;
  }
  bool take(char c) {
    space();
    if (i_ >= s_.size() || s_[i_] != c) return false;
    ++i_;
    return true;
  }
  bool word(std::string_view w) {
    if (s_.substr(i_, w.size()) != w) return false;
    i_ += w.size();
    return true;
  }

  Result<Json> value(size_t depth) {
    space();
    if (i_ >= s_.size()) return bad("a value is missing");
    if (depth > limits_.max_depth)
      return bad(("nested deeper than " + std::to_string(limits_.max_depth) + " levels").c_str());
    switch (s_[i_]) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"': {
        BRISK_ASSIGN(std::string s, string());
        return Json(std::move(s));
      }
      case 't':
        if (word("true")) return Json(true);
        break;
      case 'f':
        if (word("false")) return Json(false);
        break;
      case 'n':
        if (word("null")) return Json();
        break;
      default:
        return number();
    }
    return bad("unknown word");
  }

  Result<Json> array(size_t depth) {
    ++i_;
    Json::Array out;
    if (take(']')) return Json(std::move(out));
    while (true) {
      BRISK_ASSIGN(Json v, value(depth + 1));
      out.push_back(std::move(v));
      if (take(']')) return Json(std::move(out));
      if (!take(',')) return bad("expected ',' or ']'");
    }
  }

  Result<Json> object(size_t depth) {
    ++i_;
    Json::Object out;
    std::unordered_map<std::string, size_t> seen;
    if (take('}')) return Json(std::move(out));
    while (true) {
      space();
      if (i_ >= s_.size() || s_[i_] != '"') return bad("expected a member name in quotes");
      BRISK_ASSIGN(std::string name, string());
      if (!take(':')) return bad("expected ':'");
      BRISK_ASSIGN(Json v, value(depth + 1));
      auto [it, fresh] = seen.emplace(name, out.size());
      if (!fresh && !limits_.repeated_names) return bad("the member before this is named twice");
      if (fresh) out.emplace_back(std::move(name), std::move(v));
      else out[it->second].second = std::move(v);
      if (take('}')) return Json(std::move(out));
      if (!take(',')) return bad("expected ',' or '}'");
    }
  }

  bool hex4(uint32_t& out) {
    if (i_ + 4 > s_.size()) return false;
    auto [p, e] = std::from_chars(s_.data() + i_, s_.data() + i_ + 4, out, 16);
    if (e != std::errc() || p != s_.data() + i_ + 4) return false;
    i_ += 4;
    return true;
  }

  Status escape(std::string& out) {
    if (i_ >= s_.size()) return bad("unfinished string");
    char c = s_[i_++];
    constexpr std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
    if (size_t k = from.find(c); k != from.npos) {
      out += to[k];
      return {};
    }
    uint32_t u = 0;
    if (c != 'u' || !hex4(u)) return bad("bad escape in a string");
    if (u >= 0xD800 && u < 0xDC00 && s_.substr(i_, 2) == "\\u") {
      size_t back = i_;
      uint32_t low = 0;
      i_ += 2;
      if (!hex4(low)) return bad("bad escape in a string");
      if (low >= 0xDC00 && low < 0xE000) u = 0x10000 + ((u - 0xD800) << 10) + (low - 0xDC00);
      else i_ = back;  // a lone surrogate; the next escape stands for itself
    }
    utf8_append(out, u);
    return {};
  }

  Result<std::string> string() {
    ++i_;
    std::string out;
    while (i_ < s_.size()) {
      auto c = static_cast<unsigned char>(s_[i_]);
      if (c == '"') {
        ++i_;
        return out;
      }
      if (c < 0x20) return bad("control character in a string");
      if (c == '\\') {
        ++i_;
        BRISK_TRY(escape(out));
      } else if (c < 0x80) {
        out += s_[i_++];
      } else {
        Utf8Char u = utf8_decode(s_, i_);
        if (!u.ok) return bad("text is not UTF-8");
        out.append(s_, i_, u.size);
        i_ += u.size;
      }
    }
    return bad("unfinished string");
  }

  bool digits() {
    size_t start = i_;
    while (i_ < s_.size() && s_[i_] >= '0' && s_[i_] <= '9') ++i_;
    return i_ > start;
  }

  Result<Json> number() {
    size_t start = i_;
    bool real = false, negative_exponent = false;
    if (s_[i_] == '-') ++i_;
    size_t first = i_;
    if (!digits()) return bad("expected a value");
    if (s_[first] == '0' && i_ > first + 1) return bad("a number with leading zeros");
    if (i_ < s_.size() && s_[i_] == '.') {
      real = true;
      ++i_;
      if (!digits()) return bad("a number without digits after the point");
    }
    if (i_ < s_.size() && (s_[i_] == 'e' || s_[i_] == 'E')) {
      real = true;
      ++i_;
      if (i_ < s_.size() && (s_[i_] == '+' || s_[i_] == '-')) negative_exponent = s_[i_++] == '-';
      if (!digits()) return bad("a number without digits in the exponent");
    }
    const char *b = s_.data() + start, *e = s_.data() + i_;
    if (real) {
      double d = 0;
      if (std::from_chars(b, e, d).ec == std::errc::result_out_of_range) {
        d = negative_exponent ? 0.0 : std::numeric_limits<double>::infinity();
        if (*b == '-') d = -d;
      }
      return Json(d);
    }
    int128 n = 0;
    for (const char* p = b + (*b == '-'); p < e; ++p)
      if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *p - '0', &n))
        return bad("an integer of more than 127 bits");
    return Json(*b == '-' ? -n : n);
  }

  std::string_view s_;
  const JsonLimits& limits_;
  size_t i_ = 0;
};

void write_string(std::string& out, std::string_view s) {
  out += '"';
  for (char c : s) {
    constexpr std::string_view from = "\"\\\b\f\n\r\t", to = "\"\\bfnrt";
    if (size_t k = from.find(c); k != from.npos) {
      out += '\\';
      out += to[k];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr char hex[] = "0123456789abcdef";
      out += "\\u00";
      out += hex[c >> 4];
      out += hex[c & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void write_int(std::string& out, int128 i) {
  char digits[48];
  int n = 0;
  bool negative = i < 0;
  do {
    int d = static_cast<int>(i % 10);
    digits[n++] = static_cast<char>('0' + (d < 0 ? -d : d));
    i /= 10;
  } while (i != 0);
  if (negative) out += '-';
  while (n > 0) out += digits[--n];
}

void write(std::string& out, const Json& v) {
  if (const bool* b = v.as_bool()) {
    out += *b ? "true" : "false";
  } else if (const int128* i = v.as_int()) {
    write_int(out, *i);
  } else if (const double* d = v.as_double()) {
    char buffer[40];
    auto end = std::to_chars(buffer, buffer + sizeof buffer, *d).ptr;
    std::string_view text(buffer, end - buffer);
    if (!std::isfinite(*d)) text = "null";
    out += text;
    if (std::isfinite(*d) && text.find_first_of(".e") == text.npos) out += ".0";
  } else if (const std::string* s = v.as_string()) {
    write_string(out, *s);
  } else if (const Json::Array* a = v.as_array()) {
    out += '[';
    for (size_t k = 0; k < a->size(); ++k) {
      if (k) out += ',';
      write(out, (*a)[k]);
    }
    out += ']';
  } else if (const Json::Object* o = v.as_object()) {
    out += '{';
    for (size_t k = 0; k < o->size(); ++k) {
      if (k) out += ',';
      write_string(out, (*o)[k].first);
      out += ':';
      write(out, (*o)[k].second);
    }
    out += '}';
  } else {
    out += "null";
  }
}

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes)
    return invalid("JSON of " + std::to_string(text.size()) + " bytes, the limit is " +
                   std::to_string(limits.max_bytes));
  return JsonParser(text, limits).parse();
}

std::string to_text(const Json& value) {
  std::string out;
  write(out, value);
  return out;
}

}  // namespace brisk
