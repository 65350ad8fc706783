// A fault inside one sequence ends that request only: a token whose embedding is not a number makes all that its sequence
// computes NaN, and the others of the same steps, and those that later get its blocks, answer as if it had not been there.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "backend/cpu/cpu.h"
#include "backend/cpu/thread_pool.h"
#include "backend/ref/ref.h"
#include "compiler/compile.h"
#include "engine/kv_dtype.h"
#include "loop/generation_loop.h"
#include "runtime/engine_step_runner.h"
#include "tiny_llama.h"

namespace brisk {
namespace {

constexpr int32_t kNan = 7;

struct Ended {
  FinishReason finish = FinishReason::kNone;
  std::string error;
  std::vector<int32_t> ids;
};

std::vector<int32_t> prompt(int n, int seed) {
  std::vector<int32_t> ids;
  for (int i = 0; i < n; ++i)
    if (int32_t id = (i * i * 7 + i * 31 + seed * 17 + 5) % 97; id != kNan) ids.push_back(id);
  return ids;
}
GenerationRequest request(std::vector<int32_t> ids) {
  GenerationRequest r;
  r.prompt = std::move(ids);
  r.max_tokens = 20;
  return r;
}

struct Case {
  const char* name;
  bool cpu;  // or the reference kernels
  DType kv;
  int steps_in_flight;
};

class Fault : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().cpu) cpu::add_kernels(registry_);
    ref::add_kernels(registry_);
    test::TinyConfig config;
    config.nan_token = kNan;
    CompileOptions options;
    options.precision = Precision::kFp32;
    auto compiled = compile(test::tiny_llama(config), options, {registry_, device(), {&pool_}});
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    ASSERT_TRUE(set_kv_dtype(*compiled, GetParam().kv, registry_).ok());
    content_ = std::make_shared<EngineContent>(std::move(*compiled));
    start();
  }
  static std::shared_ptr<Device> device() {
    if (GetParam().cpu) return cpu::make_device();
    return ref::make_device();
  }
  // Few blocks, so that those of a faulty sequence are soon somebody else's.
  void start() {
    auto engine = LoadedEngine::create(content_, device(), registry_);
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    auto runner = make_step_runner(*engine, {&pool_}, {StepLimits{128, 8, 12, 8}});
    ASSERT_TRUE(runner.ok()) << runner.error().message;
    LoopOptions options;
    options.steps_in_flight = GetParam().steps_in_flight;
    auto loop = GenerationLoop::create(std::move(*runner), nullptr, options);
    ASSERT_TRUE(loop.ok()) << loop.error().message;
    loop_ = std::move(*loop);
  }

  std::vector<Ended> ask(std::vector<GenerationRequest> requests) {
    std::vector<Ended> out(requests.size());
    std::mutex mutex;
    std::condition_variable changed;
    size_t left = requests.size();
    for (size_t i = 0; i < requests.size(); ++i) {
      auto h = loop_->submit(std::move(requests[i]), [&, i](const GenerationEvent& e) {
        out[i].ids.insert(out[i].ids.end(), e.ids.begin(), e.ids.end());
        if (e.finish == FinishReason::kNone) return;
        std::lock_guard lock(mutex);
        out[i].finish = e.finish;
        out[i].error = e.error.message;
        --left;
        changed.notify_one();
      });
      EXPECT_TRUE(h.ok()) << h.error().message;
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return left == 0; });
    return out;
  }

  Registry registry_;
  cpu::ThreadPool pool_{2};
  std::shared_ptr<const EngineContent> content_;
  std::unique_ptr<GenerationLoop> loop_;
};

TEST_P(Fault, EndsItsOwnRequestOnly) {
  const std::vector<std::vector<int32_t>> good = {prompt(5, 1), prompt(40, 2), prompt(33, 3)};
  std::vector<std::vector<int32_t>> clean;
  for (auto& p : good) clean.push_back(ask({request(p)})[0].ids);
  start();
  for (int round = 0; round < 4; ++round) {
    auto early = prompt(50 + round, 4 + round), late = prompt(9 + round, 5 + round), sampled = late;
    early[0] = kNan;
    late.back() = kNan;
    sampled[2] = kNan;
    std::vector<GenerationRequest> all = {request(good[0]), request(early), request(good[1]), request(late), request(good[2]),
                                          request(sampled)};
    all[5].sampling.temperature = 1;
    all[5].sampling.frequency_penalty = 1;
    all[3].sampling.top_logprobs = 3;
    auto ended = ask(std::move(all));
    for (size_t i : {0, 2, 4}) {
      EXPECT_EQ(ended[i].finish, FinishReason::kLength) << ended[i].error;
      EXPECT_EQ(ended[i].ids, clean[i / 2]) << "round " << round << ", request " << i;
    }
    for (size_t i : {1, 3, 5}) {
      EXPECT_EQ(ended[i].finish, FinishReason::kError) << "round " << round << ", request " << i;
      EXPECT_NE(ended[i].error.find("not numbers"), std::string::npos) << ended[i].error;
      EXPECT_TRUE(ended[i].ids.empty());
    }
  }
  EXPECT_TRUE(loop_->health().ready) << loop_->health().reason;
  loop_->drain(std::chrono::seconds(10));  // the books are closed
  EXPECT_EQ(loop_->stats().finished_error, 12);
  EXPECT_EQ(loop_->stats().blocks_used, 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, Fault,
                         testing::Values(Case{"ref", false, DType::kF32, 1}, Case{"cpu_fp32", true, DType::kF32, 1},
                                         Case{"cpu_bf16", true, DType::kBF16, 1}, Case{"cpu_fp16", true, DType::kF16, 1},
                                         Case{"cpu_two_steps", true, DType::kBF16, 2}),
                         [](auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace brisk
