// Decoders from graphs: masks become predicates, tables frequencies, axes roles; what mixes positions is refused by name.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "backend/ref/ref.h"
#include "compiler/evaluator.h"
#include "convert/axes.h"
#include "convert/convert.h"
#include "convert/predicate.h"

namespace brisk {
namespace {

using enum OpId;
using convert::Role;

const Dim kB = Dim::symbol("batch"), kT = Dim::symbol("tokens"), kP = Dim::symbol("past");

struct Machine {
  Machine() { ref::add_kernels(registry); }
  Registry registry;
  std::shared_ptr<Device> device = ref::make_device();
  std::unique_ptr<Evaluator> evaluator = make_evaluator(registry, device, {});
};

// A one-layer decoder with a place for a mask, and one for something between attention and logits.
class Source {
 public:
  Graph g;
  ValueId ids, mask, hidden = kNoValue;

  explicit Source(bool past = false) {
    ids = g.add_input("input_ids", Type{DType::kI64, true, {Dim::symbol("b"), Dim::symbol("s")}, {}});
    mask = g.add_input("attention_mask", Type{DType::kI64, true, {Dim::symbol("b"), Dim::symbol("total")}, {}});
    if (past)
      for (const char* name : {"past_key_values.0.key", "past_key_values.0.value"})
        past_.push_back(g.add_input(name, Type{DType::kF32, true, {Dim::symbol("b"), 2, Dim::symbol("past"), 4}, {}}));
    // Shapes in the three symbols, as a build gives them.
    for (ValueId v : g.inputs) {
      Shape& s = g.value(v).type.shape;
      s = v == ids ? Shape{kB, kT} : v == mask ? Shape{kB, past ? kP + kT : kT} : Shape{kB, 2, kP, 4};
    }
    hidden = add(kGather, AxisAttrs{0}, {floats({32, 8}, 1), ids});
  }

  ValueId add(OpId op, Attrs attrs, std::vector<ValueId> in) {
    auto v = g.add(op, std::move(attrs), std::move(in), std::string(op_name(op)) + "." + std::to_string(g.nodes.size()));
    EXPECT_TRUE(v.ok()) << v.error().message;
    return v.ok() ? *v : kNoValue;
  }
  ValueId floats(const Dims& shape, int seed) {
    std::vector<float> v;
    for (int64_t i = 0; i < shape.count(); ++i) v.push_back(std::sin(static_cast<float>(i * 7 + seed * 13)) / 2);
    return g.add_constant("w" + std::to_string(g.values.size()), make_constant(DType::kF32, shape, v));
  }
  ValueId ints(const std::vector<int64_t>& v) { return g.add_constant("i" + std::to_string(g.values.size()), make_constant(DType::kI64, {static_cast<int64_t>(v.size())}, v)); }
  ValueId number(int64_t v) { return g.add_constant("n" + std::to_string(g.values.size()), make_constant(DType::kI64, {}, std::vector<int64_t>{v})); }
  ValueId size(ValueId v, int64_t axis) {
    ShapeAttrs a;
    a.start = axis, a.end = axis + 1;
    return add(kSqueeze, ReduceAttrs{{0}, false, false, false}, {add(kShape, a, {v})});
  }
  // Positions of the keys [total], and of the queries [tokens, 1].
  ValueId keys() { return add(kRange, NoAttrs{}, {number(0), size(mask, 1), number(1)}); }
  ValueId queries() {
    ValueId first = add(kSub, NoAttrs{}, {size(mask, 1), size(ids, 1)});
    return add(kReshape, NoAttrs{}, {add(kRange, NoAttrs{}, {first, size(mask, 1), number(1)}), ints({-1, 1})});
  }
  ValueId causal() { return add(kLessOrEqual, NoAttrs{}, {keys(), queries()}); }
  ValueId window(int64_t n) {
    ValueId near = add(kGreater, NoAttrs{}, {keys(), add(kSub, NoAttrs{}, {queries(), number(n)})});
    return add(kAnd, NoAttrs{}, {causal(), near});
  }

  ValueId heads(ValueId x, int seed) {
    ValueId y = add(kMatMul, NoAttrs{}, {x, floats({8, 8}, seed)});
    return add(kTranspose, TransposeAttrs{{0, 2, 1, 3}}, {add(kReshape, NoAttrs{}, {y, ints({0, 0, 2, 4})})});
  }
  Node* attend(ValueId seen, bool causal_flag = false) {
    ValueId q = heads(hidden, 2), k = heads(hidden, 3), v = heads(hidden, 4);
    if (!past_.empty()) {
      k = add(kConcat, AxisAttrs{2}, {past_[0], k});
      v = add(kConcat, AxisAttrs{2}, {past_[1], v});
      present_ = {k, v};
    }
    SdpaAttrs a;
    a.causal = causal_flag;
    ValueId y = add(kAttention, a, {q, k, v, seen});
    attention_ = g.nodes.size() - 1;
    y = add(kReshape, NoAttrs{}, {add(kTranspose, TransposeAttrs{{0, 2, 1, 3}}, {y}), ints({0, 0, 8})});
    hidden = add(kAdd, NoAttrs{}, {hidden, y});
    return &g.nodes[attention_];
  }
  void finish() {
    ValueId logits = add(kMatMul, NoAttrs{}, {hidden, floats({8, 32}, 5)});
    g.value(logits).name = "logits";
    g.outputs = {logits};
    g.outputs.insert(g.outputs.end(), present_.begin(), present_.end());
  }
  Result<DecoderConversion> converted(Machine& m) { return convert_decoder(g, 64, *m.evaluator, *m.evaluator); }

 private:
  std::vector<ValueId> past_, present_;
  size_t attention_ = 0;
};

// What the source's attention sees, or the reason why it is refused.
std::string seen(Machine& m, Source& s) {
  s.finish();
  auto c = s.converted(m);
  if (!c.ok()) return c.error().message;
  for (const Node& n : c->step.nodes)
    if (n.op == kPagedAttention) return "window " + std::to_string(std::get<AttentionAttrs>(n.attrs).window);
  return "no attention";
}

TEST(Convert, MasksBecomePredicates) {
  Machine m;
  for (bool past : {false, true}) {
    Source causal(past), windowed(past), wide(past), additive(past), padded(past);
    causal.attend(causal.causal());
    EXPECT_EQ(seen(m, causal), "window 0") << past;
    windowed.attend(windowed.window(5));
    EXPECT_EQ(seen(m, windowed), "window 5") << past;
    wide.attend(wide.window(50));  // beyond the small sizes: found by the number in the mask's nodes
    EXPECT_EQ(seen(m, wide), "window 50") << past;
    ValueId zero = additive.floats({1}, 0), low = additive.g.add_constant("low", make_constant(DType::kF32, {}, std::vector<float>{-3.4e38f}));
    additive.attend(additive.add(kWhere, NoAttrs{}, {additive.causal(), zero, low}));
    EXPECT_EQ(seen(m, additive), "window 0") << past;
    ValueId ones = padded.add(kReshape, NoAttrs{}, {padded.add(kCast, CastAttrs{DType::kBool}, {padded.mask}), padded.ints({0, 1, 1, -1})});
    padded.attend(padded.add(kAnd, NoAttrs{}, {padded.causal(), ones}));
    EXPECT_EQ(seen(m, padded), "window 0") << past;
  }
}

TEST(Convert, MasksThatNoDecoderHasAreRefused) {
  Machine m;
  auto contains = [&](Source& s, const char* words) {
    std::string said = seen(m, s);
    EXPECT_NE(said.find(words), std::string::npos) << said;
    EXPECT_NE(said.find("(Attention)"), std::string::npos) << said;
  };
  Source open, ahead, holes, own;
  open.attend(kNoValue);
  contains(open, "not causal: the query at position 0, the key at 1 is seen");
  ahead.attend(ahead.add(kLessOrEqual, NoAttrs{}, {ahead.keys(), ahead.add(kAdd, NoAttrs{}, {ahead.queries(), ahead.number(1)})}));
  contains(ahead, "not causal");
  ValueId odd = holes.add(kEqual, NoAttrs{}, {holes.add(kMod, ModeAttrs{}, {holes.add(kSub, NoAttrs{}, {holes.queries(), holes.keys()}), holes.number(2)}), holes.number(0)});
  holes.attend(holes.add(kAnd, NoAttrs{}, {holes.causal(), odd}));
  contains(holes, "keys are left out in between");
  own.attend(own.add(kLess, NoAttrs{}, {own.keys(), own.queries()}));
  contains(own, "does not see its own key");
}

TEST(Convert, CausalAttributeCountsFromTheFirstKey) {
  Machine m;
  Source whole, behind(true);
  whole.attend(kNoValue, true);
  EXPECT_EQ(seen(m, whole), "window 0");
  behind.attend(kNoValue, true);  // its past is concatenated outside: the query's own place is not past + i
  EXPECT_NE(seen(m, behind).find("does not see its own key"), std::string::npos);
}

// ---- proof ----------------------------------------------------------------------------------------------------------------

std::string refusal(const std::function<void(Source&)>& change) {
  Machine m;
  Source s;
  s.attend(s.causal());
  change(s);
  s.finish();
  auto c = s.converted(m);
  return c.ok() ? "converted" : c.error().message;
}

TEST(Convert, NodesThatMixPositionsAreNamed) {
  EXPECT_EQ(refusal([](Source& s) { s.hidden = s.add(kRelu, NoAttrs{}, {s.hidden}); }), "converted");
  struct Case { const char* node; const char* reason; std::function<void(Source&)> change; };
  const Case cases[] = {
      {"(CumSum)", "the tokens", [](Source& s) { s.hidden = s.add(kCumSum, ModeAttrs{}, {s.hidden, s.number(1)}); }},
      {"(Conv)", "not known to treat each position alone", [](Source& s) {
         WindowAttrs w;
         w.pads = {1, 1};
         ValueId x = s.add(kTranspose, TransposeAttrs{{0, 2, 1}}, {s.hidden});
         s.hidden = s.add(kTranspose, TransposeAttrs{{0, 2, 1}}, {s.add(kConv, w, {x, s.floats({8, 8, 3}, 9)})});
       }},
      {"(ReduceMean)", "lost the axis of tokens", [](Source& s) { s.hidden = s.add(kSub, NoAttrs{}, {s.hidden, s.add(kReduceMean, ReduceAttrs{{1}, true, false, false}, {s.hidden})}); }},
      {"(Softmax)", "the tokens", [](Source& s) { s.hidden = s.add(kSoftmax, AxisAttrs{1}, {s.hidden}); }},
      {"(Mul)", "attention_mask", [](Source& s) {  // padding zeroed by hand
         ValueId f = s.add(kCast, CastAttrs{DType::kF32}, {s.mask});
         s.hidden = s.add(kMul, NoAttrs{}, {s.hidden, s.add(kReshape, NoAttrs{}, {f, s.ints({0, 0, 1})})});
       }},
      {"(Reshape)", "moves elements between tokens", [](Source& s) {
         ValueId x = s.add(kTranspose, TransposeAttrs{{0, 2, 1}}, {s.hidden});
         s.hidden = s.add(kReshape, NoAttrs{}, {x, s.ints({0, -1, 8})});
       }},
      {"(Slice)", "tokens", [](Source& s) { s.hidden = s.add(kConcat, AxisAttrs{1}, {s.add(kSlice, NoAttrs{}, {s.hidden, s.ints({0}), s.ints({1}), s.ints({1})}), s.hidden}); }},
  };
  for (const Case& c : cases) {
    std::string said = refusal(c.change);
    bool named = said.find(c.node) != std::string::npos || (std::string(c.node) == "(Mul)" && said.find("(Cast)") != std::string::npos) ||
                 (std::string(c.node) == "(Slice)" && said.find("(Concat)") != std::string::npos);
    EXPECT_TRUE(named) << c.node << ": " << said;
    EXPECT_NE(said.find(c.reason), std::string::npos) << c.node << ": " << said;
  }
}

TEST(Convert, InputsOfOtherModelsAreListed) {
  Machine m;
  Source s;
  s.attend(s.causal());
  s.g.add_input("token_type_ids", Type{DType::kI64, true, {kB, kT}, {}});
  s.finish();
  auto c = s.converted(m);
  ASSERT_FALSE(c.ok());
  EXPECT_NE(c.error().message.find("'token_type_ids'"), std::string::npos) << c.error().message;
}

TEST(Convert, StepHasOneAxisOfTokens) {
  Machine m;
  Source s(true);
  s.attend(s.causal());
  s.finish();
  auto c = s.converted(m);
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_LT(c->difference, 1e-5);
  for (const Node& n : c->step.nodes) EXPECT_NE(n.op, kTranspose) << print(c->step);
  EXPECT_EQ(c->step.states.size(), 3u);
  EXPECT_EQ(c->step.states[2].kv_heads, 2);
  EXPECT_EQ(c->step.states[2].head_dim, 4);
}

// ---- axes -----------------------------------------------------------------------------------------------------------------

Type of(Shape s) { return Type{DType::kF32, true, std::move(s), {}}; }

TEST(Convert, AxesHaveRoles) {
  convert::DecoderIo io;
  auto axes = [&](Shape s) { return convert::axes_of(of(std::move(s)), io); };
  auto heads = axes({kB, 4, kT, 16});
  ASSERT_TRUE(heads.ok());
  EXPECT_EQ(heads->role, (std::vector<Role>{Role::kBatch, Role::kOther, Role::kToken, Role::kOther}));
  EXPECT_EQ(heads->others, (std::vector<int64_t>{4, 16}));
  EXPECT_EQ(heads->ragged(1), 1);
  EXPECT_EQ(heads->ragged(2), 0);
  EXPECT_EQ(heads->ragged(3), 2);
  auto rows = axes({kB * kT * Dim(2), 8});
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(rows->role[0], Role::kRows);
  EXPECT_EQ(rows->multiple, 2);
  auto parts = axes({kB, kT * Dim(4), 16});
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(parts->multiple, 4);
  EXPECT_EQ(axes({1, kT, 16})->role[0], Role::kBatch);
  EXPECT_EQ(axes({kB, 7})->token, -1);
  EXPECT_FALSE(axes({kB, 1, kT, kT}).ok());
  EXPECT_FALSE(axes({kB, 4, kP + kT, 16}).ok());
  EXPECT_FALSE(axes({kB * Dim(4), kT, 16}).ok());
}

TEST(Convert, ReshapesKeepTokensOrNot) {
  convert::DecoderIo io;
  auto keeps = [&](Shape from, Shape to) {
    Type a = of(std::move(from)), b = of(std::move(to));
    auto x = convert::axes_of(a, io), y = convert::axes_of(b, io);
    return x.ok() && y.ok() && convert::keeps_tokens(a, *x, b, *y, io);
  };
  EXPECT_TRUE(keeps({kB, kT, 64}, {kB, kT, 4, 16}));
  EXPECT_TRUE(keeps({kB, kT, 64}, {kB * kT, 64}));
  EXPECT_TRUE(keeps({kB, kT, 2, 64}, {kB * kT * Dim(2), 64}));
  EXPECT_TRUE(keeps({kB, kT, 64}, {kB, kT * Dim(4), 16}));
  EXPECT_FALSE(keeps({kB, 4, kT, 16}, {kB, kT, 64}));  // heads in front of the tokens
  EXPECT_FALSE(keeps({kB, 64, kT}, {kB, kT, 64}));
}

}  // namespace
}  // namespace brisk
