// The same answer alone or in a crowd, on the CPU kernels, for every precision: batched, chunked, preempted, with a prefix
// hit, at one thread, two and three, ids and log probabilities are equal bit for bit.
#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "crowd.h"
#include "tiny_llama.h"

namespace brisk {
namespace {

using test::Answer;
using test::Service;

std::vector<int32_t> prompt(int n, int seed) {
  std::vector<int32_t> ids;
  for (int i = 0; i < n; ++i) ids.push_back((i * i * 7 + i * 31 + seed * 17 + 5) % 97);
  return ids;
}

class Crowd : public testing::TestWithParam<Precision> {};

TEST_P(Crowd, AnswersDoNotDependOnCompany) {
  Registry registry;
  cpu::add_kernels(registry);
  ref::add_kernels(registry);
  cpu::ThreadPool pool(2);
  CompileOptions options;
  options.precision = GetParam();
  test::TinyConfig config;
  config.hidden = 128, config.heads = 8, config.intermediate = 192;
  auto compiled = compile(test::tiny_llama(config), options, {registry, cpu::make_device(), {&pool}});
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  for (auto& s : compiled->functions.at("step").steps)
    if (s.op == OpId::kLinear || s.op == OpId::kPagedAttention) EXPECT_EQ(s.kernel.rfind("cpu.", 0), 0u) << s.kernel;
  auto content = std::make_shared<EngineContent>(std::move(*compiled));

  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < 16; ++i) prompts.push_back(prompt(3 + i * 9, i));
  prompts[9] = prompts[8];                       // one prefix twice
  prompts[10] = prompts[8];
  prompts[10].resize(70);
  const int n = 40;
  LoopOptions alone_options;
  alone_options.prefix_cache = false;
  std::vector<Answer> alone;
  {
    Service s(content, 1, {512, 16, 128, 8}, alone_options);
    // One after another: nobody else is there.
    for (size_t i = 0; i < prompts.size(); ++i) {
      if (i % 3 != 2) {
        alone.push_back(s.ask({prompts[i]}, n)[0]);
      } else {
        alone.emplace_back();  // sampled ones are compared between the crowds below
      }
    }
  }
  struct Case { const char* name; int threads; StepLimits limits; LoopOptions options; };
  LoopOptions chunked = alone_options, prefix, small = alone_options;
  chunked.max_batched_tokens = 24;
  chunked.max_prefill_beside_decodes = 7;
  prefix.model_key = "crowd";
  std::vector<Answer> first;
  for (const Case& c : {Case{"batched", 2, {512, 16, 128, 8}, alone_options}, Case{"chunked", 1, {64, 16, 128, 8}, chunked},
                        Case{"three threads", 3, {256, 16, 128, 8}, alone_options}, Case{"prefix", 2, {512, 4, 128, 8}, prefix},
                        Case{"preempted", 2, {512, 16, 14, 8}, small}}) {
    Service s(content, c.threads, c.limits, c.options);
    auto got = s.ask(prompts, n);
    if (first.empty()) first = got;
    for (size_t i = 0; i < prompts.size(); ++i) {
      if (i % 3 != 2) EXPECT_TRUE(got[i] == alone[i]) << c.name << ", request " << i;
      EXPECT_TRUE(got[i] == first[i]) << c.name << ", request " << i;
      EXPECT_EQ(got[i].ids.size(), static_cast<size_t>(n)) << c.name;
    }
    if (std::string(c.name) == "preempted") EXPECT_GT(s.stats().preemptions, 0);
    if (std::string(c.name) == "prefix") {
      auto again = s.ask({prompts[15]}, n)[0];
      EXPECT_TRUE(again == alone[15]);
      EXPECT_GT(again.cached, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, Crowd,
                         testing::Values(Precision::kFp32, Precision::kBf16, Precision::kFp16, Precision::kInt8, Precision::kInt8w, Precision::kInt4w),
                         [](auto& p) { return std::string(precision_name(p.param)); });

}  // namespace
}  // namespace brisk
