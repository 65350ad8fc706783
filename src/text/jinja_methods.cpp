// Methods of lists, dicts, numbers, loops and cyclers. Rows without a function are the ones that change their
// object: they exist, and the sandbox refuses them.
#include <algorithm>
#include <cmath>

#include "text/jinja_interp.h"

namespace brisk::jinja {
namespace {

Val list_count(Interp& in, const Val& self, Args& a) {
  Bound p(a, "count", "value", 1);
  Int n = 0;
  for (const Val& v : self.list().items) n += equal(in.budget, v, p[0]);
  return Val::integer(n);
}

Val list_index(Interp& in, const Val& self, Args& a) {
  Bound p(a, "index", "value start stop", 1);
  auto& items = self.list().items;
  Int n = static_cast<Int>(items.size());
  auto place = [&](size_t k, Int otherwise) {
    Int i = p.integer(k, otherwise);
    return std::clamp<Int>(i < 0 ? i + n : i, 0, n);
  };
  for (Int k = place(1, 0), end = place(2, n); k < end; ++k)
    if (equal(in.budget, items[static_cast<size_t>(k)], p[0])) return Val::integer(k);
  value_error("the value is not in the list");
}

Val range_count(Interp& in, const Val& self, Args& a) {
  Bound p(a, "count", "value", 1);
  return Val::integer(contains(in.budget, self, p[0]));
}
Val range_index(Interp& in, const Val& self, Args& a) {
  Bound p(a, "index", "value", 1);
  if (!contains(in.budget, self, p[0])) value_error("the value is not in the range");
  auto& r = self.as<RangeObj>();
  Int n = p[0].is(Kind::kFloat) ? float_to_int(p[0].f) : p[0].as_int();
  return Val::integer((n - r.start) / r.step);
}

Val list_copy(Interp& in, const Val& self, Args& a) {
  Bound(a, "copy", "");
  return make_list(in.budget, self.list().items);
}

Val dict_get(Interp& in, const Val& self, Args& a) {
  Bound p(a, "get", "key default", 1);
  const Val* v = self.dict().find(in.budget, p[0]);
  return v ? *v : p.get(1, Val::none());
}

template <ViewObj::Part part>
Val dict_view(Interp& in, const Val& self, Args& a) {
  Bound(a, "dict view", "");
  auto v = std::make_shared<ViewObj>();
  v->charge(in.budget, sizeof(ViewObj));
  v->depth = depth_of(self);
  v->part = part;
  v->dict = self;
  return Val(Kind::kView, std::move(v));
}

Val dict_copy(Interp&, const Val& self, Args& a) {
  Bound(a, "copy", "");
  return self;  // nobody can change either
}

Val dict_fromkeys(Interp& in, const Val&, Args& a) {
  Bound p(a, "fromkeys", "iterable value", 1);
  auto d = new_dict(in.budget);
  for (const Val& k : to_vector(in.budget, p[0])) d->put(in.budget, k, p.get(1, Val::none()));
  return make_dict(in.budget, std::move(d));
}

Val int_bit_length(Interp&, const Val& self, Args& a) {
  Bound(a, "bit_length", "");
  Int i = self.as_int();
  Int n = 0;
  for (unsigned __int128 u = i < 0 ? -static_cast<unsigned __int128>(i) : static_cast<unsigned __int128>(i);
       u; u >>= 1)
    ++n;
  return Val::integer(n);
}
Val number_conjugate(Interp&, const Val& self, Args& a) {
  Bound(a, "conjugate", "");
  return self.is(Kind::kBool) ? Val::integer(self.as_int()) : self;
}
Val float_is_integer(Interp&, const Val& self, Args& a) {
  Bound(a, "is_integer", "");
  return Val::boolean(std::isfinite(self.f) && self.f == std::floor(self.f));
}

Val loop_cycle(Interp&, const Val& self, Args& a) {
  if (a.pos.empty()) type_error("no items for cycling given");
  return a.pos[static_cast<size_t>(self.as<LoopObj>().index0) % a.pos.size()];
}
Val loop_changed(Interp& in, const Val& self, Args& a) {
  auto& l = self.as<LoopObj>();
  bool same = l.changed_called && l.last_changed.size() == a.pos.size();
  for (size_t k = 0; same && k < a.pos.size(); ++k) same = equal(in.budget, l.last_changed[k], a.pos[k]);
  l.changed_called = true;
  if (!same) l.last_changed = a.pos;
  return Val::boolean(!same);
}

Val cycler_next(Interp&, const Val& self, Args& a) {
  Bound(a, "next", "");
  auto& c = self.as<CyclerObj>();
  Val v = c.items[c.pos];
  c.pos = (c.pos + 1) % c.items.size();
  return v;
}
Val cycler_reset(Interp&, const Val& self, Args& a) {
  Bound(a, "reset", "");
  self.as<CyclerObj>().pos = 0;
  return Val::none();
}

constexpr MethodEntry kList[] = {
    {"append", nullptr}, {"clear", nullptr},    {"copy", list_copy}, {"count", list_count},
    {"extend", nullptr}, {"index", list_index}, {"insert", nullptr}, {"pop", nullptr},
    {"remove", nullptr}, {"reverse", nullptr},  {"sort", nullptr},
};
constexpr MethodEntry kTuple[] = {{"count", list_count}, {"index", list_index}};
constexpr MethodEntry kRange[] = {{"count", range_count}, {"index", range_index}};
constexpr MethodEntry kDict[] = {
    {"clear", nullptr},
    {"copy", dict_copy},
    {"fromkeys", dict_fromkeys},
    {"get", dict_get},
    {"items", dict_view<ViewObj::kItems>},
    {"keys", dict_view<ViewObj::kKeys>},
    {"pop", nullptr},
    {"popitem", nullptr},
    {"setdefault", nullptr},
    {"update", nullptr},
    {"values", dict_view<ViewObj::kValues>},
};
constexpr MethodEntry kInt[] = {{"bit_length", int_bit_length}, {"conjugate", number_conjugate}};
constexpr MethodEntry kFloat[] = {{"conjugate", number_conjugate}, {"is_integer", float_is_integer}};
constexpr MethodEntry kLoop[] = {{"changed", loop_changed}, {"cycle", loop_cycle}};
constexpr MethodEntry kCycler[] = {{"next", cycler_next}, {"reset", cycler_reset}};
constexpr MethodEntry kDictGlobal[] = {{"fromkeys", dict_fromkeys}};

}  // namespace

const MethodEntry* find_method(Kind kind, std::string_view name) {
  auto in = [name](auto& table) -> const MethodEntry* {
    for (const MethodEntry& m : table)
      if (m.name == name) return &m;
    return nullptr;
  };
  switch (kind) {
    case Kind::kString:
      return find_string_method(name);
    case Kind::kList:
      return in(kList);
    case Kind::kTuple:
      return in(kTuple);
    case Kind::kRange:
      return in(kRange);
    case Kind::kDict:
      return in(kDict);
    case Kind::kBool:
    case Kind::kInt:
      return in(kInt);
    case Kind::kFloat:
      return in(kFloat);
    case Kind::kLoop:
      return in(kLoop);
    case Kind::kCycler:
      return in(kCycler);
    case Kind::kFunction:
      return in(kDictGlobal);  // the `dict` global is the one function with a method
    default:
      return nullptr;
  }
}

}  // namespace brisk::jinja
