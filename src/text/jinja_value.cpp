// Making values, and the tainted string.
#include "text/jinja_value.h"

#include <algorithm>

#include "text/utf8.h"

namespace brisk::jinja {

void fail(const char* type, std::string message) { throw RenderError{type, std::move(message)}; }

const StrObj& Val::str() const { return static_cast<const StrObj&>(*obj); }
const ListObj& Val::list() const { return static_cast<const ListObj&>(*obj); }
const DictObj& Val::dict() const { return static_cast<const DictObj&>(*obj); }

bool StrObj::data_at(size_t byte) const {
  for (const Run& r : runs)
    if (byte < r.end) return r.data;
  return data;
}

size_t StrObj::offset_of(size_t character) const {
  if (ascii || character == 0) return character;
  if (character == length) return bytes.size();
  size_t i = 0;
  while (character > 0) {
    ++i;
    if (i >= bytes.size()) return bytes.size();
    if (!utf8_is_continuation(bytes[i])) --character;
  }
  return i;
}

void StrBuilder::add(std::string_view s, bool data) {
  if (s.empty()) return;
  budget_.step(s.size() / 32 + 1);
  budget_.check_string(bytes_.size() + s.size());
  bytes_ += s;
  auto end = static_cast<uint32_t>(bytes_.size());
  if (!runs_.empty() && runs_.back().data == data) runs_.back().end = end;
  else runs_.push_back({end, data});
}

void StrBuilder::add(const StrObj& s, size_t from, size_t to) {
  for_each_run(s, from, to, [&](std::string_view chunk, bool data) { add(chunk, data); });
}

void StrBuilder::cp(char32_t c, bool data) {
  std::string one;
  utf8_append(one, c);
  add(one, data);
}

Val StrBuilder::take(bool markup) {
  auto s = std::make_shared<StrObj>();
  s->bytes = std::move(bytes_);
  if (runs_.size() > 1) s->runs = std::move(runs_);
  else if (!runs_.empty()) s->data = runs_[0].data;
  for (char c : s->bytes) {
    s->ascii &= static_cast<unsigned char>(c) < 0x80;
    s->length += !utf8_is_continuation(c);
  }
  s->markup = markup;
  s->charge(budget_, sizeof(StrObj) + s->bytes.capacity() + s->runs.capacity() * sizeof(Run));
  bytes_.clear();
  runs_.clear();
  return Val(Kind::kString, std::move(s));
}

Val make_str(Budget& b, std::string_view s, bool data) {
  StrBuilder out(b);
  out.add(s, data);
  return out.take();
}

Val make_const_str(std::string s) {
  auto o = std::make_shared<StrObj>();
  for (char c : s) {
    o->ascii &= static_cast<unsigned char>(c) < 0x80;
    o->length += !utf8_is_continuation(c);
  }
  o->bytes = std::move(s);
  return Val(Kind::kString, std::move(o));
}

Val substr(Budget& b, const Val& s, size_t from, size_t to) {
  if (from == 0 && to == s.str().bytes.size()) return s;
  StrBuilder out(b);
  if (from < to) out.add(s.str(), from, to);
  return out.take(s.str().markup);
}

Val char_at(Budget& b, const Val& s, size_t character) {
  const StrObj& o = s.str();
  size_t from = o.offset_of(character);
  if (!o.ascii) b.step(from / 32);
  return substr(b, s, from, from + (o.ascii ? 1 : utf8_decode(o.bytes, from).size));
}

uint32_t depth_of(const Val& v) { return v.obj ? v.obj->depth : 0; }

namespace {
uint32_t checked_depth(uint32_t below) {
  if (below >= Budget::kMaxDepth)
    fail("LimitError", "values nested deeper than " + std::to_string(Budget::kMaxDepth) + " levels");
  return below + 1;
}
}  // namespace

Val make_list(Budget& b, std::vector<Val> items, Kind kind) {
  if (items.size() > b.max_items)
    fail("LimitError", "a list of more than " + std::to_string(b.max_items) + " items");
  b.step(items.size());
  auto o = std::make_shared<ListObj>();
  uint32_t below = 0;
  for (const Val& v : items) below = std::max(below, depth_of(v));
  o->depth = checked_depth(below);
  o->items = std::move(items);
  o->charge(b, sizeof(ListObj) + o->items.capacity() * sizeof(Val));
  return Val(kind, std::move(o));
}

Val make_pair(Budget& b, Val x, Val y) {
  std::vector<Val> items;
  items.reserve(2);
  items.push_back(std::move(x));
  items.push_back(std::move(y));
  return make_list(b, std::move(items), Kind::kTuple);
}

std::shared_ptr<DictObj> new_dict(Budget& b) {
  auto d = std::make_shared<DictObj>();
  d->charge(b, sizeof(DictObj));
  return d;
}

Val make_dict(Budget& b, std::shared_ptr<DictObj> d) {
  uint32_t below = 0;
  for (auto& [k, v] : d->items) below = std::max({below, depth_of(k), depth_of(v)});
  d->depth = checked_depth(below);
  b.step(d->items.size());
  return Val(Kind::kDict, std::move(d));
}

namespace {
constexpr size_t kIndexFrom = 8;
constexpr size_t kNoSlot = SIZE_MAX;
}  // namespace

size_t DictObj::slot(Budget& b, const Val& key, size_t hash) const {
  if (items.size() <= kIndexFrom) {
    for (size_t k = 0; k < items.size(); ++k)
      if (equal(b, items[k].first, key)) return k;
    return kNoSlot;
  }
  auto [from, to] = index_.equal_range(hash);
  for (auto it = from; it != to; ++it) {
    b.step();
    if (equal(b, items[it->second].first, key)) return it->second;
  }
  return kNoSlot;
}

const Val* DictObj::find(Budget& b, const Val& key) const {
  size_t k = slot(b, key, hash_of(b, key));
  return k == kNoSlot ? nullptr : &items[k].second;
}

const Val* DictObj::find(std::string_view key) const {
  auto matches = [&](const Val& k) { return k.is_string() && k.str().bytes == key; };
  if (items.size() <= kIndexFrom) {
    for (auto& [k, v] : items)
      if (matches(k)) return &v;
    return nullptr;
  }
  auto [from, to] = index_.equal_range(std::hash<std::string_view>()(key));
  for (auto it = from; it != to; ++it)
    if (matches(items[it->second].first)) return &items[it->second].second;
  return nullptr;
}

void DictObj::put(Budget& b, const Val& key, Val value) {
  b.step();
  size_t hash = hash_of(b, key);
  if (size_t k = slot(b, key, hash); k != kNoSlot) {
    items[k].second = std::move(value);
    return;
  }
  if (items.size() >= b.max_items)
    fail("LimitError", "a dict of more than " + std::to_string(b.max_items) + " members");
  charge(b, 2 * sizeof(Val) + 64);
  items.emplace_back(key, std::move(value));
  if (items.size() == kIndexFrom + 1)
    for (size_t k = 0; k < kIndexFrom; ++k) index_.emplace(hash_of(b, items[k].first), k);
  if (items.size() > kIndexFrom) index_.emplace(hash, items.size() - 1);
}

Val* NamespaceObj::find(std::string_view name) {
  for (auto& [k, v] : attributes)
    if (k == name) return &v;
  return nullptr;
}

Val make_range(Budget& b, Int start, Int stop, Int step) {
  auto r = std::make_shared<RangeObj>();
  r->start = start;
  r->stop = stop;
  r->step = step;
  if (step > 0 && start < stop) r->length = (stop - start - 1) / step + 1;
  if (step < 0 && start > stop) r->length = (start - stop - 1) / -step + 1;
  r->charge(b, sizeof(RangeObj));
  return Val(Kind::kRange, std::move(r));
}

Val make_iterator(Budget& b, std::unique_ptr<Iter> it, uint32_t source_depth) {
  auto o = std::make_shared<IteratorObj>();
  o->depth = checked_depth(source_depth);
  o->it = std::move(it);
  o->charge(b, sizeof(IteratorObj) + 128);
  return Val(Kind::kIterator, std::move(o));
}

Val make_undefined(std::string owner, std::string name) {
  auto o = std::make_shared<UndefinedObj>();
  o->owner = std::move(owner);
  o->name = std::move(name);
  return Val(Kind::kUndefined, std::move(o));
}

Val make_undefined_hint(std::string hint, const char* error) {
  auto o = std::make_shared<UndefinedObj>();
  o->hint = std::move(hint);
  o->error = error;
  return Val(Kind::kUndefined, std::move(o));
}

void fail_undefined(const Val& v) {
  if (!v.obj) fail("UndefinedError", "an undefined value is used");
  auto& u = v.as<UndefinedObj>();
  if (!u.hint.empty()) fail(u.error, u.hint);
  if (u.owner.empty()) fail(u.error, "'" + u.name + "' is undefined");
  fail(u.error, "'" + u.owner + "' has no attribute '" + u.name + "'");
}

void need_defined(const Val& v) {
  if (v.is_undefined()) fail_undefined(v);
}

Val from_json(Budget& b, const Json& j, bool data) {
  if (auto* x = j.as_bool()) return Val::boolean(*x);
  if (auto* x = j.as_int()) return Val::integer(*x);
  if (auto* x = j.as_double()) return Val::real(*x);
  if (auto* x = j.as_string()) return make_str(b, *x, data);
  if (auto* x = j.as_array()) {
    std::vector<Val> items;
    items.reserve(x->size());
    for (const Json& e : *x) items.push_back(from_json(b, e, data));
    return make_list(b, std::move(items));
  }
  if (auto* x = j.as_object()) {
    auto d = new_dict(b);
    for (auto& [k, v] : *x) d->put(b, make_str(b, k, data), from_json(b, v, data));
    return make_dict(b, std::move(d));
  }
  return Val::none();
}

}  // namespace brisk::jinja
