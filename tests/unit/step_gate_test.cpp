// Gaps between steps: a hold keeps the next step back, for as long as it lives and no longer than the limit.
#include <atomic>
#include <future>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "fake_runner.h"
#include "loop/generation_loop.h"

namespace brisk {
namespace {

using namespace std::chrono_literals;
constexpr auto kLong = 60s;  // a test that waited this long would have failed

TEST(StepGate, IsOpenWithoutHoldsAndOpensWithTheLast) {
  StepGate gate;
  EXPECT_TRUE(gate.wait(kLong));
  StepHold a = gate.hold(), b = gate.hold(), copy = a;
  EXPECT_FALSE(gate.wait(1ms));  // and these two count no more
  EXPECT_TRUE(gate.wait(kLong));
  StepHold c = gate.hold();
  a.reset(), copy.reset(), b.reset();  // of the gap before: they do not open this one
  EXPECT_FALSE(gate.wait(1ms));
  c = gate.hold();
  std::atomic<bool> dropped = false;
  std::thread other([hold = std::exchange(c, nullptr), &dropped]() mutable {
    std::this_thread::sleep_for(5ms);
    dropped = true;
    hold.reset();
  });
  EXPECT_TRUE(gate.wait(kLong));
  EXPECT_TRUE(dropped);
  other.join();
}

TEST(StepGate, HoldsOutliveIt) {
  std::optional<StepGate> gate(std::in_place);
  StepHold hold = gate->hold();
  gate.reset();
  hold.reset();
  EXPECT_EQ(hold, nullptr);
}

class StepGateLoop : public testing::Test {
 protected:
  void start(std::chrono::microseconds max_gap) {
    auto runner = std::make_unique<FakeRunner>(FakeOptions{});
    runner_ = runner.get();
    auto loop = GenerationLoop::create(std::move(runner), nullptr, {.max_gap = max_gap});
    ASSERT_TRUE(loop.ok()) << loop.error().message;
    loop_ = std::move(*loop);
  }
  // A request of ten tokens; `heard` is called inside its sink. The future has the last event's reason.
  std::future<FinishReason> ask(std::function<void(const GenerationEvent&)> heard, RequestHandle* handle = nullptr) {
    auto ended = std::make_shared<std::promise<FinishReason>>();
    auto future = ended->get_future();
    auto submitted = loop_->submit({.prompt = {1, 2, 3}, .max_tokens = 10}, [ended, heard = std::move(heard)](const GenerationEvent& e) {
      heard(e);
      if (e.finish != FinishReason::kNone) ended->set_value(e.finish);
    });
    EXPECT_TRUE(submitted.ok());
    if (handle) *handle = *submitted;
    return future;
  }
  FakeRunner* runner_ = nullptr;
  std::unique_ptr<GenerationLoop> loop_;
};

bool first(const GenerationEvent& e) { return e.usage.completion_tokens == 1; }

TEST_F(StepGateLoop, TheNextStepComesWhenTheHoldIsGone) {
  start(kLong);
  std::promise<StepHold> given;
  auto end = ask([&](const GenerationEvent& e) {
    if (first(e)) given.set_value(loop_->hold_step());
  });
  StepHold hold = given.get_future().get();
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(runner_->steps, 1);
  hold.reset();
  EXPECT_EQ(end.get(), FinishReason::kLength);
  EXPECT_EQ(runner_->steps, 10);
}

TEST_F(StepGateLoop, TheLimitBoundsAHoldThatIsKept) {
  start(30ms);
  StepHold kept;
  const int64_t before = monotonic_ns();
  auto end = ask([&](const GenerationEvent& e) {
    if (first(e)) kept = loop_->hold_step();
  });
  EXPECT_EQ(end.get(), FinishReason::kLength);
  const int64_t took = monotonic_ns() - before;
  EXPECT_GE(took, 30'000'000);   // one gap
  EXPECT_LT(took, 240'000'000);  // not nine of them
}

TEST_F(StepGateLoop, ACancelledRequestHoldsNobodyPastTheLimit) {
  start(20ms);
  RequestHandle handle;
  std::promise<void> held;
  // Its hold goes with its sink, as it does with the work that a server has posted for it.
  auto cancelled = ask([this, &held, hold = StepHold()](const GenerationEvent& e) mutable {
    if (!first(e) || hold) return;
    hold = loop_->hold_step();
    held.set_value();
  }, &handle);
  held.get_future().wait();
  loop_->cancel(handle);
  auto other = ask([](const GenerationEvent&) {});
  EXPECT_EQ(cancelled.get(), FinishReason::kCancelled);
  EXPECT_EQ(other.get(), FinishReason::kLength);
}

TEST_F(StepGateLoop, NoHoldNoGap) {
  start(kLong);
  EXPECT_EQ(ask([](const GenerationEvent&) {}).get(), FinishReason::kLength);
  EXPECT_EQ(runner_->steps, 10);
}

TEST_F(StepGateLoop, ALimitOfNothingIsNoGap) {
  start(0us);
  std::vector<StepHold> kept;
  EXPECT_EQ(ask([&](const GenerationEvent&) { kept.push_back(loop_->hold_step()); }).get(), FinishReason::kLength);
  EXPECT_EQ(kept.size(), 10u);
}

TEST_F(StepGateLoop, TheLastStepOfAllIsFollowedByNoGap) {
  start(kLong);
  std::promise<StepHold> given;
  auto end = ask([&](const GenerationEvent& e) {
    if (e.finish != FinishReason::kNone) given.set_value(loop_->hold_step());
  });
  EXPECT_EQ(end.get(), FinishReason::kLength);
  StepHold kept = given.get_future().get();
  EXPECT_EQ(loop_->drain(kLong), 0);  // at once: nothing is to be computed
}

}  // namespace
}  // namespace brisk
