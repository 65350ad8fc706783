// The generation loop without its thread and its locks: scheduler, runner, texts and events. All calls from one thread;
// sinks are called inside of them. GenerationLoop wraps it.
#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "loop/answer_text.h"
#include "loop/generation_loop.h"
#include "loop/step_input.h"
#include "sched/scheduler.h"

namespace brisk {

// An accepted request on its way.
struct LiveRequest {
  RequestId id = 0;
  GenerationRequest request;  // its prompt moves on to the scheduler
  EventSink sink;
  std::vector<PrefixKey> prefix_keys;
  PrefixKey prefix_root{};
  GenerationUsage usage;
  GenerationTimes times;
  std::unique_ptr<AnswerText> text;
};

class LoopCore {
 public:
  LoopCore(StepRunner& runner, const Tokenizer* tokenizer, const SchedOptions& sched, int steps_in_flight, int64_t start_ns);

  void admit(std::unique_ptr<LiveRequest> request);
  void cancel(RequestId id);
  // Plans and submits a step, and completes the oldest one if enough are in flight. An error is the device's (or a bug):
  // nothing works any more; abandon_steps() and end_all() are due.
  Status turn();
  // Ends all requests with kError. Steps in flight are completed by further turns.
  void end_all(const Error& error);
  void abandon_steps();

  bool has_work() const { return !live_.empty() || !flying_.empty(); }
  size_t live() const { return live_.size(); }
  const LoopStats& stats();
  // Keys of requests that left the queue (started, or ended before) since the last call.
  std::vector<std::string> take_dequeued() { return std::exchange(dequeued_, {}); }

  // Called before a request's last event reaches its sink: whoever hears that a request has ended finds it in the books.
  std::function<void()> on_books;

  // For health(), from any thread: when the oldest unfinished step was submitted (0: none), and how long it should take.
  std::atomic<int64_t> busy_since_ns{0}, predicted_ns{0};

 private:
  struct Flying {
    Ticket ticket;
    StepPlan plan;
    int64_t submitted_ns;
  };
  double seconds(int64_t ns) const { return static_cast<double>(ns - start_ns_) * 1e-9; }
  Status submit_step(StepPlan plan);
  Status complete_step();
  void measure_step(const Flying& step, int64_t sampled_at_ns);
  void update_gauge();
  void deliver(LiveRequest& l, const Committed& c, const StepOutput& out, size_t row);
  void add_logprobs(GenerationEvent& e, const LiveRequest& l, const StepOutput& out, size_t row) const;
  std::string token_text(int32_t id) const;
  void end(RequestId id, FinishReason reason, Error error = {});
  void emit(LiveRequest& l, GenerationEvent& event);
  void count_end(FinishReason reason);
  void leave_queue(LiveRequest& l);

  StepRunner& runner_;
  const Tokenizer* tokenizer_;
  Scheduler sched_;
  const size_t steps_in_flight_;
  const int64_t start_ns_;
  std::unordered_map<RequestId, std::unique_ptr<LiveRequest>> live_;
  std::deque<Flying> flying_;
  StepInput input_;
  std::vector<std::string> dequeued_;
  LoopStats stats_;
  int64_t last_sampled_ns_ = 0;
  double step_seconds_ = 0, token_seconds_ = 0;  // moving averages, for the prediction
};

}  // namespace brisk
