// A JSON value with the order of members kept: what chat templates, tools and requests are made of.
// Parsing is strict (RFC 8259) and bounded; text must be UTF-8, a lone surrogate escape becomes U+FFFD.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "brisk/result.h"

namespace brisk {

__extension__ typedef __int128 int128;

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  // In order of first appearance; of members with the same name the last value counts (as in Python).
  using Object = std::vector<Member>;

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool b) : v_(b) {}
  Json(int i) : v_(int128{i}) {}
  Json(int64_t i) : v_(int128{i}) {}
  Json(int128 i) : v_(i) {}
  Json(double d) : v_(d) {}
  Json(const char* s) : v_(std::string(s)) {}
  Json(std::string s) : v_(std::move(s)) {}
  Json(std::string_view s) : v_(std::string(s)) {}
  Json(Array a) : v_(std::move(a)) {}
  Json(Object o) : v_(std::move(o)) {}

  bool is_null() const { return v_.index() == 0; }
  const bool* as_bool() const { return std::get_if<bool>(&v_); }
  const int128* as_int() const { return std::get_if<int128>(&v_); }
  const double* as_double() const { return std::get_if<double>(&v_); }
  const std::string* as_string() const { return std::get_if<std::string>(&v_); }
  const Array* as_array() const { return std::get_if<Array>(&v_); }
  const Object* as_object() const { return std::get_if<Object>(&v_); }
  Array* as_array() { return std::get_if<Array>(&v_); }
  Object* as_object() { return std::get_if<Object>(&v_); }

  // The member of that name; nullptr if there is none or this is no object.
  const Json* find(std::string_view name) const;
  Json* find(std::string_view name) { return const_cast<Json*>(std::as_const(*this).find(name)); }
  // Sets a member of an object (null becomes an empty object first).
  void set(std::string_view name, Json value);

  bool operator==(const Json&) const = default;

 private:
  std::variant<std::monostate, bool, int128, double, std::string, Array, Object> v_;
};

struct JsonLimits {
  size_t max_depth = 128;
  bool repeated_names = true;  // false: an object that names a member twice is an error
  size_t max_bytes = size_t{64} << 20;
};

Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

// Compact, non-ASCII kept. Not-a-number and infinities are written as null.
std::string to_text(const Json& value);

}  // namespace brisk
