#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <fstream>

#include "base/file.h"
#include "engine/check.h"
#include "engine_sample.h"

namespace brisk {
namespace {

using test::TemporaryPath;

std::string bytes_of(const EngineContent& content, const std::string& name) {
  TemporaryPath file(name);
  auto s = write_engine(content, file.path);
  EXPECT_TRUE(s.ok()) << (s.ok() ? "" : s.error().message);
  return *read_file(file.path);
}

Result<std::shared_ptr<const EngineContent>> round_trip(const EngineContent& content, const Registry& registry, ReadOptions options = {}) {
  TemporaryPath file("round.engine");
  BRISK_TRY(write_engine(content, file.path));
  return read_engine(file.path, registry, options);
}

// The error of writing and reading, without the path.
std::string error_of(const EngineContent& content, const Registry& registry = test::sample_registry()) {
  auto r = round_trip(content, registry);
  if (r.ok()) return "";
  std::string m = r.error().message;
  return m.substr(m.find(": ") + 2);
}

void expect_same(const Plan& a, const Plan& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.inputs, b.inputs);
  EXPECT_EQ(a.outputs, b.outputs);
  ASSERT_EQ(a.values.size(), b.values.size());
  for (size_t i = 0; i < a.values.size(); ++i) {
    const PlanValue &x = a.values[i], &y = b.values[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_TRUE(x.kind == y.kind && x.dtype == y.dtype && x.ranked == y.ranked && x.weight == y.weight && x.view_of == y.view_of) << x.name;
    EXPECT_EQ(to_string(x.shape), to_string(y.shape));
  }
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) {
    const PlanStep &x = a.steps[i], &y = b.steps[i];
    EXPECT_TRUE(x.op == y.op && x.attrs == y.attrs && x.kernel == y.kernel && x.kernel_version == y.kernel_version) << x.name;
    EXPECT_TRUE(x.inputs == y.inputs && x.outputs == y.outputs && x.captures == y.captures && x.dynamic == y.dynamic) << x.name;
    EXPECT_EQ(x.name, y.name);
    ASSERT_EQ(x.blocks.size(), y.blocks.size());
    for (size_t k = 0; k < x.blocks.size(); ++k) expect_same(x.blocks[k], y.blocks[k]);
  }
  ASSERT_EQ(a.states.size(), b.states.size());
  for (size_t i = 0; i < a.states.size(); ++i) {
    EXPECT_EQ(a.states[i].name, b.states[i].name);
    EXPECT_EQ(a.states[i].value, b.states[i].value);
    EXPECT_EQ(a.states[i].unit_bytes(), b.states[i].unit_bytes());
  }
  ASSERT_EQ(a.symbols.size(), b.symbols.size());
  for (size_t i = 0; i < a.symbols.size(); ++i) {
    EXPECT_EQ(a.symbols[i].name, b.symbols[i].name);
    EXPECT_TRUE(a.symbols[i].min == b.symbols[i].min && a.symbols[i].opt == b.symbols[i].opt && a.symbols[i].max == b.symbols[i].max);
  }
}

TEST(EngineFile, GivesBackWhatWasWritten) {
  EngineContent c = test::sample_content();
  auto r = round_trip(c, test::sample_registry(), {.verify_checksums = true});
  ASSERT_TRUE(r.ok()) << r.error().message;
  const EngineContent& d = **r;
  ASSERT_EQ(d.functions.size(), 3u);
  for (auto& [name, plan] : c.functions) expect_same(plan, d.functions.at(name));
  ASSERT_EQ(d.weights.size(), c.weights.size());
  for (size_t i = 0; i < c.weights.size(); ++i) {
    const Weight &x = c.weights[i], &y = d.weights[i];
    EXPECT_TRUE(x.name == y.name && x.dtype == y.dtype && x.shape == y.shape && x.encoding == y.encoding && x.packing == y.packing) << x.name;
    EXPECT_TRUE(std::ranges::equal(x.bytes.bytes, y.bytes.bytes)) << x.name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(y.bytes.bytes.data()) % 64, 0u);
  }
  EXPECT_EQ(d.metadata, c.metadata);
  EXPECT_EQ(d.build_record, c.build_record);
  EXPECT_EQ(d.tokenizer, c.tokenizer);
  EXPECT_EQ(d.chat_template, c.chat_template);
  EXPECT_EQ(d.generation_config, c.generation_config);
  EXPECT_EQ(d.max_context, c.max_context);
  EXPECT_EQ(d.device, c.device);
  EXPECT_EQ(d.required_isa, c.required_isa);
  ASSERT_EQ(d.layer_loss.size(), 2u);
  EXPECT_EQ(d.layer_loss[1].sqnr_db, 39.25f);
}

TEST(EngineFile, AnEmptyEngineIsOne) {
  auto r = round_trip(EngineContent{}, Registry{});
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_TRUE((*r)->functions.empty());
}

TEST(EngineFile, WeightsOutliveTheContent) {
  auto r = round_trip(test::sample_content(), test::sample_registry());
  ASSERT_TRUE(r.ok());
  Buffer kept = (*r)->weights[1].bytes;
  std::byte first = kept.bytes[3];
  *r = nullptr;
  EXPECT_EQ(kept.bytes[3], first);
}

TEST(EngineFile, SameContentSameBytes) {
  EXPECT_EQ(bytes_of(test::sample_content(), "a.engine"), bytes_of(test::sample_content(), "b.engine"));
}

TEST(EngineFile, ShapesOfTheDecoderAreProvenForAllSymbols) {
  auto r = round_trip(test::sample_content(), test::sample_registry());
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_TRUE((*r)->functions.at("step").shapes_proven);
}

TEST(EngineFile, ShapesThatMayClashAreCheckedWhenBound) {
  auto r = round_trip(test::sample_content(), test::sample_registry());
  ASSERT_TRUE(r.ok()) << r.error().message;
  const Plan& plan = (*r)->functions.at("main");
  EXPECT_FALSE(plan.shapes_proven);
  auto at = [&](int64_t n, int64_t m) {
    return check_shapes_at(plan, (*r)->weights, [=](const std::string& s) -> std::optional<int64_t> { return s == "n" ? n : m; });
  };
  EXPECT_TRUE(at(5, 5).ok());
  EXPECT_TRUE(at(5, 1).ok());
  auto s = at(5, 3);
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.error().message.find("step 1 Add 'layers.1'"), std::string::npos) << s.error().message;
  EXPECT_FALSE(at(INT64_MAX / 2, 1).ok());
}

TEST(EngineFile, WrongShapesAreRefused) {
  EngineContent c = test::sample_content();
  Plan& p = c.functions["step"];
  p.values[static_cast<size_t>(p.steps[4].outputs[0])].shape[1] = 33;
  EXPECT_NE(error_of(c).find("is f32[T, 33], the rule gives f32[T, 32]"), std::string::npos) << error_of(c);
  c = test::sample_content();
  // Right at the profile's corners (1, 8, 512), wrong elsewhere.
  Dim T = Dim::symbol("T"), off = (T - Dim(1)) * (T - Dim(8)) * (T - Dim(512));
  Plan& q = c.functions["step"];
  q.values[static_cast<size_t>(q.steps[2].outputs[0])].shape[0] = T + off;
  auto r = round_trip(c, test::sample_registry());
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_FALSE((*r)->functions.at("step").shapes_proven);
}

TEST(EngineFile, AnOverflowAtACornerIsRefused) {
  EngineContent c = test::sample_content();
  c.functions["step"].symbols[0].max = INT64_MAX / 16;
  EXPECT_NE(error_of(c).find("at the symbols' max: value"), std::string::npos) << error_of(c);
}

TEST(EngineFile, StructureIsChecked) {
  auto broken = [](auto change) {
    EngineContent c = test::sample_content();
    change(c.functions["step"], c);
    return error_of(c);
  };
  EXPECT_NE(broken([](Plan& p, auto&) { p.steps[1].inputs[1] = p.steps[3].outputs[0]; }).find("which nothing has written"), std::string::npos);
  EXPECT_NE(broken([](Plan& p, auto&) { p.steps[3].outputs = p.steps[2].outputs; }).find("a second time"), std::string::npos);
  EXPECT_NE(broken([](Plan& p, auto&) { p.steps[3].inputs[0] = 1 << 30; }).find("reads value 1073741824"), std::string::npos);
  EXPECT_NE(broken([](Plan& p, auto&) { p.outputs[0] = -5; }).find("an output is never written"), std::string::npos);
  EXPECT_NE(broken([](Plan& p, auto&) { p.steps[4].inputs[3] = p.steps[0].inputs[1]; }).find("the state that the operator works on"), std::string::npos);
  EXPECT_NE(broken([](Plan& p, auto&) { p.steps[2].inputs[0] = p.steps[0].inputs[1]; }).find("is not plain memory"), std::string::npos);
  EXPECT_NE(broken([](Plan& p, auto&) { p.states[2].kv_heads = 1; }).find("the state that the operator works on"), std::string::npos);
  EXPECT_NE(broken([](Plan& p, auto&) { p.states[2].head_dim = INT64_MAX; }).find("allowed 1 to"), std::string::npos);
  EXPECT_NE(broken([](Plan& p, auto&) { p.symbols.pop_back(); }).find("is no symbol of the plan"), std::string::npos);
  EXPECT_NE(broken([](Plan& p, auto&) { p.symbols[0].opt = 0; }).find("wanted 0 <= min <= opt <= max"), std::string::npos);
  EXPECT_NE(broken([](Plan& p, auto&) { p.inputs.pop_back(); }).find("missing in the list of inputs"), std::string::npos);
  EXPECT_NE(broken([](Plan& p, auto&) { p.steps[1].blocks.emplace_back(); }).find("blocks where none belong"), std::string::npos);
  EXPECT_NE(broken([](Plan& p, auto&) { p.steps[1].attrs = AxisAttrs{}; }).find("wrong attribute struct"), std::string::npos);
  EXPECT_NE(broken([](Plan&, auto& c) { c.weights[0].shape = {2, 2}; }).find("its weight"), std::string::npos);
  EXPECT_NE(broken([](Plan&, auto& c) { c.weights[1].bytes.bytes = c.weights[1].bytes.bytes.first(64); }).find("does not fit into 64 bytes"), std::string::npos);
  EXPECT_NE(broken([](Plan&, auto& c) { c.max_context = -1; }).find("max_context -1"), std::string::npos);
  EngineContent c = test::sample_content();
  std::vector<PlanValue>& values = c.functions["main"].values;
  for (PlanValue& v : values)
    if (v.name == "flat") v.view_of = static_cast<int32_t>(&v - values.data());
  EXPECT_NE(error_of(c).find("is a view of itself"), std::string::npos) << error_of(c);
}

TEST(EngineFile, BlocksAreChecked) {
  auto broken = [](auto change) {
    EngineContent c = test::sample_content();
    change(c.functions["choose"], c.functions["choose"].steps[0]);
    return error_of(c);
  };
  EXPECT_EQ(broken([](Plan&, PlanStep&) {}), "");
  EXPECT_NE(broken([](Plan&, PlanStep& s) { s.blocks.pop_back(); }).find("block 'then' takes 1 and gives 1 values"), std::string::npos);
  EXPECT_NE(broken([](Plan&, PlanStep& s) { s.blocks[1].outputs.clear(); }).find("block 'else' takes 1 and gives 0 values, wanted 1 and 1"), std::string::npos);
  EXPECT_NE(broken([](Plan&, PlanStep& s) { s.captures = 3; }).find("3 captures of 2 operands"), std::string::npos);
  EXPECT_NE(broken([](Plan&, PlanStep& s) { s.captures = 0; }).find("wanted 0 and 1"), std::string::npos);
  EXPECT_NE(broken([](Plan&, PlanStep& s) { s.blocks[0].values[0].dtype = DType::kI32; }).find("capture 'x' is not of the type of 'x'"), std::string::npos);
  EXPECT_NE(broken([](Plan&, PlanStep& s) { s.blocks[0].symbols = {{"k", 1, 1, 1}}; }).find("a block introduces symbols"), std::string::npos);
  EXPECT_NE(broken([](Plan&, PlanStep& s) { s.kernel = "t.add"; }).find("a kernel where none belongs"), std::string::npos);
  EXPECT_NE(broken([](Plan& p, PlanStep&) { p.steps[1].dynamic = false; }).find("known at run time only, but is not dynamic"), std::string::npos);
  EXPECT_NE(broken([](Plan& p, PlanStep&) { p.values[static_cast<size_t>(p.steps[0].outputs[0])].kind = PlanValue::Kind::kArena; }).find("names something that is no symbol"), std::string::npos);
}

TEST(EngineFile, TheStepFunctionKeepsToItsContract) {
  auto broken = [](auto change) {
    EngineContent c = test::sample_content();
    change(c.functions["step"]);
    return error_of(c);
  };
  EXPECT_NE(broken([](Plan& p) { p.values[static_cast<size_t>(p.inputs[0])].name = "idz"; }).find("input 'idz' is none of a step"), std::string::npos);
  EXPECT_NE(broken([](Plan& p) { p.values[static_cast<size_t>(p.inputs[2])].shape[0] = Dim::symbol("S"); }).find("is i32[S], wanted i32[S + 1]"), std::string::npos);
  EXPECT_NE(broken([](Plan& p) { p.outputs.pop_back(); }).find("no output 'top_logprobs'"), std::string::npos);
  EXPECT_NE(broken([](Plan& p) { p.values[static_cast<size_t>(p.outputs[1])].shape = {}; }).find("wanted i32[L]"), std::string::npos);
  EXPECT_NE(broken([](Plan& p) { p.states[1].width = 8; }).find("the state that the operator works on"), std::string::npos);
}

TEST(EngineFile, ViewsHaveTheirBasesBytes) {
  EngineContent c = test::sample_content();
  for (PlanValue& v : c.functions["main"].values)
    if (v.name == "flat") v.shape[1] = 3;
  EXPECT_NE(error_of(c).find("is not of the same bytes as"), std::string::npos) << error_of(c);
}

TEST(EngineFile, KernelsMustFit) {
  EngineContent c = test::sample_content();
  auto with = [&](auto change) {
    Registry full = test::sample_registry(), out;
    out.set_isa(full.isa());
    for (KernelDesc k : full.all()) {
      change(k);
      out.add(k);
    }
    return error_of(c, out);
  };
  EXPECT_EQ(with([](KernelDesc&) {}), "");
  std::string wrong = with([](KernelDesc& k) { k.version += k.id == "t.linear"; });
  EXPECT_NE(wrong.find("made for version 3 of kernel 't.linear', this brisk has version 4"), std::string::npos) << wrong;
  wrong = with([](KernelDesc& k) { if (k.id == "t.linear") k.id = "other"; });
  EXPECT_NE(wrong.find("needs kernel 't.linear', which this brisk does not have"), std::string::npos) << wrong;
  wrong = with([](KernelDesc& k) { if (k.id == "t.linear") k.requires_isa = {"amx_int8"}; });
  EXPECT_NE(wrong.find("needs amx_int8; this machine has avx2, fma"), std::string::npos) << wrong;
  wrong = with([](KernelDesc& k) { if (k.id == "t.norm") k.accepts = [](const ProblemDesc&) { return false; }; });
  EXPECT_NE(wrong.find("kernel 't.norm' does not compute (f32[T, 32], f32[32])"), std::string::npos) << wrong;
  wrong = with([](KernelDesc& k) { if (k.id == "t.linear") k.packings[0].name = "t.rows16"; });
  EXPECT_NE(wrong.find("is packed as 't.rows8', kernel 't.linear' reads 't.rows16'"), std::string::npos) << wrong;
  wrong = with([](KernelDesc& k) { if (k.id == "t.linear") k.packings[0].bytes = [](const ProblemDesc&, const OperandDesc&) -> int64_t { return 1; }; });
  EXPECT_NE(wrong.find("packing 't.rows8' takes 1"), std::string::npos) << wrong;
  c.required_isa = {"avx2", "avx512_vnni"};
  wrong = error_of(c);
  EXPECT_NE(wrong.find("made for a machine with avx2, avx512_vnni; this one lacks avx512_vnni (it has avx2, fma)"), std::string::npos) << wrong;
}

TEST(EngineFile, MetadataOfOtherMachinesCanBeRead) {
  TemporaryPath file("other.engine");
  EngineContent c = test::sample_content();
  c.required_isa = {"sve"};
  ASSERT_TRUE(write_engine(c, file.path).ok());
  EXPECT_FALSE(read_engine(file.path, Registry{}).ok());
  auto r = read_engine_metadata(file.path);
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ((*r)->required_isa, c.required_isa);
}

TEST(EngineFile, ContentHashIsSha256) {
  TemporaryPath file("hash.engine");
  std::ofstream(file.path) << "abc";
  EXPECT_EQ(*engine_content_hash(file.path), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_FALSE(engine_content_hash(file.path + ".none").ok());
}

TEST(EngineFile, AThousandStepsReadInMilliseconds) {
  TemporaryPath file("large.engine");
  EngineContent c;
  c.functions["step"] = test::sample_decoder(c, 250, 64, 128);
  ASSERT_GE(c.functions["step"].steps.size(), 1000u);
  ASSERT_TRUE(write_engine(c, file.path).ok());
  Registry registry = test::sample_registry();
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    auto start = std::chrono::steady_clock::now();
    auto r = read_engine(file.path, registry);
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    ASSERT_TRUE(r.ok()) << r.error().message;
    EXPECT_TRUE((*r)->functions.at("step").shapes_proven);
  }
  RecordProperty("milliseconds", std::to_string(best));
  std::printf("reading 1,000 steps took %.1f ms\n", best);
  EXPECT_LT(best, 1000);  // sanitizers and a busy machine included; quiet and optimised it is below 30
}

}  // namespace
}  // namespace brisk
