// Decoders that were converted from ONNX answer alone as in a crowd, bit for bit: batched, chunked, at one thread and three.
#include <algorithm>
#include <filesystem>

#include "compiler/compile.h"
#include "compiler/load_model.h"
#include "crowd.h"

namespace brisk {
namespace {

using test::Answer;
using test::Service;

std::vector<std::string> decoders() {
  std::vector<std::string> names;
  for (auto& f : std::filesystem::directory_iterator(BRISK_TEST_DATA "/decoders"))
    if (f.path().extension() == ".onnx") names.push_back(f.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class DecodersCrowd : public testing::TestWithParam<std::string> {};

TEST_P(DecodersCrowd, AnswersDoNotDependOnCompany) {
  Registry registry;
  cpu::add_kernels(registry);
  ref::add_kernels(registry);
  cpu::ThreadPool pool(2);
  auto model = load_model(std::string(BRISK_TEST_DATA "/decoders/") + GetParam() + ".onnx");
  ASSERT_TRUE(model.ok()) << model.error().message;
  CompileOptions options;
  options.generative = true;
  auto compiled = compile(std::move(*model), options, {registry, cpu::make_device(), {&pool}});
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  ASSERT_EQ(compiled->functions.count("step"), 1u) << compiled->build_record["decoder"];
  auto content = std::make_shared<EngineContent>(std::move(*compiled));
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < 8; ++i) {
    prompts.emplace_back();
    for (int k = 0; k < 2 + i * 4; ++k) prompts.back().push_back((k * k * 7 + k * 31 + i * 17 + 5) % 96);
  }
  LoopOptions plain, chunked;
  plain.prefix_cache = chunked.prefix_cache = false;
  chunked.max_batched_tokens = 24;
  chunked.max_prefill_beside_decodes = 5;
  const int n = 24;
  std::vector<Answer> alone;
  {
    Service one(content, 1, {256, 8, 32, 2}, plain);
    for (auto& p : prompts) alone.push_back(one.ask({p}, n)[0]);
  }
  Service batched(content, 3, {256, 8, 32, 2}, plain), pieces(content, 2, {32, 8, 32, 2}, chunked);
  auto together = batched.ask(prompts, n), in_pieces = pieces.ask(prompts, n);
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(alone[i].ids.size(), static_cast<size_t>(n));
    if (i % 3 == 2) {  // sampled by their place in the call: those of one call are compared with those of the other
      EXPECT_TRUE(together[i] == in_pieces[i]) << "request " << i;
      continue;
    }
    EXPECT_TRUE(together[i] == alone[i]) << "request " << i;
    EXPECT_TRUE(in_pieces[i] == alone[i]) << "in chunks, request " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Exports, DecodersCrowd, testing::ValuesIn(decoders()), [](auto& p) {
  std::string name = p.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace brisk
