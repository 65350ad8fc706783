// Global functions.
#include <locale.h>
#include <ctime>

#include "text/jinja_interp.h"

namespace brisk::jinja {
namespace {

Val range(Interp& in, Args& a) {
  Bound p(a, "range", "start stop step", 1);
  if (!a.kw.empty()) type_error("range() takes no keyword arguments");
  Int start = 0, stop = p.integer(0, 0), step = p.integer(2, 1);
  if (p.has(1)) {
    start = stop;
    stop = p.integer(1, 0);
  }
  if (step == 0) value_error("range() arg 3 must not be zero");
  constexpr Int kMaxRange = 100000;  // the sandbox's
  constexpr Int kMaxBound = Int{1} << 100;
  bool huge = false;
  for (Int v : {start, stop, step}) huge |= v > kMaxBound || v < -kMaxBound;
  Val r = huge ? Val() : make_range(in.budget, start, stop, step);
  if (huge || r.as<RangeObj>().length > kMaxRange)
    fail("OverflowError", "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  return r;
}

// What dict() and namespace() are made from: a mapping or pairs, then named arguments.
std::shared_ptr<DictObj> collect(Interp& in, Args& a, const char* what) {
  if (a.pos.size() > 1)
    type_error(std::string(what) + " expected at most 1 argument, got " + std::to_string(a.pos.size()));
  auto d = new_dict(in.budget);
  if (!a.pos.empty()) {
    const Val& from = a.pos[0];
    need_defined(from);
    if (from.is(Kind::kDict)) {
      for (auto& [k, v] : from.dict().items) d->put(in.budget, k, v);
    } else {
      for (const Val& pair : to_vector(in.budget, from)) {
        std::vector<Val> kv = to_vector(in.budget, pair);
        if (kv.size() != 2)
          value_error("dictionary update sequence element has length " + std::to_string(kv.size()) +
                      "; 2 is required");
        d->put(in.budget, kv[0], kv[1]);
      }
    }
  }
  for (auto& [k, v] : a.kw) d->put(in.budget, in.str(k), v);
  return d;
}

Val dict(Interp& in, Args& a) { return make_dict(in.budget, collect(in, a, "dict")); }

Val make_ns(Interp& in, Args& a) {
  auto d = collect(in, a, "namespace");
  Val ns = in.make_namespace();
  auto& obj = ns.as<NamespaceObj>();
  for (auto& [k, v] : d->items) {
    if (!k.is_string()) continue;  // Python keeps it, but no attribute can have that name
    if (!k.str().bytes.empty() && k.str().bytes[0] == '_')
      fail("SecurityError", "a namespace cannot hold the attribute '" + k.str().bytes + "'");
    obj.charge(in.budget, sizeof(Val) + k.str().bytes.size() + 32);
    obj.attributes.emplace_back(k.str().bytes, v);
  }
  return ns;
}

Val cycler(Interp& in, Args& a) {
  if (!a.kw.empty()) type_error("cycler() takes no keyword arguments");
  if (a.pos.empty()) fail("RuntimeError", "at least one item has to be provided");
  auto c = std::make_shared<CyclerObj>();
  c->charge(in.budget, sizeof(CyclerObj) + a.pos.size() * sizeof(Val));
  for (const Val& v : a.pos) c->depth = std::max(c->depth, depth_of(v) + 1);
  c->items = a.pos;
  return Val(Kind::kCycler, std::move(c));
}

Val joiner(Interp& in, Args& a) {
  Bound p(a, "joiner", "sep");
  auto j = std::make_shared<JoinerObj>();
  j->charge(in.budget, sizeof(JoinerObj));
  j->separator = p.get(0, in.str(", "));
  j->depth = depth_of(j->separator) + 1;
  return Val(Kind::kJoiner, std::move(j));
}

Val raise_exception(Interp& in, Args& a) {
  Bound p(a, "raise_exception", "message", 1);
  fail("TemplateError", to_str(in.budget, p[0]).str().bytes);
}

Val strftime_now(Interp& in, Args& a) {
  Bound p(a, "strftime_now", "format", 1);
  if (!p[0].is_string()) type_error("strftime() argument 1 must be str, not " + type_name(p[0]));
  std::string form;
  std::string_view f = p[0].str().bytes;
  if (f.size() > 1024) value_error("a time format of more than 1024 bytes");
  for (size_t i = 0; i < f.size(); ++i) {  // what Python replaces itself: no zone is known, and microseconds
    char next = f[i] == '%' && i + 1 < f.size() ? f[i + 1] : 0;
    if (next == 'f') {
      std::string us = std::to_string(1000000 + in.microseconds);
      form += us.substr(1);
    } else if (next != 'z' && next != 'Z') {
      form += f[i];
      if (next) form += next;
    }
    i += next != 0;
  }
  if (form.empty()) return in.str("");
  static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
  char out[8192];
  size_t n = strftime_l(out, sizeof out, form.c_str(), &in.now, c_locale);
  return in.str({out, n});
}

constexpr GlobalEntry kGlobals[] = {
    {"cycler", cycler},
    {"dict", dict},
    {"joiner", joiner},
    {"namespace", make_ns},
    {"raise_exception", raise_exception},
    {"range", range},
    {"strftime_now", strftime_now},
};

}  // namespace

const GlobalEntry* find_global(std::string_view name) {
  for (const GlobalEntry& g : kGlobals)
    if (g.name == name) return &g;
  return nullptr;
}

}  // namespace brisk::jinja
