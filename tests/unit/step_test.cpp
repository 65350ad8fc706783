// The step function end to end on the reference backend: passes keep answers, batches do not change them, and the far
// device shows that no layer above reaches into its memory.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/ref/far_device.h"
#include "backend/ref/ref.h"
#include "compiler/compile.h"
#include "passes/pass.h"
#include "runtime/engine_step_runner.h"
#include "tiny_llama.h"

namespace brisk {
namespace {

struct Setup {
  Registry registry;
  std::shared_ptr<Device> device;
  std::unique_ptr<StepRunner> runner;
};

std::unique_ptr<Setup> make(CompileOptions options = {}, bool far = false, CompileReport* report = nullptr) {
  auto s = std::make_unique<Setup>();
  ref::add_kernels(s->registry);
  auto content = compile(test::tiny_llama(), options, {s->registry, ref::make_device(), {}}, report);
  EXPECT_TRUE(content.ok()) << content.error().message;
  if (far) s->device = std::move(ref::make_far_device(20).value());
  else s->device = ref::make_device();
  auto shared = std::make_shared<EngineContent>(std::move(*content));
  auto engine = LoadedEngine::create(shared, s->device, s->registry);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  auto runner = make_step_runner(*engine, {}, {{64, 8, 32, 8}});
  EXPECT_TRUE(runner.ok()) << runner.error().message;
  s->runner = std::move(*runner);
  return s;
}

struct Sequence {
  std::vector<int32_t> ids;
  int32_t slot;
  std::vector<int32_t> blocks;
  int32_t done = 0;  // tokens in the cache
};

// One step over the next `count` tokens of each sequence.
StepInput step_of(std::vector<Sequence*> sequences, std::vector<int32_t> counts) {
  StepInput in;
  in.table_columns = 4;
  in.seq_starts = {0};
  for (size_t i = 0; i < sequences.size(); ++i) {
    Sequence& s = *sequences[i];
    for (int32_t k = 0; k < counts[i]; ++k) {
      in.ids.push_back(s.ids[static_cast<size_t>(s.done + k)]);
      in.positions.push_back(s.done + k);
    }
    s.done += counts[i];
    in.seq_starts.push_back(static_cast<int32_t>(in.ids.size()));
    in.context_lens.push_back(s.done);
    for (int32_t c = 0; c < in.table_columns; ++c) in.block_tables.push_back(c < static_cast<int32_t>(s.blocks.size()) ? s.blocks[static_cast<size_t>(c)] : 0);
    in.logit_rows.push_back(static_cast<int32_t>(in.ids.size()) - 1);
    in.slots.push_back(s.slot);
    in.params.emplace_back();
  }
  in.want_logits = true;
  return in;
}

StepOutput run(StepRunner& r, const StepInput& in) {
  auto t = r.submit(in);
  EXPECT_TRUE(t.ok()) << t.error().message;
  auto o = r.wait(*t);
  EXPECT_TRUE(o.ok()) << o.error().message;
  return *o;
}

std::vector<int32_t> prompt(int n, int seed) {
  std::vector<int32_t> ids;
  for (int i = 0; i < n; ++i) ids.push_back((i * 31 + seed * 17 + 5) % 97);
  return ids;
}

// Greedy ids of one prompt alone, one token a step after the prompt.
std::vector<int32_t> greedy(StepRunner& r, std::vector<int32_t> ids, int n) {
  Sequence s{std::move(ids), 0, {0, 1, 2, 3}};
  std::vector<int32_t> out;
  auto count = static_cast<int32_t>(s.ids.size());
  for (int i = 0; i < n; ++i) {
    auto o = run(r, step_of({&s}, {count}));
    out.push_back(o.next_ids[0]);
    s.ids.push_back(o.next_ids[0]);
    count = 1;
  }
  return out;
}

TEST(Step, EachPassKeepsTheLogits) {
  CompileOptions plain;
  for (const Pass& p : pipeline()) plain.passes.disabled.insert(p.name);
  auto base = make(plain);
  Sequence s{prompt(40, 1), 0, {3, 1}};
  auto expected = run(*base->runner, step_of({&s}, {40}));
  std::vector<std::string> names = {"all"};
  for (const Pass& p : pipeline()) names.push_back(p.name);
  for (auto& name : names) {
    CompileOptions o;
    if (name != "all")
      for (const Pass& p : pipeline())
        if (p.name != name) o.passes.disabled.insert(p.name);
    auto other = make(o);
    Sequence t{prompt(40, 1), 0, {3, 1}};
    auto got = run(*other->runner, step_of({&t}, {40}));
    ASSERT_EQ(got.logits.size(), expected.logits.size()) << name;
    for (size_t i = 0; i < got.logits.size(); ++i) ASSERT_NEAR(got.logits[i], expected.logits[i], 1e-4) << name;
    EXPECT_EQ(got.next_ids, expected.next_ids) << name;
  }
}

TEST(Step, FusionsOfADecoderAllFire) {
  CompileReport report;
  auto s = make({}, false, &report);
  auto rewrites = [&](const std::string& name) {
    for (auto& p : report.passes)
      if (p.name == name) return p.rewrites;
    return -1;
  };
  EXPECT_EQ(rewrites("fuse-rope"), 2);
  EXPECT_EQ(rewrites("merge-qkv"), 2);
  EXPECT_EQ(rewrites("fuse-gated-mlp"), 2);
  EXPECT_EQ(rewrites("fuse-residual"), 4);
  EXPECT_EQ(rewrites("fuse-norm"), 5);
  EXPECT_GE(rewrites("gather-before-head"), 5);
  // Per layer: qkv, attention, o, gate+up, down. Outside: resolve, embedding, two gathers, head, sample.
  EXPECT_EQ(report.passes.back().nodes, 2 * 5 + 6);
}

TEST(Step, AnswersAreTheSameAloneBatchedAndChunked) {
  auto s = make();
  auto alone = greedy(*s->runner, prompt(37, 2), 6);

  // The same prompt in chunks beside two others.
  Sequence a{prompt(37, 2), 1, {10, 11}}, b{prompt(5, 7), 2, {12, 13}}, c{prompt(20, 9), 3, {14, 15}};
  run(*s->runner, step_of({&b, &a}, {5, 11}));
  run(*s->runner, step_of({&a, &c}, {1, 20}));
  auto o = run(*s->runner, step_of({&a}, {25}));
  std::vector<int32_t> got = {o.next_ids[0]};
  for (int i = 1; i < 6; ++i) {
    a.ids.push_back(got.back());
    b.ids.push_back(3), c.ids.push_back(4);
    auto next = run(*s->runner, step_of({&c, &a, &b}, {1, 1, 1}));
    got.push_back(next.next_ids[1]);
  }
  EXPECT_EQ(got, alone);
}

TEST(Step, FarDeviceGivesTheSameIdsWithOneStepOfLag) {
  auto near = make();
  auto alone = greedy(*near->runner, prompt(20, 4), 8);
  auto far = make({}, true);
  Sequence s{prompt(20, 4), 5, {0, 1}};
  auto first = far->runner->submit(step_of({&s}, {20}));
  ASSERT_TRUE(first.ok());
  std::vector<int32_t> got;
  Ticket before = *first;
  for (int i = 1; i < 8; ++i) {
    s.ids.push_back(-1 - s.slot);  // not known yet: the device reads what it sampled
    auto next = far->runner->submit(step_of({&s}, {1}));
    ASSERT_TRUE(next.ok()) << next.error().message;
    auto o = far->runner->wait(before);
    ASSERT_TRUE(o.ok()) << o.error().message;
    got.push_back(o->next_ids[0]);
    before = *next;
  }
  got.push_back(far->runner->wait(before)->next_ids[0]);
  EXPECT_EQ(got, alone);
}

TEST(Step, FarMemoryFaultsWhenTheHostTouchesIt) {
  auto device = std::move(ref::make_far_device().value());
  void* p = device->allocate(64).value();
  EXPECT_DEATH(*static_cast<volatile char*>(p) = 1, "");
  EXPECT_TRUE(device->synchronize().ok());
}

TEST(Step, BatchesOutsideTheLimitsAreRefused) {
  auto s = make();
  Sequence a{prompt(10, 2), 0, {0}};
  auto good = step_of({&a}, {10});
  auto refused = [&](auto change) {
    StepInput in = good;
    change(in);
    auto t = s->runner->submit(in);
    return !t.ok() && t.error().kind == ErrorKind::kInternal;
  };
  EXPECT_TRUE(refused([](StepInput& in) { in.ids[3] = 97; }));
  EXPECT_TRUE(refused([](StepInput& in) { in.positions[3] = 9; }));
  EXPECT_TRUE(refused([](StepInput& in) { in.block_tables[0] = 32; }));
  EXPECT_TRUE(refused([](StepInput& in) { in.context_lens[0] = 200; }));
  EXPECT_TRUE(refused([](StepInput& in) { in.slots[0] = 8; }));
  EXPECT_TRUE(refused([](StepInput& in) { in.logit_rows[0] = 10; }));
  EXPECT_TRUE(refused([](StepInput& in) { in.seq_starts[1] = 9; }));
  EXPECT_TRUE(s->runner->submit(good).ok());
}

}  // namespace
}  // namespace brisk
