#include "convert/proof.h"

#include <algorithm>

namespace brisk::convert {
namespace {

// One node and the axes of its operands and results.
class Proof {
 public:
  Proof(const Graph& g, const DecoderIo& io, const Facts& facts, NodeId id)
      : g_(g), io_(io), facts_(facts), n_(g.nodes[static_cast<size_t>(id)]) {}

  Status run() {
    if (!n_.blocks.empty()) return unsupported("has a body of its own");
    for (ValueId v : n_.inputs) {
      in_.emplace_back();
      bool data = in_.size() <= data_operands(n_);
      if (v < 0 || !data || fixed(v) || attends()) continue;
      BRISK_ASSIGN(in_.back(), axes(v, "operand"));
    }
    for (ValueId v : n_.outputs) {
      out_.emplace_back();
      if (v < 0 || (attends() && out_.size() > 1)) continue;  // caches that attention also gives
      BRISK_ASSIGN(out_.back(), axes(v, "result"));
    }
    if (attends()) return attention();
    return rule();
  }

 private:
  using enum OpId;

  bool attends() const { return n_.op == kAttention || n_.op == kRotaryEmbedding; }
  bool fixed(ValueId v) const { return g_.constant(v) || facts_.constant[static_cast<size_t>(v)]; }
  const Type& type(ValueId v) const { return g_.value(v).type; }
  bool has_token(size_t i) const { return i < in_.size() && in_[i].token >= 0; }

  Result<Axes> axes(ValueId v, const char* what) const {
    auto a = axes_of(type(v), io_);
    if (!a.ok()) return unsupported(std::string(what) + " '" + g_.value(v).name + "' " + a.error().message);
    if (a->token < 0) return unsupported(std::string(what) + " '" + g_.value(v).name + "' has lost the axis of tokens: " + to_string(type(v)));
    return a;
  }

  Status attention() const {
    if (n_.op == kRotaryEmbedding) return {};
    for (size_t i = 3; i < n_.outputs.size(); ++i)
      if (n_.outputs[i] >= 0) return unsupported("its scores are a result");
    return {};
  }

  Status rule() const {
    const OpDef& def = op_def(n_.op);
    if (def.is(brisk::kPointwise) || n_.op == kIdentity) return broadcast();
    switch (n_.op) {
      case kReshape: case kUnsqueeze: case kSqueeze: case kFlatten:
        return keeps_tokens(type(n_.inputs[0]), in_[0], type(n_.outputs[0]), out_[0], io_)
                   ? Status()
                   : unsupported("moves elements between tokens: " + to_string(type(n_.inputs[0])) + " to " + to_string(type(n_.outputs[0])));
      case kTranspose:
        return in_[0].others.size() == out_[0].others.size() ? Status() : unsupported("moves a batch of one behind other axes");
      case kEmbedding: return {};
      case kExpand: case kTile: return stretched();
      case kRmsNorm: case kLayerNorm: return inside(0, std::get<NormAttrs>(n_.attrs).axis, true);
      case kSoftmax: case kLogSoftmax: case kHardmax: return inside(0, std::get<AxisAttrs>(n_.attrs).axis);
      case kConcat: return joined();
      case kGather: return gather();
      case kGatherElements: return gather_elements();
      case kTopK: return inside(0, std::get<ModeAttrs>(n_.attrs).axis);
      case kSplit: return inside(0, std::get<SliceAttrs>(n_.attrs).axis);
      case kSlice: return slice();
      case kLinear: return linear();
      case kMatMul: return matmul();
      case kGemm: return gemm();
      default: break;
    }
    if (def.is(kReduction)) return reduction();
    if (n_.op == kCumSum || n_.op == kCumProd) return cumulative();
    return unsupported("is not known to treat each position alone");
  }

  // Everything of rank r is aligned at its last axis; the token axes of operands meet that of the result.
  Status broadcast() const {
    int rank = type(n_.outputs[0]).rank(), place = rank - out_[0].token;
    for (size_t i = 0; i < n_.inputs.size(); ++i) {
      ValueId v = n_.inputs[i];
      if (v < 0) continue;
      int own = type(v).rank();
      if (has_token(i)) {
        if (own - in_[i].token != place || in_[i].multiple != out_[0].multiple) return unsupported("operand '" + g_.value(v).name + "' has its tokens along another axis");
      } else if (own >= place && !(type(v).shape[static_cast<size_t>(own - place)] == Dim(1))) {
        return unsupported("operand '" + g_.value(v).name + "' differs from token to token by their number");
      }
    }
    return {};
  }

  Status stretched() const {
    const Type &x = type(n_.inputs[0]), &y = type(n_.outputs[0]);
    bool same = x.rank() - in_[0].token == y.rank() - out_[0].token && in_[0].multiple == out_[0].multiple;
    return same ? Status() : unsupported("repeats tokens: " + to_string(x) + " to " + to_string(y));
  }

  // Axis `axis` of operand i (and with `behind` all after it) lies inside one token.
  Status inside(size_t i, int64_t axis, bool behind = false) const {
    int rank = type(n_.inputs[i]).rank(), at = static_cast<int>(axis < 0 ? axis + rank : axis);
    for (int d = at; d < (behind ? rank : at + 1); ++d)
      if (d < 0 || d >= rank || in_[i].role[static_cast<size_t>(d)] != Role::kOther)
        return unsupported("works along axis " + std::to_string(d) + " of " + to_string(type(n_.inputs[i])) + ", the tokens");
    return {};
  }

  Status joined() const {
    for (size_t i = 0; i < n_.inputs.size(); ++i) {
      if (!has_token(i)) return unsupported("joins tokens with '" + g_.value(n_.inputs[i]).name + "', which has none");
      BRISK_TRY(inside(i, std::get<AxisAttrs>(n_.attrs).axis));
      if (in_[i].token != out_[0].token) return unsupported("operand '" + g_.value(n_.inputs[i]).name + "' has its tokens along another axis");
    }
    return {};
  }

  Status gather() const {
    int64_t axis = std::get<AxisAttrs>(n_.attrs).axis;
    if (has_token(0) && has_token(1)) return unsupported("picks from one value of the tokens by another");
    if (has_token(0)) return inside(0, axis);
    return axis == 0 ? Status() : unsupported("picks along axis " + std::to_string(axis) + " of a table by what tokens say");
  }

  Status gather_elements() const {
    if (!has_token(0) || !has_token(1) || in_[0].token != in_[1].token) return unsupported("picks elements across tokens");
    return inside(0, std::get<AxisAttrs>(n_.attrs).axis);
  }

  std::optional<std::vector<Dim>> known(size_t i) const {
    return i < n_.inputs.size() && n_.inputs[i] >= 0 ? type(n_.inputs[i]).elements : std::nullopt;
  }

  Status slice() const {
    auto starts = known(1), axes = known(3), steps = known(4);
    if (n_.inputs.size() > 3 && n_.inputs[3] >= 0 && !axes) return unsupported("slices axes that are not known");
    const Type& x = type(n_.inputs[0]);
    for (size_t i = 0; i < (starts ? starts->size() : 0); ++i) {
      int64_t axis = axes ? (*axes)[i].constant_or(99) : static_cast<int64_t>(i);
      if (axis < 0) axis += x.rank();
      bool whole = axis >= 0 && axis < x.rank() && (*starts)[i] == Dim(0) && (!steps || (*steps)[i] == Dim(1)) &&
                   x.shape[static_cast<size_t>(axis)] == type(n_.outputs[0]).shape[static_cast<size_t>(axis)];
      if (!whole) BRISK_TRY(inside(0, axis));
    }
    return starts ? Status() : unsupported("slices from a place that is not known");
  }

  Status reduction() const {
    const auto& a = std::get<ReduceAttrs>(n_.attrs);
    std::vector<int64_t> axes = a.axes;
    if (auto more = known(1)) {
      for (const Dim& d : *more) axes.push_back(d.constant_or(INT32_MAX));
    } else if (a.all || n_.inputs.size() > 1) {
      return unsupported("reduces all axes, the tokens among them");
    }
    for (int64_t axis : axes) BRISK_TRY(inside(0, axis));
    return {};
  }

  Status cumulative() const {
    auto axis = known(1);
    return axis && axis->size() == 1 ? inside(0, (*axis)[0].constant_or(INT32_MAX)) : unsupported("runs along an axis that is not known");
  }

  Status linear() const {
    if (!fixed(n_.inputs[1])) return unsupported("its weight is not a constant");
    if (n_.inputs.size() > 3 && n_.inputs[3] >= 0 && !has_token(3)) return unsupported("its residual has no tokens");
    return inside(0, -1);
  }

  Status matmul() const {
    const Type &a = type(n_.inputs[0]), &b = type(n_.inputs[1]);
    if (!has_token(0)) return unsupported("multiplies a constant by tokens");
    if (has_token(1)) {
      bool batched = in_[0].token < a.rank() - 2 && in_[1].token < b.rank() - 2 && a.rank() - in_[0].token == b.rank() - in_[1].token &&
                     in_[0].multiple == in_[1].multiple;
      return batched ? Status() : unsupported("multiplies tokens by tokens: " + to_string(a) + " by " + to_string(b));
    }
    if (b.rank() == 2) return inside(0, -1);
    bool batched = in_[0].token < a.rank() - 2 && a.rank() - in_[0].token > b.rank();
    return batched ? Status() : unsupported("multiplies tokens by several matrices: " + to_string(b));
  }

  Status gemm() const {
    const auto& a = std::get<GemmAttrs>(n_.attrs);
    if (!has_token(0) || a.trans_a || has_token(1)) return unsupported("multiplies along the tokens");
    bool plain = g_.constant(n_.inputs[1]) && a.alpha == 1 && (n_.inputs.size() < 3 || n_.inputs[2] < 0 || (g_.constant(n_.inputs[2]) && a.beta == 1));
    if (!plain) return unsupported("scales its operands, or has a weight or bias that is not constant");
    const Dims* bias = n_.inputs.size() > 2 && n_.inputs[2] >= 0 ? &g_.constant(n_.inputs[2])->shape : nullptr;
    if (bias && bias->count() != bias->d[std::max(0, bias->rank - 1)]) return unsupported("its bias differs from row to row");
    return inside(0, -1);
  }

  const Graph& g_;
  const DecoderIo& io_;
  const Facts& facts_;
  const Node& n_;
  std::vector<Axes> in_, out_;  // token -1 for operands that are constants or no data
};

}  // namespace

Status prove(const Graph& g, const DecoderIo& io, const Facts& facts) {
  for (NodeId id : facts.nodes)
    if (auto s = Proof(g, io, facts, id).run(); !s.ok()) return Error{s.error().kind, describe(g, id) + ": " + s.error().message};
  return {};
}

}  // namespace brisk::convert
