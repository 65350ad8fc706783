// The registered kernels of the CPU backend against the reference ones, through the registry, as an engine uses them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "backend/cpu/cpu.h"
#include "backend/ref/ref.h"
#include "base/half.h"
#include "op/step_io.h"

namespace brisk {
namespace {

std::vector<float> random_floats(int64_t n, unsigned seed, float size = 1) {
  std::mt19937 rng(seed);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = size * std::normal_distribution<float>()(rng);
  return v;
}
template <class T> Buffer buffer_of(const std::vector<T>& v) {
  std::vector<std::byte> b(v.size() * sizeof(T));
  std::memcpy(b.data(), v.data(), b.size());
  return Buffer::of(std::move(b));
}

// A constant [n, k] in an encoding, with random codes and scales exact in fp16.
Constant random_constant(int64_t n, int64_t k, DType dtype, Encoding e) {
  std::mt19937 rng(5);
  Constant c;
  c.dtype = dtype;
  c.shape = {n, k};
  c.encoding = e;
  if (e.plain()) {
    auto f = random_floats(n * k, 6, 0.05f);
    std::vector<std::byte> bytes(static_cast<size_t>(dtype_bytes(dtype, n * k)));
    for (int64_t i = 0; i < n * k; i++) store_float(bytes.data(), dtype, i, f[static_cast<size_t>(i)]);
    c.data = Buffer::of(std::move(bytes));
    return c;
  }
  std::vector<uint8_t> codes(static_cast<size_t>(n * k * e.bits / 8));
  for (auto& b : codes) b = static_cast<uint8_t>(rng());
  c.data = buffer_of(codes);
  int64_t groups = e.group ? (k + e.group - 1) / e.group : 1;
  std::vector<std::byte> scales(static_cast<size_t>(dtype_bytes(e.scale_dtype, n * groups))), minimums(scales.size());
  std::vector<uint8_t> zeros;
  for (int64_t i = 0; i < n * groups; i++) {
    store_float(scales.data(), e.scale_dtype, i, float(f16(0.0005f * float(rng() % 20 + 1))));
    store_float(minimums.data(), e.scale_dtype, i, float(f16(-0.01f * float(rng() % 9))));
    zeros.push_back(static_cast<uint8_t>(e.code_dtype == DType::kI4 ? int(rng() % 16) - 8 : int(rng() % 16)));
  }
  c.scales = Buffer::of(std::move(scales));
  if (e.offset == Encoding::Offset::kMinimum) c.offsets = Buffer::of(std::move(minimums));
  if (e.offset == Encoding::Offset::kZeroPoint) c.offsets = buffer_of(zeros);
  return c;
}

class CpuRegistry : public ::testing::Test {
 protected:
  CpuRegistry() : pool_(2) {
    ref::add_kernels(ref_);
    cpu::add_kernels(cpu_);
  }
  void add(const OperandDesc& o) { problem_.inputs.push_back(o); }
  static OperandDesc runtime(DType t, Shape s) {
    OperandDesc o;
    o.present = true;
    o.type = {t, true, std::move(s), {}};
    return o;
  }
  static OperandDesc constant(const Constant& c) {
    OperandDesc o = runtime(c.dtype, {c.shape[0], c.shape[1]});
    o.constant = true;
    o.encoding = c.encoding;
    o.value = &c;
    return o;
  }
  // Runs one kernel on views; operand `packed` (if any) is packed first and its size checked.
  void run(const KernelDesc& d, std::vector<TensorView> in, std::vector<TensorView> out, const Constant* c, int packed) {
    std::vector<std::byte> bytes;
    if (c) {
      ASSERT_EQ(d.packings.size(), 1u);
      ASSERT_EQ(d.packings[0].operand, packed);
      auto r = d.packings[0].pack(problem_, *c);
      ASSERT_TRUE(r.ok()) << r.error().message;
      EXPECT_EQ(static_cast<int64_t>(r->size()), d.packings[0].bytes(problem_, problem_.inputs[static_cast<size_t>(packed)]));
      bytes.resize(r->size() + 64);
      std::byte* at = bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64;
      std::memcpy(at, r->data(), r->size());
      in[static_cast<size_t>(packed)] = TensorView(at, c->dtype, c->shape);
    }
    KernelArgs a;
    a.in = in;
    a.out = out;
    a.attrs = problem_.attrs;
    a.workspace_bytes = d.workspace ? d.workspace(a) : 0;
    std::vector<std::byte> scratch(static_cast<size_t>(a.workspace_bytes) + 64);
    a.workspace = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    KernelContext kc{&pool_};
    Status s = d.run(kc, a);
    ASSERT_TRUE(s.ok()) << s.error().message;
  }

  Registry ref_, cpu_;
  cpu::ThreadPool pool_;
  ProblemDesc problem_;
};

using Offset = Encoding::Offset;
const Encoding kEncodings[] = {{}, {8, DType::kI8, DType::kF32, Offset::kNone, -1, 0}, {8, DType::kI8, DType::kF16, Offset::kNone, -1, 32}, {8, DType::kI8, DType::kF16, Offset::kNone, -1, 64},
                               {4, DType::kI4, DType::kF16, Offset::kNone, -1, 32}, {4, DType::kU4, DType::kF16, Offset::kNone, -1, 64},
                               {4, DType::kU4, DType::kF16, Offset::kZeroPoint, -1, 128}, {4, DType::kI4, DType::kF16, Offset::kZeroPoint, -1, 32},
                               {4, DType::kU4, DType::kF16, Offset::kMinimum, -1, 32}, {4, DType::kU4, DType::kF32, Offset::kMinimum, -1, 32}};

TEST_F(CpuRegistry, LinearAgreesWithReference) {
  constexpr int64_t kM = 5, kN = 70, kK = 198;
  auto x = random_floats(kM * kK, 1), bias = random_floats(kN, 2), residual = random_floats(kM * kN, 3), norm = random_floats(kK, 4);
  int kernels_seen = 0;
  for (const Encoding& e : kEncodings)
    for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
      for (auto [act_group, act_terms] : {std::pair{0, 1}, {0, 2}, {64, 1}, {64, 2}})
        for (bool gated : {false, true}) {
          if (!e.plain() && dtype != DType::kF32) continue;
          Constant c = random_constant(kN, kK, dtype, e);
          int64_t columns = gated ? kN / 2 : kN;
          LinearAttrs la;
          la.act_group = act_group;
          la.act_terms = act_terms;
          la.gated = gated;
          la.norm_epsilon = 1e-5f;
          Attrs attrs = la;
          problem_ = {};
          problem_.op = OpId::kLinear;
          problem_.attrs = &attrs;
          add(runtime(DType::kF32, {Dim::symbol("T"), kK}));
          add(constant(c));
          add(runtime(DType::kF32, {kN}));
          add(runtime(DType::kF32, {Dim::symbol("T"), columns}));
          add(runtime(DType::kF32, {kK}));
          std::vector<TensorView> in = {{x.data(), DType::kF32, {kM, kK}}, {}, {bias.data(), DType::kF32, {kN}},
                                        {residual.data(), DType::kF32, {kM, columns}}, {norm.data(), DType::kF32, {kK}}};
          std::vector<float> want(static_cast<size_t>(kM * columns)), got(want.size());
          run(*ref_.best(problem_), in, {{want.data(), DType::kF32, {kM, columns}}}, &c, 1);
          for (const KernelDesc* d : cpu_.candidates(problem_)) {
            kernels_seen++;
            run(*d, in, {{got.data(), DType::kF32, {kM, columns}}}, &c, 1);
            // bf16 activations lose 2^-9 of each of 198 products of about 0.05; a code of int8 that rounds the other way, 1/127
            if (act_terms == 2) EXPECT_EQ(d->id.find("bf16dot"), std::string::npos);
            bool coarse = d->id.find("bf16dot") != std::string::npos || (act_group && act_terms == 1);
            double tolerance = coarse ? 2e-2 : act_terms == 2 ? 4e-4 : 1e-4;
            for (size_t i = 0; i < want.size(); i++)
              ASSERT_NEAR(want[i], got[i], tolerance * (1 + std::fabs(want[i]))) << d->id << " " << to_string(e) << " gated " << gated;
          }
        }
  EXPECT_GE(kernels_seen, 30);
}

TEST_F(CpuRegistry, EmbeddingAgreesWithReference) {
  constexpr int64_t kN = 70, kK = 198;
  std::vector<int32_t> ids = {0, 69, 31, 32, 5, 5, 64, 1, 2, 3};
  int64_t tokens = static_cast<int64_t>(ids.size());
  for (const Encoding& e : kEncodings) {
    Constant c = random_constant(kN, kK, DType::kF32, e);
    Attrs attrs = NoAttrs{};
    problem_ = {};
    problem_.op = OpId::kEmbedding;
    problem_.attrs = &attrs;
    add(constant(c));
    add(runtime(DType::kI32, {Dim::symbol("T")}));
    std::vector<TensorView> in = {{}, {ids.data(), DType::kI32, {tokens}}};
    std::vector<float> want(static_cast<size_t>(tokens * kK)), got(want.size());
    run(*ref_.best(problem_), in, {{want.data(), DType::kF32, {tokens, kK}}}, &c, 0);
    ASSERT_FALSE(cpu_.candidates(problem_).empty());
    for (const KernelDesc* d : cpu_.candidates(problem_)) {
      run(*d, in, {{got.data(), DType::kF32, {tokens, kK}}}, &c, 0);
      for (size_t i = 0; i < want.size(); i++) ASSERT_NEAR(want[i], got[i], 1e-6) << d->id << " " << to_string(e);
    }
  }
}

TEST_F(CpuRegistry, AttentionAgreesWithReference) {
  constexpr int64_t kHeads = 6, kKv = 2, kDim = 32, kTokens = 75, kBlocks = 5, kWidth = (kHeads + 2 * kKv) * kDim;
  auto qkv = random_floats(kTokens * kWidth, 1);
  std::vector<int32_t> positions, starts = {0, 70, 75}, context = {70, 5}, tables = {3, 0, 4, 1, 0, 0};
  for (int i = 0; i < 70; i++) positions.push_back(i);
  for (int i = 0; i < 5; i++) positions.push_back(i);
  std::vector<float> frequencies(kDim / 2);
  for (size_t i = 0; i < frequencies.size(); i++) frequencies[i] = std::pow(10000.0f, -float(i) / float(kDim / 2));
  AttentionAttrs aa;
  aa.heads = kHeads;
  aa.kv_heads = kKv;
  aa.head_dim = aa.rope_dim = kDim;
  aa.scale = 0.2f;
  Attrs attrs = aa;
  for (DType state : {DType::kF32, DType::kBF16}) {
    problem_ = {};
    problem_.op = OpId::kPagedAttention;
    problem_.attrs = &attrs;
    Shape state_shape = {kBlocks, 2, kKv, kBlockTokens, kDim};
    add(runtime(DType::kF32, {Dim::symbol("T"), kWidth}));
    add({});
    add({});
    add(runtime(state, state_shape));
    for (int i = 0; i < 4; i++) add(runtime(DType::kI32, {Dim::symbol("T")}));
    add(runtime(DType::kF32, {kDim / 2}));
    std::vector<float> result[2];
    const KernelDesc* kernels[2] = {ref_.best(problem_), cpu_.best(problem_)};
    for (int i = 0; i < 2; i++) {
      ASSERT_NE(kernels[i], nullptr);
      std::vector<float> cache(static_cast<size_t>(kBlocks * 2 * kKv * kBlockTokens * kDim));
      result[i].resize(static_cast<size_t>(kTokens * kHeads * kDim));
      std::vector<TensorView> in = {{qkv.data(), DType::kF32, {kTokens, kWidth}}, {}, {},
                                    {cache.data(), state, {kBlocks, 2, kKv, kBlockTokens, kDim}},
                                    {positions.data(), DType::kI32, {kTokens}}, {starts.data(), DType::kI32, {3}},
                                    {context.data(), DType::kI32, {2}}, {tables.data(), DType::kI32, {2, 3}},
                                    {frequencies.data(), DType::kF32, {kDim / 2}}};
      run(*kernels[i], in, {{result[i].data(), DType::kF32, {kTokens, kHeads * kDim}}}, nullptr, 0);
    }
    for (size_t i = 0; i < result[0].size(); i++)
      ASSERT_NEAR(result[0][i], result[1][i], state == DType::kF32 ? 1e-5 : 1e-2) << i;
  }
}

TEST_F(CpuRegistry, SampleAgreesWithReference) {
  constexpr int64_t kRows = 3, kVocab = 1003;
  auto logits = random_floats(kRows * kVocab, 9);
  logits[10] = logits[700] = 50;                // a tie: the smaller id
  logits[kVocab + 4] = std::nanf("");
  std::vector<SampleParams> params(kRows);
  params[2].temperature = 0.8f;
  params[2].top_logprobs = 3;
  std::vector<int32_t> slots = {2, 0, 1};
  Attrs attrs = NoAttrs{};
  problem_ = {};
  problem_.op = OpId::kSample;
  problem_.attrs = &attrs;
  add(runtime(DType::kF32, {Dim::symbol("L"), kVocab}));
  for (int i = 0; i < 4; i++) add(runtime(DType::kI32, {Dim::symbol("L")}));
  std::vector<int32_t> ids[2];
  std::vector<float> logprobs[2];
  const KernelDesc* kernels[2] = {ref_.best(problem_), cpu_.best(problem_)};
  for (int i = 0; i < 2; i++) {
    std::vector<uint16_t> counts(3 * kVocab);
    std::vector<int32_t> last(3), top(kRows * kMaxTopLogprobs);
    std::vector<float> top_p(kRows * kMaxTopLogprobs);
    ids[i].resize(kRows);
    logprobs[i].resize(kRows);
    run(*kernels[i], {{logits.data(), DType::kF32, {kRows, kVocab}}, {params.data(), DType::kU8, {kRows, int64_t(sizeof(SampleParams))}},
                      {slots.data(), DType::kI32, {kRows}}, {counts.data(), DType::kU16, {3, kVocab}}, {last.data(), DType::kI32, {3}}},
        {{ids[i].data(), DType::kI32, {kRows}}, {logprobs[i].data(), DType::kF32, {kRows}},
         {top.data(), DType::kI32, {kRows, kMaxTopLogprobs}}, {top_p.data(), DType::kF32, {kRows, kMaxTopLogprobs}}}, nullptr, 0);
    EXPECT_EQ(last[2], ids[i][0]);
    EXPECT_EQ(counts[static_cast<size_t>(2 * kVocab + ids[i][0])], 1);
  }
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_EQ(ids[1][0], 10);
  EXPECT_EQ(logprobs[0], logprobs[1]);
}

}  // namespace
}  // namespace brisk
