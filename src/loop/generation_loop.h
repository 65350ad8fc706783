// The generation loop: one thread that owns a generative engine's device and keeps it busy with whatever requests there
// are. Requests come in as token ids, answers go out as events.
//
//   auto loop = GenerationLoop::create(std::move(runner), tokenizer, options);
//   auto handle = loop->submit(std::move(request), [](const GenerationEvent& e) { ... });
//
// Threads. Every member function may be called from any thread, except that the destructor and drain() must not run on
// the loop thread (inside an event sink). submit() and cancel() never wait for a step.
//
// Events. A sink is called on the loop thread, in order, once for each sampled token, and the device waits meanwhile: it
// must return within microseconds and never block. A server copies or moves what it needs into a queue of its own and
// wakes the connection's executor; one that falls behind calls cancel(). The event and everything in it is the sink's
// only for the duration of the call. A sink that throws ends its own request with kError.
// Exactly one event of every accepted request has finish != kNone; it is the last, and after it the sink is destroyed (on
// the loop thread); stats() count the request as ended before its sink hears of it. A refused submit() never calls the
// sink. submit(), cancel(), stats() and hold_step() may be called inside a sink.
//
// Gaps. The compute threads are as many as the cores, as a rule, so that after an event the next step would compete with
// those who carry the event to the user. A sink that wants to be sure calls hold_step() and gives the hold along; the next
// step waits for its end, LoopOptions::max_gap at the longest. Without holds there are no gaps.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brisk/result.h"
#include "loop/step_gate.h"
#include "op/step_io.h"
#include "runtime/step_runner.h"

namespace brisk {

class Tokenizer;

// Limits of a request's fields; submit() refuses what is outside them (kInvalid, naming field, value and range).
namespace request_limits {
inline constexpr float kMaxTemperature = 100;      // [0, 100]
inline constexpr float kMaxRepetitionPenalty = 100;  // (0, 100]
inline constexpr float kMaxPenalty = 2;            // presence and frequency: [-2, 2]
inline constexpr size_t kMaxStopIds = 64;
inline constexpr size_t kMaxStopStrings = 16;
inline constexpr size_t kMaxStopBytes = 1024;      // of one stop string; none may be empty
inline constexpr size_t kMaxKeyBytes = 256;        // of key and cache_salt
inline constexpr int kMaxPriority = 1000;          // [-1000, 1000]
}  // namespace request_limits

struct GenerationRequest {
  std::vector<int32_t> prompt;   // [1, max_context() - 1] ids, each inside the vocabulary, special ones included
  // As documented in op/step_io.h; top_p in (0, 1], min_p in [0, 1], top_k in [0, vocabulary] (0: all), top_logprobs in
  // [-1, 20] (-1: no logprobs in the events). `draw` is set by the loop. The same seed gives the same answer, whatever
  // runs beside it; a caller that wants chance draws a seed.
  SampleParams sampling;
  int64_t max_tokens = 0;        // new tokens at most; 0 or more than fits: until the context is full
  std::vector<int32_t> stop_ids; // end the answer, besides the tokenizer's end tokens
  std::vector<std::string> stop_strings;  // end the answer at their first occurrence in the text, also across tokens
  bool include_stop = false;     // keep the stop string (or the text of a stop id) in the text
  bool ignore_eos = false;       // the tokenizer's end tokens do not end the answer (stop_ids still do)
  bool skip_special = true;      // control tokens add nothing to the text
  int priority = 0;              // smaller is more urgent; every LoopOptions::ageing_s of waiting gain one level
  int64_t deadline_ns = 0;       // CLOCK_MONOTONIC; 0: none. Past it the request ends with kDeadline
  std::string key;               // who asks: waiting requests of equal urgency are served fairly between keys
  std::string cache_salt;        // prefix blocks are shared only between requests of equal salt
};

enum class FinishReason : uint8_t {
  kNone,       // not the last event
  kStop,       // an end token, stop id or stop string
  kLength,     // max_tokens or the context's end
  kCancelled,  // cancel()
  kDeadline,   // GenerationRequest::deadline_ns
  kError,      // GenerationEvent::error says what
};
std::string_view finish_reason_name(FinishReason reason);  // "stop", "length", ...; "" for kNone

struct TokenLogprob {
  int32_t id = -1;
  std::string bytes;    // what the token adds to the text; maybe a part of a UTF-8 sequence
  float logprob = 0;    // natural logarithm, of the unmodified distribution
};

struct SampledToken {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // SampleParams::top_logprobs of them, most likely first
};

struct GenerationUsage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;      // of the prompt: found in the prefix cache
  int64_t completion_tokens = 0;  // so far, the end token included
};

// All in nanoseconds of CLOCK_MONOTONIC; 0: has not happened.
struct GenerationTimes {
  int64_t arrival_ns = 0;          // submit()
  int64_t first_scheduled_ns = 0;  // its first tokens were given to the device
  int64_t first_token_ns = 0;      // sampled_at_ns of the first token
  int64_t sampled_at_ns = 0;       // the device had sampled this event's token
};

struct GenerationEvent {
  std::string text;                // new text, whole UTF-8 characters; what could become a stop string is held back
  std::vector<int32_t> ids;        // new ids: one, or none in an event that only ends the request
  std::vector<SampledToken> logprobs;  // one for each id, if asked for
  FinishReason finish = FinishReason::kNone;
  std::string stop_string;         // kStop by a stop string: which
  int32_t stop_id = -1;            // kStop by an id: which (end token or stop id; it is in `ids`, its text is not shown)
  Error error;                     // kError
  GenerationUsage usage;
  GenerationTimes times;
};
using EventSink = std::function<void(const GenerationEvent&)>;

struct RequestHandle {
  uint64_t id = 0;
};

// Why submit() refused, for servers: HTTP status of each in brackets.
enum class Refusal : uint8_t {
  kNone,
  kInvalid,    // [400] a field outside its range; a prompt longer than the context (message has both counts)
  kQueueFull,  // [503, Retry-After] LoopOptions::max_queue requests wait
  kKeyLimit,   // [429, Retry-After] LoopOptions::max_queue_per_key requests of this key wait
  kDraining,   // [503]
  kUnhealthy,  // [503] the device failed; nothing is served until the loop is made anew
};

struct LoopOptions {
  int64_t max_queue = 1024;          // requests that wait for their first step
  int64_t max_queue_per_key = 0;     // 0: no limit of its own
  int64_t max_batched_tokens = 0;    // tokens of one step; 0: what the runner takes
  int64_t max_prefill_beside_decodes = 128;  // prompt tokens of a step in which others decode: bounds their gap; 0: no bound
  int64_t max_sequences = 0;         // requests in progress; 0: what the runner takes
  int64_t max_context = 0;           // --max-model-len; 0: what model and cache take
  bool prefix_cache = true;
  std::string model_key;             // all that determines cached keys and values besides tokens: content hash, KV dtype
  double ageing_s = 10;              // see GenerationRequest::priority
  // 2: step n + 1 is submitted before the ids of step n are there (hides the host's work from a GPU; a newcomer waits up
  // to a step longer and an end token costs one token in vain). 1: never.
  int steps_in_flight = 1;
  std::chrono::microseconds max_gap{500};  // that holds can put between two steps; 0: none
};

struct LoopStats {
  int64_t running = 0, waiting = 0;             // requests
  int64_t blocks = 0, blocks_used = 0, blocks_cached = 0;  // state blocks: all, owned by requests, kept for prefixes only
  int64_t blocks_touched = 0;                   // so many have ever held something
  int64_t prefix_queries_tokens = 0;            // prompt tokens looked up
  int64_t prefix_hit_tokens = 0;                // and found
  int64_t prompt_tokens = 0, generated_tokens = 0;  // of requests that started / sampled for them, since the start
  int64_t preemptions = 0;
  int64_t steps = 0;
  double step_seconds = 0;                      // sum over all steps, submit to sampled
  double last_step_seconds = 0;
  int64_t last_step_tokens = 0, last_step_sequences = 0;
  int64_t finished_stop = 0, finished_length = 0, finished_cancelled = 0, finished_deadline = 0, finished_error = 0;
  int64_t refused = 0;
  double kv_usage() const { return blocks ? static_cast<double>(blocks_used) / static_cast<double>(blocks) : 0; }
};

struct LoopHealth {
  bool ready = true;          // takes requests and makes progress
  std::string reason;         // if not: "draining", "no step ended for 7.1 s", the device's error
  bool draining = false;
  double busy_seconds = 0;    // since the oldest unfinished step was submitted; 0: idle
  double predicted_seconds = 0;  // how long a step of that size usually takes
};

class GenerationLoop {
 public:
  // Starts the thread. Takes the runner for itself. kInvalid: options that no runner could serve. `tokenizer` may be
  // null: then events have ids but no text, and stop strings are refused.
  static Result<std::unique_ptr<GenerationLoop>> create(std::unique_ptr<StepRunner> runner,
                                                        std::shared_ptr<const Tokenizer> tokenizer, LoopOptions options);
  // drain() with no patience.
  ~GenerationLoop();
  GenerationLoop(const GenerationLoop&) = delete;
  GenerationLoop& operator=(const GenerationLoop&) = delete;

  // Checks and enqueues. Errors: kInvalid (Refusal::kInvalid), kEnvironment (the others); `refusal` may be null.
  Result<RequestHandle> submit(GenerationRequest request, EventSink sink, Refusal* refusal = nullptr);
  // submit()'s checks of the request alone (ranges, lengths), for a server that must know before it opens a stream.
  Status check(const GenerationRequest& request) const;

  // Ends the request within one step; its last event has kCancelled, unless it ended by itself before. Unknown or ended
  // handles are ignored.
  void cancel(RequestHandle handle);

  // For sinks: the next step does not begin while the hold (or a copy of it) lives. With two steps in flight that one has
  // begun already, and the hold is of no use.
  StepHold hold_step();

  // Takes no more requests, waits until the last has ended or `patience` is over, then ends the rest with kError.
  // Returns how many were cut. May be called again.
  int64_t drain(std::chrono::nanoseconds patience);

  LoopStats stats() const;
  // Not ready: draining, failed, or no step ended for max(5 s, 10 x predicted) while one was running.
  LoopHealth health() const;

  int64_t max_context() const;  // prompt and answer together
  int64_t vocab_size() const;
  const std::shared_ptr<const Tokenizer>& tokenizer() const;

 private:
  struct State;
  explicit GenerationLoop(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

int64_t monotonic_ns();  // CLOCK_MONOTONIC

}  // namespace brisk
