// A short gap before the next step. Where every core computes, whoever hands on what a step gave (an I/O thread with a
// first token) waits for a core until the next step is over. A hold keeps the loop thread from submitting that step, so
// that the compute threads rest; with the last hold gone, or the limit over, the next step begins.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace brisk {

// Lasts until its last copy is gone, wherever that is: a dropped request cannot forget to give it back.
using StepHold = std::shared_ptr<void>;

// All members: any thread. Holds may outlive the gate.
class StepGate {
 public:
  StepHold hold() {
    uint64_t gap;
    {
      std::lock_guard lock(state_->mutex);
      ++state_->held;
      gap = state_->gap;
    }
    return {state_.get(), [state = state_, gap](void*) { state->release(gap); }};
  }

  // Waits until no hold is left, `most` at the longest, and not at all where there is none. Holds that outlast the limit
  // count no more: one that is kept for long costs one gap, not one a step. False: the limit came first.
  bool wait(std::chrono::nanoseconds most) {
    std::unique_lock lock(state_->mutex);
    const bool open = state_->held == 0 || state_->opened.wait_for(lock, most, [&] { return state_->held == 0; });
    if (!open) {
      ++state_->gap;
      state_->held = 0;
    }
    return open;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable opened;
    uint64_t gap = 0;  // of which the counted holds are
    int64_t held = 0;
    void release(uint64_t of) {
      std::lock_guard lock(mutex);
      if (of == gap && --held == 0) opened.notify_one();
    }
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace brisk
