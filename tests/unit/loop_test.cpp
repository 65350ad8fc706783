#include <cmath>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>
#include <utility>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "fake_runner.h"
#include "loop/answer_text.h"
#include "loop/generation_loop.h"
#include "loop/request_check.h"
#include "text/tokenizer.h"

namespace brisk {
namespace {

using namespace std::chrono_literals;

constexpr int32_t kEnd = 49, kPoison = 48;

// Fifty tokens, some of them parts of characters.
std::shared_ptr<const Tokenizer> tiny_tokenizer() {
  TokenizerModel m;
  m.byte_level = true;
  for (int i = 0; i < 40; ++i) m.tokens.push_back(std::string(1, static_cast<char>('a' + i % 26)) + std::to_string(i));
  for (const char* part : {"\xC3", "\xA9", "\xF0\x9F", "\x98\x80", " ", "STOP", "P!", "\xFF", "poison", "<end>"}) m.tokens.push_back(part);
  m.types.assign(50, TokenType::kNormal);
  m.types[kEnd] = TokenType::kControl;
  m.added.push_back({.id = kEnd, .content = "<end>", .special = true});
  m.eos = kEnd;
  m.end_ids = {kEnd};
  auto t = make_tokenizer(std::move(m));
  EXPECT_TRUE(t.ok()) << t.error().message;
  return std::move(t).value();
}

// What a sink heard, and a way to wait for the end.
class Heard {
 public:
  EventSink sink(std::function<void(const GenerationEvent&)> also = {}) {
    return [this, also](const GenerationEvent& e) {
      {
        std::lock_guard lock(mutex_);
        EXPECT_EQ(last_.finish, FinishReason::kNone) << "an event after the last";
        text += e.text;
        ids.insert(ids.end(), e.ids.begin(), e.ids.end());
        for (const auto& l : e.logprobs) logprobs.push_back(l);
        last_ = e;
        ended_.notify_all();
      }
      if (also) also(e);
    };
  }
  const GenerationEvent& wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(ended_.wait_for(lock, 60s, [&] { return last_.finish != FinishReason::kNone; })) << "no end";
    return last_;
  }
  bool ended() {
    std::lock_guard lock(mutex_);
    return last_.finish != FinishReason::kNone;
  }
  void wait_for_tokens(size_t n) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(ended_.wait_for(lock, 60s, [&] { return ids.size() >= n; }));
  }
  std::string text;
  std::vector<int32_t> ids;
  std::vector<SampledToken> logprobs;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  GenerationEvent last_;
};

struct Made {
  FakeRunner* runner;
  std::unique_ptr<GenerationLoop> loop;
};
Made make_loop(FakeOptions f = {}, LoopOptions o = {}) {
  auto runner = std::make_unique<FakeRunner>(f);
  Made m{runner.get(), nullptr};
  auto loop = GenerationLoop::create(std::move(runner), tiny_tokenizer(), o);
  EXPECT_TRUE(loop.ok()) << loop.error().message;
  m.loop = std::move(loop).value();
  return m;
}
FakeOptions slow() {
  FakeOptions f;
  f.step_time = 2000us;
  return f;
}
GenerationRequest request(std::vector<int32_t> prompt, int64_t max_tokens) {
  return {.prompt = std::move(prompt), .max_tokens = max_tokens};
}
std::vector<int32_t> random_prompt(std::mt19937& rng, size_t n) {
  std::vector<int32_t> v(n);
  for (auto& id : v) id = static_cast<int32_t>(rng() % 48);
  return v;
}
std::vector<int32_t> alone(const GenerationRequest& r, const FakeOptions& f = {}) {
  const size_t limit = r.max_tokens ? r.prompt.size() + static_cast<size_t>(r.max_tokens) : static_cast<size_t>(f.max_context);
  auto stop = r.stop_ids;
  if (!r.ignore_eos) stop.push_back(kEnd);
  return fake_answer(r.prompt, r.sampling, limit, stop, f);
}

TEST(AnswerText, HoldsBackPartsOfCharactersAndStopStrings) {
  auto stops = StopMatcher::create({"STOP", "\xC3\xA9t"});
  ASSERT_TRUE(stops.ok());
  AnswerText t(*stops);
  EXPECT_EQ(t.add("one S\xF0"), "one ");
  EXPECT_EQ(t.add("\x9F\x98\x80z"), "S\xF0\x9F\x98\x80z");
  EXPECT_EQ(t.add("\xC3"), "");
  EXPECT_EQ(t.add("\xA9"), "");
  EXPECT_EQ(t.add("s S"), "\xC3\xA9s ");
  EXPECT_EQ(t.finish(), "S");
  AnswerText u(*stops);
  EXPECT_EQ(u.add("\xC3\xA9"), "");
  EXPECT_EQ(u.add("t and more"), "");
  EXPECT_EQ(u.stop(), 1);
  EXPECT_EQ(u.finish(), "");
}

TEST(Loop, AnswersAreTheSameAloneAndInACrowd) {
  for (const int in_flight : {1, 2})
    for (const int64_t blocks : {6, 64}) {
      FakeOptions f;
      f.limits.blocks = blocks;
      f.max_context = 150;
      auto [runner, loop] = make_loop(f, {.max_prefill_beside_decodes = 16, .steps_in_flight = in_flight});
      std::mt19937 rng(static_cast<unsigned>(in_flight));
      std::vector<GenerationRequest> asked;
      for (int i = 0; i < 24; ++i) {
        auto r = request(random_prompt(rng, 1 + rng() % 90), 1 + static_cast<int64_t>(rng() % 40));
        if (i % 2) r.sampling = {.temperature = 0.7f, .presence_penalty = i % 4 == 1 ? 0.5f : 0, .seed = rng()};
        r.ignore_eos = i % 3 == 0;
        asked.push_back(r);
      }
      std::vector<Heard> heard(asked.size());
      // The others come while the loop is inside the first one's first event, so that they are a crowd on any machine.
      GenerationLoop& service = *loop;
      ASSERT_TRUE(service.submit(asked[0], [&, first = heard[0].sink(), alone_yet = true](const GenerationEvent& e) mutable {
        if (std::exchange(alone_yet, false))
          for (size_t i = 1; i < asked.size(); ++i) EXPECT_TRUE(service.submit(asked[i], heard[i].sink()).ok());
        first(e);
      }).ok());
      for (size_t i = 0; i < asked.size(); ++i) {
        const GenerationEvent& last = heard[i].wait();
        const auto want = alone(asked[i], f);
        EXPECT_EQ(heard[i].ids, want) << i;
        EXPECT_EQ(heard[i].text, loop->tokenizer()->decode(want)) << i;  // the stream concatenates to the whole
        EXPECT_EQ(last.finish, want.back() == kEnd && !asked[i].ignore_eos ? FinishReason::kStop : FinishReason::kLength);
        EXPECT_EQ(last.usage.prompt_tokens, static_cast<int64_t>(asked[i].prompt.size()));
        EXPECT_EQ(last.usage.completion_tokens, static_cast<int64_t>(want.size()));
      }
      EXPECT_GT(runner->max_batch, 1);
      loop->drain(1s);
      const LoopStats s = loop->stats();
      EXPECT_EQ(s.blocks_used, 0);
      EXPECT_EQ(s.running + s.waiting, 0);
      EXPECT_EQ(s.finished_stop + s.finished_length, 24);
      if (blocks == 6) {
        EXPECT_GT(s.preemptions, 0);
      }
    }
}

TEST(Loop, EventsTellTokensLogprobsAndTimes) {
  auto [runner, loop] = make_loop();
  Heard h;
  auto r = request({1, 2, 3}, 4);
  r.ignore_eos = true;
  r.sampling.top_logprobs = 2;
  const int64_t before = monotonic_ns();
  ASSERT_TRUE(loop->submit(r, h.sink()).ok());
  const GenerationEvent& last = h.wait();
  ASSERT_EQ(h.logprobs.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(h.logprobs[i].chosen.id, h.ids[i]);
    EXPECT_EQ(h.logprobs[i].chosen.bytes, loop->tokenizer()->token_bytes(h.ids[i]));
    ASSERT_EQ(h.logprobs[i].top.size(), 2u);
    EXPECT_EQ(h.logprobs[i].top[0].id, h.ids[i]);
    EXPECT_FLOAT_EQ(h.logprobs[i].top[1].logprob, -1.5f);
  }
  EXPECT_LE(before, last.times.arrival_ns);
  EXPECT_LE(last.times.arrival_ns, last.times.first_scheduled_ns);
  EXPECT_LE(last.times.first_scheduled_ns, last.times.first_token_ns);
  EXPECT_LT(last.times.first_token_ns, last.times.sampled_at_ns);
  EXPECT_LE(last.times.sampled_at_ns, monotonic_ns());
}

TEST(Loop, StopsAtStringsAndIds) {
  FakeOptions f;
  auto [runner, loop] = make_loop(f, {.steps_in_flight = 2});
  auto r = request({5, 6, 7}, 60);
  r.ignore_eos = true;
  const auto ids = alone(r);
  const std::string whole = loop->tokenizer()->decode(ids);
  // A stop string that spans two tokens.
  const std::string fourth(loop->tokenizer()->token_bytes(ids[3])), fifth(loop->tokenizer()->token_bytes(ids[4]));
  r.stop_strings = {"not there", fourth.substr(fourth.size() - 1) + fifth.substr(0, 1)};
  const size_t at = whole.find(r.stop_strings[1]);
  ASSERT_NE(at, std::string::npos);
  for (const bool include : {false, true}) {
    r.include_stop = include;
    Heard h;
    ASSERT_TRUE(loop->submit(r, h.sink()).ok());
    const GenerationEvent& last = h.wait();
    EXPECT_EQ(last.finish, FinishReason::kStop);
    EXPECT_EQ(last.stop_string, r.stop_strings[1]);
    EXPECT_EQ(h.text, whole.substr(0, at + (include ? r.stop_strings[1].size() : 0)));
    EXPECT_LT(h.ids.size(), ids.size());
  }
  r.stop_strings.clear();
  r.include_stop = false;
  r.stop_ids = {ids[5]};
  Heard h;
  ASSERT_TRUE(loop->submit(r, h.sink()).ok());
  const GenerationEvent& last = h.wait();
  EXPECT_EQ(last.finish, FinishReason::kStop);
  EXPECT_EQ(last.stop_id, ids[5]);
  EXPECT_EQ(h.ids.back(), ids[5]);
  EXPECT_EQ(h.text, loop->tokenizer()->decode(std::span(h.ids).first(h.ids.size() - 1)));
}

TEST(Loop, CancelEndsWithinAStep) {
  auto [runner, loop] = make_loop(slow(), {.steps_in_flight = 2});
  auto r = request({1, 2}, 400);
  r.ignore_eos = true;
  Heard h;
  const auto handle = loop->submit(r, h.sink());
  ASSERT_TRUE(handle.ok());
  h.wait_for_tokens(3);
  const int64_t steps = runner->steps;
  loop->cancel(*handle);
  EXPECT_EQ(h.wait().finish, FinishReason::kCancelled);
  EXPECT_LE(runner->steps, steps + 2);
  loop->cancel(*handle);   // once more does nothing
  loop->cancel({12345});
  // From inside a sink, too.
  Heard g;
  RequestHandle inner;
  std::mutex m;
  GenerationLoop* l = loop.get();
  {
    std::lock_guard lock(m);
    inner = *loop->submit(r, g.sink([&](const GenerationEvent&) {
      std::lock_guard in_sink(m);
      l->cancel(inner);
    }));
  }
  EXPECT_EQ(g.wait().finish, FinishReason::kCancelled);
  EXPECT_LE(g.ids.size(), 3u);
}

TEST(Loop, RefusesWithTheReason) {
  auto [runner, loop] = make_loop(slow(), {.max_queue = 2, .max_queue_per_key = 1, .max_sequences = 1, .max_context = 100});
  Refusal why;
  auto r = loop->submit(request(std::vector<int32_t>(100, 1), 1), Heard().sink(), &why);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(why, Refusal::kInvalid);
  EXPECT_EQ(r.error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(r.error().message, "the prompt has 100 tokens, but prompt and answer together may have 100");

  std::vector<Heard> heard(3);
  auto longer = request({1}, 90);
  longer.ignore_eos = true;
  ASSERT_TRUE(loop->submit(longer, heard[0].sink()).ok());
  while (loop->stats().running != 1) std::this_thread::yield();
  longer.key = "a";
  const auto second = loop->submit(longer, heard[1].sink());
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(loop->submit(longer, Heard().sink(), &why).ok());
  EXPECT_EQ(why, Refusal::kKeyLimit);
  longer.key = "b";
  const auto third = loop->submit(longer, heard[2].sink());
  ASSERT_TRUE(third.ok());
  longer.key = "c";
  EXPECT_EQ(loop->submit(longer, Heard().sink(), &why).error().kind, ErrorKind::kEnvironment);
  EXPECT_EQ(why, Refusal::kQueueFull);
  EXPECT_EQ(loop->stats().waiting, 2);
  loop->cancel(*second);
  EXPECT_EQ(heard[1].wait().finish, FinishReason::kCancelled);
  EXPECT_EQ(loop->stats().waiting, 1);
  EXPECT_EQ(loop->drain(0s), 2);
  EXPECT_EQ(heard[0].wait().finish, FinishReason::kError);
  EXPECT_EQ(heard[2].wait().finish, FinishReason::kError);
  EXPECT_FALSE(loop->submit(longer, Heard().sink(), &why).ok());
  EXPECT_EQ(why, Refusal::kDraining);
  EXPECT_EQ(loop->stats().waiting, 0);
  EXPECT_EQ(loop->stats().refused, 4);
}

// /metrics right after an answer has it; blocks and slots are free by then, too.
TEST(Loop, TheBooksAreRightWhenTheLastEventComes) {
  auto [runner, loop] = make_loop();
  std::vector<Heard> heard(50);
  for (int64_t i = 1; i <= 50; ++i) {
    auto r = request({1, 2, 3}, 4);
    r.ignore_eos = true;
    Heard& h = heard[static_cast<size_t>(i - 1)];
    ASSERT_TRUE(loop->submit(r, h.sink()).ok());
    h.wait();
    const LoopStats s = loop->stats();
    EXPECT_EQ(s.finished_length, i);
    EXPECT_EQ(s.generated_tokens, 4 * i);
    EXPECT_EQ(s.running + s.waiting + s.blocks_used, 0);
  }
}

TEST(Loop, DrainLetsTheLastOnesEnd) {
  auto [runner, loop] = make_loop(slow());
  auto r = request({3, 1}, 20);
  r.ignore_eos = true;
  std::vector<Heard> heard(5);
  for (auto& h : heard) ASSERT_TRUE(loop->submit(r, h.sink()).ok());
  EXPECT_TRUE(loop->health().ready);
  EXPECT_EQ(loop->drain(60s), 0);
  for (auto& h : heard) EXPECT_EQ(h.wait().finish, FinishReason::kLength);
  EXPECT_FALSE(loop->health().ready);
  EXPECT_EQ(loop->health().reason, "draining");
}

TEST(Loop, TheDestructorEndsWhatRuns) {
  Heard h;
  {
    auto [runner, loop] = make_loop(slow());
    auto r = request({3, 1}, 0);
    r.ignore_eos = true;
    ASSERT_TRUE(loop->submit(r, h.sink()).ok());
    h.wait_for_tokens(1);
  }
  ASSERT_TRUE(h.ended());
  EXPECT_EQ(h.wait().error.message, "the server is shutting down");
}

TEST(Loop, AFailingDeviceEndsAllAndIsSeen) {
  FakeOptions f = slow();
  f.fail_after = 5;
  auto [runner, loop] = make_loop(f, {.steps_in_flight = 2});
  auto r = request({3, 1}, 0);
  r.ignore_eos = true;
  std::vector<Heard> heard(12);  // more than run at once
  for (auto& h : heard) ASSERT_TRUE(loop->submit(r, h.sink()).ok());
  for (auto& h : heard) {
    const GenerationEvent& last = h.wait();
    EXPECT_EQ(last.finish, FinishReason::kError);
    EXPECT_EQ(last.error.kind, ErrorKind::kEnvironment);
    EXPECT_EQ(last.error.message, "fake: the device is gone");
  }
  EXPECT_FALSE(loop->health().ready);
  EXPECT_EQ(loop->health().reason, "the device failed: fake: the device is gone");
  Refusal why;
  EXPECT_FALSE(loop->submit(r, Heard().sink(), &why).ok());
  EXPECT_EQ(why, Refusal::kUnhealthy);
}

TEST(Loop, AFaultOfOneRequestIsItsOwn) {
  FakeOptions f = slow();
  f.poison = kPoison;
  auto [runner, loop] = make_loop(f);
  auto good = request({3, 1}, 20);
  good.ignore_eos = true;
  good.sampling = {.temperature = 1, .seed = 7};
  const auto poisoned = [&] {
    const auto ids = alone(good);
    return std::ranges::find(ids, kPoison) != ids.end();
  };
  while (poisoned()) ++good.sampling.seed;
  Heard fine, faulty, thrower, last_thrower;
  ASSERT_TRUE(loop->submit(good, fine.sink()).ok());
  ASSERT_TRUE(loop->submit(request({kPoison, 1}, 20), faulty.sink()).ok());
  ASSERT_TRUE(loop->submit(good, thrower.sink([](const GenerationEvent& e) {
    if (e.usage.completion_tokens == 3 && e.finish == FinishReason::kNone) throw std::runtime_error("the client is odd");
  })).ok());
  ASSERT_TRUE(loop->submit(good, last_thrower.sink([](const GenerationEvent& e) {
    if (e.finish != FinishReason::kNone) throw std::runtime_error("at the end");
  })).ok());
  EXPECT_EQ(faulty.wait().finish, FinishReason::kError);
  EXPECT_TRUE(faulty.ids.empty());
  EXPECT_EQ(thrower.wait().finish, FinishReason::kError);
  EXPECT_NE(thrower.wait().error.message.find("the client is odd"), std::string::npos);
  EXPECT_EQ(thrower.ids.size(), 3u);
  EXPECT_EQ(last_thrower.wait().finish, FinishReason::kLength);
  EXPECT_EQ(fine.wait().finish, FinishReason::kLength);
  EXPECT_EQ(fine.ids, alone(good));
  EXPECT_TRUE(loop->health().ready);
  loop->drain(1s);
  EXPECT_EQ(loop->stats().blocks_used, 0);
}

TEST(Loop, DeadlinesEndRequests) {
  auto [runner, loop] = make_loop(slow());
  auto r = request({3, 1}, 0);
  r.ignore_eos = true;
  r.deadline_ns = monotonic_ns() + 20'000'000;
  Heard h, past;
  ASSERT_TRUE(loop->submit(r, h.sink()).ok());
  EXPECT_EQ(h.wait().finish, FinishReason::kDeadline);
  EXPECT_GE(monotonic_ns(), r.deadline_ns);
  r.deadline_ns = 1;
  ASSERT_TRUE(loop->submit(r, past.sink()).ok());
  EXPECT_EQ(past.wait().finish, FinishReason::kDeadline);
  EXPECT_TRUE(past.ids.empty());
}

TEST(Loop, PrefixesAreReusedWithinASaltOnly) {
  auto [runner, loop] = make_loop();
  std::mt19937 rng(1);
  auto r = request(random_prompt(rng, 100), 2);
  const auto cached = [&](const std::string& salt) {
    Heard h;
    r.cache_salt = salt;
    EXPECT_TRUE(loop->submit(r, h.sink()).ok());
    return h.wait().usage.cached_tokens;
  };
  EXPECT_EQ(cached(""), 0);
  EXPECT_EQ(cached(""), 96);
  EXPECT_EQ(cached("mine"), 0);
  EXPECT_EQ(cached("mine"), 96);
  loop->drain(1s);
  EXPECT_EQ(loop->stats().prefix_hit_tokens, 192);
  EXPECT_EQ(loop->stats().prefix_queries_tokens, 400);
}

TEST(Loop, ManyThreadsAtOnce) {
  FakeOptions f;
  f.limits.blocks = 12;
  auto [runner, made] = make_loop(f, {.max_queue = 16, .steps_in_flight = 2});
  GenerationLoop& loop = *made;
  std::atomic<int> ended = 0, accepted = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 rng(t);
      for (int i = 0; i < 60; ++i) {
        const auto handle = loop.submit(request(random_prompt(rng, 1 + rng() % 60), 1 + static_cast<int64_t>(rng() % 20)),
                                        [&](const GenerationEvent& e) { ended += e.finish != FinishReason::kNone; });
        accepted += handle.ok();
        if (handle.ok() && rng() % 4 == 0) loop.cancel(*handle);
        if (loop.stats().running > 8 || loop.health().busy_seconds > 60) ADD_FAILURE();
        if (rng() % 8 == 0) std::this_thread::sleep_for(1ms);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(loop.drain(60s), 0);
  EXPECT_EQ(ended, accepted);
  EXPECT_GT(accepted, 30);
  EXPECT_EQ(loop.stats().blocks_used, 0);
}

TEST(Loop, ChecksEveryField) {
  const RequestBounds bounds{50, 100, true};
  const auto refused = [&](auto change) {
    GenerationRequest r = request({1, 2}, 5);
    change(r);
    const Status s = check_request(r, bounds);
    return s.ok() ? std::string("accepted") : s.error().message;
  };
  EXPECT_EQ(refused([](auto&) {}), "accepted");
  EXPECT_EQ(refused([](auto& r) { r.prompt.clear(); }), "the prompt has no tokens");
  EXPECT_EQ(refused([](auto& r) { r.prompt[1] = 50; }), "prompt[1] is 50, not in [0, 49]");
  EXPECT_EQ(refused([](auto& r) { r.sampling.temperature = -1; }), "temperature is -1, not in [0, 100]");
  EXPECT_EQ(refused([](auto& r) { r.sampling.temperature = NAN; }), "temperature is nan, not in [0, 100]");
  EXPECT_EQ(refused([](auto& r) { r.sampling.top_p = 0; }), "top_p is 0, not in (0, 1]");
  EXPECT_EQ(refused([](auto& r) { r.sampling.min_p = 1.5f; }), "min_p is 1.5, not in [0, 1]");
  EXPECT_EQ(refused([](auto& r) { r.sampling.top_k = 51; }), "top_k is 51, not in [0, 50]");
  EXPECT_EQ(refused([](auto& r) { r.sampling.repetition_penalty = 0; }), "repetition_penalty is 0, not in (0, 100]");
  EXPECT_EQ(refused([](auto& r) { r.sampling.presence_penalty = 3; }), "presence_penalty is 3, not in [-2, 2]");
  EXPECT_EQ(refused([](auto& r) { r.sampling.frequency_penalty = -3; }), "frequency_penalty is -3, not in [-2, 2]");
  EXPECT_EQ(refused([](auto& r) { r.sampling.top_logprobs = 21; }), "top_logprobs is 21, not in [-1, 20]");
  EXPECT_EQ(refused([](auto& r) { r.max_tokens = -1; }), "max_tokens is -1, not 0 or more");
  EXPECT_EQ(refused([](auto& r) { r.stop_ids = {-1}; }), "stop_ids[0] is -1, not in [0, 49]");
  EXPECT_EQ(refused([](auto& r) { r.stop_strings = {""}; }), "the length of a stop string is 0, not in [1, 1024]");
  EXPECT_EQ(refused([](auto& r) { r.stop_strings.assign(17, "x"); }), "the number of stop strings is 17, not in [0, 16]");
  EXPECT_EQ(refused([](auto& r) { r.priority = 1001; }), "priority is 1001, not in [-1000, 1000]");
  EXPECT_EQ(refused([](auto& r) { r.key.assign(257, 'k'); }), "the length of key is 257, not in [0, 256]");
}

}  // namespace
}  // namespace brisk
