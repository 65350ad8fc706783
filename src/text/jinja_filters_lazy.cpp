// Filters that give a generator: items are made as they are asked for, and can be walked once.
#include "text/jinja_filters.h"
#include "text/jinja_interp.h"

namespace brisk::jinja {
namespace {

// An iterator made of a source and a step that turns it into the next item (false: the end).
struct StepIter : Iter {
  std::unique_ptr<Iter> source;
  std::function<bool(Iter&, Val&)> step;
  StepIter(std::unique_ptr<Iter> s, std::function<bool(Iter&, Val&)> f)
      : source(std::move(s)), step(std::move(f)) {}
  bool next(Val& out) override { return step(*source, out); }
};

Val generator(Interp& in, const Val& source, std::function<bool(Iter&, Val&)> step,
              const Args* held = nullptr) {
  uint32_t depth = depth_of(source);
  if (held) {
    for (const Val& v : held->pos) depth = std::max(depth, depth_of(v));
    for (auto& kw : held->kw) depth = std::max(depth, depth_of(kw.second));
  }
  auto charged = [&in, step = std::move(step)](Iter& it, Val& out) {
    in.budget.step();
    return step(it, out);
  };
  return make_iterator(in.budget, std::make_unique<StepIter>(iterate(in.budget, source), std::move(charged)),
                       depth);
}

Args rest_of(const Args& a, size_t from) {
  Args r;
  for (size_t k = from; k < a.pos.size(); ++k) r.pos.push_back(a.pos[k]);
  r.kw = a.kw;
  return r;
}

Val value_of(const Args& a, const char* filter) {
  if (a.pos.empty()) type_error(std::string(filter) + "() needs a value");
  return a.pos[0];
}

std::optional<Val> take_keyword(Args& a, std::string_view name) {
  for (size_t k = 0; k < a.kw.size(); ++k) {
    if (a.kw[k].first != name) continue;
    Val v = a.kw[k].second;
    a.kw.erase(a.kw.begin() + static_cast<std::ptrdiff_t>(k));
    return v;
  }
  return std::nullopt;
}

std::string name_of(const Val& v, const char* what) {
  if (!v.is_string()) fail("TemplateRuntimeError", std::string("the name of a ") + what + " is not a string");
  return v.str().bytes;
}

Val map(Interp& in, Args& a) {
  Val source = value_of(a, "map");
  if (!truthy(source)) return make_iterator(in.budget, iterate(in.budget, Val()), 0);
  if (a.pos.size() == 1) {
    auto attribute = take_keyword(a, "attribute");
    if (!attribute) fail("FilterArgumentError", "map requires a filter argument");
    auto otherwise = take_keyword(a, "default");
    if (!a.kw.empty()) fail("FilterArgumentError", "Unexpected keyword argument '" + a.kw[0].first + "'");
    KeyFunction get = attribute_getter(in, *attribute, otherwise ? &*otherwise : nullptr);
    return generator(
        in, source,
        [get](Iter& it, Val& out) {
          if (!it.next(out)) return false;
          out = get(out);
          return true;
        },
        &a);
  }
  std::string name = name_of(a.pos[1], "filter");
  Args more = rest_of(a, 2);
  return generator(
      in, source,
      [&in, name, more](Iter& it, Val& out) {
        Val item;
        if (!it.next(item)) return false;
        Args call = more;
        call.pos.insert(call.pos.begin(), item);
        out = in.apply_filter(name, call);
        return true;
      },
      &more);
}

template <bool wanted, bool by_attribute>
Val select(Interp& in, Args& a) {
  Val source = value_of(a, "select");
  if (!truthy(source)) return make_iterator(in.budget, iterate(in.budget, Val()), 0);
  size_t at = 1;
  KeyFunction get = [](const Val& v) { return v; };
  if (by_attribute) {
    if (a.pos.size() < 2) fail("FilterArgumentError", "Missing parameter for attribute name");
    get = attribute_getter(in, a.pos[at++]);
  }
  bool plain = a.pos.size() <= at;
  std::string test = plain ? "" : name_of(a.pos[at++], "test");
  Args more = plain ? Args{} : rest_of(a, at);
  return generator(
      in, source,
      [&in, get, plain, test, more](Iter& it, Val& out) {
        while (it.next(out)) {
          in.budget.step();
          Val v = get(out);
          bool holds;
          if (plain) {
            holds = truthy(v);
          } else {
            Args call = more;
            call.pos.insert(call.pos.begin(), v);
            holds = in.apply_test(test, call);
          }
          if (holds == wanted) return true;
        }
        return false;
      },
      &more);
}

Val unique(Interp& in, Args& a) {
  Bound p(a, "unique", "value case_sensitive attribute", 1);
  KeyFunction get = attribute_getter(in, p.get(2, Val::none()));
  bool case_sensitive = p.flag(1, false);
  auto seen = new_dict(in.budget);
  return generator(in, p[0], [&in, get, case_sensitive, seen](Iter& it, Val& out) {
    while (it.next(out)) {
      Val key = case_sensitive ? get(out) : ignore_case(in.budget, get(out));
      if (seen->find(in.budget, key)) continue;
      seen->put(in.budget, key, Val::none());
      return true;
    }
    return false;
  });
}

Val items(Interp& in, Args& a) {
  Bound p(a, "items", "value", 1);
  if (p[0].is_undefined()) return make_iterator(in.budget, iterate(in.budget, Val()), 0);
  if (!p[0].is(Kind::kDict)) type_error("Can only get item pairs from a mapping.");
  Args none;
  Val view = find_method(Kind::kDict, "items")->call(in, p[0], none);
  return make_iterator(in.budget, iterate(in.budget, view), depth_of(view));
}

Val batch(Interp& in, Args& a) {
  Bound p(a, "batch", "value linecount fill_with", 2);
  Int n = p.integer(1, 0);
  Val fill = p.get(2, Val::none());
  return generator(
      in, p[0],
      [&in, n, fill](Iter& it, Val& out) {
        std::vector<Val> row;
        Val v;
        while (static_cast<Int>(row.size()) < std::max<Int>(n, 1) && it.next(v))
          in.budget.step(), row.push_back(v);
        if (row.empty()) return false;
        if (!fill.is_none())
          while (static_cast<Int>(row.size()) < n) in.budget.step(), row.push_back(fill);
        out = make_list(in.budget, std::move(row));
        return true;
      },
      &a);
}

Val slices(Interp& in, Args& a) {
  Bound p(a, "slice", "value slices fill_with", 2);
  std::vector<Val> all = to_vector(in.budget, p[0]);
  Int n = p.integer(1, 0), size = static_cast<Int>(all.size());
  if (n == 0) fail("ZeroDivisionError", "integer division or modulo by zero");
  if (n < 0) return make_iterator(in.budget, iterate(in.budget, Val()), 0);
  if (n > 100000) fail("LimitError", "more than 100000 slices");
  std::vector<Val> rows;
  Int at = 0;
  for (Int k = 0; k < n; ++k) {
    Int count = size / n + (k < size % n);
    std::vector<Val> row(all.begin() + static_cast<std::ptrdiff_t>(at),
                         all.begin() + static_cast<std::ptrdiff_t>(at + count));
    at += count;
    if (p.present(2) && k >= size % n) row.push_back(p[2]);
    rows.push_back(make_list(in.budget, std::move(row)));
  }
  Val result = make_list(in.budget, std::move(rows));
  return make_iterator(in.budget, iterate(in.budget, result), depth_of(result));
}

constexpr FilterEntry kFilters[] = {
    {"batch", batch},
    {"items", items},
    {"map", map},
    {"reject", select<false, false>},
    {"rejectattr", select<false, true>},
    {"select", select<true, false>},
    {"selectattr", select<true, true>},
    {"slice", slices},
    {"unique", unique},
};

}  // namespace

std::span<const FilterEntry> lazy_filters() { return kFilters; }

}  // namespace brisk::jinja
