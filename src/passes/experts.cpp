// Mixtures of experts: exporters gather each row's matrices out of all experts' and multiply in batches, which copies more
// than it computes. ExpertLinear reads them where they are.
#include "passes/all.h"
#include "passes/rewrite.h"
#include "tensor/constant_ops.h"

namespace brisk::passes {
namespace {

// Gather(weights [E, a, b], experts [R]) along the first axis, read by nobody else.
const Node* chosen_matrices(const Round& r, ValueId v, int rank) {
  const Node* n = r.index.producer(v, OpId::kGather);
  if (!n || !r.index.single_use(v) || std::get<AxisAttrs>(n->attrs).axis != 0) return nullptr;
  const Constant* w = r.g.constant(n->inputs[0]);
  const Type& e = type_of(r.g, n->inputs[1]);
  bool fits = w && w->encoding.plain() && w->dtype == DType::kF32 && w->shape.rank == rank && e.ranked && e.rank() == 1 && !r.g.constant(n->inputs[1]);
  return fits && (e.dtype == DType::kI64 || e.dtype == DType::kI32) ? n : nullptr;
}

// MatMul(matrices [R, N, K], x [R, K, 1]), or MatMul(x [R, 1, K], matrices [R, K, N]).
Status product(Round& r, Node& n) {
  Graph& g = r.g;
  for (size_t side : {0u, 1u}) {
    const Node* chosen = chosen_matrices(r, n.inputs[side], 3);
    ValueId x = n.inputs[1 - side];
    if (!chosen || !type_of(g, x).ranked || type_of(g, x).rank() != 3) continue;
    const Constant& w = *g.constant(chosen->inputs[0]);
    const Shape& s = type_of(g, x).shape;
    const Dim &rows = type_of(g, chosen->inputs[1]).shape[0], &k = s[side == 0 ? 1 : 2];
    if (!(s[0] == rows) || !(s[side == 0 ? 2 : 1] == Dim(1)) || !(k == Dim(w.shape[side == 0 ? 2 : 1]))) continue;
    const int64_t width = w.shape[side == 0 ? 1 : 2];
    auto target = reshape_operand(g, {rows, Dim(width)}, type_of(g, n.outputs[0]).shape);
    if (!target) continue;
    ValueId experts = chosen->inputs[1];
    if (type_of(g, experts).dtype != DType::kI64) {
      CastAttrs wide;
      wide.to = DType::kI64;
      BRISK_ASSIGN(experts, r.add(n, OpId::kCast, wide, {experts}));
    }
    ValueId weights = side == 0 ? chosen->inputs[0] : g.add_constant(g.value(chosen->inputs[0]).name + ".T", transposed(w));
    BRISK_ASSIGN(ValueId flat, r.add_view(n, x, {-1, *k.constant()}));
    BRISK_ASSIGN(ValueId y, r.add(n, OpId::kExpertLinear, LinearAttrs{}, {flat, experts, weights}));
    return r.replace(n, OpId::kReshape, NoAttrs{}, {y, r.add_ints(*target)});
  }
  return {};
}

// y + Gather(bias [E, N], the same experts), the product seen in its own shape.
Status bias(Round& r, Node& n) {
  Graph& g = r.g;
  for (size_t side : {0u, 1u}) {
    const Node* chosen = chosen_matrices(r, n.inputs[1 - side], 2);
    ValueId y = n.inputs[side];
    const Node* linear = r.index.producer(y);
    for (int i = 0; linear && is_view(g, *linear) && r.index.single_use(y) && i < 4; ++i) linear = r.index.producer(y = linear->inputs[0]);
    if (!chosen || !linear || linear->op != OpId::kExpertLinear || linear->inputs.size() > 3 || !r.index.single_use(y)) continue;
    if (chosen->inputs[1] != linear->inputs[1] || !equal_shapes(g, y, n.outputs[0]) || !equal_shapes(g, n.inputs[1 - side], n.outputs[0])) continue;
    return r.replace(n, OpId::kExpertLinear, linear->attrs, {linear->inputs[0], linear->inputs[1], linear->inputs[2], chosen->inputs[0]});
  }
  return {};
}

}  // namespace

Result<int> recognize_experts(Graph& g, PassContext& c) {
  return until_stable(g, c, [](Round& r, Node& n) -> Status {
    if (n.op == OpId::kMatMul) return product(r, n);
    return n.op == OpId::kAdd ? bias(r, n) : Status();
  });
}

}  // namespace brisk::passes
