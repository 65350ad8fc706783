// Lookup of filters, and their key functions.
#include "text/jinja_filters.h"

#include "text/jinja_interp.h"
#include "text/jinja_strings.h"

namespace brisk::jinja {

const FilterEntry* find_filter(std::string_view name) {
  for (auto table : {text_filters(), list_filters(), lazy_filters(), html_filters()})
    for (const FilterEntry& f : table)
      if (f.name == name) return &f;
  return nullptr;
}

void sort_pairs(Budget& b, std::vector<std::pair<Val, Val>>& items) {
  merge_sort(items, [&](const auto& x, const auto& y) {
    if (!equal(b, x.first, y.first)) return compare(b, x.first, y.first, Order::kLt);
    return !equal(b, x.second, y.second) && compare(b, x.second, y.second, Order::kLt);
  });
}

Val ignore_case(Budget& b, const Val& v) { return v.is_string() ? str_map(b, v, CaseMap::kLower) : v; }

KeyFunction attribute_getter(Interp& in, const Val& attribute, const Val* otherwise) {
  std::vector<Val> parts;
  if (attribute.is_string()) {
    for (Val& part : str_split(in.budget, attribute, in.str("."), -1, false)) {
      const std::string& s = part.str().bytes;
      bool digits = !s.empty() && s.size() < 19 &&
                    std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
      parts.push_back(digits ? Val::integer(std::stoll(s)) : part);
    }
  } else if (!attribute.is_none()) {
    parts.push_back(attribute);
  }
  std::optional<Val> fallback;
  if (otherwise && !otherwise->is_none()) fallback = *otherwise;
  return [&in, parts = std::move(parts), fallback = std::move(fallback)](const Val& v) {
    Val item = v;
    for (const Val& part : parts) {
      item = in.getitem(item, part);
      if (fallback && item.is_undefined()) item = *fallback;
    }
    return item;
  };
}

}  // namespace brisk::jinja
