// tojson as transformers defines it: Python's json.dumps without HTML escapes.
#include <cmath>

#include "text/jinja_filters.h"
#include "text/jinja_interp.h"
#include "text/utf8.h"

namespace brisk::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Interp& in, const Bound& p) : in_(in), out_(in.budget) {
    ascii_ = p.flag(1, false);
    sort_ = p.flag(4, false);
    item_separator_ = in.str(", ");
    key_separator_ = in.str(": ");
    if (p.present(2)) {
      indented_ = true;
      item_separator_ = in.str(",");
      if (p[2].is_string()) indent_ = p[2];
      else indent_ = arithmetic(in.budget, Op::kMul, in.str(" "), Val::integer(p.integer(2, 0)));
    }
    if (p.present(3)) {
      std::vector<Val> pair = to_vector(in.budget, p[3]);
      if (pair.size() != 2) value_error("separators are two strings");
      for (const Val& v : pair)
        if (!v.is_string()) type_error("separators are two strings");
      item_separator_ = pair[0];
      key_separator_ = pair[1];
    }
  }

  Val run(const Val& v) {
    write(v, 0);
    return out_.take();
  }

 private:
  void line(int level) {
    if (!indented_) return;
    out_.text("\n");
    for (int k = 0; k < level; ++k) out_.add(indent_.str());
  }

  void write(const Val& v, int level) {
    in_.budget.step();
    switch (v.kind) {
      case Kind::kNone:
        return out_.text("null");
      case Kind::kBool:
        return out_.text(v.b ? "true" : "false");
      case Kind::kInt:
        return out_.text(int_text(v.i));
      case Kind::kFloat:
        return out_.text(number(v.f));
      case Kind::kString:
        return string(v.str());
      case Kind::kList:
      case Kind::kTuple:
        return list(v.list(), level);
      case Kind::kDict:
        return dict(v.dict(), level);
      default:
        type_error("Object of type " + type_name(v) + " is not JSON serializable");
    }
  }

  static std::string number(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    return float_text(d);
  }

  static void unicode_escape(std::string& out, char32_t c) {
    char buffer[8];
    std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(c));
    out += buffer;
  }

  void string(const StrObj& s) {
    out_.text("\"");
    for_each_run(s, 0, s.bytes.size(), [&](std::string_view chunk, bool data) {
      std::string piece;
      for (size_t i = 0; i < chunk.size();) {
        Utf8Char c = utf8_decode(chunk, i);
        constexpr std::string_view from = "\"\\\b\f\n\r\t", to = "\"\\bfnrt";
        size_t k = c.cp < 0x80 ? from.find(static_cast<char>(c.cp)) : from.npos;
        if (k != from.npos) {
          piece += '\\';
          piece += to[k];
        } else if (c.cp < 0x20 || (ascii_ && c.cp >= 0x7F + 1u && c.cp < 0x10000)) {
          unicode_escape(piece, c.cp);
        } else if (ascii_ && c.cp >= 0x10000) {
          unicode_escape(piece, 0xD800 + ((c.cp - 0x10000) >> 10));
          unicode_escape(piece, 0xDC00 + ((c.cp - 0x10000) & 0x3FF));
        } else {
          piece += chunk.substr(i, c.size);
        }
        i += c.size;
      }
      out_.add(piece, data);
    });
    out_.text("\"");
  }

  void list(const ListObj& l, int level) {
    if (l.items.empty()) return out_.text("[]");
    out_.text("[");
    for (size_t k = 0; k < l.items.size(); ++k) {
      if (k) out_.add(item_separator_.str());
      line(level + 1);
      write(l.items[k], level + 1);
    }
    line(level);
    out_.text("]");
  }

  void key(const Val& k) {
    if (k.is_string()) return string(k.str());
    if (!k.is_number() && !k.is_none())
      type_error("keys must be str, int, float, bool or None, not " + type_name(k));
    out_.text("\"");
    write(k, 0);
    out_.text("\"");
  }

  void dict(const DictObj& d, int level) {
    if (d.items.empty()) return out_.text("{}");
    std::vector<std::pair<Val, Val>> items = d.items;
    if (sort_) sort_pairs(in_.budget, items);
    out_.text("{");
    for (size_t k = 0; k < items.size(); ++k) {
      if (k) out_.add(item_separator_.str());
      line(level + 1);
      key(items[k].first);
      out_.add(key_separator_.str());
      write(items[k].second, level + 1);
    }
    line(level);
    out_.text("}");
  }

  Interp& in_;
  StrBuilder out_;
  bool ascii_ = false, sort_ = false, indented_ = false;
  Val indent_, item_separator_, key_separator_;
};

}  // namespace

Val to_json(Interp& in, Args& args) {
  Bound p(args, "tojson", "x ensure_ascii indent separators sort_keys", 1);
  return JsonWriter(in, p).run(p[0]);
}

}  // namespace brisk::jinja
