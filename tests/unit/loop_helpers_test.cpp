#include <stdexcept>

#include <gtest/gtest.h>

#include "fake_runner.h"
#include "loop/bench.h"
#include "loop/generate.h"

namespace brisk {
namespace {

std::unique_ptr<GenerationLoop> loop_over(FakeOptions f, LoopOptions o = {}) {
  auto loop = GenerationLoop::create(std::make_unique<FakeRunner>(f), nullptr, o);
  EXPECT_TRUE(loop.ok());
  return std::move(loop).value();
}
FakeOptions slow() {
  FakeOptions f;
  f.step_time = std::chrono::microseconds(1000);
  return f;
}

TEST(Generate, WaitsForTheWholeAnswer) {
  auto loop = loop_over(slow());
  const GenerationRequest r{.prompt = {1, 2, 3}, .max_tokens = 6};
  size_t heard = 0;
  const auto out = generate(*loop, r, [&](const GenerationEvent& e) {
    heard += e.ids.size();
    return true;
  });
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ(out->ids, fake_answer(r.prompt, {}, 9, {}, slow()));
  EXPECT_EQ(heard, 6u);
  EXPECT_EQ(out->finish, FinishReason::kLength);
  EXPECT_GE(out->ttft_ms, 1);
  EXPECT_GE(out->tpot_ms, 1);
  EXPECT_EQ(out->usage.prompt_tokens, 3);
}

TEST(Generate, TheCallerMayStopIt) {
  auto loop = loop_over(slow());
  int calls = 0;
  const auto out = generate(*loop, {.prompt = {1}, .max_tokens = 400}, [&](const GenerationEvent&) { return ++calls < 3; });
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->finish, FinishReason::kCancelled);
  EXPECT_EQ(calls, 3);
  EXPECT_LT(out->ids.size(), 100u);
  EXPECT_THROW((void)generate(*loop, {.prompt = {1}, .max_tokens = 400},
                              [](const GenerationEvent&) -> bool { throw std::runtime_error("no more"); }),
               std::runtime_error);
  EXPECT_EQ(loop->drain(std::chrono::seconds(20)), 0);  // the exception cancelled it, too
  EXPECT_EQ(loop->stats().finished_cancelled, 2);
}

TEST(Generate, ErrorsAreReturned) {
  FakeOptions f;
  f.poison = 7;
  auto loop = loop_over(f);
  EXPECT_EQ(generate(*loop, {}).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(generate(*loop, {.prompt = {7}, .max_tokens = 4}).error().kind, ErrorKind::kInternal);
}

TEST(Bench, PercentilesInterpolate) {
  const Percentiles p = percentiles({4, 1, 3, 2, 5});
  EXPECT_DOUBLE_EQ(p.p50, 3);
  EXPECT_DOUBLE_EQ(p.p90, 4.6);
  EXPECT_NEAR(p.p99, 4.96, 1e-12);
  EXPECT_EQ(percentiles({}).p50, 0);
  EXPECT_EQ(percentiles({7}).p99, 7);
}

TEST(Bench, CountsWhatItMeasures) {
  auto loop = loop_over(slow(), {.prefix_cache = false});
  int64_t calls = 0;
  const auto r = bench_generation(*loop, {.prompt_len = 40, .gen_len = 5, .concurrency = 3}, [&](int64_t done, int64_t all) {
    EXPECT_EQ(done, ++calls);
    EXPECT_EQ(all, 9);
    return true;
  });
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(calls, 9);
  EXPECT_EQ(r->requests, 9);
  EXPECT_EQ(r->prompt_tokens, 360);
  EXPECT_EQ(r->generated_tokens, 45);
  EXPECT_EQ(r->cached_tokens, 0);
  EXPECT_GE(r->ttft_ms.p50, 1);
  EXPECT_GE(r->tpot_ms.p50, 1);
  EXPECT_LE(r->tpot_ms.p50, r->tpot_ms.p99);
  EXPECT_GT(r->tokens_per_s, 0);
}

TEST(Bench, RefusesWhatDoesNotFitAndStops) {
  auto loop = loop_over({});
  EXPECT_EQ(bench_generation(*loop, {.prompt_len = 500, .gen_len = 13}).error().message,
            "prompt-len 500 and gen-len 13 do not fit the context of 512 tokens");
  EXPECT_FALSE(bench_generation(*loop, {.prompt_len = 0}).ok());
  const auto stopped = bench_generation(*loop, {.prompt_len = 5, .gen_len = 5}, [](int64_t, int64_t) { return false; });
  EXPECT_EQ(stopped.error().kind, ErrorKind::kCancelled);
}

}  // namespace
}  // namespace brisk
