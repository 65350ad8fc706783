// Kernels of the CPU backend against the bounds of the machine, measured in the same run: percent of the peak of the
// instruction that binds (register-only loop) or, for few rows, of the read bandwidth over as many bytes.
// usage: cpu_kernels [threads, 0 = all] [filter]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/attention.h"
#include "backend/cpu/linear.h"
#include "bench/cpu_limits.h"

using brisk::kBlockTokens;
using namespace brisk::cpu;

namespace {

double best_seconds(const std::function<void()>& f, double budget = 0.1) {
  f();
  double best = 1e9, total = 0;
  for (int i = 0; i < 1000 && (total < budget || i < 3); i++) {
    auto t = std::chrono::steady_clock::now();
    f();
    double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
    best = std::min(best, s);
    total += s;
  }
  return best;
}

struct Aligned {
  std::byte* p;
  explicit Aligned(size_t n) : p(static_cast<std::byte*>(std::aligned_alloc(64, (n + 127) / 64 * 64))) {
    std::memset(p, 0, n);
  }
  ~Aligned() { std::free(p); }
};

struct Case {
  const char* name;
  WeightLayout layout;
  Arithmetic arithmetic;
  Peak peak;
  int terms = 1;
};

void bench_linear(const KernelTable& t, ThreadPool& pool, Case c, int64_t m, int64_t n, int64_t k) {
  c.layout.n = n;
  c.layout.k = k;
  if (!find_tile_kernel(t, c.layout, c.arithmetic)) return;
  bool decode = m <= 16;  // bound by reading the weight
  // for few rows enough copies of the weight that memory is read, not cache, as a step over many layers does
  int64_t bytes = c.layout.bytes(), copies = m <= 128 ? std::clamp<int64_t>((int64_t{256} << 20) / bytes, 1, 200) : 1;
  int64_t stride = (bytes + 63) / 64 * 64;
  Aligned w(static_cast<size_t>(stride * copies)), q(act_form(c.layout, c.terms).bytes(m));
  std::vector<float> x(static_cast<size_t>(m * k)), y(static_cast<size_t>(m * c.layout.outputs()));
  std::vector<uint16_t> rounded(static_cast<size_t>(m * (k + 1)));
  std::mt19937 rng(1);
  for (float& v : x) v = float(int(rng() % 2001) - 1000) / 1000;
  LinearCall call;
  call.layout = &c.layout;
  call.arithmetic = c.arithmetic;
  call.m = m;
  call.x = x.data();
  call.ldx = k;
  if (c.arithmetic == Arithmetic::kBf16Dot) call.x = rounded.data(), call.ldx = (k + 1) / 2 * 2;
  if (c.arithmetic == Arithmetic::kInt8) call.q = QuantizedRows(act_form(c.layout, c.terms), m, q.p);
  call.y = y.data();
  call.ldy = c.layout.outputs();
  double bound = 0, seconds = 1e9;
  for (int round = 0; round < 3; round++) {  // bound and kernel in turn: a busy neighbour hits both
    bound = std::max(bound, decode ? read_bandwidth(pool, w.p, size_t(stride * copies)) : peak_ops(t.isa, c.peak, pool));
    seconds = std::min(seconds, best_seconds([&] {
      for (int64_t i = 0; i < copies; i++) {
        call.weight = w.p + i * stride;
        if (c.arithmetic == Arithmetic::kInt8) quantize_rows(t, x.data(), k, call.q, pool);
        if (c.arithmetic == Arithmetic::kBf16Dot) round_rows_bf16(t, x.data(), k, m, k, rounded.data(), pool);
        linear(t, call, pool);
      }
    }));
  }
  double done = double(copies) * (decode ? double(bytes) : 2.0 * double(m) * double(n) * double(k));
  std::printf("%-10s m%-4lld n%-5lld k%-5lld %9.2f us %7.1f of %7.1f %s %5.1f %%\n", c.name, (long long)m, (long long)n,
              (long long)k, seconds / double(copies) * 1e6, done / seconds / 1e9, bound / 1e9, decode ? "GB/s" : "Gop/s",
              100 * done / seconds / bound);
  std::fflush(stdout);
}

// Causal attention of 9 heads over 3 kv heads of 64: a whole prompt, or one token after `context` others.
void bench_attention(const KernelTable& t, ThreadPool& pool, CacheType type, bool dot, int64_t tokens, int64_t context) {
  if (dot && !t.bf16_dot.run) return;
  constexpr int kHeads = 9, kKv = 3, kDim = 64;
  int64_t total = context + tokens, columns = (total + kBlockTokens - 1) / kBlockTokens;
  KvLayout layout{type, kKv, kDim};
  // decode goes over many layers, as a model does, so that keys come from memory
  int64_t layers = tokens == 1 ? 30 : 1, layer_bytes = columns * layout.block_bytes();
  Aligned state(size_t(layers * layer_bytes)), scratch(size_t(1) << 25);
  std::vector<float> q(size_t(tokens * kHeads * kDim), 0.1f), out(q.size());
  std::vector<int32_t> positions, starts{0, int32_t(tokens)}, table;
  for (int64_t i = 0; i < tokens; i++) positions.push_back(int32_t(context + i));
  for (int64_t i = 0; i < columns; i++) table.push_back(int32_t(i));
  AttentionCall c;
  c.layout = layout;
  c.heads = kHeads;
  c.bf16_dot = dot;
  c.q = q.data();
  c.ld_q = c.ld_out = kHeads * kDim;
  c.positions = positions.data();
  c.seq_starts = starts.data();
  c.sequences = 1;
  c.block_tables = table.data();
  c.table_columns = columns;
  c.out = out.data();
  double ops = 0, bound = 0, seconds = 1e9;
  for (int32_t p : positions) ops += 4.0 * kDim * kHeads * (p + 1);
  double bytes = double(layers) * double(total) * 2 * kKv * kDim * layout.element_bytes();
  for (int round = 0; round < 3; round++) {
    bound = std::max(bound, tokens == 1 ? read_bandwidth(pool, state.p, size_t(layers * layer_bytes))
                                        : peak_ops(t.isa, dot ? Peak::kBf16 : Peak::kFma, pool));
    seconds = std::min(seconds, best_seconds([&] {
      for (int64_t l = 0; l < layers; l++) {
        c.state = state.p + l * layer_bytes;
        attention(t, c, scratch.p, pool);
      }
    }));
  }
  double done = tokens == 1 ? bytes : ops;
  std::printf("attention %s%s t%-4lld after %-4lld %9.2f us %7.1f of %7.1f %s %5.1f %%\n",
              type == CacheType::kF32 ? "fp32" : type == CacheType::kBf16 ? "bf16" : "fp16", dot ? ".dot" : "    ", (long long)tokens,
              (long long)context, seconds / double(layers) * 1e6, done / seconds / 1e9, bound / 1e9,
              tokens == 1 ? "GB/s" : "Gop/s", 100 * done / seconds / bound);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : 0);
  std::string filter = argc > 2 ? argv[2] : "";
  auto isa = active_isa();
  if (!isa) {
    std::puts("cpu_kernels: this processor has no instruction set with kernels");
    return 1;
  }
  const KernelTable& t = kernels(*isa);
  std::printf("isa %s, %d threads\n", std::string(isa_name(*isa)).c_str(), pool.size());
  const WeightLayout f32, bf16{WeightKind::kBf16}, i8{WeightKind::kInt8}, i8g{WeightKind::kInt8, 0, 0, 32},
      i8g64{WeightKind::kInt8, 0, 0, 64};
  const WeightLayout i4{WeightKind::kInt4, 0, 0, 32}, i4z{WeightKind::kInt4, 0, 0, 32, GroupTerm::kZero},
      i4m{WeightKind::kInt4, 0, 0, 32, GroupTerm::kMinimum}, i4g128{WeightKind::kInt4, 0, 0, 128};
  const Case cases[] = {
      {"fp32", f32, Arithmetic::kFloat, Peak::kFma},        {"bf16", bf16, Arithmetic::kFloat, Peak::kFma},
      {"bf16dot", bf16, Arithmetic::kBf16Dot, Peak::kBf16}, {"int8w", i8, Arithmetic::kFloat, Peak::kFma},
      {"int8w.g32", i8g, Arithmetic::kFloat, Peak::kFma},   {"int8", i8, Arithmetic::kInt8, Peak::kInt8},
      {"int8.g32", i8g, Arithmetic::kInt8, Peak::kInt8},    {"int8.g64", i8g64, Arithmetic::kInt8, Peak::kInt8},
      {"int8x2.g32", i8g, Arithmetic::kInt8, Peak::kInt8, 2}, {"int8x2.g64", i8g64, Arithmetic::kInt8, Peak::kInt8, 2},
      {"int8w.g64", i8g64, Arithmetic::kFloat, Peak::kFma}, {"int4.g32", i4, Arithmetic::kInt8, Peak::kInt8},
      {"int4z.g32", i4z, Arithmetic::kInt8, Peak::kInt8},   {"int4m.g32", i4m, Arithmetic::kInt8, Peak::kInt8},
      {"int4.g128", i4g128, Arithmetic::kInt8, Peak::kInt8}};
  for (const Case& c : cases) {
    if (std::string(c.name).find(filter) != 0) continue;
    bench_linear(t, pool, c, 512, 1536, 576);
    bench_linear(t, pool, c, 512, 576, 1536);
    bench_linear(t, pool, c, 512, 4096, 1024);
    bench_linear(t, pool, c, 1, 1536, 576);
    bench_linear(t, pool, c, 1, 4096, 4096);
    bench_linear(t, pool, c, 8, 4096, 1024);
    bench_linear(t, pool, c, 64, 1536, 576);
    bench_linear(t, pool, c, 64, 4096, 1024);
  }
  if (std::string("attention").find(filter) != 0) return 0;
  for (auto [type, dot] : {std::pair{CacheType::kF32, false}, {CacheType::kBf16, false}, {CacheType::kBf16, true}, {CacheType::kF16, false}}) {
    for (int64_t tokens : {64, 512, 2048, 4096}) bench_attention(t, pool, type, dot, tokens, 0);
    for (int64_t context : {63, 1023, 4095}) bench_attention(t, pool, type, dot, 1, context);
  }
}
