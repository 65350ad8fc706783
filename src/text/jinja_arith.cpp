// Operators on values.
#include <cmath>

#include "text/jinja_interp.h"

namespace brisk::jinja {
namespace {

constexpr Int kExact = Int{1} << 53;  // integers up to here are doubles

constexpr const char* kTooBig = "an integer of more than 127 bits";

const char* sign_of(Op op) {
  switch (op) {
    case Op::kAdd:
      return "+";
    case Op::kSub:
      return "-";
    case Op::kMul:
      return "*";
    case Op::kDiv:
      return "/";
    case Op::kFloorDiv:
      return "//";
    case Op::kMod:
      return "%";
    default:
      return "** or pow()";
  }
}

[[noreturn]] void unsupported_operands(Op op, const Val& x, const Val& y) {
  type_error(std::string("unsupported operand type(s) for ") + sign_of(op) + ": '" + type_name(x) +
             "' and '" + type_name(y) + "'");
}

[[noreturn]] void zero_division() { fail("ZeroDivisionError", "division by zero"); }

Int floor_div(Int x, Int y) { return x / y - ((x % y != 0) && ((x < 0) != (y < 0))); }

Val int_power(Int x, Int y) {
  if (y < 0) {
    if (x == 0) zero_division();
    return Val::real(std::pow(static_cast<double>(x), static_cast<double>(y)));
  }
  Int r = 1;
  while (y > 0) {
    if ((y & 1) && __builtin_mul_overflow(r, x, &r)) fail("OverflowError", kTooBig);
    y >>= 1;
    if (y > 0 && __builtin_mul_overflow(x, x, &x)) fail("OverflowError", kTooBig);
  }
  return Val::integer(r);
}

Val int_arithmetic(Op op, Int x, Int y) {
  Int r = 0;
  bool over = false;
  switch (op) {
    case Op::kAdd:
      over = __builtin_add_overflow(x, y, &r);
      break;
    case Op::kSub:
      over = __builtin_sub_overflow(x, y, &r);
      break;
    case Op::kMul:
      over = __builtin_mul_overflow(x, y, &r);
      break;
    case Op::kDiv:
      if (y == 0) zero_division();
      if (x > kExact || x < -kExact || y > kExact || y < -kExact)
        return Val::real(static_cast<double>(static_cast<long double>(x) / static_cast<long double>(y)));
      return Val::real(static_cast<double>(x) / static_cast<double>(y));
    case Op::kFloorDiv:
    case Op::kMod:
      if (y == 0) fail("ZeroDivisionError", "integer division or modulo by zero");
      if (y == -1) {  // the one quotient that can overflow
        if (op == Op::kMod) return Val::integer(0);
        over = __builtin_sub_overflow(Int{0}, x, &r);
        break;
      }
      r = floor_div(x, y);
      if (op == Op::kMod) r = x - r * y;
      break;
    default:
      return int_power(x, y);
  }
  if (over) fail("OverflowError", kTooBig);
  return Val::integer(r);
}

double float_mod(double x, double y) {
  double m = std::fmod(x, y);
  if (m != 0) return (y < 0) != (m < 0) ? m + y : m;
  return std::copysign(0.0, y);
}

double float_floor_div(double x, double y) {
  double m = std::fmod(x, y);
  double d = (x - m) / y;
  if (m != 0 && (y < 0) != (m < 0)) d -= 1;
  if (d == 0) return std::copysign(0.0, x / y);
  double f = std::floor(d);
  return d - f > 0.5 ? f + 1 : f;
}

Val float_arithmetic(Op op, double x, double y) {
  switch (op) {
    case Op::kAdd:
      return Val::real(x + y);
    case Op::kSub:
      return Val::real(x - y);
    case Op::kMul:
      return Val::real(x * y);
    case Op::kPow: {
      if (x == 0 && y < 0) fail("ZeroDivisionError", "0.0 cannot be raised to a negative power");
      if (x < 0 && y != std::floor(y) && std::isfinite(y)) type_error("complex numbers are not supported");
      double r = std::pow(x, y);
      if (std::isinf(r) && std::isfinite(x) && std::isfinite(y))
        fail("OverflowError", "Numerical result out of range");
      return Val::real(r);
    }
    default:
      break;
  }
  if (y == 0) zero_division();
  if (op == Op::kDiv) return Val::real(x / y);
  return Val::real(op == Op::kMod ? float_mod(x, y) : float_floor_div(x, y));
}

Val repeat(Budget& b, const Val& x, Int times) {
  if (times < 0) times = 0;
  if (x.is_string()) {
    auto& s = x.str();
    if (!s.bytes.empty() && times > static_cast<Int>(b.max_string / s.bytes.size()))
      b.check_string(b.max_string + 1);
    StrBuilder out(b);
    if (!s.bytes.empty())
      for (Int k = 0; k < times; ++k) out.add(s);
    return out.take(s.markup);
  }
  auto& items = x.list().items;
  if (!items.empty() && times > static_cast<Int>(b.max_items / items.size()))
    fail("LimitError", "a list of more than " + std::to_string(b.max_items) + " items");
  std::vector<Val> out;
  out.reserve(items.size() * static_cast<size_t>(items.empty() ? 0 : times));
  if (!items.empty())
    for (Int k = 0; k < times; ++k) out.insert(out.end(), items.begin(), items.end());
  return make_list(b, std::move(out), x.kind);
}

Val add_strings(Budget& b, const Val& x, const Val& y) {
  bool markup = x.str().markup || y.str().markup;
  StrBuilder out(b);
  for (const Val* v : {&x, &y})
    if (markup && !v->str().markup) out.add(escape_html(b, *v).str());
    else out.add(v->str());
  return out.take(markup);
}

}  // namespace

Val arithmetic(Budget& b, Op op, const Val& x, const Val& y) {
  if (x.is_string() && op == Op::kMod) return format_percent(b, x, y);
  if (op == Op::kAdd && x.is_string() && y.is_undefined()) fail_undefined(y);
  need_defined(x);
  need_defined(y);
  if (x.is_integral() && y.is_integral()) return int_arithmetic(op, x.as_int(), y.as_int());
  if (x.is_number() && y.is_number()) return float_arithmetic(op, x.as_double(), y.as_double());
  if (op == Op::kAdd) {
    if (x.is_string() && y.is_string()) return add_strings(b, x, y);
    if (x.kind == y.kind && x.is_sequence_object()) {
      std::vector<Val> items = x.list().items;
      items.insert(items.end(), y.list().items.begin(), y.list().items.end());
      return make_list(b, std::move(items), x.kind);
    }
    if (x.is_string()) type_error("can only concatenate str (not \"" + type_name(y) + "\") to str");
  }
  if (op == Op::kMul) {
    if ((x.is_string() || x.is_sequence_object()) && y.is_integral()) return repeat(b, x, y.as_int());
    if ((y.is_string() || y.is_sequence_object()) && x.is_integral()) return repeat(b, y, x.as_int());
  }
  unsupported_operands(op, x, y);
}

Val negate(const Val& x) {
  need_defined(x);
  if (x.is(Kind::kFloat)) return Val::real(-x.f);
  if (!x.is_integral()) type_error("bad operand type for unary -: '" + type_name(x) + "'");
  Int r = 0;
  if (__builtin_sub_overflow(Int{0}, x.as_int(), &r)) fail("OverflowError", kTooBig);
  return Val::integer(r);
}

Val positive(const Val& x) {
  need_defined(x);
  if (x.is(Kind::kFloat)) return x;
  if (!x.is_integral()) type_error("bad operand type for unary +: '" + type_name(x) + "'");
  return Val::integer(x.as_int());
}

Val join_concat(Budget& b, const std::vector<Val>& parts) {
  StrBuilder out(b);
  for (const Val& v : parts) write_str(out, v);
  return out.take();
}

namespace {

struct SliceBounds {
  Int start, stop, step, count;
};

SliceBounds bounds_of(const Val& start, const Val& stop, const Val& step, Int n) {
  auto whole = [](const Val& v) {
    if (!v.is_integral()) type_error("slice indices must be integers or None or have an __index__ method");
    return v.as_int();
  };
  Int by = step.is_none() ? 1 : whole(step);
  if (by == 0) value_error("slice step cannot be zero");
  auto clamp = [&](const Val& v, Int otherwise) {
    if (v.is_none()) return otherwise;
    Int k = whole(v);
    Int low = by < 0 ? -1 : 0, high = by < 0 ? n - 1 : n;
    if (k < 0) k = k < -n ? low : k + n;  // -n and below clamp
    return std::min(std::max(k, low), high);
  };
  Int from = clamp(start, by < 0 ? n - 1 : 0), to = clamp(stop, by < 0 ? -1 : n);
  if (by > n) by = n + 1;  // any larger step takes the first item only
  if (by < -n) by = -n - 1;
  Int count = 0;
  if (by > 0 && from < to) count = (to - from - 1) / by + 1;
  if (by < 0 && from > to) count = (from - to - 1) / -by + 1;
  return {from, to, by, count};
}

Val slice_string(Budget& b, const Val& v, SliceBounds r) {
  auto& s = v.str();
  b.step(s.bytes.size() / 32);
  StrBuilder out(b);
  if (r.step == 1) {
    size_t from = s.offset_of(static_cast<size_t>(r.count ? r.start : 0));
    size_t to = s.offset_of(static_cast<size_t>(r.count ? r.start + r.count : 0));
    out.add(s, from, to);
    return out.take(s.markup);
  }
  std::vector<uint32_t> starts;  // of the characters
  for (size_t i = 0; i < s.bytes.size(); ++i)
    if ((static_cast<unsigned char>(s.bytes[i]) & 0xC0) != 0x80) starts.push_back(static_cast<uint32_t>(i));
  starts.push_back(static_cast<uint32_t>(s.bytes.size()));
  for (Int k = 0; k < r.count; ++k) {
    auto c = static_cast<size_t>(r.start + k * r.step);
    out.add(s, starts[c], starts[c + 1]);
  }
  return out.take(s.markup);
}

}  // namespace

Val slice(Budget& b, const Val& object, const Val& start, const Val& stop, const Val& step) {
  need_defined(object);
  if (object.is_string()) return slice_string(b, object, bounds_of(start, stop, step, object.str().length));
  if (object.is_sequence_object()) {
    auto& items = object.list().items;
    SliceBounds r = bounds_of(start, stop, step, static_cast<Int>(items.size()));
    std::vector<Val> out;
    out.reserve(static_cast<size_t>(r.count));
    for (Int k = 0; k < r.count; ++k) out.push_back(items[static_cast<size_t>(r.start + k * r.step)]);
    return make_list(b, std::move(out), object.kind);
  }
  if (object.is(Kind::kRange)) {
    auto& x = object.as<RangeObj>();
    SliceBounds r = bounds_of(start, stop, step, x.length);
    return make_range(b, x.start + r.start * x.step, x.start + r.stop * x.step, r.step * x.step);
  }
  if (object.is(Kind::kDict)) type_error("unhashable type: 'slice'");
  type_error("'" + type_name(object) + "' object is not subscriptable");
}

}  // namespace brisk::jinja
