// Pointwise operators and fused chains of the operator table, run as tile programs.
#include <algorithm>
#include <unordered_map>

#include "backend/cpu/light.h"
#include "backend/cpu/tile_program.h"
#include "op/pointwise_program.h"

namespace brisk::cpu {
namespace {

bool same(const PointwiseAttrs& a, const PointwiseAttrs& b) {
  return a.ops == b.ops && a.a == b.a && a.b == b.b && a.c == b.c && a.alpha == b.alpha && a.beta == b.beta && a.to == b.to && a.result == b.result;
}

// The node as instructions; empty if an operator is not known.
std::vector<TileInstruction> instructions(OpId op, const Attrs& attrs, std::span<const DType> operands) {
  std::vector<TileInstruction> code;
  if (op == OpId::kPointwise) {
    auto steps = decode_program(std::get<PointwiseAttrs>(attrs), operands);
    if (!steps.ok()) return {};
    for (const PointwiseStep& s : *steps)
      code.push_back({s.op, static_cast<int>(s.a), static_cast<int>(s.b), static_cast<int>(s.c), s.alpha, s.beta, s.type});
    return code;
  }
  TileInstruction t{op, 0, operands.size() > 1 ? 1 : -1, operands.size() > 2 ? 2 : -1};
  if (auto* ab = std::get_if<AlphaBetaAttrs>(&attrs)) t.alpha = ab->alpha, t.beta = ab->beta;
  if (auto* m = std::get_if<ModeAttrs>(&attrs)) t.flag = m->flag;
  if (auto* c = std::get_if<CastAttrs>(&attrs)) t.to = c->to;
  code.push_back(t);
  return code;
}

// Programs by the attributes' address, which a plan's step keeps; looked at again, since another step may live there later.
class ProgramCache {
 public:
  // Null where accepts() would refuse.
  const TileProgram* find(OpId op, const Attrs& attrs, std::span<const TensorView> in, DType result) {
    Entry& e = entries_[&attrs];
    bool known = e.program && e.op == op && e.result == result && e.operands.size() == in.size() && same_attrs(e, attrs);
    for (size_t i = 0; known && i < in.size(); ++i) known = e.operands[i] == in[i].dtype;
    if (known) return e.program.get();
    if (entries_.size() > kMost) entries_.clear();
    Entry& made = entries_[&attrs];
    made.op = op;
    made.result = result;
    made.operands.clear();
    for (const TensorView& v : in) made.operands.push_back(v.dtype);
    made.attrs = attrs;
    made.program = TileProgram::make(light_of_host(), made.operands, instructions(op, attrs, made.operands), result);
    return made.program.get();
  }

 private:
  static constexpr size_t kMost = 8192;
  struct Entry {
    OpId op;
    DType result;
    std::vector<DType> operands;
    Attrs attrs;
    std::unique_ptr<TileProgram> program;
  };
  static bool same_attrs(const Entry& e, const Attrs& attrs) {
    if (e.attrs.index() != attrs.index()) return false;
    if (auto* p = std::get_if<PointwiseAttrs>(&attrs)) return same(*p, std::get<PointwiseAttrs>(e.attrs));
    if (std::holds_alternative<NoAttrs>(attrs)) return true;
    if (auto* a = std::get_if<AlphaBetaAttrs>(&attrs)) {
      const auto& b = std::get<AlphaBetaAttrs>(e.attrs);
      return a->alpha == b.alpha && a->beta == b.beta;
    }
    if (auto* m = std::get_if<ModeAttrs>(&attrs)) return m->flag == std::get<ModeAttrs>(e.attrs).flag;
    if (auto* c = std::get_if<CastAttrs>(&attrs)) return c->to == std::get<CastAttrs>(e.attrs).to;
    return false;
  }
  std::unordered_map<const Attrs*, Entry> entries_;
};

bool accepts_pointwise(const ProblemDesc& p) {
  if (!all_plain(p) || p.outputs.size() != 1) return false;
  std::vector<DType> operands;
  for (const OperandDesc& o : p.inputs) {
    if (!o.present) return false;
    operands.push_back(o.type.dtype);
  }
  auto code = instructions(p.op, *p.attrs, operands);
  return TileProgram::make(light_of_host(), operands, code, p.outputs[0].dtype) != nullptr;
}

template <OpId op> Status run_pointwise(KernelContext& kc, const KernelArgs& k) {
  thread_local ProgramCache cache;
  const TileProgram* program = cache.find(op, *k.attrs, k.in, k.out[0].dtype);
  if (!program) return internal(std::string("no tile program for ") + op_name(op));
  program->run(k.in, k.out[0], pool_of(kc));
  return {};
}

template <OpId... ops> void add_all(Registry& r) { (r.add(light_desc(ops, run_pointwise<ops>, accepts_pointwise, KernelDesc::kAnyOperand)), ...); }

}  // namespace

void add_light_pointwise(Registry& r) {
  using enum OpId;
  add_all<kAbs, kNeg, kExp, kLog, kSqrt, kReciprocal, kSin, kCos, kTan, kAsin, kAcos, kAtan, kSinh, kCosh, kTanh, kAsinh,
          kAcosh, kAtanh, kErf, kFloor, kCeil, kRound, kSign, kRelu, kSigmoid, kSilu, kSoftplus, kSoftsign, kHardSwish, kMish,
          kGelu, kLeakyRelu, kElu, kCelu, kSelu, kHardSigmoid, kThresholdedRelu, kNot, kIsNaN, kIsInf, kCast>(r);
  add_all<kAdd, kSub, kMul, kDiv, kMod, kPow, kMin, kMax, kPRelu, kAnd, kOr, kXor, kEqual, kLess, kLessOrEqual, kGreater,
          kGreaterOrEqual, kWhere, kPointwise>(r);
}

}  // namespace brisk::cpu
