// A generation loop on CPU kernels that many ask at once, and their answers with log probabilities.
#pragma once
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "backend/cpu/cpu.h"
#include "backend/cpu/thread_pool.h"
#include "backend/ref/ref.h"
#include "loop/generation_loop.h"
#include "runtime/engine_step_runner.h"

namespace brisk::test {

struct Answer {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  int64_t cached = 0;
  bool operator==(const Answer& o) const { return ids == o.ids && logprobs == o.logprobs; }
};

// A loop on CPU kernels over one compiled model.
class Service {
 public:
  Service(std::shared_ptr<const EngineContent> content, int threads, StepLimits limits, LoopOptions options) : pool_(threads) {
    cpu::add_kernels(registry_);
    ref::add_kernels(registry_);
    auto engine = LoadedEngine::create(content, cpu::make_device(), registry_);
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    auto runner = make_step_runner(*engine, {&pool_}, {limits});
    EXPECT_TRUE(runner.ok()) << runner.error().message;
    auto loop = GenerationLoop::create(std::move(*runner), nullptr, options);
    EXPECT_TRUE(loop.ok()) << loop.error().message;
    loop_ = std::move(*loop);
  }

  std::vector<Answer> ask(const std::vector<std::vector<int32_t>>& prompts, int n) {
    std::vector<Answer> answers(prompts.size());
    std::mutex mutex;
    std::condition_variable changed;
    size_t left = prompts.size();
    for (size_t i = 0; i < prompts.size(); ++i) {
      GenerationRequest r;
      r.prompt = prompts[i];
      r.max_tokens = n;
      r.sampling.top_logprobs = 0;
      // Every third samples: the draw must not depend on the company either.
      if (i % 3 == 2) r.sampling.temperature = 0.9f, r.sampling.top_k = 20, r.sampling.seed = i;
      auto h = loop_->submit(r, [&, i](const GenerationEvent& e) {
        answers[i].ids.insert(answers[i].ids.end(), e.ids.begin(), e.ids.end());
        for (auto& t : e.logprobs) answers[i].logprobs.push_back(t.chosen.logprob);
        if (e.finish == FinishReason::kNone) return;
        EXPECT_EQ(e.finish, FinishReason::kLength) << e.error.message;
        std::lock_guard lock(mutex);
        answers[i].cached = e.usage.cached_tokens;
        --left;
        changed.notify_one();
      });
      EXPECT_TRUE(h.ok()) << h.error().message;
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return left == 0; });
    return answers;
  }
  LoopStats stats() const { return loop_->stats(); }

 private:
  Registry registry_;
  cpu::ThreadPool pool_;
  std::unique_ptr<GenerationLoop> loop_;
};

}  // namespace brisk::test
