// Positions, and tables of cosines and sines as angles that grow with them.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/half.h"
#include "convert/predicate.h"

namespace brisk::convert {
namespace {

constexpr int64_t kRows = 4096;  // of a computed table that are looked at

double wrapped(double angle) { return std::remainder(angle, 2 * std::numbers::pi); }

// Rows [0, n) of a table that has one for each token, from position 0 on.
struct Table {
  ConstantPtr cos, sin;
  int64_t rows = 0, half = 0;

  double c(int64_t row, int64_t i) const { return element(*cos, row, i); }
  double s(int64_t row, int64_t i) const { return element(*sin, row, i); }

 private:
  double element(const Constant& t, int64_t row, int64_t i) const {
    return static_cast<double>(load_float(t.data.bytes.data(), t.dtype, row * half + i));
  }
};

Result<Table> table_of(ConstantPtr cos, ConstantPtr sin) {
  Table t{cos, sin, 0, 0};
  if (!(cos->shape == sin->shape) || cos->shape.rank < 2 || !is_float(cos->dtype) || !is_float(sin->dtype)) return unsupported("its tables do not fit each other");
  t.half = cos->shape[cos->shape.rank - 1];
  t.rows = t.half ? cos->count() / t.half : 0;
  if (t.half < 1 || t.rows < 2) return unsupported("its tables are empty");
  return t;
}

// Tables that a file of 16-bit floats held, whatever they are stored as now.
bool rounded_to_16_bits(const Constant& c) {
  bool f16_fits = true, bf16_fits = true;
  for (int64_t i = 0; i < c.count() && (f16_fits || bf16_fits); ++i) {
    float v = load_float(c.data.bytes.data(), c.dtype, i);
    f16_fits = f16_fits && static_cast<float>(f16(v)) == v;
    bf16_fits = bf16_fits && static_cast<float>(bf16(v)) == v;
  }
  return f16_fits || bf16_fits;
}

// Frequencies from rows 1, 2, 4, ...: each doubling of the distance halves what rounding leaves open, and the product of
// a power of two and an f32 number is exact in the file's arithmetic.
Result<Rotation> fit(const Table& t) {
  Rotation r;
  double magnitude = std::hypot(t.c(0, 0), t.s(0, 0));
  r.magnitude = static_cast<float>(std::abs(magnitude - 1) < 1e-5 ? 1 : magnitude);
  for (int64_t i = 0; i < t.half; ++i) {
    double start = std::atan2(t.s(0, i), t.c(0, i)), f = wrapped(std::atan2(t.s(1, i), t.c(1, i)) - start);
    for (int64_t p = 2; p < t.rows; p *= 2) f += wrapped(std::atan2(t.s(p, i), t.c(p, i)) - start - f * static_cast<double>(p)) / static_cast<double>(p);
    r.frequencies.push_back(static_cast<float>(f));
  }
  const bool narrow = rounded_to_16_bits(*t.cos) && rounded_to_16_bits(*t.sin);
  for (int64_t p = 0; p < t.rows; p = p < 64 ? p + 1 : p + p / 3)
    for (int64_t i = 0; i < t.half; ++i) {
      double angle = static_cast<double>(p) * static_cast<double>(r.frequencies[static_cast<size_t>(i)]);
      double allowed = (narrow ? 5e-3 : 1e-5) + 2e-7 * std::abs(angle);  // angles are rounded to f32 where the file computes them
      if (std::abs(t.c(p, i) - static_cast<double>(r.magnitude) * std::cos(angle)) > allowed || std::abs(t.s(p, i) - static_cast<double>(r.magnitude) * std::sin(angle)) > allowed)
        return unsupported("its tables are not cosine and sine of position times a frequency: row " + std::to_string(p) + ", column " + std::to_string(i));
    }
  return r;
}

bool same_rows(const Constant& part, const Table& whole, bool cos, int64_t from) {
  int64_t rows = part.count() / whole.half;
  for (int64_t p = 0; p < rows; ++p)
    for (int64_t i = 0; i < whole.half; ++i) {
      double a = static_cast<double>(load_float(part.data.bytes.data(), part.dtype, p * whole.half + i)), b = cos ? whole.c(from + p, i) : whole.s(from + p, i);
      if (std::abs(a - b) > 1e-6) return false;
    }
  return true;
}

}  // namespace

std::optional<int64_t> position_offset(Geometry& geometry, const Graph& g, ValueId v) {
  if (!geometry.has(v) || !is_integer(g.value(v).type.dtype) || g.constant(v)) return std::nullopt;
  std::optional<int64_t> offset;
  for (Sizes s : {Sizes{1, 5, 0}, Sizes{2, 3, 0}, Sizes{1, 1, 7}, Sizes{2, 4, 3}}) {
    auto c = geometry.at(v, s);
    if (!c.ok()) return std::nullopt;
    auto numbers = to_ints((*c)->view());
    if (numbers.empty() || static_cast<int64_t>(numbers.size()) % s.tokens != 0) return std::nullopt;
    int64_t past = geometry.has_past() ? s.past : 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      int64_t c0 = numbers[i] - past - static_cast<int64_t>(i) % s.tokens;
      if (offset.value_or(c0) != c0) return std::nullopt;
      offset = c0;
    }
  }
  return offset;
}

Result<Rotation> rotation(Geometry& geometry, const Graph& g, const Node& n, int64_t& limit) {
  ValueId cos = n.inputs[1], sin = n.inputs[2], positions = n.inputs.size() > 3 ? n.inputs[3] : kNoValue;
  if (!geometry.has(cos) || !geometry.has(sin) || !geometry.has(positions)) return unsupported("its angles depend on what the tokens are");
  if (positions >= 0) {
    auto offset = position_offset(geometry, g, positions);
    if (!offset) return unsupported("'" + g.value(positions).name + "' does not hold positions");
    BRISK_ASSIGN(ConstantPtr c, geometry.fixed(cos));
    BRISK_ASSIGN(ConstantPtr s, geometry.fixed(sin));
    BRISK_ASSIGN(Table t, table_of(c, s));
    BRISK_ASSIGN(Rotation r, fit(t));
    r.offset = *offset;
    limit = std::min(limit, t.rows - r.offset);
    return r;
  }
  BRISK_ASSIGN(ConstantPtr c, geometry.at(cos, {1, std::min(kRows, limit), 0}));
  BRISK_ASSIGN(ConstantPtr s, geometry.at(sin, {1, std::min(kRows, limit), 0}));
  BRISK_ASSIGN(Table t, table_of(c, s));
  BRISK_ASSIGN(Rotation r, fit(t));
  for (Sizes part : {Sizes{1, 3, 0}, Sizes{1, 2, 9}, Sizes{1, 1, std::min<int64_t>(100, t.rows - 1)}}) {  // a chunk has its own rows of it
    BRISK_ASSIGN(ConstantPtr pc, geometry.at(cos, part));
    BRISK_ASSIGN(ConstantPtr ps, geometry.at(sin, part));
    int64_t from = geometry.has_past() ? part.past : 0;
    if (pc->count() != part.tokens * t.half || from + part.tokens > t.rows || !same_rows(*pc, t, true, from) || !same_rows(*ps, t, false, from))
      return unsupported("its tables at a position depend on how many tokens there are");
  }
  return r;
}

}  // namespace brisk::convert
