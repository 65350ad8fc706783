#include "loop/generate.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

namespace brisk {
namespace {

// From the loop thread to the caller's. Shared with the sink, which may outlive the caller's wait.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable filled;
  std::deque<GenerationEvent> events;

  void put(const GenerationEvent& e) {
    {
      std::lock_guard lock(mutex);
      events.push_back(e);
    }
    filled.notify_one();
  }
  GenerationEvent take() {
    std::unique_lock lock(mutex);
    filled.wait(lock, [&] { return !events.empty(); });
    GenerationEvent e = std::move(events.front());
    events.pop_front();
    return e;
  }
};

// Cancels unless the request is known to have ended.
struct CancelGuard {
  GenerationLoop& loop;
  RequestHandle handle;
  bool ended = false;
  ~CancelGuard() {
    if (!ended) loop.cancel(handle);
  }
};

void add(GenerationOutcome& out, GenerationEvent&& e) {
  out.text += e.text;
  out.ids.insert(out.ids.end(), e.ids.begin(), e.ids.end());
  for (SampledToken& t : e.logprobs) out.logprobs.push_back(std::move(t));
  out.finish = e.finish;
  out.stop_string = std::move(e.stop_string);
  out.stop_id = e.stop_id;
  out.usage = e.usage;
  out.times = e.times;
}

}  // namespace

Result<GenerationOutcome> generate(GenerationLoop& loop, GenerationRequest request, const OnGenerationEvent& on_event) {
  const auto mailbox = std::make_shared<Mailbox>();
  BRISK_ASSIGN(const RequestHandle handle,
               loop.submit(std::move(request), [mailbox](const GenerationEvent& e) { mailbox->put(e); }));
  CancelGuard guard{loop, handle};
  GenerationOutcome out;
  bool wanted = true;
  while (out.finish == FinishReason::kNone) {
    GenerationEvent e = mailbox->take();
    guard.ended = e.finish != FinishReason::kNone;
    if (wanted && on_event && !on_event(e)) {
      wanted = false;
      loop.cancel(handle);
    }
    if (e.finish == FinishReason::kError) return std::move(e.error);
    add(out, std::move(e));
  }
  const GenerationTimes& t = out.times;
  if (t.first_token_ns) out.ttft_ms = static_cast<double>(t.first_token_ns - t.arrival_ns) * 1e-6;
  if (out.usage.completion_tokens > 1)
    out.tpot_ms = static_cast<double>(t.sampled_at_ns - t.first_token_ns) * 1e-6 /
                  static_cast<double>(out.usage.completion_tokens - 1);
  return out;
}

}  // namespace brisk
