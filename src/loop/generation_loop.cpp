#include "loop/generation_loop.h"

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "loop/loop_core.h"
#include "loop/request_check.h"

namespace brisk {

int64_t monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone: return "";
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kDeadline: return "deadline";
    case FinishReason::kError: return "error";
  }
  return "";
}

struct GenerationLoop::State {
  // Fixed after create().
  std::unique_ptr<StepRunner> runner;
  std::shared_ptr<const Tokenizer> tokenizer;
  LoopOptions options;
  RequestBounds bounds;

  // The loop thread's alone.
  std::unique_ptr<LoopCore> core;

  StepGate gate;

  mutable std::mutex mutex;  // guards all below; never held while a step runs or a sink is called
  std::condition_variable wake;     // something for the loop thread
  std::condition_variable emptied;  // accepted == 0
  std::vector<std::unique_ptr<LiveRequest>> arrived;
  std::vector<RequestId> cancelled;
  RequestId last_id = 0;
  int64_t accepted = 0;             // and not ended
  int64_t queued = 0;               // and not started
  std::unordered_map<std::string, int64_t> queued_by_key;
  bool draining = false, cut = false, quit = false;
  std::string failure;              // the device's error; empty: none
  LoopStats stats;
  int64_t refused = 0;

  std::thread thread;

  void run();
  bool serve();
  void publish_stats();
  void publish(size_t live_before);
  void fail(const Error& error);
  Status refuse(const GenerationRequest& request, Refusal& why) const;
};

// ---- the loop thread ----

void GenerationLoop::State::run() {
  while (serve()) {
  }
}

// One turn; false when it is time to quit.
bool GenerationLoop::State::serve() {
  std::vector<std::unique_ptr<LiveRequest>> in;
  std::vector<RequestId> out;
  bool cut_now, failed;
  {
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return core->has_work() || !arrived.empty() || !cancelled.empty() || quit; });
    if (quit && !core->has_work() && arrived.empty()) return false;
    in.swap(arrived);
    out.swap(cancelled);
    cut_now = cut;
    failed = !failure.empty();
  }
  const size_t before = core->live() + in.size();
  for (auto& request : in) core->admit(std::move(request));
  for (const RequestId id : out) core->cancel(id);
  if (cut_now) core->end_all(environment("the server is shutting down"));
  if (failed) core->end_all(environment("the device failed"));  // accepted just before that was known
  publish(before);
  if (failed) return true;

  const size_t still = core->live();
  Error error;
  try {
    if (Status s = core->turn(); !s.ok()) error = std::move(s).error();
  } catch (const std::exception& x) {
    error = internal(std::string("the generation loop: ") + x.what());
  }
  if (!error.message.empty()) fail(error);
  publish(still);
  if (core->has_work()) gate.wait(options.max_gap);
  return true;
}

void GenerationLoop::State::fail(const Error& error) {
  log(LogLevel::kError, "generation stops: " + error.message);
  {
    std::lock_guard lock(mutex);
    failure = error.message;
  }
  core->abandon_steps();
  core->end_all(error);
}

// Brings the books that other threads see up to date; inside a turn, too.
void GenerationLoop::State::publish_stats() {
  const auto dequeued = core->take_dequeued();
  const LoopStats& now = core->stats();
  std::lock_guard lock(mutex);
  stats = now;
  queued -= static_cast<int64_t>(dequeued.size());
  for (const std::string& key : dequeued)
    if (const auto it = queued_by_key.find(key); it != queued_by_key.end() && --it->second == 0) queued_by_key.erase(it);
}

// At the end of a turn: drain() must not return before the last sink has.
void GenerationLoop::State::publish(size_t live_before) {
  publish_stats();
  std::lock_guard lock(mutex);
  accepted -= static_cast<int64_t>(live_before - core->live());
  if (accepted == 0) emptied.notify_all();
}

// ---- construction ----

namespace {

Result<SchedOptions> sched_options(const StepRunner& runner, const LoopOptions& o) {
  const StepLimits& l = runner.limits();
  const auto smaller = [](int64_t limit, int64_t wanted) { return wanted > 0 ? std::min(limit, wanted) : limit; };
  if (o.max_queue < 1 || o.max_queue_per_key < 0 || o.max_batched_tokens < 0 || o.max_prefill_beside_decodes < 0 ||
      o.max_sequences < 0 || o.max_context < 0 || !(o.ageing_s >= 0) || o.max_gap.count() < 0)
    return invalid("loop options: negative values, or a queue for no request");
  if (o.steps_in_flight < 1 || o.steps_in_flight > 2)
    return invalid("steps_in_flight is " + std::to_string(o.steps_in_flight) + ", not 1 or 2");
  SchedOptions s;
  s.max_step_tokens = smaller(l.max_tokens, o.max_batched_tokens);
  s.max_prefill_beside_decodes = o.max_prefill_beside_decodes;
  s.max_sequences = smaller(l.max_sequences, o.max_sequences);
  s.blocks = l.blocks;
  s.block_tokens = kBlockTokens;
  s.max_context = std::min({smaller(runner.max_context(), o.max_context), l.blocks * kBlockTokens,
                            l.max_blocks_per_sequence * kBlockTokens});
  s.reuse_prefixes = o.prefix_cache;
  s.ageing_s = o.ageing_s;
  if (s.max_step_tokens < 1 || s.max_sequences < 1 || s.max_context < 2)
    return invalid("the engine's state has no room: " + std::to_string(s.max_sequences) + " sequences, " +
                   std::to_string(s.max_step_tokens) + " tokens a step, a context of " + std::to_string(s.max_context));
  return s;
}

}  // namespace

Result<std::unique_ptr<GenerationLoop>> GenerationLoop::create(std::unique_ptr<StepRunner> runner,
                                                               std::shared_ptr<const Tokenizer> tokenizer,
                                                               LoopOptions options) {
  if (!runner) return internal("GenerationLoop: no runner");
  BRISK_ASSIGN(const SchedOptions sched, sched_options(*runner, options));
  auto state = std::make_unique<State>();
  state->runner = std::move(runner);
  state->tokenizer = std::move(tokenizer);
  state->options = std::move(options);
  state->bounds = {state->runner->vocab_size(), sched.max_context, state->tokenizer != nullptr};
  state->core = std::make_unique<LoopCore>(*state->runner, state->tokenizer.get(), sched, state->options.steps_in_flight,
                                           monotonic_ns());
  state->stats = state->core->stats();
  state->core->on_books = [s = state.get()] { s->publish_stats(); };
  std::unique_ptr<GenerationLoop> loop(new GenerationLoop(std::move(state)));
  State* s = loop->state_.get();
  try {
    s->thread = std::thread([s] { s->run(); });
  } catch (const std::system_error& x) {
    return environment(std::string("starting the generation thread: ") + x.what());
  }
  return loop;
}

GenerationLoop::GenerationLoop(std::unique_ptr<State> state) : state_(std::move(state)) {}

GenerationLoop::~GenerationLoop() {
  if (!state_->thread.joinable()) return;
  drain(std::chrono::nanoseconds(0));
  {
    std::lock_guard lock(state_->mutex);
    state_->quit = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
}

// ---- requests ----

Status GenerationLoop::check(const GenerationRequest& request) const { return check_request(request, state_->bounds); }

// Under the lock: is there room and will?
Status GenerationLoop::State::refuse(const GenerationRequest& request, Refusal& why) const {
  if (!failure.empty()) {
    why = Refusal::kUnhealthy;
    return environment("the device failed: " + failure);
  }
  if (draining) {
    why = Refusal::kDraining;
    return environment("the server is shutting down");
  }
  if (queued >= options.max_queue) {
    why = Refusal::kQueueFull;
    return environment("the queue is full: " + std::to_string(queued) + " requests wait");
  }
  const auto mine = queued_by_key.find(request.key);
  if (options.max_queue_per_key > 0 && mine != queued_by_key.end() && mine->second >= options.max_queue_per_key) {
    why = Refusal::kKeyLimit;
    return environment("too many requests of this key wait: " + std::to_string(mine->second));
  }
  return {};
}

Result<RequestHandle> GenerationLoop::submit(GenerationRequest request, EventSink sink, Refusal* refusal) {
  State& s = *state_;
  Refusal ignored;
  Refusal& why = refusal ? *refusal : ignored;
  const auto refuse = [&](Status&& status) -> Error {
    std::lock_guard lock(s.mutex);
    ++s.refused;
    return std::move(status).error();
  };
  why = Refusal::kInvalid;
  if (!sink) return refuse(internal("submit: no event sink"));
  if (Status checked = check(request); !checked.ok()) return refuse(std::move(checked));
  auto stops = StopMatcher::create(request.stop_strings, request.include_stop);
  if (!stops.ok()) return refuse(std::move(stops).error());
  why = Refusal::kNone;

  auto live = std::make_unique<LiveRequest>();
  live->text = std::make_unique<AnswerText>(std::move(stops).value());
  live->sink = std::move(sink);
  live->prefix_root = prefix_root(s.options.model_key, request.cache_salt, kBlockTokens);
  if (s.options.prefix_cache) extend_prefix_keys(live->prefix_root, request.prompt, kBlockTokens, live->prefix_keys);
  live->request = std::move(request);

  std::unique_lock lock(s.mutex);
  if (Status room = s.refuse(live->request, why); !room.ok()) {
    lock.unlock();
    return refuse(std::move(room));
  }
  live->id = ++s.last_id;
  live->times.arrival_ns = monotonic_ns();
  const RequestHandle handle{live->id};
  if (s.options.max_queue_per_key > 0) ++s.queued_by_key[live->request.key];
  ++s.queued;
  ++s.accepted;
  s.arrived.push_back(std::move(live));
  lock.unlock();
  s.wake.notify_one();
  return handle;
}

void GenerationLoop::cancel(RequestHandle handle) {
  {
    std::lock_guard lock(state_->mutex);
    if (handle.id == 0 || handle.id > state_->last_id || state_->accepted == 0) return;
    state_->cancelled.push_back(handle.id);
  }
  state_->wake.notify_one();
}

StepHold GenerationLoop::hold_step() { return state_->gate.hold(); }

int64_t GenerationLoop::drain(std::chrono::nanoseconds patience) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.draining = true;
  // A bound that the clock's arithmetic can take; more is for ever.
  const auto bounded = std::clamp<std::chrono::nanoseconds>(patience, std::chrono::nanoseconds(0), std::chrono::hours(24 * 365));
  if (s.emptied.wait_for(lock, bounded, [&] { return s.accepted == 0; })) return 0;
  const int64_t rest = s.accepted;
  s.cut = true;
  s.wake.notify_all();
  s.emptied.wait(lock, [&] { return s.accepted == 0; });
  return rest;
}

// ---- looking in ----

LoopStats GenerationLoop::stats() const {
  std::lock_guard lock(state_->mutex);
  LoopStats s = state_->stats;
  s.waiting = state_->queued;
  s.refused = state_->refused;
  return s;
}

LoopHealth GenerationLoop::health() const {
  LoopHealth h;
  std::string failure;
  {
    std::lock_guard lock(state_->mutex);
    h.draining = state_->draining;
    failure = state_->failure;
  }
  const int64_t since = state_->core->busy_since_ns;
  h.busy_seconds = since ? std::max(0.0, static_cast<double>(monotonic_ns() - since) * 1e-9) : 0;
  h.predicted_seconds = static_cast<double>(state_->core->predicted_ns) * 1e-9;
  if (!failure.empty()) {
    h.reason = "the device failed: " + failure;
  } else if (h.draining) {
    h.reason = "draining";
  } else if (h.busy_seconds > std::max(5.0, 10 * h.predicted_seconds)) {
    h.reason = "no step ended for " + std::to_string(h.busy_seconds) + " s";
  }
  h.ready = h.reason.empty();
  return h;
}

int64_t GenerationLoop::max_context() const { return state_->bounds.max_context; }
int64_t GenerationLoop::vocab_size() const { return state_->bounds.vocab_size; }
const std::shared_ptr<const Tokenizer>& GenerationLoop::tokenizer() const { return state_->tokenizer; }

}  // namespace brisk
