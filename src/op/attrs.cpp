#include "op/attrs.h"

#include <cstdio>
#include <cstring>
#include <utility>

namespace brisk {
namespace {

std::string number(float v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", static_cast<double>(v));
  return text;
}

struct Printer {
  std::string out;
  static std::string text(int64_t v) { return std::to_string(v); }
  static std::string text(float v) { return number(v); }
  static std::string text(bool v) { return v ? "true" : "false"; }
  static std::string text(DType v) { return std::string(dtype_name(v)); }
  static std::string text(const std::string& v) { return '"' + v + '"'; }
  template <class T> static std::string text(const std::vector<T>& v) {
    std::string s = "[";
    for (size_t i = 0; i < v.size(); ++i) s += (i ? ", " : "") + text(v[i]);
    return s + "]";
  }
};

struct Encoder {
  std::string out;
  void raw(const void* p, size_t n) { out.append(static_cast<const char*>(p), n); }
  void put(int64_t v) { raw(&v, sizeof v); }
  void put(float v) { raw(&v, sizeof v); }
  void put(bool v) { out += static_cast<char>(v); }
  void put(DType v) { out += static_cast<char>(v); }
  void put(const std::string& v) { put(static_cast<int64_t>(v.size())), out += v; }
  template <class T> void put(const std::vector<T>& v) {
    put(static_cast<int64_t>(v.size()));
    for (const T& x : v) put(x);
  }
};

struct Decoder {
  std::string_view in;
  bool ok = true;
  bool raw(void* p, size_t n) {
    if (!ok || in.size() < n) return ok = false;
    std::memcpy(p, in.data(), n);
    in.remove_prefix(n);
    return true;
  }
  void get(int64_t& v) { raw(&v, sizeof v); }
  void get(float& v) { raw(&v, sizeof v); }
  void get(bool& v) {
    uint8_t b = 0;
    if (raw(&b, 1) && b > 1) ok = false;
    v = b == 1;
  }
  void get(DType& v) {
    uint8_t b = 0;
    if (raw(&b, 1) && b >= kDTypeCount) { ok = false; return; }
    v = static_cast<DType>(b);
  }
  // A count can claim no more elements than bytes are left.
  size_t count() {
    int64_t n = 0;
    get(n);
    if (!ok || n < 0 || static_cast<uint64_t>(n) > in.size()) { ok = false; return 0; }
    return static_cast<size_t>(n);
  }
  void get(std::string& v) {
    size_t n = count();
    v.assign(in.substr(0, n));
    in.remove_prefix(n);
  }
  template <class T> void get(std::vector<T>& v) {
    size_t n = count();
    v.clear();
    for (size_t i = 0; i < n && ok; ++i) get(v.emplace_back());
  }
};

template <size_t I = 0> bool emplace_named(std::string_view name, Attrs& out) {
  if constexpr (I < std::variant_size_v<Attrs>) {
    if (std::variant_alternative_t<I, Attrs>::kName == name) return out.emplace<I>(), true;
    return emplace_named<I + 1>(name, out);
  }
  return false;
}

}  // namespace

std::string to_string(const Attrs& attrs) {
  return std::visit(
      [](const auto& s) {
        using S = std::decay_t<decltype(s)>;
        const S defaults{};
        // Two passes in step: the default's field texts, then this one's.
        std::vector<std::string> base;
        S::fields(defaults, [&](const char*, const auto& v) { base.push_back(Printer::text(v)); });
        std::string out;
        size_t i = 0;
        S::fields(s, [&](const char* name, const auto& v) {
          std::string text = Printer::text(v);
          if (text != base[i++]) out += (out.empty() ? "" : ", ") + std::string(name) + "=" + text;
        });
        return out.empty() ? out : "{" + out + "}";
      },
      attrs);
}

std::string encode(const Attrs& attrs) {
  return std::visit(
      [](const auto& s) {
        using S = std::decay_t<decltype(s)>;
        Encoder e;
        e.put(std::string(S::kName));
        S::fields(s, [&](const char*, const auto& v) { e.put(v); });
        return std::move(e.out);
      },
      attrs);
}

bool operator==(const Attrs& a, const Attrs& b) { return a.index() == b.index() && encode(a) == encode(b); }

bool decode(std::string_view bytes, Attrs& out) {
  Decoder d{bytes};
  std::string name;
  d.get(name);
  if (!d.ok || !emplace_named(name, out)) return false;
  std::visit([&](auto& s) { std::decay_t<decltype(s)>::fields(s, [&](const char*, auto& v) { d.get(v); }); }, out);
  return d.ok && d.in.empty();
}

}  // namespace brisk
