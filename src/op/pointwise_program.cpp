#include "op/pointwise_program.h"

#include <algorithm>

namespace brisk {
namespace {

bool one_of(OpId op, std::initializer_list<OpId> list) { return std::find(list.begin(), list.end(), op) != list.end(); }

bool is_comparison(OpId op) {
  using enum OpId;
  return one_of(op, {kEqual, kLess, kLessOrEqual, kGreater, kGreaterOrEqual});
}

// Operators on one type that give it back, comparisons and casts aside.
bool computes(OpId op, DType t) {
  using enum OpId;
  bool logic = one_of(op, {kAnd, kOr, kXor, kNot});
  if (t == DType::kBool) return logic;
  if (one_of(op, {kMod, kIsInf, kBitShift, kBitwiseAnd, kBitwiseOr, kBitwiseXor, kBitwiseNot, kPointwise, kCast, kWhere, kIsNaN})) return false;
  if (t == DType::kF32) return op_def(op).is(brisk::kPointwise) && !logic;
  return one_of(op, {kAdd, kSub, kMul, kDiv, kMin, kMax, kAbs, kNeg, kSign, kRelu});
}

bool fits_register(DType t) { return t == DType::kF32 || t == DType::kI64 || t == DType::kI32 || t == DType::kBool; }

}  // namespace

std::optional<DType> instruction_type(OpId op, std::span<const DType> operands, DType to) {
  if (!op_def(op).is(kPointwise) || static_cast<int>(operands.size()) != op_def(op).min_inputs || op == OpId::kPointwise) return std::nullopt;
  for (DType t : operands)
    if (!fits_register(t)) return std::nullopt;
  if (op == OpId::kWhere) return operands[0] == DType::kBool && operands[1] == operands[2] ? std::optional(operands[1]) : std::nullopt;
  if (op == OpId::kCast) return fits_register(to) ? std::optional(to) : std::nullopt;
  DType t = operands[0];
  if (operands.size() > 1 && operands[1] != t) return std::nullopt;
  if (op == OpId::kIsNaN) return t == DType::kF32 ? std::optional(DType::kBool) : std::nullopt;
  if (is_comparison(op)) return t != DType::kBool || op == OpId::kEqual ? std::optional(DType::kBool) : std::nullopt;
  return computes(op, t) ? std::optional(t) : std::nullopt;
}

Result<std::vector<PointwiseStep>> decode_program(const PointwiseAttrs& p, std::span<const DType> operands) {
  size_t n = p.ops.size();
  auto fits = [&](size_t size, bool optional) { return size == n || (optional && size == 0); };
  if (n == 0 || !fits(p.a.size(), false) || !fits(p.b.size(), false) || !fits(p.c.size(), true) || !fits(p.alpha.size(), false) ||
      !fits(p.beta.size(), false) || !fits(p.to.size(), true))
    return internal("pointwise program is malformed");
  std::vector<DType> types;
  for (DType t : operands) types.push_back(register_type(t));
  std::vector<PointwiseStep> steps;
  for (size_t i = 0; i < n; ++i) {
    auto op = op_from_name(p.ops[i]);
    if (!op) return internal("pointwise program names '" + p.ops[i] + "'");
    PointwiseStep s{*op, p.a[i], p.b[i], p.c.empty() ? -1 : p.c[i], p.alpha[i], p.beta[i]};
    std::vector<DType> in;
    for (int64_t r : {s.a, s.b, s.c}) {
      if (r < -1 || r >= static_cast<int64_t>(types.size())) return internal("pointwise register out of range");
      if (r >= 0) in.push_back(types[static_cast<size_t>(r)]);
    }
    bool packed = s.a >= 0 && (s.b >= 0 || s.c < 0);
    int64_t to = p.to.empty() ? 0 : p.to[i];
    if (!packed || to < 0 || to >= kDTypeCount) return internal("pointwise program is malformed");
    auto type = instruction_type(*op, in, static_cast<DType>(to));
    if (!type) return internal("pointwise program: " + p.ops[i] + " cannot be instruction " + std::to_string(i));
    s.in = *op == OpId::kWhere ? in[1] : in[0];
    s.type = *type;
    types.push_back(*type);
    steps.push_back(s);
  }
  if (types.back() != register_type(p.result)) return internal("pointwise program gives another type than it says");
  return steps;
}

}  // namespace brisk
