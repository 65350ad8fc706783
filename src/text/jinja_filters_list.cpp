// Filters that take a whole sequence.
#include <cmath>

#include "text/jinja_filters.h"
#include "text/jinja_interp.h"
#include "text/jinja_strings.h"

namespace brisk::jinja {
namespace {

Val length(Interp&, Args& a) {
  Bound p(a, "length", "value", 1);
  auto n = length_of(p[0]);
  if (!n) type_error("object of type '" + type_name(p[0]) + "' has no len()");
  return Val::integer(*n);
}

Val list(Interp& in, Args& a) {
  Bound p(a, "list", "value", 1);
  return make_list(in.budget, to_vector(in.budget, p[0]));
}

Val first(Interp& in, Args& a) {
  Bound p(a, "first", "seq", 1);
  Val v;
  if (iterate(in.budget, p[0])->next(v)) return v;
  return make_undefined_hint("No first item, sequence was empty.");
}

bool reversible(const Val& v) {
  return v.is_string() || v.is_sequence_object() || v.is(Kind::kDict) || v.is(Kind::kRange) ||
         v.is(Kind::kView) || v.is_undefined();
}

Val last(Interp& in, Args& a) {
  Bound p(a, "last", "seq", 1);
  if (!reversible(p[0])) type_error("'" + type_name(p[0]) + "' object is not reversible");
  if (p[0].is_sequence_object() && !p[0].list().items.empty()) return p[0].list().items.back();
  std::vector<Val> all = to_vector(in.budget, p[0]);
  return all.empty() ? make_undefined_hint("No last item, sequence was empty.") : all.back();
}

Val join(Interp& in, Args& a) {
  Bound p(a, "join", "value d attribute", 1);
  Val separator = to_str(in.budget, p.get(1, in.str("")));
  KeyFunction key = attribute_getter(in, p.get(2, Val::none()));
  StrBuilder out(in.budget);
  auto it = iterate(in.budget, p[0]);
  Val v;
  for (bool any = false; it->next(v); any = true) {
    in.budget.step();
    if (any) out.add(separator.str());
    write_str(out, p.present(2) ? key(v) : v);
  }
  return out.take();
}

// A list of keys for each item, by attributes separated by commas.
std::vector<Val> sort_keys(Interp& in, const std::vector<Val>& items, const Val& attribute,
                           bool case_sensitive) {
  std::vector<KeyFunction> getters;
  if (attribute.is_string())
    for (const Val& part : str_split(in.budget, attribute, in.str(","), -1, false))
      getters.push_back(attribute_getter(in, part));
  else getters.push_back(attribute_getter(in, attribute));
  std::vector<Val> keys;
  for (const Val& v : items) {
    std::vector<Val> key;
    for (auto& get : getters) {
      Val k = get(v);
      key.push_back(case_sensitive ? k : ignore_case(in.budget, k));
    }
    keys.push_back(make_list(in.budget, std::move(key)));
  }
  return keys;
}

std::vector<Val> sorted(Interp& in, std::vector<Val> items, const std::vector<Val>& keys, bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  merge_sort(order, [&](size_t x, size_t y) {
    return compare(in.budget, keys[reverse ? y : x], keys[reverse ? x : y], Order::kLt);
  });
  std::vector<Val> out;
  for (size_t k : order) out.push_back(items[k]);
  return out;
}

Val sort(Interp& in, Args& a) {
  Bound p(a, "sort", "value reverse case_sensitive attribute", 1);
  std::vector<Val> items = to_vector(in.budget, p[0]);
  std::vector<Val> keys = sort_keys(in, items, p.get(3, Val::none()), p.flag(2, false));
  return make_list(in.budget, sorted(in, std::move(items), keys, p.flag(1, false)));
}

Val dictsort(Interp& in, Args& a) {
  Bound p(a, "dictsort", "value case_sensitive by reverse", 1);
  need_defined(p[0]);
  if (!p[0].is(Kind::kDict))
    fail("AttributeError", "'" + type_name(p[0]) + "' object has no attribute 'items'");
  bool by_value = p.has(2) && p[2].is_string() && p[2].str().bytes == "value";
  if (p.has(2) && !by_value && !(p[2].is_string() && p[2].str().bytes == "key"))
    fail("FilterArgumentError", "You can only sort by either \"key\" or \"value\"");
  std::vector<Val> items, keys;
  for (auto& [k, v] : p[0].dict().items) {
    items.push_back(make_pair(in.budget, k, v));
    keys.push_back(p.flag(1, false) ? (by_value ? v : k) : ignore_case(in.budget, by_value ? v : k));
  }
  return make_list(in.budget, sorted(in, std::move(items), keys, p.flag(3, false)));
}

template <Order better>
Val extreme(Interp& in, Args& a) {
  Bound p(a, better == Order::kLt ? "min" : "max", "value case_sensitive attribute", 1);
  KeyFunction get = attribute_getter(in, p.get(2, Val::none()));
  auto key = [&](const Val& v) { return p.flag(1, false) ? get(v) : ignore_case(in.budget, get(v)); };
  auto it = iterate(in.budget, p[0]);
  Val best, v;
  if (!it->next(best)) return make_undefined_hint("No aggregated item, sequence was empty.");
  Val best_key = key(best);
  while (it->next(v)) {
    Val k = key(v);
    if (!compare(in.budget, k, best_key, better)) continue;
    best = v;
    best_key = std::move(k);
  }
  return best;
}

Val sum(Interp& in, Args& a) {
  Bound p(a, "sum", "iterable attribute start", 1);
  KeyFunction get = attribute_getter(in, p.get(1, Val::none()));
  Val total = p.get(2, Val::integer(0));
  if (total.is_string()) type_error("sum() can't sum strings [use ''.join(seq) instead]");
  auto it = iterate(in.budget, p[0]);
  Val v;
  while (it->next(v)) total = arithmetic(in.budget, Op::kAdd, total, get(v));
  return total;
}

Val reverse(Interp& in, Args& a) {
  Bound p(a, "reverse", "value", 1);
  if (p[0].is_string()) return slice(in.budget, p[0], Val::none(), Val::none(), Val::integer(-1));
  if (!is_iterable(p[0])) fail("FilterArgumentError", "argument must be iterable");
  std::vector<Val> items = to_vector(in.budget, p[0]);
  std::reverse(items.begin(), items.end());
  Val all = make_list(in.budget, std::move(items));
  if (!reversible(p[0])) return all;
  return make_iterator(in.budget, iterate(in.budget, all), depth_of(all));
}

constexpr const char* kGroupFields[] = {"grouper", "list", nullptr};

Val groupby(Interp& in, Args& a) {
  Bound p(a, "groupby", "value attribute default case_sensitive", 2);
  Val otherwise = p.get(2, Val::none());
  KeyFunction get = attribute_getter(in, p[1], &otherwise);
  bool case_sensitive = p.flag(3, false);
  std::vector<Val> items = to_vector(in.budget, p[0]), keys;
  for (const Val& v : items) keys.push_back(case_sensitive ? get(v) : ignore_case(in.budget, get(v)));
  std::vector<size_t> order(items.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  merge_sort(order, [&](size_t x, size_t y) { return compare(in.budget, keys[x], keys[y], Order::kLt); });
  std::vector<Val> groups;
  for (size_t k = 0; k < order.size();) {
    std::vector<Val> members;
    size_t start = k;
    for (; k < order.size() && equal(in.budget, keys[order[k]], keys[order[start]]); ++k)
      members.push_back(items[order[k]]);
    if (k == start) ++k;  // a key that does not equal itself
    Val name = case_sensitive || members.empty() ? keys[order[start]] : get(members[0]);
    Val group = make_pair(in.budget, name, make_list(in.budget, std::move(members)));
    group.as<ListObj>().fields = kGroupFields;
    groups.push_back(std::move(group));
  }
  return make_list(in.budget, std::move(groups));
}

constexpr FilterEntry kFilters[] = {
    {"count", length},
    {"dictsort", dictsort},
    {"first", first},
    {"groupby", groupby},
    {"join", join},
    {"last", last},
    {"length", length},
    {"list", list},
    {"max", extreme<Order::kGt>},
    {"min", extreme<Order::kLt>},
    {"reverse", reverse},
    {"sort", sort},
    {"sum", sum},
    {"tojson", to_json},
};

}  // namespace

std::span<const FilterEntry> list_filters() { return kFilters; }

}  // namespace brisk::jinja
