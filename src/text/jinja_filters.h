// What the files of filters share.
#pragma once
#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "text/jinja_tables.h"

namespace brisk::jinja {

// Stable, and safe with any order relation, even one that throws or contradicts itself.
template <class T, class Less>
void merge_sort(std::vector<T>& v, Less&& less) {
  std::vector<T> other(v.size());
  for (size_t width = 1; width < v.size(); width *= 2) {
    for (size_t from = 0; from < v.size(); from += 2 * width) {
      size_t i = from, mid = std::min(from + width, v.size()), j = mid,
             end = std::min(from + 2 * width, v.size());
      for (size_t k = from; k < end; ++k) {
        bool right = i >= mid || (j < end && less(v[j], v[i]));
        other[k] = right ? v[j++] : v[i++];
      }
    }
    v.swap(other);
  }
}

// By key, then by value, as Python sorts tuples.
void sort_pairs(Budget& b, std::vector<std::pair<Val, Val>>& items);

// Key functions of sort, min, unique, groupby ...: an optional attribute path, then lower case for strings.
using KeyFunction = std::function<Val(const Val&)>;
KeyFunction attribute_getter(Interp& in, const Val& attribute, const Val* otherwise = nullptr);
Val ignore_case(Budget& b, const Val& v);

// The tables of the files; find_filter() searches them.
std::span<const FilterEntry> text_filters();
std::span<const FilterEntry> list_filters();
std::span<const FilterEntry> lazy_filters();
std::span<const FilterEntry> html_filters();

}  // namespace brisk::jinja
