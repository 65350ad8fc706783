#include "tensor/dim.h"

#include <algorithm>
#include <cctype>

#include "base/checked.h"

namespace brisk {

namespace {
enum Kind { kSymbol, kFloorDiv, kMod, kMin, kMax };
constexpr int kMaxParseDepth = 64;
constexpr size_t kMaxParseTerms = 64, kMaxParseCharacters = 1 << 14;

// Wrapping is defined here; evaluate() refuses overflow, and sizes that large never pass validation.
int64_t wrapping_add(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }
int64_t wrapping_mul(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }

int64_t python_floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && (a % b < 0) != (b < 0)) ? q - 1 : q;
}
}  // namespace

struct Atom {
  Kind kind;
  std::string name;  // of a symbol
  Dim a, b;          // operands of the others
  std::string key;   // printed form, unique: what sorting and equality go by

  static std::shared_ptr<const Atom> make(Kind kind, std::string name, Dim a, Dim b) {
    auto atom = std::make_shared<Atom>(Atom{kind, std::move(name), std::move(a), std::move(b), {}});
    switch (kind) {
      case kSymbol: atom->key = atom->name; break;
      case kFloorDiv: atom->key = "((" + atom->a.to_string() + ") // (" + atom->b.to_string() + "))"; break;
      case kMod: atom->key = "((" + atom->a.to_string() + ") % (" + atom->b.to_string() + "))"; break;
      case kMin: atom->key = "min(" + atom->a.to_string() + ", " + atom->b.to_string() + ")"; break;
      case kMax: atom->key = "max(" + atom->a.to_string() + ", " + atom->b.to_string() + ")"; break;
    }
    return atom;
  }

  // min(max(p, q), q) and max(min(p, q), q) are q, min(min(p, q), q) is min(p, q): sizes of broadcast operands pile up so.
  static std::optional<Dim> absorbed(Kind kind, const Dim& a, const Dim& b) {
    for (auto [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      if (one->terms_.size() != 1 || one->terms_[0].coefficient != 1 || one->terms_[0].atoms.size() != 1) continue;
      const Atom& atom = *one->terms_[0].atoms[0];
      if ((atom.kind != kMin && atom.kind != kMax) || !(atom.a == *other || atom.b == *other)) continue;
      return atom.kind == kind ? *one : *other;
    }
    return std::nullopt;
  }

  std::optional<int64_t> evaluate(const Dim::Lookup& lookup) const {
    if (kind == kSymbol) return lookup(name);
    auto x = a.evaluate(lookup), y = b.evaluate(lookup);
    if (!x || !y) return std::nullopt;
    switch (kind) {
      case kMin: return std::min(*x, *y);
      case kMax: return std::max(*x, *y);
      default:
        if (*y == 0 || (*x == INT64_MIN && *y == -1)) return std::nullopt;
        return kind == kFloorDiv ? python_floor_div(*x, *y) : *x - python_floor_div(*x, *y) * *y;
    }
  }
};

namespace {
bool atoms_less(const std::vector<std::shared_ptr<const Atom>>& a, const std::vector<std::shared_ptr<const Atom>>& b) {
  // Higher degree first, so that "2*past*n + seq + 1" prints its constant last.
  if (a.size() != b.size()) return a.size() > b.size();
  for (size_t i = 0; i < a.size(); ++i)
    if (int c = a[i]->key.compare(b[i]->key)) return c < 0;
  return false;
}
bool atoms_equal(const std::vector<std::shared_ptr<const Atom>>& a, const std::vector<std::shared_ptr<const Atom>>& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](auto& x, auto& y) { return x->key == y->key; });
}
}  // namespace

Dim::Dim(int64_t constant) {
  if (constant != 0) terms_.push_back({constant, {}});
}

Dim Dim::symbol(std::string name) { return from_atom(Atom::make(kSymbol, std::move(name), 0, 0)); }

Dim Dim::from_atom(std::shared_ptr<const Atom> a) {
  Dim d;
  d.terms_.push_back({1, {std::move(a)}});
  return d;
}

std::optional<int64_t> Dim::constant() const {
  if (terms_.empty()) return 0;
  if (is_constant()) return terms_[0].coefficient;
  return std::nullopt;
}

std::optional<std::string> Dim::as_symbol() const {
  if (terms_.size() == 1 && terms_[0].coefficient == 1 && terms_[0].atoms.size() == 1 &&
      terms_[0].atoms[0]->kind == kSymbol)
    return terms_[0].atoms[0]->name;
  return std::nullopt;
}

void Dim::add_term(Term t) {
  auto it = std::lower_bound(terms_.begin(), terms_.end(), t,
                             [](const Term& x, const Term& y) { return atoms_less(x.atoms, y.atoms); });
  if (it != terms_.end() && atoms_equal(it->atoms, t.atoms)) {
    it->coefficient = wrapping_add(it->coefficient, t.coefficient);
    if (it->coefficient == 0) terms_.erase(it);
  } else if (t.coefficient != 0) {
    terms_.insert(it, std::move(t));
  }
}

Dim operator+(const Dim& a, const Dim& b) {
  Dim r = a;
  for (auto& t : b.terms_) r.add_term(t);
  return r;
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

Dim operator*(const Dim& a, const Dim& b) {
  Dim r;
  for (auto& x : a.terms_)
    for (auto& y : b.terms_) {
      Dim::Term t;
      t.coefficient = wrapping_mul(x.coefficient, y.coefficient);
      std::merge(x.atoms.begin(), x.atoms.end(), y.atoms.begin(), y.atoms.end(), std::back_inserter(t.atoms),
                 [](auto& p, auto& q) { return p->key < q->key; });
      r.add_term(std::move(t));
    }
  return r;
}

bool operator==(const Dim& a, const Dim& b) {
  return a.terms_.size() == b.terms_.size() &&
         std::equal(a.terms_.begin(), a.terms_.end(), b.terms_.begin(), [](auto& x, auto& y) {
           return x.coefficient == y.coefficient && atoms_equal(x.atoms, y.atoms);
         });
}

Dim Dim::opaque(int kind, const Dim& a, const Dim& b) {
  return from_atom(Atom::make(static_cast<Kind>(kind), "", a, b));
}

Dim Dim::floor_div(const Dim& a, const Dim& b) {
  auto x = a.constant(), y = b.constant();
  if (x && y && *y != 0 && !(*x == INT64_MIN && *y == -1)) return python_floor_div(*x, *y);
  if (y && *y == 1) return a;
  if (x && *x == 0) return 0;
  if (a == b) return 1;
  // A divisor of one term may divide every term of the dividend exactly.
  if (b.terms_.size() == 1) {
    const Term& d = b.terms_[0];
    Dim quotient;
    bool exact = true;
    for (auto& t : a.terms_) {
      Term q{0, {}};
      auto rest = t.atoms;
      for (auto& atom : d.atoms) {
        auto it = std::find_if(rest.begin(), rest.end(), [&](auto& r) { return r->key == atom->key; });
        if (it == rest.end()) { exact = false; break; }
        rest.erase(it);
      }
      bool overflows = t.coefficient == INT64_MIN && d.coefficient == -1;
      if (!exact || overflows || t.coefficient % d.coefficient != 0) { exact = false; break; }
      q.coefficient = t.coefficient / d.coefficient;
      q.atoms = std::move(rest);
      quotient.add_term(std::move(q));
    }
    if (exact) return quotient;
  }
  return opaque(kFloorDiv, a, b);
}

Dim Dim::mod(const Dim& a, const Dim& b) {
  Dim q = floor_div(a, b);
  bool is_opaque = q.terms_.size() == 1 && q.terms_[0].atoms.size() == 1 && q.terms_[0].atoms[0]->kind == kFloorDiv &&
                   q.terms_[0].atoms[0]->a == a && q.terms_[0].atoms[0]->b == b;
  return is_opaque ? opaque(kMod, a, b) : a - q * b;
}

Dim Dim::min(const Dim& a, const Dim& b) {
  auto x = (a - b).constant();
  if (x) return *x <= 0 ? a : b;
  if (auto d = Atom::absorbed(kMin, a, b)) return *d;
  return a.to_string() < b.to_string() ? opaque(kMin, a, b) : opaque(kMin, b, a);
}

Dim Dim::max(const Dim& a, const Dim& b) {
  auto x = (a - b).constant();
  if (x) return *x >= 0 ? a : b;
  if (auto d = Atom::absorbed(kMax, a, b)) return *d;
  return a.to_string() < b.to_string() ? opaque(kMax, a, b) : opaque(kMax, b, a);
}

std::optional<int64_t> Dim::evaluate(const Lookup& lookup) const {
  int64_t sum = 0;
  for (auto& t : terms_) {
    int64_t product = t.coefficient;
    for (auto& atom : t.atoms) {
      auto v = atom->evaluate(lookup);
      if (!v) return std::nullopt;
      auto p = checked_mul(product, *v);
      if (!p) return std::nullopt;
      product = *p;
    }
    auto s = checked_add(sum, product);
    if (!s) return std::nullopt;
    sum = *s;
  }
  return sum;
}

Dim Dim::substitute(const std::function<std::optional<Dim>(const std::string&)>& f) const {
  Dim sum;
  for (auto& t : terms_) {
    Dim product = t.coefficient;
    for (auto& atom : t.atoms) {
      Dim factor;
      switch (atom->kind) {
        case kSymbol: {
          auto r = f(atom->name);
          factor = r ? *r : from_atom(atom);
          break;
        }
        case kFloorDiv: factor = floor_div(atom->a.substitute(f), atom->b.substitute(f)); break;
        case kMod: factor = mod(atom->a.substitute(f), atom->b.substitute(f)); break;
        case kMin: factor = min(atom->a.substitute(f), atom->b.substitute(f)); break;
        case kMax: factor = max(atom->a.substitute(f), atom->b.substitute(f)); break;
      }
      product = product * factor;
    }
    sum = sum + product;
  }
  return sum;
}

void Dim::collect_symbols(std::vector<std::string>& out) const {
  for (auto& t : terms_)
    for (auto& atom : t.atoms) {
      if (atom->kind == kSymbol) {
        if (std::find(out.begin(), out.end(), atom->name) == out.end()) out.push_back(atom->name);
      } else {
        atom->a.collect_symbols(out);
        atom->b.collect_symbols(out);
      }
    }
}

Dim::Size Dim::size() const {
  Size s;
  s.terms = terms_.size();
  for (auto& t : terms_) {
    s.atoms += t.atoms.size();
    for (auto& atom : t.atoms) {
      s.characters += atom->key.size();
      s.opaque = s.opaque || atom->kind != kSymbol;
    }
  }
  return s;
}

std::string Dim::to_string() const {
  if (terms_.empty()) return "0";
  std::string s;
  for (auto& t : terms_) {
    int64_t c = t.coefficient;
    if (!s.empty()) {
      s += c < 0 ? " - " : " + ";
      if (c < 0 && c != INT64_MIN) c = -c;
    }
    if (t.atoms.empty()) {
      s += std::to_string(c);
      continue;
    }
    if (c == -1) s += "-";
    else if (c != 1) s += std::to_string(c) + "*";
    for (size_t i = 0; i < t.atoms.size(); ++i) s += (i ? "*" : "") + t.atoms[i]->key;
  }
  return s;
}

std::string to_string(const Shape& shape) {
  std::string s = "[";
  for (size_t i = 0; i < shape.size(); ++i) s += (i ? ", " : "") + shape[i].to_string();
  return s + "]";
}

namespace {
// Recursive descent over what to_string() prints (and a little more).
class Parser {
 public:
  explicit Parser(std::string_view s) : s_(s) {}
  std::optional<Dim> whole() {
    if (s_.size() > kMaxParseCharacters) return std::nullopt;
    auto d = sum(0);
    skip();
    return d && at_ == s_.size() ? d : std::nullopt;
  }

 private:
  void skip() { while (at_ < s_.size() && s_[at_] == ' ') ++at_; }
  bool eat(std::string_view t) {
    skip();
    if (s_.substr(at_, t.size()) != t) return false;
    at_ += t.size();
    return true;
  }
  static bool small(const Dim& d) {
    Dim::Size s = d.size();
    return s.terms <= kMaxParseTerms && s.characters <= kMaxParseCharacters;
  }
  std::optional<Dim> sum(int depth) {
    if (depth > kMaxParseDepth) return std::nullopt;
    bool negative = eat("-");
    auto left = product(depth);
    if (!left) return std::nullopt;
    Dim d = negative ? Dim(0) - *left : *left;
    for (;;) {
      if (!small(d)) return std::nullopt;
      bool plus = eat("+");
      if (!plus && !eat("-")) return d;
      auto right = product(depth);
      if (!right) return std::nullopt;
      d = plus ? d + *right : d - *right;
    }
  }
  std::optional<Dim> product(int depth) {
    auto left = factor(depth);
    if (!left) return std::nullopt;
    Dim d = *left;
    for (;;) {
      if (!small(d)) return std::nullopt;
      int op = eat("//") ? 1 : eat("%") ? 2 : eat("*") ? 0 : -1;
      if (op < 0) return d;
      auto right = factor(depth);
      if (!right || (op == 0 && d.size().terms * right->size().terms > kMaxParseTerms)) return std::nullopt;
      d = op == 0 ? d * *right : op == 1 ? Dim::floor_div(d, *right) : Dim::mod(d, *right);
    }
  }
  std::optional<Dim> factor(int depth) {
    skip();
    if (eat("(")) {
      auto d = sum(depth + 1);
      return d && eat(")") ? d : std::nullopt;
    }
    for (bool lowest : {true, false})
      if (eat(lowest ? "min(" : "max(")) {
        auto a = sum(depth + 1);
        if (!a || !eat(",")) return std::nullopt;
        auto b = sum(depth + 1);
        if (!b || !eat(")")) return std::nullopt;
        return lowest ? Dim::min(*a, *b) : Dim::max(*a, *b);
      }
    size_t start = at_;
    bool number = at_ < s_.size() && std::isdigit(static_cast<unsigned char>(s_[at_]));
    if (number) {
      int64_t v = 0;
      for (; at_ < s_.size() && std::isdigit(static_cast<unsigned char>(s_[at_])); ++at_) {
        auto m = checked_mul(v, 10);
        auto a = m ? checked_add(*m, s_[at_] - '0') : std::nullopt;
        if (!a) return std::nullopt;
        v = *a;
      }
      return Dim(v);
    }
    while (at_ < s_.size() && std::string_view(" +-*/%(),").find(s_[at_]) == std::string_view::npos) ++at_;
    if (at_ == start) return std::nullopt;
    return Dim::symbol(std::string(s_.substr(start, at_ - start)));
  }
  std::string_view s_;
  size_t at_ = 0;
};
}  // namespace

std::optional<Dim> Dim::parse(std::string_view text) { return Parser(text).whole(); }

}  // namespace brisk
