// Profiles, marked results, the cap on scratch, parts of ONNX files.
#include <gtest/gtest.h>

#include <filesystem>

#include "api/compare.h"
#include "brisk/builder.h"
#include "brisk/execution_context.h"
#include "compiler/profile.h"
#include "engine/engine_file.h"
#include "import/onnx/cut.h"
#include "import/onnx/import.h"
#include "tensor/npy.h"

namespace brisk {
namespace {

std::string exported(const std::string& name) { return std::string(BRISK_TEST_DATA) + "/exports/" + name + "/model.onnx"; }

class Controls : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("brisk_controls_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  Result<BuildReport> build(BuildConfig c) {
    c.precision = "fp32";
    c.threads = 1;
    return Builder(c).build(exported("legacy-bert"), path("m.engine"));
  }
  Status run(int64_t batch, int64_t length) {
    BRISK_ASSIGN(auto context, ExecutionContext::open(path("m.engine"), {.threads = 1}));
    Tensor ids{"i64", {batch, length}, std::vector<std::byte>(static_cast<size_t>(batch * length * 8))};
    Tensor mask = ids;
    for (int64_t i = 0; i < batch * length; ++i) mask.data[static_cast<size_t>(i * 8)] = std::byte{1};
    BRISK_ASSIGN(results_, context->run({{"input_ids", ids}, {"attention_mask", mask}}));
    return {};
  }

  std::filesystem::path folder_;
  std::vector<std::pair<std::string, Tensor>> results_;
};

TEST(Profile, TextIsReadAndItsFaultsAreNamed) {
  auto p = parse_profile("a:1x1,1x128,32x512;b:0:7");
  ASSERT_TRUE(p.ok()) << p.error().message;
  EXPECT_EQ(p->inputs.at("a").max, (std::vector<int64_t>{32, 512}));
  EXPECT_EQ(p->inputs.at("b:0").min, (std::vector<int64_t>{7}));
  for (const char* wrong : {"", "a", ":1", "a:", "a:1x", "a:1,2", "a:1x1,1,1", "a:2,1,3", "a:-1", "a:1;a:2", "a:9999999999999999999"})
    EXPECT_EQ(parse_profile(wrong).error().kind, ErrorKind::kInvalid) << wrong;
}

TEST(Profile, FixedSizesLeaveNoSymbols) {
  auto m = import_onnx(exported("legacy-bert"));
  ASSERT_TRUE(m.ok());
  Graph& g = m->functions.at("main");
  auto wrong = apply_profile(g, *parse_profile("nothing:1x1"));
  EXPECT_NE(wrong.error().message.find("it has input_ids, attention_mask"), std::string::npos) << wrong.error().message;
  EXPECT_FALSE(apply_profile(g, *parse_profile("input_ids:1x2x3")).ok());
  EXPECT_FALSE(apply_profile(g, *parse_profile("input_ids:1x8;attention_mask:1x9")).ok());
  ASSERT_TRUE(apply_profile(g, *parse_profile("input_ids:2x7;attention_mask:2x7")).ok());
  EXPECT_TRUE(g.symbols.empty());
  for (ValueId v : g.outputs)
    for (const Dim& d : g.value(v).type.shape) EXPECT_TRUE(d.is_constant()) << d.to_string();
}

TEST_F(Controls, SeveralProfilesAreSeveralPlansOnOneSetOfWeights) {
  ASSERT_TRUE(build({}).ok());
  const auto single = std::filesystem::file_size(path("m.engine"));
  BuildConfig c;
  c.profiles = {"input_ids:2x7;attention_mask:2x7", "input_ids:1x1,1x16,4x64;attention_mask:1x1,1x16,4x64"};
  auto built = build(c);
  ASSERT_TRUE(built.ok()) << built.error().message;
  EXPECT_LT(std::filesystem::file_size(path("m.engine")), single + single / 5);
  auto content = read_engine_metadata(path("m.engine"));
  ASSERT_TRUE(content.ok());
  EXPECT_TRUE((*content)->functions.at("main").symbols.empty());
  EXPECT_EQ((*content)->functions.at("main.1").symbols.size(), 2u);
  EXPECT_TRUE(run(2, 7).ok());
  EXPECT_TRUE(run(3, 11).ok());
  auto outside = run(1, 65);
  ASSERT_FALSE(outside.ok());
  EXPECT_NE(outside.error().message.find("profile 1: input 'input_ids' axis 1 is 65, wanted 1 to 64"), std::string::npos) << outside.error().message;
}

TEST_F(Controls, ScratchBeyondTheCapIsAnErrorWithTheLayer) {
  BuildConfig c;
  c.workspace_bytes = 100'000;
  c.profiles = {"input_ids:1x1,1x16,4x64;attention_mask:1x1,1x16,4x64"};
  auto built = build(c);
  ASSERT_FALSE(built.ok());
  for (const char* said : {"the limit is 100000", "of temporary values (most at '", "needs "})
    EXPECT_NE(built.error().message.find(said), std::string::npos) << built.error().message;
  c.profiles.clear();  // no largest size: the call is held to it
  ASSERT_TRUE(build(c).ok());
  EXPECT_TRUE(run(1, 3).ok());
  auto outside = run(4, 64);
  ASSERT_FALSE(outside.ok());
  EXPECT_NE(outside.error().message.find("--workspace 100000"), std::string::npos) << outside.error().message;
}

TEST_F(Controls, MarkedResultsComeOut) {
  BuildConfig c;
  c.mark_outputs = {"/m/encoder/layer.0/attention/self/Softmax"};
  ASSERT_TRUE(build(c).ok());
  ASSERT_TRUE(run(2, 5).ok());
  ASSERT_EQ(results_.size(), 2u);
  EXPECT_EQ(results_[1].second.shape, (std::vector<int64_t>{2, 4, 5, 5}));
  c.mark_outputs = {"/m/encoder/layer.0/attention/Softmax"};
  auto wrong = build(c);
  EXPECT_NE(wrong.error().message.find("the nearest name is '/m/encoder/layer.0/attention/self/Softmax'"), std::string::npos) << wrong.error().message;
}

TEST_F(Controls, CompareNamesTheFirstWrongLayerAndReducesIt) {
  CompareOptions o;
  o.build.precision = "fp32";
  o.build.threads = 1;
  const std::string model = exported("legacy-bert");
  auto right = compare_layers(model, o);
  ASSERT_TRUE(right.ok()) << right.error().message;
  EXPECT_EQ(right->first_wrong, -1) << right->layers[static_cast<size_t>(right->first_wrong)].value;
  EXPECT_GT(right->layers.size(), 10u);

  o.build.precision = "int8";  // nothing of it keeps to 1e-5
  o.tolerance = 1e-5;
  o.reduce = path("part.onnx");
  auto wrong = compare_layers(model, o);
  ASSERT_TRUE(wrong.ok()) << wrong.error().message;
  ASSERT_GE(wrong->first_wrong, 0);
  EXPECT_GT(wrong->reduced_nodes, 0);
  EXPECT_LT(wrong->reduced_nodes, 40);
  // The part runs, and what the reference had for its result is beside it.
  auto context = ExecutionContext::open(o.reduce, {.threads = 1});
  ASSERT_TRUE(context.ok()) << context.error().message;
  auto arrays = read_npz(o.reduce + ".npz");
  ASSERT_TRUE(arrays.ok());
  EXPECT_EQ(arrays->size(), (*context)->inputs().size() + 1);
  EXPECT_TRUE(arrays->count("out:" + wrong->layers[static_cast<size_t>(wrong->first_wrong)].value));
}

TEST_F(Controls, StoredValuesStandForTheReference) {
  CompareOptions o;
  o.build.threads = 1;
  o.build.precision = "fp32";
  o.inputs = std::string(BRISK_TEST_DATA) + "/exports/legacy-bert/io.npz";
  o.stored = o.inputs;
  auto r = compare_layers(exported("legacy-bert"), o);
  ASSERT_TRUE(r.ok()) << r.error().message;
  ASSERT_EQ(r->layers.size(), 1u);
  EXPECT_EQ(r->layers[0].value, "out");
  EXPECT_GT(r->unmatched, 10);
}

TEST_F(Controls, ACutThatLacksWhatItReadsIsRefused) {
  EXPECT_EQ(cut_onnx(exported("legacy-bert"), "no such value", 3, {}, path("x.onnx")).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(cut_onnx(exported("legacy-bert"), "out", 3, {}, path("x.onnx")).error().kind, ErrorKind::kInvalid);
  EXPECT_FALSE(std::filesystem::exists(path("x.onnx")));
}

}  // namespace
}  // namespace brisk
