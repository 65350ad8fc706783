// Convolutions, pools and products of the CPU backend against the reference kernels, over odd shapes, at the instruction
// set that BRISK_MAX_ISA allows (ctest runs this file at AVX2 too) and with one to three threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "backend/cpu/cpu.h"
#include "backend/ref/ref.h"

namespace brisk {
namespace {

// An operand of a case: its shape, type, and whether the kernel sees it as a constant.
struct In {
  Dims shape;
  bool constant = false;
  DType dtype = DType::kF32;
  bool present = true;
  float spread = 1;  // standard deviation of floats
  float step = 0;    // floats are multiples of it, by -127 to 127
};
const In kAbsent{{}, false, DType::kF32, false};

class CpuDense : public ::testing::Test {
 protected:
  CpuDense() {
    ref::add_kernels(ref_);
    cpu::add_kernels(cpu_);
  }

  static ConstantPtr random_tensor(const In& in, unsigned seed) {
    std::mt19937 rng(seed);
    auto count = static_cast<size_t>(in.shape.count());
    if (in.dtype == DType::kF32) {
      std::vector<float> v(count);
      for (float& x : v) x = in.spread * std::normal_distribution<float>()(rng);
      if (in.step > 0)
        for (float& x : v) x = std::clamp(std::round(x / in.step), -127.0f, 127.0f) * in.step;
      return make_constant(in.dtype, in.shape, v);
    }
    if (in.dtype == DType::kI32) {
      std::vector<int32_t> v(count);
      for (auto& x : v) x = static_cast<int32_t>(rng() % 5);
      return make_constant(in.dtype, in.shape, v);
    }
    if (is_float(in.dtype)) {
      std::vector<uint16_t> v(count);
      for (size_t i = 0; i < count; ++i) store_float(v.data(), in.dtype, static_cast<int64_t>(i), in.spread * std::normal_distribution<float>()(rng));
      return make_constant(in.dtype, in.shape, v);
    }
    std::vector<uint8_t> v(count);
    for (auto& x : v) x = static_cast<uint8_t>(rng());
    return make_constant(in.dtype, in.shape, v);
  }

  // Runs one kernel on copies of the operands; packs what it wants packed.
  static void run(const KernelDesc& d, const ProblemDesc& p, const std::vector<ConstantPtr>& in, std::vector<std::vector<std::byte>>& out, int threads) {
    struct Place { alignas(64) std::byte b[64]; };
    std::vector<std::vector<Place>> owned;
    KernelArgs a;
    std::vector<TensorView> views, results;
    for (size_t i = 0; i < in.size(); ++i) {
      if (!in[i]) { views.emplace_back(); continue; }
      std::span<const std::byte> bytes = in[i]->data.bytes;
      std::vector<std::byte> packed;
      for (auto& pack : d.packings)
        if (pack.operand == static_cast<int>(i) && p.inputs[i].constant) {
          auto r = pack.pack(p, *in[i]);
          ASSERT_TRUE(r.ok()) << r.error().message;
          ASSERT_EQ(static_cast<int64_t>(r->size()), pack.bytes(p, p.inputs[i]));
          packed = std::move(*r);
          bytes = packed;
        }
      owned.emplace_back(bytes.size() / 64 + 1);
      if (!bytes.empty()) std::memcpy(owned.back().data(), bytes.data(), bytes.size());
      views.emplace_back(owned.back().data(), in[i]->dtype, in[i]->shape);
    }
    out.clear();
    for (const Type& t : p.outputs) {
      Dims s;
      for (const Dim& dim : t.shape) s.push(dim.constant_or(0));
      out.emplace_back(static_cast<size_t>(dtype_bytes(t.dtype, s.count())), std::byte{0x7f});
      results.emplace_back(out.back().data(), t.dtype, s);
    }
    a.in = views;
    a.out = results;
    a.attrs = p.attrs;
    a.workspace_bytes = d.workspace ? d.workspace(a) : 0;
    std::vector<Place> scratch(static_cast<size_t>(a.workspace_bytes) / 64 + 1);
    a.workspace = scratch.data();
    cpu::ThreadPool pool(threads);
    KernelContext kc{&pool};
    Status s = d.run(kc, a);
    ASSERT_TRUE(s.ok()) << d.id << ": " << s.error().message;
  }

  // Compares all results of the best kernel of the CPU backend with the reference's; floats relative to the largest.
  void expect_same(OpId op, const Attrs& attrs, const std::vector<In>& in, int outputs = 1, double tolerance = 5e-6) {
    ProblemDesc p;
    p.op = op;
    p.attrs = &attrs;
    std::vector<ConstantPtr> tensors;
    std::vector<Type> types(in.size());
    std::vector<const Type*> pointers;
    unsigned seed = 1;
    for (size_t i = 0; i < in.size(); ++i) {
      tensors.push_back(in[i].present ? random_tensor(in[i], seed++) : nullptr);
      OperandDesc o;
      o.present = in[i].present;
      o.constant = in[i].constant;
      o.type = {in[i].dtype, true, Shape(in[i].shape.begin(), in[i].shape.end()), {}};
      if (o.constant) o.value = tensors.back().get();
      types[i] = o.type;
      pointers.push_back(in[i].present ? &types[i] : nullptr);
      p.inputs.push_back(o);
    }
    auto inferred = infer_types(op, attrs, pointers, outputs);
    ASSERT_TRUE(inferred.ok()) << inferred.error().message;
    p.outputs = *inferred;
    std::string what = to_string(attrs);
    for (auto& t : types) what += " " + to_string(t);
    std::vector<std::vector<std::byte>> want, got;
    run(*ref_.best(p), p, tensors, want, 1);
    const KernelDesc* d = cpu_.best(p);
    ASSERT_NE(d, nullptr) << op_name(op) << what;
    for (int threads : {1, 3}) {
      run(*d, p, tensors, got, threads);
      if (HasFatalFailure()) return;
      for (size_t r = 0; r < want.size(); ++r) {
        if (auto t = p.outputs[r].dtype; t == DType::kF16 || t == DType::kBF16) {
          for (int64_t i = 0; i < static_cast<int64_t>(want[r].size()) / 2; ++i)
            ASSERT_NEAR(load_float(want[r].data(), t, i), load_float(got[r].data(), t, i), 1e-2 * (1 + std::fabs(load_float(want[r].data(), t, i)))) << d->id << what;
          continue;
        }
        if (p.outputs[r].dtype != DType::kF32) {
          EXPECT_EQ(want[r], got[r]) << d->id << what << " result " << r;
          continue;
        }
        auto* w = reinterpret_cast<const float*>(want[r].data());
        auto* g = reinterpret_cast<const float*>(got[r].data());
        double largest = 0, worst = 0;
        for (size_t i = 0; i < want[r].size() / 4; ++i) {
          if (std::isinf(w[i]) && w[i] == g[i]) continue;
          largest = std::max(largest, std::fabs(double(w[i])));
          worst = std::isnan(g[i]) ? INFINITY : std::max(worst, std::fabs(double(w[i]) - double(g[i])));
        }
        EXPECT_LE(worst, tolerance * std::max(1.0, largest)) << d->id << what << " result " << r << " threads " << threads;
      }
    }
  }

  Registry ref_, cpu_;
};

WindowAttrs window(std::vector<int64_t> strides, std::vector<int64_t> dilations, std::vector<int64_t> pads, int64_t group = 1) {
  WindowAttrs a;
  a.strides = std::move(strides), a.dilations = std::move(dilations), a.pads = std::move(pads), a.group = group;
  return a;
}

TEST_F(CpuDense, ConvOfTwoAxes) {
  struct Case { Dims x, w; WindowAttrs a; };
  const Case cases[] = {
      {{1, 3, 37, 41}, {16, 3, 3, 3}, window({2, 2}, {1, 1}, {1, 1, 1, 1})},
      {{2, 5, 9, 7}, {13, 5, 3, 3}, window({1, 1}, {1, 1}, {1, 1, 1, 1})},
      {{1, 7, 7, 7}, {96, 7, 1, 1}, window({1, 1}, {1, 1}, {0, 0, 0, 0})},
      {{1, 40, 20, 20}, {70, 40, 3, 3}, window({1, 1}, {2, 2}, {2, 2, 2, 2})},
      {{3, 8, 11, 5}, {12, 2, 3, 2}, window({2, 1}, {1, 2}, {0, 1, 2, 0}, 4)},
      {{1, 3, 32, 48}, {24, 3, 16, 16}, window({16, 16}, {1, 1}, {0, 0, 0, 0})},
      {{1, 2, 64, 3}, {5, 2, 7, 1}, window({3, 1}, {1, 1}, {3, 0, 3, 0})},
      {{1, 1, 1, 1}, {1, 1, 1, 1}, window({1, 1}, {1, 1}, {0, 0, 0, 0})},
      {{1, 4, 5, 6}, {6, 4, 3, 3}, window({1, 1}, {1, 1}, {7, 7, 7, 7})},  // whole windows in the padding
      {{0, 4, 5, 6}, {6, 4, 3, 3}, window({1, 1}, {1, 1}, {1, 1, 1, 1})},
      {{1, 300, 6, 6}, {300, 300, 3, 3}, window({1, 1}, {1, 1}, {1, 1, 1, 1})},  // several blocks of K and of rows
      {{1, 8, 33, 65}, {8, 8, 1, 1}, window({2, 2}, {1, 1}, {0, 0, 0, 0})}};
  for (const Case& c : cases) {
    expect_same(OpId::kConv, c.a, {{c.x}, {c.w, true}});
    WindowAttrs a = c.a;
    a.act = "Relu";
    expect_same(OpId::kConv, a, {{c.x}, {c.w, true}, {{c.w[0]}, true}});
  }
}

TEST_F(CpuDense, ConvOfOneAndThreeAxes) {
  expect_same(OpId::kConv, window({1}, {1}, {0, 0}), {{{2, 3, 100}}, {{5, 3, 7}, true}, {{5}}});
  expect_same(OpId::kConv, window({2}, {3}, {4, 1}), {{{1, 12, 77}}, {{20, 12, 5}, true}});
  expect_same(OpId::kConv, window({5}, {1}, {0, 0}), {{{1, 1, 400}}, {{33, 1, 10}, true}});
  expect_same(OpId::kConv, window({1, 2, 1}, {1, 1, 2}, {1, 0, 1, 0, 1, 1}, 2), {{{2, 4, 5, 6, 7}}, {{10, 2, 3, 2, 3}, true}});
}

TEST_F(CpuDense, ConvEpilogues) {
  for (const char* act : {"", "Relu", "Clip", "LeakyRelu", "Sigmoid", "Silu", "HardSwish", "HardSigmoid", "Tanh", "Gelu"})
    for (bool last : {false, true})
      for (int64_t group : {1, 6}) {
        WindowAttrs a = window({1, 1}, {1, 1}, {1, 1, 1, 1}, group);
        a.act = act;
        a.act_alpha = 0.125f, a.act_beta = 0.5f;
        a.residual_last = last;
        expect_same(OpId::kConv, a, {{{1, 6, 9, 10}}, {{6, 6 / group, 3, 3}, true}, {{6}, true}, {{1, 6, 9, 10}}}, 1, 8e-6);
        expect_same(OpId::kConv, a, {{{1, 6, 9, 10}}, {{6, 6 / group, 3, 3}, true}, kAbsent, {{1, 6, 9, 10}}}, 1, 8e-6);
      }
}

TEST_F(CpuDense, ConvDepthwise) {
  struct Case { Dims x, w; WindowAttrs a; };
  const Case cases[] = {{{1, 7, 14, 15}, {7, 1, 3, 3}, window({1, 1}, {1, 1}, {1, 1, 1, 1}, 7)},
                        {{2, 5, 31, 17}, {5, 1, 3, 3}, window({2, 2}, {1, 1}, {1, 1, 1, 1}, 5)},
                        {{1, 4, 23, 29}, {8, 1, 5, 5}, window({2, 1}, {1, 2}, {2, 0, 1, 5}, 4)},
                        {{1, 3, 260, 300}, {3, 1, 3, 3}, window({1, 1}, {1, 1}, {1, 1, 1, 1}, 3)},
                        {{1, 2, 3, 20000}, {2, 1, 3, 7}, window({1, 3}, {1, 9}, {1, 0, 1, 0}, 2)},
                        {{1, 3, 50000}, {3, 1, 31}, window({1}, {1}, {15, 15}, 3)},
                        {{1, 2, 1, 90000}, {2, 1, 1, 3}, window({1, 1}, {1, 40000}, {0, 0, 0, 0}, 2)},  // no tile holds its window
                        {{1, 4, 2, 2}, {4, 1, 3, 3}, window({1, 1}, {1, 1}, {5, 5, 5, 5}, 4)}};
  for (const Case& c : cases) expect_same(OpId::kConv, c.a, {{c.x}, {c.w, true}, {{c.w[0]}, true}});
}

TEST_F(CpuDense, ConvTranspose) {
  struct Case { Dims x, w; WindowAttrs a; std::vector<int64_t> extra; };
  const Case cases[] = {{{1, 8, 5, 7}, {8, 3, 2, 2}, window({2, 2}, {1, 1}, {0, 0, 0, 0}), {}},
                        {{2, 6, 9, 4}, {6, 5, 3, 3}, window({2, 1}, {1, 2}, {1, 1, 0, 2}, 2), {1, 0}},
                        {{1, 33, 20}, {33, 7, 16}, window({8}, {1}, {4, 4}), {}},
                        {{1, 5, 3, 3, 3}, {5, 2, 2, 3, 1}, window({2, 1, 3}, {1, 1, 1}, {0, 1, 0, 0, 1, 0}), {}},
                        {{1, 40, 1, 1}, {40, 20, 4, 4}, window({1, 1}, {1, 1}, {0, 0, 0, 0}), {}}};
  for (const Case& c : cases) {
    WindowAttrs a = c.a;
    a.output_padding = c.extra;
    expect_same(OpId::kConvTranspose, a, {{c.x}, {c.w, true}});
    expect_same(OpId::kConvTranspose, a, {{c.x}, {c.w, true}, {{c.w[1] * a.group}, true}});
    for (const char* pad : {"SAME_UPPER", "SAME_LOWER"}) {
      a.auto_pad = pad;
      expect_same(OpId::kConvTranspose, a, {{c.x}, {c.w, true}});
    }
  }
}

TEST_F(CpuDense, Pools) {
  struct Case { Dims x; std::vector<int64_t> kernel; WindowAttrs a; bool ceil; };
  const Case cases[] = {{{2, 3, 13, 17}, {3, 3}, window({2, 2}, {1, 1}, {1, 1, 1, 1}), false},
                        {{1, 5, 8, 8}, {2, 2}, window({2, 2}, {1, 1}, {0, 0, 0, 0}), false},
                        {{1, 2, 10, 11}, {3, 2}, window({2, 3}, {2, 1}, {1, 0, 2, 1}), true},
                        {{1, 33, 7, 7}, {7, 7}, window({1, 1}, {1, 1}, {0, 0, 0, 0}), false},
                        {{1, 3, 300}, {5}, window({1}, {1}, {2, 2}), false},
                        {{1, 1, 300, 400}, {5, 5}, window({1, 1}, {1, 1}, {2, 2, 2, 2}), false}};
  for (const Case& c : cases)
    for (bool pad : {false, true}) {
      WindowAttrs a = c.a;
      a.kernel = c.kernel;
      a.ceil_mode = c.ceil;
      a.count_include_pad = pad;
      expect_same(OpId::kAveragePool, a, {{c.x}});
      expect_same(OpId::kMaxPool, a, {{c.x}});
    }
}

TEST_F(CpuDense, MatMul) {
  const std::pair<Dims, Dims> cases[] = {{{5, 7}, {7, 3}}, {{1, 64}, {64, 100}}, {{2, 3, 17, 33}, {2, 3, 33, 65}}, {{2, 1, 9, 4}, {3, 4, 40}},
                                         {{4, 13, 20}, {20, 31}}, {{9}, {9, 5}}, {{6, 9}, {9}}, {{9}, {9}}, {{2, 6, 9}, {9}}, {{3, 0}, {0, 4}},
                                         {{0, 3}, {3, 4}}, {{70, 500}, {500, 130}}, {{5}, {3, 5, 2}}, {{1, 3, 4, 5}, {2, 1, 5, 6}}};
  for (auto& [a, b] : cases) expect_same(OpId::kMatMul, NoAttrs{}, {{a}, {b}});
}

TEST_F(CpuDense, Gemm) {
  for (bool trans : {false, true})
    for (auto [m, n, k] : {std::tuple{1, 1, 1}, {7, 33, 65}, {13, 64, 200}, {2, 100, 9}}) {
      GemmAttrs g;
      g.alpha = 0.5f;
      g.trans_b = trans;
      Dims a{m, k}, b = trans ? Dims{n, k} : Dims{k, n};
      expect_same(OpId::kGemm, g, {{a}, {b}});
      for (const Dims& c : {Dims{n}, Dims{m, n}, Dims{m, 1}, Dims{1, n}, Dims{1}, Dims{}}) expect_same(OpId::kGemm, g, {{a}, {b}, {c}});
    }
}

TEST_F(CpuDense, LinearActivations) {
  for (const char* act : {"", "Relu", "Clip", "LeakyRelu", "Sigmoid", "Silu", "HardSwish", "HardSigmoid", "Tanh", "Gelu"}) {
    LinearAttrs a;
    a.act = act;
    a.act_alpha = 0.125f, a.act_beta = 0.5f;
    expect_same(OpId::kLinear, a, {{{3, 5, 33}}, {{70, 33}, true}, {{70}, true}, {{3, 5, 70}}}, 1, 8e-6);
  }
}

TEST_F(CpuDense, Recurrent) {
  for (OpId op : {OpId::kLstm, OpId::kGru})
    for (const char* direction : {"forward", "reverse", "bidirectional"})
      for (bool batch_first : {false, true})
        for (bool late : {false, true})
          for (auto [time, batch, input, hidden] : {std::tuple{5, 1, 3, 2}, {4, 7, 10, 17}, {3, 1, 40, 150}, {0, 2, 3, 4}, {6, 3, 16, 64}}) {
            if (op == OpId::kLstm && late) continue;
            RecurrentAttrs a;
            a.direction = direction, a.batch_first = batch_first, a.linear_before_reset = late, a.hidden = hidden;
            int64_t d = std::string(direction) == "bidirectional" ? 2 : 1, gates = op == OpId::kLstm ? 4 : 3;
            for (int64_t i = 0; i < d; ++i) {
              a.activations.insert(a.activations.end(), {"Sigmoid", "Tanh"});
              if (op == OpId::kLstm) a.activations.push_back("Tanh");
            }
            Dims x = batch_first ? Dims{batch, time, input} : Dims{time, batch, input};
            Dims state = batch_first ? Dims{batch, d, hidden} : Dims{d, batch, hidden};
            // weights that let a difference fade, as trained ones do
            float spread = 1 / std::sqrt(static_cast<float>(hidden));
            std::vector<In> in = {{x}, {{d, gates * hidden, input}, true}, {{d, gates * hidden, hidden}, true, DType::kF32, true, spread}, {{d, 2 * gates * hidden}, true}};
            int results = op == OpId::kLstm ? 3 : 2;
            expect_same(op, a, in, results);
            for (size_t i : {1u, 2u}) in[i].step = in[i].spread / 40;
            expect_same(op, a, in, results);
            in.push_back({{batch}, false, DType::kI32});
            in.push_back({state});
            if (op == OpId::kLstm) in.push_back({state});
            if (time >= 4) expect_same(op, a, in, results);
          }
}

TEST_F(CpuDense, Integers) {
  for (DType a : {DType::kU8, DType::kI8})
    for (DType b : {DType::kU8, DType::kI8}) {
      for (auto [m, k, n] : {std::tuple{1, 1, 1}, {5, 7, 33}, {70, 203, 65}, {13, 2000, 40}, {0, 3, 4}}) {
        In x{{m, k}, false, a}, w{{k, n}, true, b};
        expect_same(OpId::kMatMulInteger, NoAttrs{}, {x, w});
        expect_same(OpId::kMatMulInteger, NoAttrs{}, {x, w, {{}, false, a}, {{}, true, b}, {{n}, true}, {{n}, true}});
        expect_same(OpId::kMatMulInteger, NoAttrs{}, {x, w, kAbsent, kAbsent, {{}}});
        expect_same(OpId::kMatMulInteger, NoAttrs{}, {x, w, {{}, false, a}, {{}, true, b}});
        expect_same(OpId::kMatMulInteger, NoAttrs{}, {{{1, m, k}, false, a}, w, {{1}, false, a}, {{n}, true, b}});
      }
      struct Case { Dims x, w; WindowAttrs window; };
      const Case cases[] = {{{1, 3, 9, 41}, {8, 3, 3, 3}, window({1, 1}, {1, 1}, {1, 1, 1, 1})},
                            {{2, 10, 7, 6}, {33, 10, 1, 1}, window({1, 1}, {1, 1}, {0, 0, 0, 0})},
                            {{1, 6, 17}, {4, 3, 4}, window({2}, {3}, {3, 1}, 2)},
                            {{1, 5, 8, 9}, {5, 1, 3, 3}, window({2, 1}, {1, 1}, {1, 0, 1, 2}, 5)}};
      for (const Case& c : cases) {
        In x{c.x, false, a}, w{c.w, true, b};
        expect_same(OpId::kConvInteger, c.window, {x, w});
        expect_same(OpId::kConvInteger, c.window, {x, w, {{}, false, a}, {{}, true, b}});
        expect_same(OpId::kConvInteger, c.window, {x, w, {{}, false, a}, {{c.w[0]}, true, b}});
      }
    }
}

}  // namespace
}  // namespace brisk
