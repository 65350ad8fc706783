#include "sched/scheduler.h"

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "fake_runner.h"
#include "loop/step_input.h"

namespace brisk {
namespace {

struct Asked {
  std::vector<int32_t> prompt;
  SampleParams sampling;
  std::vector<int32_t> stop;
  int64_t max_new = 0;
  std::vector<int32_t> answer;
  int ends = 0;            // how often it ended
  bool whole = false;      // ended by itself
  int64_t cached = 0;
};

// Drives scheduler and model device by the contract, `lag` steps ahead, and checks it after every verb.
class Driver {
 public:
  Driver(SchedOptions so, FakeOptions fo, size_t lag) : sched(so), options_(so), fake_(fo), runner_(fo), lag_(lag) {}

  RequestId ask(Asked a, int priority = 0, std::string key = "", double deadline = 0) {
    const RequestId id = ++last_id_;
    SchedRequest r{.id = id, .prompt = a.prompt, .max_new_tokens = a.max_new, .stop_ids = a.stop, .priority = priority,
                   .deadline = deadline, .key = std::move(key), .prefix_root = prefix_root("m", "", kBlockTokens)};
    extend_prefix_keys(r.prefix_root, a.prompt, kBlockTokens, r.prefix_keys);
    EXPECT_TRUE(sched.admit(std::move(r), now).ok());
    asked[id] = std::move(a);
    check();
    return id;
  }
  void cancel(RequestId id) {
    if (sched.release(id)) ++asked[id].ends;
    check();
  }
  // One turn of the loop: plan and submit, then wait for the oldest step if enough are out.
  void turn() {
    std::vector<RequestId> expired;
    StepPlan plan = sched.plan(now, expired);
    for (const RequestId id : expired) ++asked[id].ends;
    check();
    const bool nothing = plan.empty();
    if (!nothing) submit(std::move(plan));
    EXPECT_TRUE(!nothing || !flying_.empty() || sched.idle()) << "stuck";
    if (!flying_.empty() && (flying_.size() > lag_ || nothing)) commit();
  }
  void run() {
    for (int guard = 0; !sched.idle() || !flying_.empty(); ++guard) {
      ASSERT_LT(guard, 100000) << "never idle";
      turn();
      ASSERT_FALSE(testing::Test::HasFatalFailure());
    }
  }
  // Every answer is the one that the request gets alone: the whole, or the beginning of it if it was ended.
  void check_answers() {
    for (const auto& [id, a] : asked) {
      EXPECT_EQ(a.ends, 1) << id;
      size_t limit = static_cast<size_t>(sched.max_context());
      if (a.max_new) limit = std::min(limit, a.prompt.size() + static_cast<size_t>(a.max_new));
      auto want = fake_answer(a.prompt, a.sampling, limit, a.stop, fake_);
      if (!a.whole) {
        ASSERT_LE(a.answer.size(), want.size()) << id;
        want.resize(a.answer.size());
      }
      EXPECT_EQ(a.answer, want) << "request " << id;
    }
  }

  Scheduler sched;
  double now = 0;
  std::map<RequestId, Asked> asked;
  std::vector<StepPlan> plans;  // all submitted

 private:
  void check() {
    const Status s = sched.check();
    ASSERT_TRUE(s.ok()) << s.error().message;
  }
  void submit(StepPlan plan) {
    EXPECT_LE(plan.tokens, options_.max_step_tokens);
    int64_t decodes = 0, prefill = 0;
    std::set<RequestId> once;
    for (const auto& p : plan.sequences) {
      EXPECT_TRUE(once.insert(p.id).second);
      // One token that goes on where the last step ended is a decode for sure; several tokens are a prefill.
      if (p.count == 1 && p.samples && p.start > 0 && planned_to_[p.id] == p.start) ++decodes;
      if (p.count > 1) prefill += p.count;
      planned_to_[p.id] = p.start + p.count;
      if (!p.first) continue;
      asked[p.id].cached = sched.cached_tokens(p.id);
      ASSERT_TRUE(runner_.reset_slot(p.slot, asked[p.id].prompt).ok());
    }
    if (decodes && options_.max_prefill_beside_decodes) {
      EXPECT_LE(prefill, options_.max_prefill_beside_decodes);
    }
    build_step_input(sched, plan, [&](RequestId id) -> const SampleParams& { return asked[id].sampling; }, input_);
    auto ticket = runner_.submit(input_);
    ASSERT_TRUE(ticket.ok()) << ticket.error().message;
    plans.push_back(plan);
    flying_.emplace_back(*ticket, std::move(plan));
  }
  void commit() {
    auto out = runner_.wait(flying_.front().first);
    ASSERT_TRUE(out.ok()) << out.error().message;
    for (const Committed& c : sched.commit(flying_.front().second, out->next_ids, fake_.vocab)) {
      Asked& a = asked[c.id];
      EXPECT_EQ(a.ends, 0) << "a token after the end";
      if (c.end != SchedEnd::kFault) a.answer.push_back(c.token);
      if (c.end != SchedEnd::kRunning) {
        ++a.ends;
        a.whole = true;
      }
    }
    flying_.pop_front();
    check();
  }

  SchedOptions options_;
  FakeOptions fake_;
  FakeRunner runner_;
  size_t lag_;
  StepInput input_;
  std::deque<std::pair<Ticket, StepPlan>> flying_;
  RequestId last_id_ = 0;
  std::map<RequestId, int64_t> planned_to_;
};

SchedOptions sched_options(const FakeOptions& f) {
  return {.max_step_tokens = f.limits.max_tokens, .max_sequences = f.limits.max_sequences, .blocks = f.limits.blocks,
          .block_tokens = kBlockTokens, .max_context = f.max_context};
}
std::vector<int32_t> random_prompt(std::mt19937& rng, int n, int vocab = 50) {
  std::vector<int32_t> v(static_cast<size_t>(n));
  for (auto& id : v) id = static_cast<int32_t>(rng() % static_cast<unsigned>(vocab));
  return v;
}

TEST(Scheduler, RandomLivesEndOnceWithTheRightAnswer) {
  int64_t preemptions = 0, hits = 0, expired_or_cancelled = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 rng(seed);
    FakeOptions f;
    f.limits.blocks = 5 + rng() % 30;
    f.limits.max_tokens = 5 + rng() % 60;
    f.limits.max_sequences = 1 + rng() % 8;
    f.max_context = 150 + rng() % 100;
    f.poison = 49;
    SchedOptions so = sched_options(f);
    so.max_prefill_beside_decodes = seed % 3 ? static_cast<int64_t>(1 + rng() % 40) : 0;
    so.reuse_prefixes = seed % 4 != 0;
    so.ageing_s = seed % 5 ? 3 : 0;
    Driver d(so, f, seed % 2);
    const std::vector<std::vector<int32_t>> systems = {random_prompt(rng, 96, 49), random_prompt(rng, 50, 49)};
    std::vector<RequestId> ids;
    for (int turn = 0; turn < 150; ++turn) {
      if (rng() % 3 == 0) {
        Asked a;
        if (rng() % 2) a.prompt = systems[rng() % 2];
        const auto own = random_prompt(rng, static_cast<int>(1 + rng() % 50), rng() % 8 ? 49 : 50);
        a.prompt.insert(a.prompt.end(), own.begin(), own.end());
        const auto most = static_cast<size_t>(d.sched.max_context() - 1);
        if (a.prompt.size() > most) a.prompt.resize(most);
        a.max_new = static_cast<int64_t>(rng() % 40);
        if (rng() % 2) a.stop = {3, 17};
        if (rng() % 2) a.sampling = {.temperature = 1, .seed = rng()};
        if (rng() % 3 == 0) a.sampling.presence_penalty = 1;
        ids.push_back(d.ask(std::move(a), static_cast<int>(rng() % 3), std::string(1, static_cast<char>('a' + rng() % 3)),
                            rng() % 10 ? 0 : d.now + 5));
      }
      if (!ids.empty() && rng() % 25 == 0) d.cancel(ids[rng() % ids.size()]);
      d.now += 0.1 * static_cast<double>(rng() % 5);
      d.turn();
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    }
    d.run();
    d.check_answers();
    EXPECT_EQ(d.sched.pool().owned(), 0);
    for (const auto& [id, a] : d.asked) expired_or_cancelled += !a.whole;
    preemptions += d.sched.stats().preemptions;
    hits += d.sched.stats().prefix_hit_tokens;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  // The dice must have reached the interesting places.
  EXPECT_GT(preemptions, 50);
  EXPECT_GT(hits, 1000);
  EXPECT_GT(expired_or_cancelled, 50);
}

TEST(Scheduler, DecodesComeFirstAndBoundThePrefillBesideThem) {
  FakeOptions f;
  SchedOptions so = sched_options(f);
  so.max_prefill_beside_decodes = 10;
  Driver d(so, f, 0);
  std::mt19937 rng(1);
  const RequestId talker = d.ask({.prompt = random_prompt(rng, 5), .max_new = 30});
  d.turn();
  d.ask({.prompt = random_prompt(rng, 200), .max_new = 2});
  for (int i = 0; i < 10; ++i) {
    d.turn();
    const StepPlan& p = d.plans.back();
    ASSERT_EQ(p.sequences.size(), 2u);
    EXPECT_EQ(p.sequences[0].id, talker);
    EXPECT_EQ(p.sequences[1].count, 10);
  }
  d.run();
  d.check_answers();
}

TEST(Scheduler, AnEndByLengthCostsNoStepInVain) {
  for (const size_t lag : {0u, 1u}) {
    FakeOptions f;
    Driver d(sched_options(f), f, lag);
    std::mt19937 rng(2);
    d.ask({.prompt = random_prompt(rng, 5), .max_new = 7});
    d.run();
    EXPECT_EQ(d.plans.size(), 7u) << lag;
    d.check_answers();
  }
}

TEST(Scheduler, ATokenComputedPastTheStopIsDropped) {
  FakeOptions f;
  std::mt19937 rng(3);
  const auto prompt = random_prompt(rng, 9);
  const auto alone = fake_answer(prompt, {}, 60, {}, f);
  Driver d(sched_options(f), f, 1);
  const RequestId id = d.ask({.prompt = prompt, .stop = {alone[4]}, .max_new = 50});
  d.run();
  d.check_answers();
  const auto stop_at = std::ranges::find(alone, alone[4]) - alone.begin() + 1;
  EXPECT_EQ(d.asked[id].answer.size(), static_cast<size_t>(stop_at));
  EXPECT_EQ(d.plans.size(), static_cast<size_t>(stop_at) + 1);  // one step in vain
}

TEST(Scheduler, TheContextEndsAnAnswer) {
  FakeOptions f;
  f.limits.blocks = 2;  // 64 tokens: less than the model's context
  Driver d(sched_options(f), f, 1);
  EXPECT_EQ(d.sched.max_context(), 64);
  std::mt19937 rng(4);
  const RequestId id = d.ask({.prompt = random_prompt(rng, 60)});
  d.run();
  EXPECT_EQ(d.asked[id].answer.size(), 4u);
  d.check_answers();
  SchedRequest r{.id = 99, .prompt = random_prompt(rng, 64)};
  const Status s = d.sched.admit(r, 0);
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(s.error().message.find("64 tokens"), std::string::npos);
  EXPECT_FALSE(d.sched.admit({.id = 100}, 0).ok());
}

TEST(Scheduler, AnEqualPrefixIsComputedOnce) {
  FakeOptions f;
  Driver d(sched_options(f), f, 0);
  std::mt19937 rng(5);
  auto prompt = random_prompt(rng, 100);
  d.ask({.prompt = prompt, .max_new = 3});
  d.run();
  prompt.back() = (prompt.back() + 1) % 50;
  const RequestId second = d.ask({.prompt = prompt, .max_new = 3});
  d.run();
  EXPECT_EQ(d.asked[second].cached, 96);
  prompt.resize(96);  // whole blocks: the last is computed again for its logits
  const RequestId third = d.ask({.prompt = prompt, .max_new = 3});
  d.run();
  EXPECT_EQ(d.asked[third].cached, 64);
  d.check_answers();
}

TEST(Scheduler, AnswersAreReusedAsPrefixes) {
  FakeOptions f;
  Driver d(sched_options(f), f, 1);
  std::mt19937 rng(6);
  auto prompt = random_prompt(rng, 30);
  const RequestId first = d.ask({.prompt = prompt, .max_new = 40});
  d.run();
  prompt.insert(prompt.end(), d.asked[first].answer.begin(), d.asked[first].answer.end());
  prompt.push_back(1);
  const RequestId second = d.ask({.prompt = prompt, .max_new = 5});
  d.run();
  EXPECT_EQ(d.asked[second].cached, 64);
  d.check_answers();
}

TEST(Scheduler, UrgentOnesStartFirstAndTheOthersAge) {
  FakeOptions f;
  f.limits.max_sequences = 1;
  SchedOptions so = sched_options(f);
  so.ageing_s = 10;
  Driver d(so, f, 0);
  std::mt19937 rng(7);
  const auto next_started = [&] {
    while (!d.plans.back().sequences[0].first) d.turn();
    const RequestId id = d.plans.back().sequences[0].id;
    d.turn();
    return id;
  };
  const auto ask = [&](int priority) { return d.ask({.prompt = random_prompt(rng, 4), .max_new = 3}, priority); };
  const RequestId running = ask(0);
  d.turn();
  EXPECT_EQ(next_started(), running);
  const RequestId patient = ask(2);
  const RequestId urgent = ask(0);
  EXPECT_EQ(next_started(), urgent);
  d.now = 19;
  const RequestId urgent2 = ask(0);
  EXPECT_EQ(next_started(), urgent2);
  d.now = 20;  // two levels gained: equal now, and it came first
  ask(0);
  EXPECT_EQ(next_started(), patient);
  d.run();
  d.check_answers();
}

TEST(Scheduler, KeysShareFairly) {
  FakeOptions f;
  f.limits.max_sequences = 2;
  Driver d(sched_options(f), f, 0);
  std::mt19937 rng(8);
  for (int i = 0; i < 20; ++i) d.ask({.prompt = random_prompt(rng, 20), .max_new = 10}, 0, "flood");
  d.turn();
  const RequestId small = d.ask({.prompt = random_prompt(rng, 20), .max_new = 10}, 0, "small");
  int64_t before = 0;
  while (!d.sched.started(small)) d.turn();
  for (const auto& [id, a] : d.asked) before += a.ends;
  EXPECT_LE(before, 2);  // not behind the other nineteen
  d.run();
  d.check_answers();
}

TEST(Scheduler, AnUrgentNewcomerTakesBlocksFromALessUrgentOne) {
  FakeOptions f;
  f.limits.blocks = 4;
  Driver d(sched_options(f), f, 1);
  std::mt19937 rng(9);
  const RequestId low = d.ask({.prompt = random_prompt(rng, 90), .max_new = 20}, 5);
  for (int i = 0; i < 5; ++i) d.turn();
  const RequestId high = d.ask({.prompt = random_prompt(rng, 60), .max_new = 5}, 0);
  while (!d.asked[high].ends) d.turn();
  EXPECT_EQ(d.asked[low].ends, 0);
  EXPECT_EQ(d.sched.stats().preemptions, 1);
  d.run();
  d.check_answers();
}

TEST(Scheduler, ALongPromptIsNotStarvedByShortOnes) {
  FakeOptions f;
  f.limits.blocks = 8;
  f.max_context = 250;
  Driver d(sched_options(f), f, 0);
  std::mt19937 rng(10);
  for (int i = 0; i < 4; ++i) d.ask({.prompt = random_prompt(rng, 20), .max_new = 10});
  d.turn();
  const RequestId big = d.ask({.prompt = random_prompt(rng, 230), .max_new = 5});
  for (int i = 0; i < 200 && !d.asked[big].ends; ++i) {
    d.ask({.prompt = random_prompt(rng, 20), .max_new = 10});
    d.now += 0.01;
    d.turn();
  }
  EXPECT_EQ(d.asked[big].ends, 1);
  d.run();
  d.check_answers();
}

TEST(Scheduler, AFaultEndsOneRequestOnly) {
  FakeOptions f;
  f.poison = 49;
  Driver d(sched_options(f), f, 1);
  std::mt19937 rng(11);
  auto bad = random_prompt(rng, 70, 49);
  bad[40] = 49;
  const RequestId faulty = d.ask({.prompt = bad, .max_new = 20});
  const RequestId good = d.ask({.prompt = random_prompt(rng, 70, 40), .max_new = 1});
  d.run();
  EXPECT_TRUE(d.asked[faulty].answer.empty());
  EXPECT_EQ(d.asked[good].answer.size(), 1u);
  d.check_answers();
}

TEST(Scheduler, DeadlinesEndTheWaitingAndTheRunning) {
  FakeOptions f;
  f.limits.max_sequences = 1;
  Driver d(sched_options(f), f, 1);
  std::mt19937 rng(12);
  const RequestId runs = d.ask({.prompt = random_prompt(rng, 5), .max_new = 100}, 0, "", 1.0);
  const RequestId waits = d.ask({.prompt = random_prompt(rng, 5), .max_new = 100}, 0, "", 1.0);
  const RequestId late = d.ask({.prompt = random_prompt(rng, 5), .max_new = 3}, 0, "", 100.0);
  for (int i = 0; i < 5; ++i) d.turn();
  d.now = 1;
  d.turn();
  EXPECT_EQ(d.asked[runs].ends, 1);
  EXPECT_EQ(d.asked[waits].ends, 1);
  EXPECT_TRUE(d.asked[waits].answer.empty());
  d.run();
  EXPECT_TRUE(d.asked[late].whole);
  d.check_answers();
}

}  // namespace
}  // namespace brisk
