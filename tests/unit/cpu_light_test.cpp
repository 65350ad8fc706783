// The CPU backend's memory-bound operators against the reference kernels: types, odd shapes, broadcasts, several threads.
// ctest runs these once more with BRISK_MAX_ISA=avx2.
#include <array>

#include "op_check.h"

namespace brisk {
namespace {

using enum OpId;
const Dims kShapes[] = {{}, {0}, {1}, {5}, {17}, {3, 0, 2}, {7, 13}, {2, 3, 31}, {1, 1023}, {1, 1025}, {3, 4099}, {301, 67}, {1, 40000}};

TEST(CpuLight, UnaryFunctions) {
  OpCheck expect_same;
  for (OpId op : {kAbs, kNeg, kExp, kSin, kCos, kTan, kSinh, kCosh, kTanh, kAsinh, kAtan, kErf, kFloor, kCeil, kRound, kSign, kRelu,
                  kSigmoid, kSilu, kSoftplus, kSoftsign, kHardSwish, kMish, kReciprocal})
    for (const Dims& s : kShapes) expect_same(op, NoAttrs{}, {random_tensor(DType::kF32, s, 1)});
  for (OpId op : {kLog, kSqrt, kAcosh})
    for (const Dims& s : kShapes) expect_same(op, NoAttrs{}, {random_tensor(DType::kF32, s, 2, 1.0001, 50)});
  for (OpId op : {kAsin, kAcos, kAtanh}) expect_same(op, NoAttrs{}, {random_tensor(DType::kF32, {33, 7}, 3, -0.99, 0.99)});
  for (OpId op : {kGelu, kLeakyRelu, kElu, kCelu, kSelu, kHardSigmoid, kThresholdedRelu})
    for (float alpha : {0.3f, 1.0f}) expect_same(op, AlphaBetaAttrs{alpha, 0.45f}, {random_tensor(DType::kF32, {3, 211}, 4)});
  for (OpId op : {kExp, kLog, kTanh, kSqrt, kRelu})
    for (DType t : {DType::kF16, DType::kBF16}) expect_same(op, NoAttrs{}, {random_tensor(t, {3, 211}, 5, 0.01, 3)});
  for (OpId op : {kAbs, kNeg, kSign, kRelu})
    for (DType t : {DType::kI64, DType::kI32}) expect_same(op, NoAttrs{}, {random_tensor(t, {3, 211}, 6, -9, 9)});
}

TEST(CpuLight, UnaryAtTheEdges) {
  OpCheck expect_same;
  std::vector<float> edges = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, -1e-40f, 3e38f, -3e38f, 88.7f, 89.0f, -87.0f, -104.0f, 1.0f, -1.0f, 0.5f, 2.5f, -2.5f};
  TestTensor x = tensor_of(DType::kF32, {static_cast<int64_t>(edges.size())}, edges);
  for (OpId op : {kAbs, kSign, kRelu, kFloor, kCeil, kRound, kSqrt, kReciprocal, kTanh, kSigmoid, kSoftplus, kErf, kIsNaN, kNeg})
    expect_same(op, NoAttrs{}, {x});
  expect_same(kIsInf, ModeAttrs{"", 0, 3}, {x});
  std::vector<float> positive = {0.0f, INFINITY, 1e-38f, 2e-38f, 1.0f, 0.70710678f, 0.7071068f, 1.4142135f, 3e38f, NAN, -1.0f};
  expect_same(kLog, NoAttrs{}, {tensor_of(DType::kF32, {static_cast<int64_t>(positive.size())}, positive)});
  std::vector<float> far = {1e5f, -3e7f, 8191.5f, 100.25f};
  expect_same(kSin, NoAttrs{}, {tensor_of(DType::kF32, {4}, far)});
  expect_same(kCos, NoAttrs{}, {tensor_of(DType::kF32, {4}, far)});
}

struct Pair { Dims a, b; };
const Pair kPairs[] = {{{}, {}}, {{5}, {}}, {{0}, {1}}, {{4, 1}, {4, 33}}, {{4, 33}, {33}}, {{1, 33}, {4, 1}}, {{2, 3, 7, 7}, {3, 1, 1}},
                       {{3, 1}, {2, 3, 700}}, {{2, 1, 5, 1}, {1, 3, 1, 6}}, {{3, 1300}, {1300}}, {{3, 1300}, {3, 1}}, {{97, 11}, {11}},
                       {{200, 300}, {200, 300}}, {{1, 1, 1}, {2, 2}}, {{2, 513}, {2, 1}}, {{6, 2, 5}, {2, 1}}};

TEST(CpuLight, BinaryOperatorsBroadcast) {
  OpCheck expect_same;
  for (const Pair& p : kPairs) {
    for (OpId op : {kAdd, kSub, kMul, kDiv, kMin, kMax, kPRelu, kEqual, kLess, kLessOrEqual, kGreater, kGreaterOrEqual})
      for (DType t : {DType::kF32, DType::kI64, DType::kI32}) {
        if (op == kPRelu && p.b.count() > p.a.count()) continue;
        expect_same(op, NoAttrs{}, {random_tensor(t, p.a, 7, -5, 5), random_tensor(t, p.b, 8, -5, 5)});
      }
    for (OpId op : {kAnd, kOr, kXor, kEqual}) expect_same(op, NoAttrs{}, {random_tensor(DType::kBool, p.a, 9), random_tensor(DType::kBool, p.b, 10)});
    for (DType t : {DType::kF16, DType::kBF16}) expect_same(kAdd, NoAttrs{}, {random_tensor(t, p.a, 7), random_tensor(t, p.b, 8)});
    for (DType t : {DType::kF32, DType::kI64, DType::kBool, DType::kF16, DType::kU8, DType::kF64})
      expect_same(kWhere, NoAttrs{}, {random_tensor(DType::kBool, p.a, 11), random_tensor(t, p.b, 12), random_tensor(t, p.a, 13)});
    for (int64_t flag : {0, 1}) {
      expect_same(kMod, ModeAttrs{"", 0, 1}, {random_tensor(DType::kF32, p.a, 14), random_tensor(DType::kF32, p.b, 15, 0.5, 3)});
      expect_same(kMod, ModeAttrs{"", 0, flag}, {random_tensor(DType::kI64, p.a, 14, -9, 9), random_tensor(DType::kI64, p.b, 15, -4, 4)});
    }
  }
}

TEST(CpuLight, PowersAndNaN) {
  OpCheck expect_same;
  TestTensor x = random_tensor(DType::kF32, {5, 401}, 16, 0.1, 4);
  for (float e : {2.0f, 3.0f, 0.5f, -1.0f, 1.0f, 1.7f, 0.0f}) expect_same(kPow, NoAttrs{}, {x, tensor_of<float>(DType::kF32, {}, {e})});
  expect_same(kPow, NoAttrs{}, {x, random_tensor(DType::kF32, {5, 1}, 17)});
  expect_same(kPow, NoAttrs{}, {x, ints({2})});
  std::vector<float> a = {NAN, 1, NAN, -0.0f}, b = {1, NAN, NAN, 0.0f};
  for (OpId op : {kMin, kMax}) expect_same(op, NoAttrs{}, {tensor_of(DType::kF32, {4}, a), tensor_of(DType::kF32, {4}, b)});
}

TEST(CpuLight, Casts) {
  OpCheck expect_same;
  for (DType from : {DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kI32, DType::kU8, DType::kI8, DType::kBool})
    for (DType to : {DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kI32, DType::kU8, DType::kI8, DType::kBool})
      for (const Dims& s : {Dims{}, Dims{0}, Dims{3, 47}, Dims{5, 1031}}) expect_same(kCast, CastAttrs{to}, {random_tensor(from, s, 18, 0, 100)});
  expect_same(kCast, CastAttrs{DType::kF64}, {random_tensor(DType::kF32, {37}, 19)});
  expect_same(kCast, CastAttrs{DType::kF32}, {random_tensor(DType::kF64, {37}, 19)});
  std::vector<float> edges = {NAN, INFINITY, -INFINITY, 1e20f, -1e20f, 2.9f, -2.9f, 3e9f, -3e9f, 0.0f, 300.7f, -1.0f};
  for (DType to : {DType::kI64, DType::kI32, DType::kBool, DType::kU8})
    expect_same(kCast, CastAttrs{to}, {tensor_of(DType::kF32, {static_cast<int64_t>(edges.size())}, edges)});
}

TEST(CpuLight, FusedChains) {
  OpCheck expect_same;
  // r0 x, r1 row, r2 scalar, r3 column: ((x + row) * scalar) -> Tanh -> - column -> Max(x)
  PointwiseAttrs p{{"Add", "Mul", "Tanh", "Sub", "Max"}, {0, 4, 5, 6, 7}, {1, 2, -1, 3, 0}, {}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}};
  for (Dims s : {Dims{1, 1}, Dims{3, 7}, Dims{200, 3}, Dims{5, 1500}, Dims{2, 0}, Dims{130, 400}})
    expect_same(kPointwise, p, {random_tensor(DType::kF32, s, 20), random_tensor(DType::kF32, {s[1]}, 21), random_tensor(DType::kF32, {}, 22), random_tensor(DType::kF32, {s[0], 1}, 23)});
  // A result that nobody reads, one that is read twice, an attribute.
  PointwiseAttrs q{{"Exp", "LeakyRelu", "Mul"}, {0, 0, 2}, {-1, -1, 2}, {}, {0, 0.25f, 0}, {0, 0, 0}};
  expect_same(kPointwise, q, {random_tensor(DType::kF32, {3, 5, 7}, 24)});
  // Masks: (i < n) chooses, an integer becomes a float; stored as bf16.
  PointwiseAttrs m{{"Less", "Cast", "Mul", "Where", "Not", "Where"}, {1, 1, 4, 3, 3, 7}, {2, -1, 0, 5, -1, 6}, {-1, -1, -1, 0, -1, 0}, {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0},
                   {0, static_cast<int64_t>(DType::kF32), 0, 0, 0, 0}, DType::kBF16};
  expect_same(kPointwise, m, {random_tensor(DType::kF16, {9, 130}, 25), random_tensor(DType::kI64, {130}, 26, 0, 9), random_tensor(DType::kI64, {9, 1}, 27, 0, 9)});
}

TEST(CpuLight, SoftmaxOverAnyAxis) {
  OpCheck expect_same;
  for (const Dims& s : {Dims{1}, Dims{7}, Dims{3, 0}, Dims{5, 33}, Dims{2, 7, 300}, Dims{4, 129, 1}, Dims{64, 512}, Dims{2, 3, 5, 7}})
    for (int64_t axis = 0; axis < s.rank; ++axis)
      for (OpId op : {kSoftmax, kLogSoftmax}) expect_same(op, AxisAttrs{axis}, {random_tensor(DType::kF32, s, 25, -20, 20)});
}

TEST(CpuLight, Norms) {
  OpCheck expect_same;
  for (int64_t n : {1, 5, 64, 301}) {
    TestTensor x = random_tensor(DType::kF32, {3, 7, n}, 26), w = random_tensor(DType::kF32, {n}, 27), b = random_tensor(DType::kF32, {n}, 28);
    expect_same(kLayerNorm, NormAttrs{1e-5f, -1}, {x, w, b}, 1, 2e-5);
    expect_same(kLayerNorm, NormAttrs{1e-5f, 2}, {x, w}, 3, 2e-5);
    expect_same(kLayerNorm, NormAttrs{1e-5f, 1}, {x, random_tensor(DType::kF32, {7, n}, 29), random_tensor(DType::kF32, {7, n}, 30)}, 1, 2e-5);
  }
  for (const Dims& s : {Dims{2, 5}, Dims{2, 5, 1}, Dims{3, 5, 77}, Dims{1, 5, 9, 130}}) {
    auto row = [&](unsigned seed, double low) { return random_tensor(DType::kF32, {5}, seed, low, 3); };
    TestTensor x = random_tensor(DType::kF32, s, 31);
    expect_same(kBatchNorm, NormAttrs{1e-3f}, {x, row(32, -3), row(33, -3), row(34, -3), row(35, 0.1)}, 1, 5e-6);
    expect_same(kInstanceNorm, NormAttrs{1e-3f}, {x, row(36, -3), row(37, -3)}, 1, 2e-5);
    for (int64_t size : {1, 3, 4}) expect_same(kLrn, LrnAttrs{0.1f, 0.75f, 1.5f, size}, {x}, 1, 5e-6);
  }
}

TEST(CpuLight, RotaryEmbedding) {
  OpCheck expect_same;
  for (bool interleaved : {false, true}) {
    RopeAttrs a{16, 12, interleaved};
    expect_same(kRotaryEmbedding, a, {random_tensor(DType::kF32, {2, 3, 5, 16}, 38), random_tensor(DType::kF32, {2, 5, 6}, 39), random_tensor(DType::kF32, {2, 5, 6}, 40)});
    expect_same(kRotaryEmbedding, a, {random_tensor(DType::kF32, {2, 5, 48}, 41), random_tensor(DType::kF32, {9, 6}, 42), random_tensor(DType::kF32, {9, 6}, 43),
                                tensor_of<int64_t>(DType::kI64, {2, 5}, {0, 1, 2, 3, 4, 8, 7, 6, 5, 4})});
  }
}

TEST(CpuLight, WholeTensorAttention) {
  OpCheck expect_same;
  TestTensor none;
  for (auto [heads, kv_heads, queries, keys, size, v_size] : std::vector<std::array<int64_t, 6>>{
           {2, 2, 5, 5, 8, 8}, {4, 2, 3, 41, 20, 12}, {3, 1, 130, 300, 64, 64}, {2, 2, 1, 257, 33, 40}, {1, 1, 7, 1, 4, 4}}) {
    TestTensor q = random_tensor(DType::kF32, {2, heads, queries, size}, 60, -1, 1), k = random_tensor(DType::kF32, {2, kv_heads, keys, size}, 61),
               v = random_tensor(DType::kF32, {2, kv_heads, keys, v_size}, 62);
    TestTensor mask = random_tensor(DType::kF32, {queries, keys}, 63), some = random_tensor(DType::kBool, {2, 1, queries, keys}, 64);
    for (int64_t j = 0; j < keys; ++j) some.view.as<uint8_t>()[j] = 0;  // the first query sees nothing
    for (bool causal : {false, true})
      for (float cap : {0.0f, 3.0f}) {
        SdpaAttrs a{0, 0, 0, cap, causal};
        expect_same(kAttention, a, {q, k, v}, 1, 5e-6);
        expect_same(kAttention, a, {q, k, v, mask}, 1, 5e-6);
        expect_same(kAttention, a, {q, k, v, some}, 1, 5e-6);
        expect_same(kAttention, a, {q, k, v, random_tensor(DType::kF32, {heads, 1, keys}, 65)}, 1, 5e-6);
      }
    expect_same(kAttention, SdpaAttrs{0, 0, 0.5f, 0, false, 3, 2}, {q, k, v}, 1, 5e-6);
    expect_same(kAttention, SdpaAttrs{}, {q, k, v, random_tensor(DType::kF32, {}, 63)}, 1, 5e-6);
    expect_same(kAttention, SdpaAttrs{0, 0, 0, 0, true}, {q, k, v, none, none, none, tensor_of<int64_t>(DType::kI64, {2}, {keys, (keys + 1) / 2})}, 1, 5e-6);
    TestTensor past_k = random_tensor(DType::kF32, {2, kv_heads, 37, size}, 66), past_v = random_tensor(DType::kF32, {2, kv_heads, 37, v_size}, 67);
    expect_same(kAttention, SdpaAttrs{0, 0, 0, 0, true}, {q, k, v, none, past_k, past_v}, 3, 5e-6);
    expect_same(kAttention, SdpaAttrs{heads, kv_heads, 0, 0, true},
          {random_tensor(DType::kF32, {2, queries, heads * size}, 68, -1, 1), random_tensor(DType::kF32, {2, keys, kv_heads * size}, 69),
           random_tensor(DType::kF32, {2, keys, kv_heads * v_size}, 70), none, past_k, past_v}, 3, 5e-6);
  }
}

TEST(CpuLight, Transposes) {
  OpCheck expect_same;
  for (DType t : {DType::kF32, DType::kI64, DType::kF16, DType::kU8}) {
    for (const Dims& s : {Dims{3, 5}, Dims{17, 70}, Dims{0, 4}, Dims{1, 9}, Dims{260, 131}}) expect_same(kTranspose, TransposeAttrs{}, {random_tensor(t, s, 44)});
    for (std::vector<int64_t> perm : std::vector<std::vector<int64_t>>{{0, 2, 1, 3}, {0, 2, 3, 1}, {0, 3, 1, 2}, {3, 1, 0, 2}, {1, 0, 2, 3}, {0, 1, 3, 2}})
      for (const Dims& s : {Dims{2, 3, 5, 7}, Dims{1, 12, 9, 64}, Dims{2, 9, 8, 2}, Dims{3, 66, 1, 33}}) expect_same(kTranspose, TransposeAttrs{perm}, {random_tensor(t, s, 45)});
  }
}

TEST(CpuLight, SlicesWithAnyStep) {
  OpCheck expect_same;
  for (DType t : {DType::kF32, DType::kI64, DType::kBool, DType::kBF16}) {
    TestTensor x = random_tensor(t, {7, 10, 13}, 46);
    expect_same(kSlice, NoAttrs{}, {x, ints({1, -8}), ints({5, 100})});
    expect_same(kSlice, NoAttrs{}, {x, ints({-1, 9}), ints({-100, 1}), ints({0, 2}), ints({-1, -3})});
    expect_same(kSlice, NoAttrs{}, {x, ints({2}), ints({9}), ints({-1}), ints({2})});
    expect_same(kSlice, NoAttrs{}, {x, ints({5}), ints({5}), ints({1})});
    expect_same(kSlice, NoAttrs{}, {x, ints({0, 0}), ints({1, 1}), ints({2, 0})});
  }
}

TEST(CpuLight, JoinsAndParts) {
  OpCheck expect_same;
  for (DType t : {DType::kF32, DType::kI64, DType::kU8, DType::kF16}) {
    expect_same(kConcat, AxisAttrs{1}, {random_tensor(t, {3, 4, 5}, 47), random_tensor(t, {3, 0, 5}, 48), random_tensor(t, {3, 7, 5}, 49)});
    expect_same(kConcat, AxisAttrs{-1}, {random_tensor(t, {300, 64}, 50), random_tensor(t, {300, 1}, 51)});
    expect_same(kConcat, AxisAttrs{0}, {random_tensor(t, {200000}, 50), random_tensor(t, {1}, 51)});
    expect_same(kSplit, SliceAttrs{1, {2, 0, 5}}, {random_tensor(t, {3, 7, 11}, 52)}, 3);
    expect_same(kExpand, NoAttrs{}, {random_tensor(t, {3, 1, 5}, 53), ints({2, 1, 4, 1})});
    expect_same(kExpand, NoAttrs{}, {random_tensor(t, {1}, 53), ints({2, 300, 77})});
    expect_same(kTile, NoAttrs{}, {random_tensor(t, {3, 1, 5}, 54), ints({2, 3, 2})});
    expect_same(kTile, NoAttrs{}, {random_tensor(t, {4, 6}, 54), ints({1, 1})});
    for (const char* mode : {"constant", "edge", "reflect", "wrap"}) {
      expect_same(kPad, ModeAttrs{mode}, {random_tensor(t, {3, 4, 6}, 55), ints({1, 0, 2, 2, 1, 3}), random_tensor(t, {}, 56)});
      expect_same(kPad, ModeAttrs{mode}, {random_tensor(t, {3, 4, 6}, 55), ints({0, -1, -2, 1, 2, -1})});
    }
    for (int64_t upper : {0, 1})
      for (int64_t diagonal : {0, 2, -3, 90}) expect_same(kTrilu, ModeAttrs{"", 0, upper}, {random_tensor(t, {2, 5, 7}, 57), tensor_of<int64_t>(DType::kI64, {}, {diagonal})});
    for (int64_t axis : {0, 1, 2}) expect_same(kGather, AxisAttrs{axis}, {random_tensor(t, {3, 4, 5}, 58), tensor_of<int64_t>(DType::kI64, {2, 2}, {0, -1, 2, 1})});
    expect_same(kGather, AxisAttrs{0}, {random_tensor(t, {50, 33}, 58), random_tensor(DType::kI32, {400}, 59, -50, 49)});
  }
}

}  // namespace
}  // namespace brisk
