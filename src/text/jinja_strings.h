// String operations shared by methods and filters. Each byte of a result keeps the origin of the byte it came from.
#pragma once
#include <vector>

#include "text/jinja_value.h"
#include "text/utf8_props.h"

namespace brisk::jinja {

Val str_map(Budget& b, const Val& s, CaseMap map);  // lower (with final sigma), upper, fold
Val str_capitalize(Budget& b, const Val& s);
Val str_title(Budget& b, const Val& s);
Val str_swapcase(Budget& b, const Val& s);
// chars: a string of characters to cut, or None for white space.
Val str_strip(Budget& b, const Val& s, const Val& chars, bool left, bool right);
Val str_replace(Budget& b, const Val& s, const Val& from, const Val& to, Int count);
std::vector<Val> str_split(Budget& b, const Val& s, const Val& separator, Int max, bool from_right);
std::vector<Val> str_splitlines(Budget& b, const Val& s, bool keep_ends);
Val str_join(Budget& b, const Val& separator, const std::vector<Val>& items);  // items are strings
Val str_pad(Budget& b, const Val& s, Int left, Int right, const Val& fill);    // fill: one character
Val str_center(Budget& b, const Val& s, Int width, const Val& fill);
// Byte offset of the first (last) occurrence inside bytes [from, to); npos if none.
size_t bytes_find(Budget& b, std::string_view s, std::string_view what, size_t from, size_t to);
size_t bytes_rfind(Budget& b, std::string_view s, std::string_view what, size_t from, size_t to);
std::vector<char32_t> code_points(std::string_view s);

}  // namespace brisk::jinja
