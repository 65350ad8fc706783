// Activations out of the parts that exporters write: GELU (erf and tanh form), HardSwish, Mish.
#include <cmath>

#include "passes/all.h"
#include "passes/rewrite.h"

namespace brisk::passes {
namespace {

bool near(double a, double b) { return std::fabs(a - b) <= 1e-4 * std::fabs(b); }

// A value as number * product of factors, through Mul, Div by a number and Neg.
struct Product {
  double number = 1;
  std::vector<ValueId> factors;
};
void collect(const Round& r, ValueId v, bool inside, Product& p, int depth) {
  const Node* n = r.index.producer(v);
  bool open = n && depth < 8 && (!inside || r.index.single_use(v));
  if (open && n->op == OpId::kMul) {
    for (ValueId in : n->inputs) {
      if (auto u = uniform(r.g, in)) p.number *= *u;
      else collect(r, in, true, p, depth + 1);
    }
    return;
  }
  if (open && n->op == OpId::kDiv)
    if (auto u = uniform(r.g, n->inputs[1]); u && *u != 0) {
      p.number /= *u;
      return collect(r, n->inputs[0], true, p, depth + 1);
    }
  p.factors.push_back(v);
}
Product product_of(const Round& r, ValueId v) {
  Product p;
  collect(r, v, false, p, 0);
  return p;
}

// v = number * x + 0: the number, if the only factor is x.
std::optional<double> multiple_of(const Round& r, ValueId v, ValueId x) {
  if (v == x) return 1;
  Product p = product_of(r, v);
  return p.factors.size() == 1 && p.factors[0] == x ? std::optional(p.number) : std::nullopt;
}

// v = number * x^3, by Pow or Mul.
std::optional<double> cube_of(const Round& r, ValueId v, ValueId x) {
  Product p = product_of(r, v);
  int power = 0;
  for (ValueId f : p.factors) {
    const Node* n = r.index.producer(f, OpId::kPow);
    auto e = n && n->inputs[0] == x ? uniform(r.g, n->inputs[1]) : std::nullopt;
    if (f == x) power += 1;
    else if (e && (*e == 2 || *e == 3)) power += static_cast<int>(*e);
    else return std::nullopt;
  }
  return power == 3 ? std::optional(p.number) : std::nullopt;
}

// The operand of Add that is not the number `want`.
ValueId added_to(const Round& r, ValueId v, double want) {
  const Node* n = r.index.producer(v, OpId::kAdd);
  if (!n) return kNoValue;
  for (size_t side : {0u, 1u})
    if (auto u = uniform(r.g, n->inputs[side]); u && near(*u, want)) return n->inputs[1 - side];
  return kNoValue;
}

// a + b = x + 0.044715 x^3, or one of the spellings with x taken out.
bool is_cubic(const Round& r, ValueId v, ValueId x, double outer) {
  const Node* n = r.index.producer(v, OpId::kAdd);
  if (!n) return false;
  for (size_t side : {0u, 1u}) {
    auto linear = multiple_of(r, n->inputs[side], x);
    auto cubic = cube_of(r, n->inputs[1 - side], x);
    if (linear && cubic && near(*linear * outer, std::sqrt(2 / M_PI)) && near(*cubic * outer, std::sqrt(2 / M_PI) * 0.044715)) return true;
  }
  return false;
}

// v = sqrt(2 / pi) * (x + 0.044715 x^3)
bool is_tanh_argument(const Round& r, ValueId v, ValueId x) {
  Product p = product_of(r, v);
  if (p.factors.size() == 1) return is_cubic(r, p.factors[0], x, p.number);
  if (p.factors.size() != 2) return false;
  for (size_t side : {0u, 1u}) {  // x * (1 + 0.044715 x^2)
    const Node* n = p.factors[side] == x ? r.index.producer(p.factors[1 - side], OpId::kAdd) : nullptr;
    if (!n) continue;
    for (size_t k : {0u, 1u}) {
      auto one = uniform(r.g, n->inputs[k]);
      Product square = product_of(r, n->inputs[1 - k]);
      int power = 0;
      for (ValueId f : square.factors) {
        const Node* pow = r.index.producer(f, OpId::kPow);
        auto e = pow && pow->inputs[0] == x ? uniform(r.g, pow->inputs[1]) : std::nullopt;
        power += f == x ? 1 : e && *e == 2 ? 2 : 100;
      }
      if (one && power == 2 && near(*one * p.number, std::sqrt(2 / M_PI)) && near(square.number * p.number, std::sqrt(2 / M_PI) * 0.044715)) return true;
    }
  }
  return false;
}

Status gelu(Round& r, Node& n, const Product& p) {
  if (p.factors.size() != 2 || !near(p.number, 0.5)) return {};
  for (size_t side : {0u, 1u}) {
    ValueId x = p.factors[side];
    if (!equal_shapes(r.g, x, n.outputs[0])) continue;
    const Node* f = r.index.producer(added_to(r, p.factors[1 - side], 1));
    if (!f) continue;
    AlphaBetaAttrs a;
    if (f->op == OpId::kErf) {
      auto k = multiple_of(r, f->inputs[0], x);
      if (k && near(*k, M_SQRT1_2)) return r.replace(n, OpId::kGelu, a, {x});
      r.missed(n, "gelu", "the operand of Erf is not x / sqrt(2)");
    }
    a.alpha = 1;
    if (f->op == OpId::kTanh) {
      if (is_tanh_argument(r, f->inputs[0], x)) return r.replace(n, OpId::kGelu, a, {x});
      r.missed(n, "gelu", "the operand of Tanh is not sqrt(2 / pi) (x + 0.044715 x^3)");
    }
  }
  return {};
}

// min(max(x + 3, 0), 6), in either order.
bool is_relu6_of_plus3(const Round& r, ValueId v, ValueId x) {
  auto bound = [&](ValueId value, OpId op, double want) -> ValueId {
    const Node* n = r.index.producer(value, op);
    if (!n) return kNoValue;
    for (size_t side : {0u, 1u})
      if (auto u = uniform(r.g, n->inputs[side]); u && *u == want) return n->inputs[1 - side];
    return kNoValue;
  };
  auto relu = [&](ValueId value) {
    ValueId inner = bound(value, OpId::kMax, 0);
    const Node* n = r.index.producer(value, OpId::kRelu);
    return inner >= 0 ? inner : n ? n->inputs[0] : kNoValue;
  };
  ValueId a = relu(bound(v, OpId::kMin, 6)), b = bound(relu(v), OpId::kMin, 6);
  return (a >= 0 && added_to(r, a, 3) == x) || (b >= 0 && added_to(r, b, 3) == x);
}

Status hard_swish_or_mish(Round& r, Node& n, const Product& p) {
  if (p.factors.size() != 2) return {};
  for (size_t side : {0u, 1u}) {
    ValueId x = p.factors[side], y = p.factors[1 - side];
    const Node* f = r.index.producer(y);
    if (!f || !equal_shapes(r.g, x, n.outputs[0])) continue;
    if (f->op == OpId::kHardSigmoid && f->inputs[0] == x && p.number == 1) {
      const auto& a = std::get<AlphaBetaAttrs>(f->attrs);
      if (near(static_cast<double>(a.alpha), 1.0 / 6) && near(static_cast<double>(a.beta), 0.5)) return r.replace(n, OpId::kHardSwish, NoAttrs{}, {x});
    }
    if (near(p.number, 1.0 / 6) && is_relu6_of_plus3(r, y, x)) return r.replace(n, OpId::kHardSwish, NoAttrs{}, {x});
    const Node* soft = f->op == OpId::kTanh && p.number == 1 ? r.index.producer(f->inputs[0], OpId::kSoftplus) : nullptr;
    if (soft && soft->inputs[0] == x) return r.replace(n, OpId::kMish, NoAttrs{}, {x});
  }
  return {};
}

}  // namespace

Result<int> recognize_activation(Graph& g, PassContext& c) {
  return until_stable(g, c, [](Round& r, Node& n) -> Status {
    if ((n.op != OpId::kMul && n.op != OpId::kDiv) || !is_float(type_of(r.g, n.outputs[0]).dtype)) return {};
    Product p = product_of(r, n.outputs[0]);
    BRISK_TRY(gelu(r, n, p));
    if (n.op != OpId::kMul && n.op != OpId::kDiv) return {};
    return hard_swish_or_mish(r, n, p);
  });
}

}  // namespace brisk::passes
