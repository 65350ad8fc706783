// Calibration of a whole decoder: cuts of its graph, where sequences come from, what a build makes of them.
#include "quantize/calibrate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "backend/cpu/cpu.h"
#include "backend/cpu/thread_pool.h"
#include "backend/ref/ref.h"
#include "compiler/calibration.h"
#include "compiler/evaluator.h"
#include "quantize/fragment.h"
#include "text/tokenizer.h"
#include "tiny_llama.h"

namespace brisk {
namespace {

using Source = CompileOptions::Calibration::Source;

struct Machine {
  explicit Machine(int threads = 1) : pool(threads) {
    cpu::add_kernels(registry);
    ref::add_kernels(registry);
  }
  cpu::ThreadPool pool;
  Registry registry;
  std::shared_ptr<Device> device = cpu::make_device();
  Backend backend{registry, device, {&pool}};
};

// Ids are single bytes.
std::string byte_tokenizer() {
  TokenizerModel m;
  m.byte_level = true;
  for (int i = 0; i < 97; ++i) m.tokens.push_back(std::string(1, static_cast<char>(i + 30)));
  auto t = make_tokenizer(std::move(m));
  EXPECT_TRUE(t.ok()) << t.error().message;
  return (*t)->serialize();
}

Sequences some_sequences() {
  Sequences all;
  for (int s = 0; s < 6; ++s) {
    auto& ids = all.emplace_back();
    for (int i = 0; i < 40 + s; ++i) ids.push_back((i * 31 + s * 17 + i * i) % 97);
  }
  return all;
}

Result<EngineContent> compile_int4w(Machine& m, Model model, CompileOptions::Calibration calibration, CompileReport* report = nullptr, int threads = 1) {
  CompileOptions o;
  o.precision = Precision::kInt4w;
  o.calibration = std::move(calibration);
  o.threads = threads;
  return compile(std::move(model), o, m.backend, report);
}

TEST(Fragment, PiecesInARowGiveWhatTheWholeGives) {
  Machine m;
  Graph g = test::tiny_llama().functions.at("step");
  auto evaluator = make_evaluator(m.registry, m.device, m.backend.context);
  auto i32 = [](std::vector<int32_t> v, Dims d) { return make_constant(DType::kI32, d, v); };
  std::map<ValueId, ConstantPtr> live;
  std::map<std::string, ConstantPtr> given = {{step_io::kIds, i32({5, 6, 7, 1, 2}, {5})}, {step_io::kPositions, i32({0, 1, 2, 0, 1}, {5})},
      {step_io::kSeqStarts, i32({0, 3, 5}, {3})}, {step_io::kContextLens, i32({3, 2}, {2})}, {step_io::kBlockTables, i32({1, 0}, {2, 1})},
      {step_io::kLogitRows, i32({2, 4}, {2})}, {step_io::kSlots, i32({0, 1}, {2})},
      {step_io::kSampleParams, make_constant(DType::kU8, {2, 48}, std::vector<uint8_t>(96))}};
  std::vector<ConstantPtr> whole_inputs;
  for (ValueId v : g.inputs) whole_inputs.push_back(live[v] = given.at(g.value(v).name));
  auto whole = evaluator->run_each(g, std::span(&whole_inputs, 1), 2);
  ASSERT_TRUE(whole.ok()) << whole.error().message;

  for (size_t from = 0, to; from < g.nodes.size(); from = to) {
    to = std::min(from + 7, g.nodes.size());
    Fragment f = cut(g, from, to);
    ASSERT_TRUE(verify(f.graph, "cut").ok());
    std::vector<ConstantPtr> inputs;
    for (ValueId v : f.inputs) inputs.push_back(live.at(v));
    auto out = evaluator->run_each(f.graph, std::span(&inputs, 1), 2);
    ASSERT_TRUE(out.ok()) << out.error().message;
    for (size_t i = 0; i < f.outputs.size(); ++i) live[f.outputs[i]] = (*out)[0][i];
  }
  const Constant &expected = *(*whole)[0][0], &got = *live.at(g.outputs[0]);
  ASSERT_EQ(got.shape, expected.shape);
  EXPECT_EQ(to_floats(got), to_floats(expected));
}

TEST(Calibrate, EncodesEveryWeightAndKeepsItsLayout) {
  Machine m;
  Model model = test::tiny_llama();
  auto evaluator = make_evaluator(m.registry, m.device, m.backend.context, true);
  std::vector<double> seen;
  const Graph& step = model.functions.at("step");
  auto encoded = calibrate_int4(step, {Precision::kInt4w, {}, {}}, some_sequences(), *evaluator, {1, [&](double f) { seen.push_back(f); }});
  ASSERT_TRUE(encoded.ok()) << encoded.error().message;
  int four_bits = 0;
  for (auto& [v, t] : treatments(step, {Precision::kInt4w, {}, {}})) {
    auto it = encoded->find(step.constant(v));
    ASSERT_NE(it, encoded->end()) << step.value(v).name;
    EXPECT_EQ(it->second->encoding.bits, t.rounded_to_int4 ? 4 : 8) << step.value(v).name;
    EXPECT_EQ(it->second->shape, step.constant(v)->shape);
    four_bits += t.rounded_to_int4;
  }
  EXPECT_EQ(four_bits, 2 * 7);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(seen.size(), 2u * 4);  // q, k, v share their inputs, gate and up do
}

TEST(Calibrate, TokensWithoutARowAreRefused) {
  Machine m;
  Model model = test::tiny_llama();
  auto evaluator = make_evaluator(m.registry, m.device, m.backend.context, true);
  for (int32_t id : {97, -1, 1 << 30}) {
    auto r = calibrate_int4(model.functions.at("step"), {Precision::kInt4w, {}, {}}, {{1, 2}, {3, id}}, *evaluator, {});
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().kind, ErrorKind::kInvalid);
    EXPECT_NE(r.error().message.find("vocabulary of 97"), std::string::npos) << r.error().message;
  }
}

TEST(Calibrate, ThreadsChangeNoBit) {
  Machine one(1), many(3);
  CompileReport report;
  auto a = compile_int4w(one, test::tiny_llama(), {Source::kSampled, {}}, &report, 1), b = compile_int4w(many, test::tiny_llama(), {Source::kSampled, {}}, nullptr, 3);
  ASSERT_TRUE(a.ok()) << a.error().message;
  ASSERT_TRUE(b.ok()) << b.error().message;
  ASSERT_EQ(a->weights.size(), b->weights.size());
  for (size_t i = 0; i < a->weights.size(); ++i) {
    auto x = a->weights[i].bytes.bytes, y = b->weights[i].bytes.bytes;
    EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin(), y.end())) << a->weights[i].name;
  }
  EXPECT_EQ(a->build_record, b->build_record);
  EXPECT_EQ(report.calibration, a->build_record.at("calibration"));
}

TEST(Calibrate, NothingToDoIsNotDone) {
  Machine m;
  CompileReport report;
  auto off = compile_int4w(m, test::tiny_llama(), {}, &report);
  ASSERT_TRUE(off.ok());
  EXPECT_EQ(report.calibration, "");
  EXPECT_EQ(off->build_record.count("calibration"), 0u);
  // A model whose weights are in 4 bits already: what a GGUF brings.
  Model model = test::tiny_llama();
  Graph& step = model.functions.at("step");
  for (auto& [v, t] : treatments(step, {Precision::kInt4w, {}, {}}))
    if (t.rounded_to_int4) step.value(v).constant = quantize_int4(*step.constant(v), 32);
  EXPECT_FALSE(calibration_pays(step, {Precision::kInt4w, {}, {}}));
  auto kept = compile_int4w(m, std::move(model), {Source::kSampled, {}}, &report);
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  EXPECT_EQ(report.calibration, "");
}

TEST(Calibrate, TextsAreCheckedAndSpread) {
  Model model = test::tiny_llama();
  std::string text;
  for (int i = 0; i < 12 * 512; ++i) text += static_cast<char>('A' + i / 512);
  auto fails = [&](const Model& m, const std::string& t, const std::string& says) {
    auto r = sequences_of_text(m, t, 1 << 20);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().kind, ErrorKind::kInvalid);
    EXPECT_NE(r.error().message.find(says), std::string::npos) << r.error().message;
  };
  fails(model, text, "no tokenizer");
  model.tokenizer = byte_tokenizer();
  fails(model, text + "\xff", "not UTF-8");
  fails(model, text.substr(0, 8 * 512 - 1), "at least 4096");
  auto all = sequences_of_text(model, text, 1 << 20);
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all->size(), 12u);
  auto some = sequences_of_text(model, text, 8 * 512);
  ASSERT_TRUE(some.ok());
  ASSERT_EQ(some->size(), 8u);
  EXPECT_EQ((*some)[0], (*all)[0]);
  EXPECT_EQ((*some)[7], (*all)[10]);
}

TEST(Calibrate, ATextNeedsAnInt4wBuildOfAGenerativeModel) {
  Machine m;
  Model model = test::tiny_llama();
  CompileOptions o;
  o.precision = Precision::kInt8;
  o.calibration = {Source::kText, "text"};
  auto r = compile(test::tiny_llama(), o, m.backend);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().message.find("int4w"), std::string::npos);
  model.functions["main"] = std::move(model.functions.at("step"));
  model.functions.erase("step");
  auto s = compile_int4w(m, std::move(model), {Source::kText, "text"});
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.error().message.find("not generative"), std::string::npos);
}

TEST(Calibrate, SampledSequencesAreSeededAndDifferent) {
  Machine m;
  Model model = test::tiny_llama();
  auto a = sampled_sequences(model, m.backend, 1, nullptr), b = sampled_sequences(model, m.backend, 1, nullptr);
  ASSERT_TRUE(a.ok()) << a.error().message;
  EXPECT_EQ(*a, *b);
  std::set<std::vector<int32_t>> different(a->begin(), a->end());
  EXPECT_EQ(different.size(), a->size());
  for (auto& s : *a) EXPECT_EQ(s.size(), 256u);
}

TEST(Calibrate, AModelWithoutLogitsIsNotSampled) {
  Machine m;
  Model model = test::tiny_llama();
  auto none = make_constant(DType::kF32, {64}, std::vector<float>(64, NAN));
  for (Value& v : model.functions.at("step").values)
    if (v.constant && v.constant->shape == none->shape) v.constant = none;  // the norms' weights
  auto r = sampled_sequences(model, m.backend, 1, nullptr);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(r.error().message.find("not numbers"), std::string::npos) << r.error().message;
}

}  // namespace
}  // namespace brisk
