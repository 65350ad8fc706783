#include "loop/bench.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include "text/tokenizer.h"

namespace brisk {
namespace {

// Last events of requests, from the loop thread to the caller's.
struct Ended {
  std::mutex mutex;
  std::condition_variable filled;
  std::deque<GenerationEvent> events;
};

class Bench {
 public:
  Bench(GenerationLoop& loop, const BenchOptions& o) : loop_(loop), o_(o), random_(o.seed ? o.seed : std::random_device()()) {
    const Tokenizer* t = loop.tokenizer().get();
    for (int32_t id = 0; id < loop.vocab_size(); ++id)
      if (!t || (id < t->vocab_size() && !t->is_control(id) && !t->is_eos(id))) ids_.push_back(id);
  }

  // `count` requests, `concurrency` in flight; their last events.
  Result<std::vector<GenerationEvent>> run(int64_t count, const std::function<bool(int64_t, int64_t)>& progress) {
    if (ids_.empty()) return invalid("bench: the vocabulary has no ordinary token");
    const auto ended = std::make_shared<Ended>();
    std::vector<GenerationEvent> results;
    std::vector<RequestHandle> handles;
    const auto cancel_all = [&] {
      for (const RequestHandle h : handles) loop_.cancel(h);
    };
    for (int64_t started = 0; static_cast<int64_t>(results.size()) < count;) {
      while (started < count && started - static_cast<int64_t>(results.size()) < o_.concurrency) {
        auto handle = loop_.submit(request(), [ended](const GenerationEvent& e) {
          if (e.finish == FinishReason::kNone) return;
          std::lock_guard lock(ended->mutex);
          ended->events.push_back(e);
          ended->filled.notify_one();
        });
        if (!handle.ok()) {
          cancel_all();
          return std::move(handle).error();
        }
        handles.push_back(*handle);
        ++started;
      }
      results.push_back(take(*ended));
      const GenerationEvent& e = results.back();
      const bool failed = e.finish != FinishReason::kLength;
      if (failed || (progress && !progress(static_cast<int64_t>(results.size()), count))) {
        cancel_all();
        if (!failed) return Error{ErrorKind::kCancelled, "bench: stopped"};
        if (e.finish == FinishReason::kError) return e.error;
        return internal("bench: a request ended with '" + std::string(finish_reason_name(e.finish)) + "'");
      }
    }
    return results;
  }

 private:
  GenerationRequest request() {
    GenerationRequest r;
    r.prompt.resize(static_cast<size_t>(o_.prompt_len));
    std::uniform_int_distribution<size_t> pick(0, ids_.size() - 1);
    for (int32_t& id : r.prompt) id = ids_[pick(random_)];
    r.max_tokens = o_.gen_len;
    r.ignore_eos = true;
    return r;
  }
  static GenerationEvent take(Ended& ended) {
    std::unique_lock lock(ended.mutex);
    ended.filled.wait(lock, [&] { return !ended.events.empty(); });
    GenerationEvent e = std::move(ended.events.front());
    ended.events.pop_front();
    return e;
  }

  GenerationLoop& loop_;
  const BenchOptions& o_;
  std::mt19937_64 random_;
  std::vector<int32_t> ids_;  // ordinary tokens
};

Status check(const BenchOptions& o, const GenerationLoop& loop) {
  for (const auto& [name, value, least] : {std::tuple{"prompt-len", o.prompt_len, 1}, {"gen-len", o.gen_len, 1},
                                           {"concurrency", o.concurrency, 1}, {"requests", o.requests, 0}, {"warmup", o.warmup, -1}})
    if (value < least || value > 1'000'000)
      return invalid(std::string(name) + " is " + std::to_string(value) + ", not in [" + std::to_string(least) + ", 1000000]");
  if (o.prompt_len + o.gen_len > loop.max_context())
    return invalid("prompt-len " + std::to_string(o.prompt_len) + " and gen-len " + std::to_string(o.gen_len) +
                   " do not fit the context of " + std::to_string(loop.max_context()) + " tokens");
  return {};
}

}  // namespace

Percentiles percentiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto at = [&](double q) {
    const double rank = q * static_cast<double>(values.size() - 1);
    const auto low = static_cast<size_t>(rank);
    const size_t high = std::min(low + 1, values.size() - 1);
    return values[low] + (rank - static_cast<double>(low)) * (values[high] - values[low]);
  };
  return {at(0.5), at(0.9), at(0.99)};
}

Result<BenchResult> bench_generation(GenerationLoop& loop, const BenchOptions& options,
                                     const std::function<bool(int64_t, int64_t)>& progress) {
  BRISK_TRY(check(options, loop));
  Bench bench(loop, options);
  BRISK_ASSIGN(const auto warm, bench.run(options.warmup < 0 ? options.concurrency : options.warmup, {}));
  const int64_t count = options.requests ? options.requests : std::max<int64_t>(9, 3 * options.concurrency);
  const int64_t begin = monotonic_ns();
  BRISK_ASSIGN(const auto events, bench.run(count, progress));

  BenchResult r;
  r.seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
  r.requests = count;
  std::vector<double> ttft, tpot;
  for (const GenerationEvent& e : events) {
    const GenerationTimes& t = e.times;
    ttft.push_back(static_cast<double>(t.first_token_ns - t.arrival_ns) * 1e-6);
    if (e.usage.completion_tokens > 1)
      tpot.push_back(static_cast<double>(t.sampled_at_ns - t.first_token_ns) * 1e-6 /
                     static_cast<double>(e.usage.completion_tokens - 1));
    r.prompt_tokens += e.usage.prompt_tokens;
    r.cached_tokens += e.usage.cached_tokens;
    r.generated_tokens += e.usage.completion_tokens;
  }
  r.ttft_ms = percentiles(std::move(ttft));
  r.tpot_ms = percentiles(std::move(tpot));
  r.tokens_per_s = static_cast<double>(r.generated_tokens) / r.seconds;
  r.prompt_tokens_per_s = static_cast<double>(r.prompt_tokens) / r.seconds;
  return r;
}

}  // namespace brisk
