// Values of the template language: Python's semantics over an immutable object graph, and strings that know
// which of their bytes came from message data. Internal to the engine (public surface: chat_template.h).
//
// Errors inside the engine are thrown as RenderError and caught at the engine's border (parse and render);
// they carry what the template author's Python would have raised. Every object is charged to a Budget, so that
// a hostile template or conversation meets a limit before it hurts.
//
// Lists, tuples and dicts are immutable once a template can see them (the sandbox forbids changing them), so
// reference counting frees them. What can change (namespaces, scopes, loops, iterators) is owned through
// shared pointers too; the interpreter clears those that could sit on a cycle when a rendering ends.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/json_value.h"

namespace brisk::jinja {

using Int = int128;

struct RenderError {
  const char* type;  // as in Python: "TypeError", "UndefinedError", "TemplateError" ...; "LimitError" is ours
  std::string message;
};
[[noreturn]] void fail(const char* type, std::string message);
[[noreturn]] inline void type_error(std::string m) { fail("TypeError", std::move(m)); }
[[noreturn]] inline void value_error(std::string m) { fail("ValueError", std::move(m)); }

// Counts of one rendering. One step is about one node evaluated, one item moved or 32 bytes copied.
class Budget {
 public:
  uint64_t max_steps = 20'000'000;
  size_t max_live = size_t{256} << 20;        // bytes of all objects alive
  size_t max_string = size_t{16} << 20;       // bytes of one string, the output included
  size_t max_items = 2'000'000;               // of one list or dict
  static constexpr uint32_t kMaxDepth = 200;  // of nested containers, and of chained iterators

  void step(uint64_t n = 1) {
    if ((steps_ += n) > max_steps)
      fail("LimitError", "the template takes more than " + std::to_string(max_steps) + " steps");
  }
  void alloc(size_t n) {
    if ((live_ += n) > max_live)
      fail("LimitError", "the template needs more than " + std::to_string(max_live) + " bytes");
  }
  void release(size_t n) { live_ -= n; }
  void check_string(size_t n) const {
    if (n > max_string) fail("LimitError", "a string of more than " + std::to_string(max_string) + " bytes");
  }

 private:
  uint64_t steps_ = 0;
  size_t live_ = 0;
};

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kView,  // dict.keys(), .values(), .items()
  kRange,
  kIterator,
  kNamespace,
  kMacro,
  kFunction,
  kMethod,
  kLoop,
  kCycler,
  kJoiner,
  kSelf,
};

// Base of everything on the heap.
struct Obj {
  uint32_t depth = 0;  // nesting below this object
  Obj() = default;
  Obj(const Obj&) = delete;
  Obj& operator=(const Obj&) = delete;
  virtual ~Obj() {
    if (budget_) budget_->release(charged_);
  }
  void charge(Budget& b, size_t bytes) {
    b.alloc(bytes);
    budget_ = &b;
    charged_ += bytes;
  }

 private:
  Budget* budget_ = nullptr;  // outlives the object; null for constants of the template
  size_t charged_ = 0;
};

struct StrObj;
struct ListObj;
struct DictObj;
struct UndefinedObj;

struct Val {
  Kind kind = Kind::kUndefined;
  union {
    bool b;
    double f;
    Int i;
  };
  std::shared_ptr<Obj> obj;  // null for plain kinds; may be null for kUndefined (nothing known about it)

  Val() : i(0) {}
  Val(Kind k, std::shared_ptr<Obj> o) : kind(k), i(0), obj(std::move(o)) {}
  static Val none() { return Val(Kind::kNone, nullptr); }
  static Val boolean(bool x) {
    Val v(Kind::kBool, nullptr);
    v.b = x;
    return v;
  }
  static Val integer(Int x) {
    Val v(Kind::kInt, nullptr);
    v.i = x;
    return v;
  }
  static Val real(double x) {
    Val v(Kind::kFloat, nullptr);
    v.f = x;
    return v;
  }

  bool is(Kind k) const { return kind == k; }
  bool is_undefined() const { return kind == Kind::kUndefined; }
  bool is_none() const { return kind == Kind::kNone; }
  bool is_string() const { return kind == Kind::kString; }
  bool is_number() const { return kind == Kind::kInt || kind == Kind::kFloat || kind == Kind::kBool; }
  bool is_integral() const { return kind == Kind::kInt || kind == Kind::kBool; }
  bool is_sequence_object() const { return kind == Kind::kList || kind == Kind::kTuple; }
  Int as_int() const { return kind == Kind::kBool ? Int(b) : i; }  // of an integral value
  double as_double() const { return kind == Kind::kFloat ? f : static_cast<double>(as_int()); }
  const StrObj& str() const;
  const ListObj& list() const;
  const DictObj& dict() const;
  template <class T>
  T& as() const {
    return static_cast<T&>(*obj);
  }
};

// A string: UTF-8 bytes, where they come from, and whether it is markupsafe's Markup (the `safe` filter).
struct Run {
  uint32_t end;  // byte offset where the run ends
  bool data;     // came from message data
};
struct StrObj : Obj {
  std::string bytes;
  std::vector<Run> runs;  // empty: all of it is `data`
  bool data = false;
  bool markup = false;
  bool ascii = true;
  uint32_t length = 0;  // characters

  bool data_at(size_t byte) const;
  size_t offset_of(size_t character) const;  // byte offset; character <= length
};

// Calls f(chunk, from_data) for every homogeneous stretch of bytes [from, to).
template <class F>
void for_each_run(const StrObj& s, size_t from, size_t to, F&& f) {
  std::string_view all = s.bytes;
  if (s.runs.empty()) {
    if (from < to) f(all.substr(from, to - from), s.data);
    return;
  }
  for (const Run& r : s.runs) {
    if (r.end <= from) continue;
    size_t end = std::min<size_t>(r.end, to);
    if (from >= end) break;
    f(all.substr(from, end - from), r.data);
    from = end;
  }
}

class StrBuilder {
 public:
  explicit StrBuilder(Budget& b) : budget_(b) {}
  void text(std::string_view s) { add(s, false); }
  void add(std::string_view s, bool data);
  void add(const StrObj& s) { add(s, 0, s.bytes.size()); }
  void add(const StrObj& s, size_t from, size_t to);
  void cp(char32_t c, bool data);
  size_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  const std::vector<Run>& runs() const { return runs_; }
  Budget& budget() { return budget_; }
  Val take(bool markup = false);

 private:
  Budget& budget_;
  std::string bytes_;
  std::vector<Run> runs_;
};

struct ListObj : Obj {  // lists and tuples
  std::vector<Val> items;
  const char* const* fields = nullptr;  // names of a named tuple's items, null-terminated
};

struct DictObj : Obj {
  std::vector<std::pair<Val, Val>> items;  // in order; keys are hashable
  const Val* find(Budget& b, const Val& key) const;
  const Val* find(std::string_view key) const;
  void put(Budget& b, const Val& key, Val value);  // only while it is being built
 private:
  size_t slot(Budget& b, const Val& key, size_t hash) const;
  std::unordered_multimap<size_t, uint32_t> index_;  // only for more than eight members
};

struct ViewObj : Obj {
  enum Part : uint8_t { kKeys, kValues, kItems } part = kKeys;
  Val dict;
};

struct RangeObj : Obj {
  Int start = 0, stop = 0, step = 1, length = 0;
};

// What is known about an undefined value, for the error that using it gives.
struct UndefinedObj : Obj {
  std::string hint;   // whole message, if set
  std::string owner;  // type name of the object that lacks it; empty: a variable
  std::string name;
  const char* error = "UndefinedError";
};

struct Iter {
  virtual ~Iter() = default;
  virtual bool next(Val& out) = 0;
};
struct IteratorObj : Obj {  // a generator: can be walked once
  std::unique_ptr<Iter> it;
};

struct NamespaceObj : Obj {
  std::vector<std::pair<std::string, Val>> attributes;
  Val* find(std::string_view name);
};

// Makers.
Val make_str(Budget& b, std::string_view s, bool data = false);
Val make_const_str(std::string s);  // belongs to a template: template text, charged to nobody
Val substr(Budget& b, const Val& s, size_t from, size_t to);  // byte offsets
Val make_list(Budget& b, std::vector<Val> items, Kind kind = Kind::kList);
Val make_pair(Budget& b, Val x, Val y);
std::shared_ptr<DictObj> new_dict(Budget& b);
Val make_dict(Budget& b, std::shared_ptr<DictObj> d);  // after the last put
Val make_range(Budget& b, Int start, Int stop, Int step);
Val make_iterator(Budget& b, std::unique_ptr<Iter> it, uint32_t source_depth);
Val make_undefined(std::string owner, std::string name);
Val make_undefined_hint(std::string hint, const char* error = "UndefinedError");
uint32_t depth_of(const Val& v);
// JSON to values; strings are marked as data or not.
Val from_json(Budget& b, const Json& j, bool data);

// Python's protocols. Each throws what Python throws.
[[noreturn]] void fail_undefined(const Val& v);
void need_defined(const Val& v);
std::string type_name(const Val& v);
bool truthy(const Val& v);
bool equal(Budget& b, const Val& x, const Val& y);
size_t hash_of(Budget& b, const Val& v);
enum class Order : uint8_t { kLt, kLe, kGt, kGe };
bool compare(Budget& b, const Val& x, const Val& y, Order op);
bool contains(Budget& b, const Val& container, const Val& item);
std::optional<Int> length_of(const Val& v);
bool is_iterable(const Val& v);
std::unique_ptr<Iter> iterate(Budget& b, const Val& v);
std::vector<Val> to_vector(Budget& b, const Val& v);
bool is_callable(const Val& v);
void write_str(StrBuilder& out, const Val& v);
void write_repr(StrBuilder& out, const Val& v);
Val to_str(Budget& b, const Val& v);  // str(v), a plain string; a string stays itself (Markup too)
std::string int_text(Int i);
std::string float_text(double d);  // repr of a Python float

// A character of a string as a string.
Val char_at(Budget& b, const Val& s, size_t character);

}  // namespace brisk::jinja
