// --kv-dtype: an engine serves with keys and values in every type that it was not built for.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/cpu.h"
#include "backend/cpu/thread_pool.h"
#include "backend/ref/ref.h"
#include "compiler/compile.h"
#include "engine/kv_dtype.h"
#include "runtime/engine_step_runner.h"
#include "tiny_llama.h"

namespace brisk {
namespace {

class KvDtype : public testing::Test {
 protected:
  KvDtype() {
    cpu::add_kernels(registry_);
    ref::add_kernels(registry_);
  }
  EngineContent compiled(Precision p) {
    CompileOptions o;
    o.precision = p;
    test::TinyConfig config;
    config.hidden = 128, config.heads = 8, config.intermediate = 192;
    return compile(test::tiny_llama(config), o, {registry_, cpu::make_device(), {&pool_}}).value();
  }
  // Logits of the last of 40 tokens: the first 39 are read back from the state.
  std::vector<float> logits(EngineContent content) {
    auto engine = LoadedEngine::create(std::make_shared<EngineContent>(std::move(content)), cpu::make_device(), registry_);
    auto runner = make_step_runner(engine.value(), {&pool_}, {{64, 4, 16, 4}});
    EXPECT_TRUE(runner.ok()) << runner.error().message;
    std::vector<float> out;
    for (auto [from, to] : {std::pair{0, 39}, {39, 40}}) {
      StepInput in;
      in.table_columns = 2;
      in.block_tables = {3, 1};
      for (int i = from; i < to; ++i) in.ids.push_back((i * 13 + 5) % 97), in.positions.push_back(i);
      in.seq_starts = {0, to - from};
      in.context_lens = {to};
      in.logit_rows = {to - from - 1};
      in.slots = {0};
      in.params.resize(1);
      in.want_logits = true;
      auto ticket = (*runner)->submit(in);
      EXPECT_TRUE(ticket.ok()) << ticket.error().message;
      out = (*runner)->wait(*ticket).value().logits;
    }
    return out;
  }

  Registry registry_;
  cpu::ThreadPool pool_{2};
};

TEST_F(KvDtype, EveryTypeServesEveryEngine) {
  for (Precision p : {Precision::kFp32, Precision::kFp16, Precision::kBf16, Precision::kInt8, Precision::kInt8w}) {
    EngineContent content = compiled(p);
    ASSERT_TRUE(set_kv_dtype(content, DType::kF32, registry_).ok());
    std::vector<float> exact = logits(content);
    for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      EngineContent changed = compiled(p);
      ASSERT_TRUE(set_kv_dtype(changed, type, registry_).ok());
      for (const PlanState& s : changed.functions.at("step").states)
        if (s.kind == PlanState::Kind::kPagedKv) EXPECT_EQ(s.dtype, type);
      auto got = logits(changed);
      ASSERT_EQ(got.size(), exact.size());
      float largest = 0;
      for (float v : exact) largest = std::max(largest, std::fabs(v));
      // bf16 keeps 8 bits of keys, values, queries and probabilities; int8 activations may round the other way after that
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], exact[i], 0.05f * largest) << precision_name(p) << " " << dtype_name(type);
    }
  }
}

TEST_F(KvDtype, WhatNoKernelReadsIsUnsupported) {
  EngineContent content = compiled(Precision::kBf16), before = content;
  auto s = set_kv_dtype(content, DType::kI8, registry_);
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(content.functions.at("step").states[0].dtype, before.functions.at("step").states[0].dtype);
  content.functions.clear();
  EXPECT_EQ(set_kv_dtype(content, DType::kF16, registry_).error().kind, ErrorKind::kInvalid);
}

}  // namespace
}  // namespace brisk
