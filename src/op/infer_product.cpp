// Shape rules of products.
#include <array>

#include "op/rules.h"

namespace brisk::rules {

Status infer_matmul(InferContext& c) {
  const Type &a = c.in(0), &b = c.in(1);
  Type& out = c.out();
  out.dtype = a.dtype;
  out.ranked = a.ranked && b.ranked;
  if (!out.ranked) return {};
  if (a.rank() < 1 || b.rank() < 1) return invalid("operands must have rank 1 or more");
  Shape x = a.shape, y = b.shape;
  if (a.rank() == 1) x.insert(x.begin(), 1);
  if (b.rank() == 1) y.push_back(1);
  auto k1 = x.back().constant(), k2 = y[y.size() - 2].constant();
  if (k1 && k2 && *k1 != *k2) return invalid("inner sizes differ: " + to_string(a.shape) + " x " + to_string(b.shape));
  BRISK_ASSIGN(out.shape, broadcast(Shape(x.begin(), x.end() - 2), Shape(y.begin(), y.end() - 2)));
  if (a.rank() > 1) out.shape.push_back(x[x.size() - 2]);
  if (b.rank() > 1) out.shape.push_back(y.back());
  return {};
}

Status infer_matmul_integer(InferContext& c) {
  BRISK_TRY(infer_matmul(c));
  c.out().dtype = c.has(4) ? DType::kF32 : DType::kI32;
  if (c.has(5) && !c.has(4)) return invalid("a bias without a scale");
  for (int i : {4, 5}) {
    if (!c.has(i)) continue;
    const Type& t = c.in(i);
    auto columns = c.in(1).ranked && c.in(1).rank() >= 2 ? c.in(1).shape.back().constant() : std::nullopt;
    auto n = t.ranked && t.rank() == 1 ? t.shape[0].constant() : std::nullopt;
    bool one = i == 4 && t.ranked && (t.rank() == 0 || (n && *n == 1));
    if (t.dtype != DType::kF32 || !t.ranked || t.rank() > 1 || (!one && (!n || !columns || *n != *columns)))
      return invalid("scale or bias is " + to_string(t) + ", wanted f32, one for each column");
  }
  return {};
}

Status infer_gemm(InferContext& c) {
  const Type &a = c.in(0), &b = c.in(1);
  const auto& g = c.attrs<GemmAttrs>();
  Type& out = c.out();
  out.dtype = a.dtype;
  if ((a.ranked && a.rank() != 2) || (b.ranked && b.rank() != 2)) return invalid("operands of shapes " + to_string(a.shape) + " and " + to_string(b.shape) + ", wanted rank 2");
  out.shape = {a.ranked ? a.shape[g.trans_a ? 1 : 0] : c.fresh("gemm"), b.ranked ? b.shape[g.trans_b ? 0 : 1] : c.fresh("gemm")};
  if (a.ranked && b.ranked) {
    auto k1 = a.shape[g.trans_a ? 0 : 1].constant(), k2 = b.shape[g.trans_b ? 1 : 0].constant();
    if (k1 && k2 && *k1 != *k2) return invalid("inner sizes differ: " + std::to_string(*k1) + " and " + std::to_string(*k2));
  }
  if (c.has(2) && c.in(2).ranked) {
    BRISK_ASSIGN(Shape together, broadcast(c.in(2).shape, out.shape));
    if (together.size() != 2) return invalid("c has rank " + std::to_string(c.in(2).rank()));
  }
  return {};
}

Status infer_einsum(InferContext& c) {
  const std::string& equation = c.attrs<ModeAttrs>().mode;
  Type& out = c.out();
  out.dtype = c.in(0).dtype;
  // "ij,jk->ik"; '.' stands for "...", whose axes are counted from the operand's rank.
  std::array<std::optional<Dim>, 128> sizes;
  Shape ellipsis;
  size_t at = 0;
  size_t arrow = equation.find("->");
  if (arrow == std::string::npos) return internal("Einsum without a result");
  for (int i = 0; i < c.input_count(); ++i) {
    if (!c.in(i).ranked) return out.ranked = false, Status();
    size_t end = std::min(equation.find(',', at), arrow);
    std::string term = equation.substr(at, end - at);
    at = end + 1;
    size_t letters = 0;
    for (char ch : term) letters += ch != '.';
    const Shape& s = c.in(i).shape;
    if (s.size() < letters || (s.size() > letters && term.find('.') == std::string::npos))
      return invalid("term '" + term + "' does not fit an operand of rank " + std::to_string(s.size()));
    size_t axis = 0;
    for (char ch : term) {
      if (ch == '.') {
        size_t n = s.size() - letters;
        BRISK_ASSIGN(ellipsis, broadcast(ellipsis, Shape(s.begin() + static_cast<int64_t>(axis), s.begin() + static_cast<int64_t>(axis + n))));
        axis += n;
        continue;
      }
      auto& size = sizes[static_cast<size_t>(ch) & 127];
      const Dim& d = s[axis++];
      if (size && size->constant() && d.constant() && *size->constant() != *d.constant() && *size->constant() != 1 && *d.constant() != 1)
        return invalid(std::string("index '") + ch + "' has sizes " + size->to_string() + " and " + d.to_string());
      if (!size || (size->constant() && *size->constant() == 1)) size = d;
    }
  }
  if (at != arrow + 1) return invalid("equation '" + equation + "' has more terms than there are operands");
  for (char ch : equation.substr(arrow + 2)) {
    if (ch == '.') { out.shape.insert(out.shape.end(), ellipsis.begin(), ellipsis.end()); continue; }
    if (!sizes[static_cast<size_t>(ch) & 127]) return invalid(std::string("result index '") + ch + "' is in no operand");
    out.shape.push_back(*sizes[static_cast<size_t>(ch) & 127]);
  }
  return too_many_axes(out.shape.size());
}

Status infer_det(InferContext& c) {
  const Type& x = c.in(0);
  Type& y = c.out();
  y.dtype = x.dtype;
  y.ranked = x.ranked;
  if (!x.ranked) return {};
  auto n = x.rank() < 2 ? std::nullopt : x.shape[x.shape.size() - 2].constant(), m = x.rank() < 2 ? n : x.shape.back().constant();
  if (x.rank() < 2 || (n && m && *n != *m)) return invalid("x is " + to_string(x) + ", wanted square matrices");
  y.shape.assign(x.shape.begin(), x.shape.end() - 2);
  return {};
}

}  // namespace brisk::rules
