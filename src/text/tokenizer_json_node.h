// Reading JSON with errors that name the field. Private to tokenizer_json*.cpp.
#pragma once
#include <simdjson.h>

#include <string>
#include <string_view>
#include <vector>

#include "brisk/result.h"
#include "text/tokenizer_model.h"

namespace brisk::hf {

// What went wrong so far. Reading goes on with default values after an error; the first one is reported.
struct Problems {
  std::string file;
  std::string error;
  std::vector<std::string> unsupported;

  void fail(const std::string& path, const std::string& what) {
    if (error.empty()) error = file + ": " + path + ": " + what;
  }
  void miss(const std::string& path, const std::string& what) { unsupported.push_back(path + ": " + what); }
};

// A value and where it is. An absent value and null are the same.
class Node {
 public:
  Node(Problems& problems, std::string path) : problems_(&problems), path_(std::move(path)) {}
  Node(Problems& problems, simdjson::dom::element value, std::string path)
      : problems_(&problems), value_(value), path_(std::move(path)), present_(!value.is_null()) {}

  bool present() const { return present_; }
  bool is_object() const { return present_ && value_.is_object(); }
  bool is_array() const { return present_ && value_.is_array(); }
  bool is_text() const { return present_ && value_.is_string(); }
  const std::string& path() const { return path_; }
  const simdjson::dom::element& value() const { return value_; }
  void fail(const std::string& what) const { problems_->fail(path_, what); }
  void miss(const std::string& what) const { problems_->miss(path_, what); }

  Node operator[](std::string_view key) const {
    std::string path = path_.empty() ? std::string(key) : path_ + "." + std::string(key);
    if (!present_) return {*problems_, std::move(path)};
    simdjson::dom::object object;
    if (value_.get(object)) {
      fail("an object is expected");
      return {*problems_, std::move(path)};
    }
    simdjson::dom::element child;
    if (object.at_key(key).get(child)) return {*problems_, std::move(path)};
    return {*problems_, child, std::move(path)};
  }

  std::string text(std::string_view otherwise = {}) const {
    std::string_view s = otherwise;
    if (present_ && value_.get(s)) fail("a string is expected");
    return std::string(s);
  }
  bool flag(bool otherwise) const {
    bool b = otherwise;
    if (present_ && value_.get(b)) fail("true or false is expected");
    return b;
  }
  // An integer in [low, high].
  int64_t integer(int64_t otherwise, int64_t low, int64_t high) const {
    int64_t n = otherwise;
    if (present_ && (value_.get(n) || n < low || n > high)) {
      fail("an integer in [" + std::to_string(low) + ", " + std::to_string(high) + "] is expected");
      return otherwise;
    }
    return n;
  }
  // Calls visit(item) for each item of an array.
  template <class Visit>
  void each(Visit visit) const {
    if (!present_) return;
    simdjson::dom::array array;
    if (value_.get(array)) return fail("an array is expected");
    size_t i = 0;
    for (simdjson::dom::element item : array) {
      visit(Node(*problems_, item, path_ + "[" + std::to_string(i++) + "]"));
    }
  }

 private:
  Problems* problems_;
  simdjson::dom::element value_;
  std::string path_;
  bool present_ = false;
};

void read_normalizer(const Node& node, TokenizerModel& model);
void read_pretokenizer(const Node& node, TokenizerModel& model);
void read_decoder(const Node& node, TokenizerModel& model);
void read_postprocessor(const Node& node, TokenizerModel& model);

}  // namespace brisk::hf
