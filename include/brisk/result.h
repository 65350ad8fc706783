// Errors as values. Every fallible call in brisk returns Result<T>; exceptions never cross a library boundary.
#pragma once
#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace brisk {

// Who can act on an error; the command line maps it to an exit code, the server to an HTTP status.
enum class ErrorKind {
  kInvalid,      // the user's input is wrong: message says what, where, allowed range (exit 2, HTTP 400)
  kUnsupported,  // the model needs something brisk does not have; message lists all of it (exit 3, HTTP 400)
  kEnvironment,  // the machine lacks something: file, memory, instruction set (exit 1, HTTP 503)
  kCancelled,    // the caller gave up (exit 1, no HTTP reply)
  kInternal,     // a bug in brisk: message carries the state to report (exit 1, HTTP 500)
};

struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;

  // Prepends context, outermost first: "model.gguf: tensor 'x': ...".
  Error&& in(std::string_view where) && {
    message.insert(0, std::string(where) + ": ");
    return std::move(*this);
  }
};

inline Error invalid(std::string m) { return {ErrorKind::kInvalid, std::move(m)}; }
inline Error unsupported(std::string m) { return {ErrorKind::kUnsupported, std::move(m)}; }
inline Error environment(std::string m) { return {ErrorKind::kEnvironment, std::move(m)}; }
inline Error internal(std::string m) { return {ErrorKind::kInternal, std::move(m)}; }

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : v_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return v_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { assert(ok()); return std::get<0>(v_); }
  const T& value() const& { assert(ok()); return std::get<0>(v_); }
  T&& value() && { assert(ok()); return std::get<0>(std::move(v_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& { assert(!ok()); return std::get<1>(v_); }
  Error&& error() && { assert(!ok()); return std::get<1>(std::move(v_)); }

 private:
  std::variant<T, Error> v_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { assert(!ok()); return *error_; }
  Error&& error() && { assert(!ok()); return std::move(*error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

// BRISK_TRY(expr);                   return the error of a Status
// BRISK_ASSIGN(auto x, expr);        bind the value or return the error
#define BRISK_CAT2(a, b) a##b
#define BRISK_CAT(a, b) BRISK_CAT2(a, b)
#define BRISK_TRY(expr)                                             \
  do {                                                              \
    if (auto brisk_s = (expr); !brisk_s.ok()) return std::move(brisk_s).error(); \
  } while (0)
#define BRISK_ASSIGN_(tmp, decl, expr)           \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).error();  \
  decl = std::move(tmp).value()
#define BRISK_ASSIGN(decl, expr) BRISK_ASSIGN_(BRISK_CAT(brisk_r, __LINE__), decl, expr)

}  // namespace brisk
