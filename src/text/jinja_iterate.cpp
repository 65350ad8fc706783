// Iteration over the values.
#include "text/jinja_objects.h"
#include "text/jinja_value.h"
#include "text/utf8.h"

namespace brisk::jinja {

bool is_iterable(const Val& v) {
  switch (v.kind) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kView:
    case Kind::kRange:
    case Kind::kIterator:
    case Kind::kLoop:
      return true;
    default:
      return false;
  }
}

namespace {

struct EmptyIter : Iter {
  bool next(Val&) override { return false; }
};
struct ListIter : Iter {
  Val list;
  size_t k = 0;
  explicit ListIter(Val v) : list(std::move(v)) {}
  bool next(Val& out) override {
    if (k >= list.list().items.size()) return false;
    out = list.list().items[k++];
    return true;
  }
};
struct DictIter : Iter {
  Budget& b;
  Val dict;
  ViewObj::Part part;
  size_t k = 0;
  DictIter(Budget& budget, Val d, ViewObj::Part p) : b(budget), dict(std::move(d)), part(p) {}
  bool next(Val& out) override {
    auto& items = dict.dict().items;
    if (k >= items.size()) return false;
    auto& [key, value] = items[k++];
    if (part == ViewObj::kItems) out = make_pair(b, key, value);
    else out = part == ViewObj::kKeys ? key : value;
    return true;
  }
};
struct StrIter : Iter {
  Budget& b;
  Val s;
  size_t i = 0;
  StrIter(Budget& budget, Val v) : b(budget), s(std::move(v)) {}
  bool next(Val& out) override {
    auto& bytes = s.str().bytes;
    if (i >= bytes.size()) return false;
    size_t n = utf8_decode(bytes, i).size;
    StrBuilder one(b);
    one.add(s.str(), i, i + n);
    out = one.take();
    i += n;
    return true;
  }
};
struct RangeIter : Iter {
  Val range;
  Int k = 0;
  explicit RangeIter(Val v) : range(std::move(v)) {}
  bool next(Val& out) override {
    auto& r = range.as<RangeObj>();
    if (k >= r.length) return false;
    out = Val::integer(r.start + k++ * r.step);
    return true;
  }
};
struct SharedIter : Iter {
  Budget& b;
  Val source;
  SharedIter(Budget& budget, Val v) : b(budget), source(std::move(v)) {}
  bool next(Val& out) override {
    b.step();
    return source.as<IteratorObj>().it->next(out);
  }
};
struct LoopIter : Iter {
  Val loop;
  explicit LoopIter(Val v) : loop(std::move(v)) {}
  bool next(Val& out) override { return loop_next_pair(loop, out); }
};

}  // namespace

std::unique_ptr<Iter> iterate(Budget& b, const Val& v) {
  switch (v.kind) {
    case Kind::kUndefined:
      return std::make_unique<EmptyIter>();
    case Kind::kString:
      return std::make_unique<StrIter>(b, v);
    case Kind::kList:
    case Kind::kTuple:
      return std::make_unique<ListIter>(v);
    case Kind::kDict:
      return std::make_unique<DictIter>(b, v, ViewObj::kKeys);
    case Kind::kView:
      return std::make_unique<DictIter>(b, v.as<ViewObj>().dict, v.as<ViewObj>().part);
    case Kind::kRange:
      return std::make_unique<RangeIter>(v);
    case Kind::kIterator:
      return std::make_unique<SharedIter>(b, v);
    case Kind::kLoop:
      return std::make_unique<LoopIter>(v);
    default:
      type_error("'" + type_name(v) + "' object is not iterable");
  }
}

std::vector<Val> to_vector(Budget& b, const Val& v) {
  if (v.is_sequence_object()) return b.step(v.list().items.size()), v.list().items;
  std::vector<Val> out;
  auto it = iterate(b, v);
  Val x;
  while (it->next(x)) {
    b.step();
    if (out.size() >= b.max_items)
      fail("LimitError", "a list of more than " + std::to_string(b.max_items) + " items");
    out.push_back(x);
  }
  return out;
}

}  // namespace brisk::jinja
