// Nodes that change nothing.
#include <algorithm>

#include "passes/all.h"
#include "passes/rewrite.h"

namespace brisk::passes {
namespace {

// Has the result the type of operand `v`, so that the node may go?
bool same_type(const Graph& g, const Node& n, ValueId v) {
  return type_of(g, v).dtype == type_of(g, n.outputs[0]).dtype && equal_shapes(g, v, n.outputs[0]);
}

// The operand that the node returns unchanged, whatever it holds; kNoValue if there is none.
ValueId unchanged(const Graph& g, const Node& n) {
  auto all_numbers = [&](ValueId v, int64_t want) {
    auto k = known_numbers(g, v);
    return k && std::all_of(k->begin(), k->end(), [&](int64_t i) { return i == want; });
  };
  auto other = [&](size_t side, double neutral) {
    auto u = uniform(g, n.inputs[side]);
    return u && *u == neutral ? n.inputs[1 - side] : kNoValue;
  };
  auto either = [&](double neutral) {
    ValueId v = other(1, neutral);
    return v >= 0 ? v : other(0, neutral);
  };
  switch (n.op) {
    case OpId::kIdentity: case OpId::kCast: case OpId::kReshape: case OpId::kSqueeze: case OpId::kUnsqueeze:
    case OpId::kFlatten: case OpId::kExpand:
      return n.inputs[0];
    case OpId::kConcat: return n.inputs.size() == 1 ? n.inputs[0] : kNoValue;
    case OpId::kSplit: return n.outputs.size() == 1 ? n.inputs[0] : kNoValue;
    case OpId::kSlice: return operand(n, 4) < 0 || all_numbers(n.inputs[4], 1) ? n.inputs[0] : kNoValue;
    case OpId::kTile: return all_numbers(n.inputs[1], 1) ? n.inputs[0] : kNoValue;
    case OpId::kPad: return all_numbers(n.inputs[1], 0) ? n.inputs[0] : kNoValue;
    case OpId::kTranspose: {
      const auto& perm = std::get<TransposeAttrs>(n.attrs).perm;
      if (perm.empty() && type_of(g, n.inputs[0]).rank() > 1) return kNoValue;
      return std::is_sorted(perm.begin(), perm.end()) ? n.inputs[0] : kNoValue;
    }
    case OpId::kAdd: return either(0);
    case OpId::kSub: return other(1, 0);
    case OpId::kMul: return either(1);
    case OpId::kDiv: return other(1, 1);
    case OpId::kPow: return other(1, 1);
    case OpId::kAnd: return either(1);
    case OpId::kOr: return either(0);
    case OpId::kWhere: {
      auto which = uniform(g, n.inputs[0]);
      return which ? n.inputs[*which != 0 ? 1 : 2] : kNoValue;
    }
    default: return kNoValue;
  }
}

// Does every value of `a` have its own in `b`?
bool widens(DType a, DType b) {
  auto is = [&](DType x, DType y) { return a == x && b == y; };
  if (a == DType::kBool) return b != DType::kBool;
  if (is_float(a) && is_float(b)) return b == DType::kF64 || (b == DType::kF32 && dtype_bits(a) < 32);
  return is(DType::kI8, DType::kI32) || is(DType::kI8, DType::kI64) || is(DType::kU8, DType::kI32) || is(DType::kU8, DType::kI64) ||
         is(DType::kI16, DType::kI32) || is(DType::kI16, DType::kI64) || is(DType::kI32, DType::kI64) || is(DType::kI32, DType::kF64);
}

}  // namespace

Result<int> remove_identity(Graph& g, PassContext& c) {
  return until_stable(g, c, [](Round& r, Node& n) -> Status {
    Graph& g = r.g;
    if (n.outputs.empty() || n.outputs[0] < 0) return {};
    if (ValueId v = unchanged(g, n); v >= 0 && same_type(g, n, v) && r.bypass(n, v)) return {};
    // Through a wider type and on: in one step.
    if (n.op == OpId::kCast) {
      Node* first = r.index.producer(n.inputs[0], OpId::kCast);
      if (first && widens(type_of(g, first->inputs[0]).dtype, type_of(g, n.inputs[0]).dtype))
        return r.replace(n, OpId::kCast, n.attrs, {first->inputs[0]});
    }
    // A product over one element is no sum: positions times frequencies, as optimum writes it.
    if (n.op == OpId::kMatMul) {
      const Type &a = type_of(g, n.inputs[0]), &b = type_of(g, n.inputs[1]);
      if (a.ranked && b.ranked && a.rank() >= 2 && b.rank() >= 2 && a.shape.back() == Dim(1) && b.shape[b.shape.size() - 2] == Dim(1))
        return r.replace(n, OpId::kMul, NoAttrs{}, n.inputs);
    }
    // A part without elements (an empty past) adds nothing.
    if (n.op == OpId::kConcat && n.inputs.size() > 1 && type_of(g, n.outputs[0]).ranked) {
      auto axis = normalize_axis(std::get<AxisAttrs>(n.attrs).axis, type_of(g, n.outputs[0]).rank());
      std::vector<ValueId> left;
      for (ValueId v : n.inputs)
        if (!axis.ok() || type_of(g, v).shape[static_cast<size_t>(*axis)].constant_or(1) != 0) left.push_back(v);
      if (!left.empty() && left.size() < n.inputs.size()) return r.replace(n, OpId::kConcat, n.attrs, std::move(left));
    }
    return {};
  });
}

}  // namespace brisk::passes
