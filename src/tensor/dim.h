// Symbolic dimensions: integers or expressions over named symbols.
//
// A Dim is kept as a canonical polynomial  sum_i coefficient_i * product of atoms,  where an atom is a symbol or an
// opaque floor division, modulus, minimum or maximum of two Dims. Equal expressions therefore have equal forms:
// (past + seq) - past == seq, and 4 * n / 4 == n. Values are immutable and cheap to copy; symbols are identified by name.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace brisk {

struct Atom;

class Dim {
 public:
  Dim(int64_t constant = 0);
  static Dim symbol(std::string name);

  bool is_constant() const { return terms_.empty() || (terms_.size() == 1 && terms_[0].atoms.empty()); }
  std::optional<int64_t> constant() const;
  int64_t constant_or(int64_t other) const { return constant().value_or(other); }
  // The name, if this is exactly one symbol.
  std::optional<std::string> as_symbol() const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend bool operator==(const Dim& a, const Dim& b);
  // Floor division and modulus as in Python; an exact polynomial quotient is found where there is one.
  // A zero divisor gives an opaque atom that evaluates to nullopt.
  static Dim floor_div(const Dim& a, const Dim& b);
  static Dim mod(const Dim& a, const Dim& b);
  static Dim min(const Dim& a, const Dim& b);
  static Dim max(const Dim& a, const Dim& b);

  // Value under an assignment of symbols; nullopt where one is missing, on overflow, or on division by zero.
  using Lookup = std::function<std::optional<int64_t>(const std::string&)>;
  std::optional<int64_t> evaluate(const Lookup& lookup) const;
  // Each symbol replaced by an expression (identity where the function gives nullopt).
  Dim substitute(const std::function<std::optional<Dim>(const std::string&)>& f) const;
  void collect_symbols(std::vector<std::string>& out) const;

  // How large the form is. Products multiply terms, so whoever calculates with a stranger's expressions bounds this first.
  struct Size {
    size_t terms = 0, atoms = 0;
    size_t characters = 0;  // of the atoms' printed forms
    bool opaque = false;    // holds a division, modulus, minimum or maximum
  };
  Size size() const;

  std::string to_string() const;  // "2*past + seq + 1", "(n // 4)"; parse() reads it back
  static std::optional<Dim> parse(std::string_view text);  // nullopt on anything malformed, nested or large beyond bounds

 private:
  struct Term {
    int64_t coefficient;
    std::vector<std::shared_ptr<const Atom>> atoms;  // sorted by key, repeated for powers
  };
  friend struct Atom;
  static Dim from_atom(std::shared_ptr<const Atom> a);
  static Dim opaque(int kind, const Dim& a, const Dim& b);
  void add_term(Term t);
  std::vector<Term> terms_;  // sorted by atoms, no zero coefficients
};

using Shape = std::vector<Dim>;
std::string to_string(const Shape& shape);  // "[batch, 4, seq + past]"

// Values a symbol may take; comparisons of expressions are decided by range.
struct SymbolRange {
  int64_t min = 1;
  int64_t opt = 1;
  int64_t max = INT64_MAX;
};

}  // namespace brisk
